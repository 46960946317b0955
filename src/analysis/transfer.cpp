// The range of each integer operation's result, from the ranges of its operands. An operation without a rule here may
// give any number.
#include <algorithm>
#include <bit>

#include "analysis/interval.hpp"
#include "analysis/ranges.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;

bool is_integer(ir::Type type) {
  return type.is_tile() && !type.is_pointer() && !type.is_float() && ir::info(type.elem()).bits > 1;
}

int bits_of(ir::Type type) { return ir::info(type.elem()).bits; }

namespace {

bool is_signed(const ir::Operation& op) {
  return op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Signed;
}

bool rounds_up(const ir::Operation& op) {
  return op.enum_attr<ir::Rounding>(AttrName::rounding, ir::Rounding::Zero) == ir::Rounding::PositiveInf;
}

}  // namespace

IntRange RangeAnalysis::constant(const ir::Operation& op) const {
  const auto& data = *op.attr(AttrName::value)->as<ir::DenseAttr>();
  const ir::Elem elem = op.result().type().elem();
  const std::size_t size = ir::info(elem).bytes;
  std::int64_t lo = INT64_MAX, hi = INT64_MIN;
  for (std::size_t at = 0; at + size <= data.bytes.size(); at += size) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < size; ++i) bits |= std::to_integer<std::uint64_t>(data.bytes[at + i]) << (8 * i);
    const std::int64_t v = ir::to_signed(elem, bits);
    lo = std::min(lo, v);
    hi = std::max(hi, v);
  }
  const int bits = ir::info(elem).bits;
  return lo <= hi ? math_.between(lo, hi, bits) : math_.unknown(bits);
}

IntRange RangeAnalysis::assumed(const ir::Operation& op) {
  const IntRange r = range(op.operand(0));
  const auto* bounded = op.attr(AttrName::predicate)->as<ir::BoundedAttr>();
  if (bounded == nullptr) return r;
  Bounds lo, hi;
  if (bounded->lower) lo.push({math_.exprs().constant(*bounded->lower), kAlways});
  if (bounded->upper) hi.push({math_.exprs().constant(*bounded->upper), kAlways});
  return math_.tightened(r, lo, hi);
}

IntRange RangeAnalysis::extent(ir::Value tensor_view, std::size_t axis) {
  const std::int64_t fixed = tensor_view.type().shape()[axis];
  if (fixed != ir::kDynamic) return math_.between(fixed, fixed, 64);
  const ir::Operation* make = tensor_view.def();
  if (make == nullptr || make->op() != Op::MakeTensorView) return math_.unknown(64);
  return math_.resized(range(axes_of(*make)[axis].extent.value), 64, false);
}

std::optional<IntRange> RangeAnalysis::transfer(const ir::Operation& op, std::size_t result) {
  const ir::Type type = op.result(result).type();
  const int bits = bits_of(type);
  switch (op.op()) {
    case Op::Constant: return constant(op);
    case Op::Iota: return math_.between(0, type.num_elements() - 1, bits);
    case Op::Assume: return assumed(op);
    case Op::GetTileBlockId: return launch_.block_id(static_cast<int>(result));
    case Op::GetNumTileBlocks: return launch_.grid_size(static_cast<int>(result));
    case Op::GetTensorShape: return math_.resized(extent(op.operand(0), result), bits, false);
    case Op::GetIndexSpaceShape: {
      const ir::Value view = op.operand(0);
      const ir::Type t = view.type();
      if (t.kind() != ir::TypeKind::PartitionView || view.def() == nullptr) return std::nullopt;
      const auto axis = static_cast<std::size_t>(t.dim_map()[result]);
      const std::int64_t tile = t.tile_shape()[result];
      const IntRange count =
          math_.div(extent(view.def()->operand(0), axis), math_.between(tile, tile, 64), false, true);
      return math_.resized(count, bits, false);
    }
    default: return arithmetic(op);
  }
}

std::optional<IntRange> RangeAnalysis::arithmetic(const ir::Operation& op) {
  const auto at = [&](std::size_t i) { return range(op.operand(i)); };
  switch (op.op()) {
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract: return at(0);
    case Op::Cat:
    case Op::Insert: return math_.join(at(0), at(1));
    case Op::Select: return math_.join(at(1), at(2));
    case Op::AddI: return math_.add(at(0), at(1));
    case Op::SubI: return math_.sub(at(0), at(1));
    case Op::MulI: return math_.mul(at(0), at(1));
    case Op::NegI: return math_.negated(at(0));
    case Op::AbsI: return math_.absolute(at(0));
    case Op::DivI: return math_.div(at(0), at(1), is_signed(op), rounds_up(op));
    case Op::RemI: return math_.rem(at(0), at(1), is_signed(op));
    case Op::MinI: return math_.min(at(0), at(1), is_signed(op));
    case Op::MaxI: return math_.max(at(0), at(1), is_signed(op));
    case Op::ShLI: return math_.shift_left(at(0), at(1));
    case Op::ShRI: return math_.shift_right(at(0), at(1), is_signed(op));
    case Op::AndI: return math_.bit_and(at(0), at(1));
    case Op::ExtI:
      if (!is_integer(op.operand(0).type()))
        return math_.between(is_signed(op) ? -1 : 0, is_signed(op) ? 0 : 1, bits_of(op.result().type()));
      return math_.resized(at(0), bits_of(op.result().type()), is_signed(op));
    case Op::TruncI: return math_.resized(at(0), bits_of(op.result().type()), true);
    default: return std::nullopt;
  }
}

}  // namespace tessera::analysis
