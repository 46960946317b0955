// The address of an element is base + sum over axes of (index * tile + i) * stride. What is equal for the whole tile is
// added to the scalar base in 64 bits; what differs inside the tile is added per axis. An axis of stride 1 needs no
// multiplication, and its offsets stay 32 bits wide: extents of tiles are at most 2^24.
#include "passes/pointer_tiles.hpp"

#include <optional>

#include "passes/values.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

/// One axis of the tile.
struct Axis {
  std::int64_t extent = 1;             ///< of the tile
  std::optional<std::int64_t> stride;  ///< of the tensor, if static
  Value dynamic_stride;
  std::optional<std::int64_t> dim;  ///< extent of the tensor, if static
  Value dynamic_dim;
  Value index;  ///< of the tile
  bool in_bounds = false;
};

Operation* tensor_of(const Operation& access) {
  Operation* view = access.single("view").def();
  if (!view || view->op() != Op::MakePartitionView) return nullptr;
  Operation* tensor = view->operand(0).def();
  return tensor && tensor->op() == Op::MakeTensorView ? tensor : nullptr;
}

std::vector<Axis> axes_of(const Operation& access) {
  const Type view = access.single("view").type();
  const Operation& tensor = *tensor_of(access);
  const auto shape = view.tensor().shape(), strides = view.tensor().strides();
  const std::vector<Value> dims = tensor.group("dynamicShape"), steps = tensor.group("dynamicStrides");
  const std::vector<Value> indices = access.group("index");
  const std::vector<bool> inside = axes_in_bounds(access);
  std::vector<Axis> of_tensor(shape.size());
  std::size_t next_dim = 0, next_step = 0;
  for (std::size_t t = 0; t < shape.size(); ++t) {
    if (shape[t] == ir::kDynamic)
      of_tensor[t].dynamic_dim = dims[next_dim++];
    else
      of_tensor[t].dim = shape[t];
    if (strides[t] == ir::kDynamic)
      of_tensor[t].dynamic_stride = steps[next_step++];
    else
      of_tensor[t].stride = strides[t];
  }
  std::vector<Axis> axes;
  for (std::size_t a = 0; a < indices.size(); ++a) {
    Axis axis = of_tensor[static_cast<std::size_t>(view.dim_map()[a])];
    axis.extent = view.tile_shape()[a];
    axis.index = indices[a];
    axis.in_bounds = inside[a];
    axes.push_back(axis);
  }
  return axes;
}

class PointerTile {
 public:
  PointerTile(Operation& access, Builder& b) : b_(b), axes_(axes_of(access)) {
    for (const Axis& a : axes_) shape_.push_back(a.extent);
  }

