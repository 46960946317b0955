// The operand groups of memory operations, by their names in ops.def.
#include "tessera/analysis/access.hpp"

#include <algorithm>

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

/// One row for each operation of memory. Null names: there is no such operand.
struct Shape {
  Op op;
  AccessKind kind;
  const char *view, *pointers, *value;
};
constexpr Shape kShapes[] = {
    {Op::LoadViewTko, AccessKind::Load, "view", nullptr, nullptr},
    {Op::LoadPtrTko, AccessKind::Load, nullptr, "source", nullptr},
    {Op::StoreViewTko, AccessKind::Store, "view", nullptr, "tile"},
    {Op::StorePtrTko, AccessKind::Store, nullptr, "destination", "value"},
    {Op::AtomicRMWTko, AccessKind::Atomic, nullptr, "pointers", "arg"},
    {Op::AtomicCASTko, AccessKind::Atomic, nullptr, "pointers", "val"},
    {Op::AtomicRedViewTko, AccessKind::Atomic, "view", nullptr, "value"},
};

const Shape* shape_of(Op op) {
  const auto* found = std::find_if(std::begin(kShapes), std::end(kShapes), [&](const Shape& s) { return s.op == op; });
  return found == std::end(kShapes) ? nullptr : found;
}

bool has_group(const Operation& op, const char* name) { return op.info().operand_group(name) >= 0; }

}  // namespace

std::optional<Access> access_of(const Operation& op) {
  const Shape* shape = shape_of(op.op());
  if (!shape) return std::nullopt;
  Access a;
  a.op = &op;
  a.kind = shape->kind;
  if (shape->view) {
    a.view = op.single(shape->view);
    a.index = op.group("index");
  } else {
    a.pointers = op.single(shape->pointers);
    a.mask = op.single("mask");
    if (has_group(op, "paddingValue")) a.padding = op.single("paddingValue");
  }
  if (shape->value) a.value = op.single(shape->value);
  a.tile = a.value ? a.value.type() : op.result(0).type();
  a.token = op.single("token");
  a.token_out = op.result(op.num_results() - 1);
  return a;
}

std::optional<Access> view_access_of(const Operation& op) { return is_view_access(op) ? access_of(op) : std::nullopt; }

bool is_access(const Operation& op) { return shape_of(op.op()) != nullptr; }
bool is_load(const Operation& op) { return op.op() == Op::LoadViewTko || op.op() == Op::LoadPtrTko; }
bool is_view_access(const Operation& op) { return op.op() == Op::LoadViewTko || op.op() == Op::StoreViewTko; }
bool is_unordered_load(const Operation& op) { return is_load(op) && !op.single("token") && !op.result(1).has_uses(); }

std::vector<TensorAxis> axes_of(const Operation& make) {
  const Type type = make.result().type();
  std::vector<TensorAxis> axes(type.shape().size());
  const auto fill = [&](auto numbers, const char* group, ViewNumber TensorAxis::*member) {
    const std::vector<Value> dynamic = make.group(group);
    std::size_t next = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      ViewNumber& n = axes[a].*member;
      n.fixed = numbers[a];
      if (n.fixed == ir::kDynamic) n.value = dynamic[next++];
    }
  };
  fill(type.shape(), "dynamicShape", &TensorAxis::extent);
  fill(type.strides(), "dynamicStrides", &TensorAxis::stride);
  return axes;
}

const Operation* tensor_behind(Value view) {
  const Operation* make = view.def();
  if (!make || make->op() != Op::MakePartitionView) return nullptr;
  const Operation* tensor = make->operand(0).def();
  return tensor && tensor->op() == Op::MakeTensorView ? tensor : nullptr;
}

std::vector<bool> axes_in_bounds(const Operation& access) {
  const Type view = access.single("view").type();
  if (view.kind() != ir::TypeKind::PartitionView) return {};
  std::vector<bool> inside(view.tile_shape().size(), false);
  if (const ir::Attribute* flags = access.attr(AttrName::inbounds)) inside = flags->as<ir::BoolArrayAttr>()->values;
  for (std::size_t a = 0; a < inside.size(); ++a) {
    const std::int64_t tile = view.tile_shape()[a];
    const std::int64_t dim = view.tensor().shape()[static_cast<std::size_t>(view.dim_map()[a])];
    if (tile == 1 || (dim != ir::kDynamic && dim % tile == 0)) inside[a] = true;
  }
  return inside;
}

bool same_tiles(Type view, Type other) {
  return std::ranges::equal(view.tile_shape(), other.tile_shape()) &&
         std::ranges::equal(view.dim_map(), other.dim_map());
}

}  // namespace tessera::analysis
