// Turns an unmasked load of a region through pointers into a load through a view of exactly that region: the addresses
// are one number for the tile plus steps along its axes. Through a view the assembler loads whole vectors. Through
// pointers it loads element by element where a tile has fewer elements than the block has threads (a row of weights).
// docs/compiler/choose_access_paths.md.
#include <algorithm>
#include <optional>
#include <vector>

#include "passes/element_order.hpp"
#include "passes/hints.hpp"
#include "passes/pointer_tiles.hpp"
#include "passes/tile_axis.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

// Larger tiles are loaded in whole vectors through pointers too, and need no layout conversion there.
constexpr std::int64_t kFewElements = 256;

using analysis::Steps;
using analysis::steps_of;

struct Region {
  Value base;  ///< of the first element
  std::vector<std::optional<Steps>> axes;
};

/// The region that a pointer tile covers; nullopt where it is not a region, or has no contiguous axis.
std::optional<Region> region_of(Value pointers) {
  const auto shape = pointers.type().shape();
  Region r{pointers, std::vector<std::optional<Steps>>(shape.size())};
  while (r.base.type().rank() > 0) {
    const Operation* op = r.base.def();
    if (!op) return std::nullopt;
    if (op->op() == Op::Offset) {
      const auto steps = steps_of(op->operand(1));
      if (!steps || r.axes[steps->axis]) return std::nullopt;
      r.axes[steps->axis] = steps;
    } else if (op->op() == Op::Reshape ? op->operand(0).type().rank() > 0 : op->op() != Op::Broadcast) {
      return std::nullopt;
    }
    r.base = op->operand(0);
  }
  bool neighbours = false;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] > 1 && !r.axes[a]) return std::nullopt;
    neighbours = neighbours || (shape[a] > 1 && !r.axes[a]->stride);
  }
  return neighbours ? std::optional(r) : std::nullopt;
}

/// The assembler does not derive the alignment of an address from the operations that compute it.
Value told_alignment(Builder& b, Value base, const analysis::Divisibility& known) {
  const int zeros = std::min(known.of(base).zeros(), analysis::kVectorZeros);
  if (zeros <= 0) return base;
  return b
      .create(Op::Assume, {base}, {base.type()},
              {{AttrName::predicate, ir::DivByAttr{std::uint64_t{1} << zeros, {}, {}}}})
      ->result();
}

void use_view(Operation& load, const Region& r, const analysis::Divisibility& known) {
  Builder b = Builder::before(&load);
  b.loc = load.loc;
  const Type tile = load.result(0).type();
  std::vector<std::int64_t> shape(tile.shape().begin(), tile.shape().end()), strides;
  const std::vector<std::int32_t> extents(shape.begin(), shape.end());
  std::vector<Value> operands{told_alignment(b, r.base, known)};
  for (const auto& axis : r.axes) {
    // An axis of extent 1 may have any stride. One beyond the tile is chosen, so that it is not taken for the
    // contiguous axis.
    strides.push_back(!axis ? tile.num_elements() : axis->stride ? ir::kDynamic : 1);
    if (axis && axis->stride) operands.push_back(axis->stride);
  }
  const auto dynamic = static_cast<std::uint32_t>(operands.size() - 1);
  const std::uint32_t of_tensor[] = {1, 0, dynamic};
  const Type tensor_type[] = {Type::tensor_view(tile.elem(), shape, strides)};
  const Value tensor = b.create_grouped(Op::MakeTensorView, operands, of_tensor, tensor_type)->result();
  const Type view_type = Type::partition_view(tensor_type[0], extents, {}, ir::PaddingValue::Zero);
  operands = {b.create(Op::MakePartitionView, {tensor}, {view_type})->result()};
  operands.insert(operands.end(), shape.size(), b.constant_int(ir::Elem::I32, 0));
  const auto token = load.group("token");
  operands.insert(operands.end(), token.begin(), token.end());
  const std::uint32_t of_load[] = {1, static_cast<std::uint32_t>(shape.size()),
                                   static_cast<std::uint32_t>(token.size())};
  const Type results[] = {tile, Type::token()};
  Operation* made = b.create_grouped(Op::LoadViewTko, operands, of_load, results);
  copy_ordering(load, *made);
  made->set_attr(AttrName::inbounds, ir::BoolArrayAttr{std::vector<bool>(shape.size(), true)});
  set_hint(*made, "allow_tma", false);  // TMA needs an address known before the launch
  for (std::size_t i = 0; i < 2; ++i) load.result(i).replace_all_uses_with(made->result(i));
  load.erase();
}

}  // namespace

void regions_to_views(ir::Function& f, const Target& target, const Tuning& tuning) {
  if (!target.is_gpu() || target.bytecode_minor < kFirstInboundsMinor || tuning.access == AccessPath::Pointer) return;
  std::vector<Operation*> loads;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::LoadPtrTko && op.group("mask").empty() && op.result(0).type().elem() != ir::Elem::I1 &&
        op.result(0).type().num_elements() <= kFewElements && !views_misread(op.result(0).type()))
      loads.push_back(&op);
  });
  if (loads.empty() || reshapes_out_of_order(f)) return;
  const analysis::Divisibility known(f);
  for (Operation* load : loads)
    if (const auto region = region_of(load->operand(0))) use_view(*load, *region, known);
}

}  // namespace tessera::passes