  Value pointers(Value base) {
    for (const Axis& a : axes_)
      if (constant_int(a.index) != 0) base = moved(base, times_stride(origin(a), a));
    Value p = splat(b_, base, std::vector<std::int64_t>(shape_.size(), 1));
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].extent == 1) continue;
      std::vector<std::int64_t> reached(p.type().shape().begin(), p.type().shape().end());
      reached[i] = axes_[i].extent;
      p = moved(broadcast_to(b_, p, reached), broadcast_to(b_, offsets(i), reached));
    }
    return p;
  }

  /// Null: every element is inside.
  Value mask() {
    Value all;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].in_bounds) continue;
      const Value inside = broadcast_to(b_, inside_along(i), shape_);
      all = all ? b_.create(Op::AndI, {all, inside}, {all.type()})->result() : inside;
    }
    return all;
  }

 private:
  Value constant(std::int64_t v) { return b_.constant_int(Elem::I64, v); }
  Value mul(Value x, Value y) { return b_.create(Op::MulI, {x, y}, {x.type()})->result(); }
  Value moved(Value pointers, Value offsets) {
    return b_.create(Op::Offset, {pointers, offsets}, {pointers.type()})->result();
  }
  /// First element of the tile along an axis.
  Value origin(const Axis& a) {
    const Value index = as_i64(b_, a.index, ir::Signedness::Unsigned);  // tile indices are read as unsigned
    return a.extent == 1 ? index : mul(index, constant(a.extent));
  }
  Value times_stride(Value x, const Axis& a) {
    if (a.stride == 1) return x;
    return mul(x, a.stride ? constant(*a.stride) : as_i64(b_, a.dynamic_stride, ir::Signedness::Signed));
  }
  /// Offsets of the tile's elements along axis i, from its first.
  Value offsets(std::size_t i) {
    const Axis& a = axes_[i];
    const Value steps = iota_along(b_, a.extent, i, axes_.size());
    if (a.stride == 1) return steps;
    const Value wide = as_i64(b_, steps, ir::Signedness::Unsigned);
    const Value stride = a.stride ? constant(*a.stride) : as_i64(b_, a.dynamic_stride, ir::Signedness::Signed);
    return mul(wide, splat(b_, stride, wide.type().shape()));
  }
  /// i1: elements along axis i that are inside the tensor: i < min(extent of the tensor - origin, extent of the tile).
  /// The right side is a scalar that fits 32 bits, so that elements are compared in 32.
  Value inside_along(std::size_t i) {
    const Axis& a = axes_[i];
    Value left = a.dim ? constant(*a.dim) : as_i64(b_, a.dynamic_dim, ir::Signedness::Unsigned);
    if (constant_int(a.index) != 0) left = b_.create(Op::SubI, {left, origin(a)}, {left.type()})->result();
    left =
        b_.create(Op::MinI, {left, constant(a.extent)}, {left.type()}, {{AttrName::signedness, ir::Signedness::Signed}})
            ->result();
    const Value count = b_.create(Op::TruncI, {left}, {left.type().with_element(Elem::I32)})->result();
    const Value steps = iota_along(b_, a.extent, i, axes_.size());
    return b_
        .create(Op::CmpI, {steps, splat(b_, count, steps.type().shape())}, {steps.type().with_element(Elem::I1)},
                {{AttrName::comparison_predicate, ir::ComparisonPredicate::Less},
                 {AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  }

  Builder& b_;
  std::vector<Axis> axes_;
  std::vector<std::int64_t> shape_;
};

Value padding_tile(Builder& b, Type tile, ir::PaddingValue padding) {
  if (!tile.is_float()) return b.constant_int(tile.elem(), 0, tile.shape());
  return b.constant_float(tile.elem(), ir::padding_number(padding), tile.shape());
}

void copy_attributes(const Operation& from, Operation& to) {
  for (const AttrName name : {AttrName::memory_ordering_semantics, AttrName::memory_scope})
    if (const ir::Attribute* a = from.attr(name)) to.set_attr(name, *a);
}

}  // namespace

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

bool can_use_pointers(const Operation& access) {
  return tensor_of(access) && !access.single("view").type().tile_shape().empty();
}

void use_pointers(Operation& access) {
  Builder b = Builder::before(&access);
  b.loc = access.loc;
  PointerTile tile(access, b);
  const bool load = access.op() == Op::LoadViewTko;
  std::vector<Value> operands{tile.pointers(tensor_of(access)->single("base"))};
  std::vector<std::uint32_t> groups{1};
  if (!load) operands.push_back(access.single("tile"));
  if (!load) groups.push_back(1);
  const Value mask = tile.mask();
  groups.push_back(mask ? 1 : 0);
  if (mask) operands.push_back(mask);
  if (load) {
    const auto padding = access.single("view").type().padding();
    const bool padded = mask && padding;
    groups.push_back(padded ? 1 : 0);
    if (padded) operands.push_back(padding_tile(b, access.result(0).type(), *padding));
  }
  const Value token = access.single("token");
  groups.push_back(token ? 1 : 0);
  if (token) operands.push_back(token);
  std::vector<Type> results;
  for (std::size_t i = 0; i < access.num_results(); ++i) results.push_back(access.result(i).type());
  Operation* made = b.create_grouped(load ? Op::LoadPtrTko : Op::StorePtrTko, operands, groups, results);
  copy_attributes(access, *made);
  for (std::size_t i = 0; i < results.size(); ++i) access.result(i).replace_all_uses_with(made->result(i));
  access.erase();
}

}  // namespace tessera::passes
