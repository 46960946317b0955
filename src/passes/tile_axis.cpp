// See tile_axis.hpp.
#include "passes/tile_axis.hpp"

#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

TileAxis::TileAxis(Value tile, std::size_t axis) : extent_(tile.type().shape()[axis]) {
  add(tile, axis);
  while (ok_ && !work_.empty()) {
    const Value v = work_.back();
    work_.pop_back();
    const std::size_t at = *of(v);
    if (v.def() == nullptr) {
      ok_ = false;  // a loop carries it
      return;
    }
    relate(*v.def(), at, false);
    for (const ir::OpOperand* use = v.first_use(); use && ok_; use = use->next) relate(*use->owner, at, true);
  }
}

std::optional<std::size_t> TileAxis::of(Value v) const {
  const auto known = v ? axes_.find(v.impl()) : axes_.end();
  return known == axes_.end() ? std::nullopt : std::optional(known->second);
}

void TileAxis::add(Value v, std::optional<std::size_t> axis) {
  if (!axis || !v.type().is_tile() || *axis >= v.type().shape().size() || v.type().shape()[*axis] != extent_) {
    ok_ = false;
    return;
  }
  const auto [known, is_new] = axes_.emplace(v.impl(), *axis);
  if (is_new) work_.push_back(v);
  ok_ = ok_ && known->second == *axis;
}

void TileAxis::add_all(const Operation& op, std::size_t axis) {
  for (const ir::OpOperand& use : op.operands()) add(use.value, axis);
  for (std::size_t r = 0; r < op.num_results(); ++r) add(op.result(r), axis);
}

void TileAxis::relate(const Operation& op, std::size_t axis, bool of_operand) {
  operations_.insert(&op);
  switch (op.op()) {
    case Op::Iota: return;
    case Op::Constant: ok_ = ok_ && splat_bits(op.result()).has_value(); return;
    case Op::LoadViewTko:
    case Op::StoreViewTko:
    case Op::LoadPtrTko:
    case Op::StorePtrTko:
    case Op::AtomicRMWTko: return relate_access(op, axis);
    case Op::Reduce: return relate_reduce(op, axis, of_operand);
    case Op::Permute: return relate_permute(op, axis, of_operand);
    case Op::Broadcast:
      if (of_operand) return add(op.result(), axis);
      if (op.operand(0).type().shape()[axis] != 1) add(op.operand(0), axis);
      return;
    case Op::Reshape: {
      const Value from = op.operand(0), to = op.result();
      if (of_operand) return add(to, reshaped_axis(from.type(), axis, to.type()));
      return add(from, reshaped_axis(to.type(), axis, from.type()));
    }
    default: break;
  }
  if (is_elementwise(op)) return add_all(op, axis);
  ok_ = false;
}

void TileAxis::relate_access(const Operation& op, std::size_t axis) {
  const auto access = analysis::access_of(op);
  if (!access || (access->view && !analysis::tensor_behind(access->view))) {
    ok_ = false;
    return;
  }
  for (const Value v : {access->pointers, access->mask, access->padding, access->value})
    if (v) add(v, axis);
  if (access->kind != analysis::AccessKind::Store) add(op.result(0), axis);
}

void TileAxis::relate_reduce(const Operation& op, std::size_t axis, bool of_operand) {
  const auto reduced = static_cast<std::size_t>(op.attr(AttrName::dim)->as<ir::IntAttr>()->value);
  const std::size_t before = of_operand || axis < reduced ? axis : axis + 1;
  for (const ir::OpOperand& use : op.operands()) add(use.value, before);
  if (before == reduced) return;
  for (std::size_t r = 0; r < op.num_results(); ++r) add(op.result(r), before - (reduced < before ? 1 : 0));
}

void TileAxis::relate_permute(const Operation& op, std::size_t axis, bool of_operand) {
  const auto& order = op.attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values;
  for (std::size_t to = 0; to < order.size(); ++to) {
    const auto from = static_cast<std::size_t>(order[to]);
    if (of_operand ? from == axis : to == axis) return of_operand ? add(op.result(), to) : add(op.operand(0), from);
  }
}

}  // namespace tessera::passes
