// What each integer operation computes, as a polynomial of exact integers. An operation that is not here, or may wrap,
// gives an unknown integer of its type.
#include <algorithm>
#include <bit>

#include "certify/values.hpp"

namespace tessera::certify {

using ir::AttrName;
using ir::Op;

namespace {

constexpr Int kMaxGridAxis = analysis::kMaxGridAxis;
constexpr Int kMaxPieces = 0x7FFFFFFF;  // LaunchContract

bool is_signed(const ir::Operation& op) {
  return op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Signed;
}

/// A constant amount of a shift that moves a number and keeps its sign's place.
std::optional<int> shift_amount(const Prover& prover, const PolyView& by, int bits) {
  const std::optional<Int> amount = prover.number(by);
  if (!amount || *amount < 0 || *amount >= bits - 1) return std::nullopt;
  return static_cast<int>(*amount);
}

}  // namespace

Values::Derived Values::within(ir::Value v, const PolyView* lo, const PolyView* hi) {
  const Poly p = unknown(v);
  if (lo != nullptr) prover_.define(p - *lo);
  if (hi != nullptr) prover_.define(*hi - p);
  return {p, true};
}

Values::Derived Values::wrapped(const ir::Operation& op, Poly exact, bool weak) {
  if (!exact.bad() && fits(exact, bits_of(op.result().type()))) return {std::move(exact), weak};
  return {unknown(op.result()), true};
}

Poly Values::constant(const ir::Operation& op) {
  const auto& data = *op.attr(AttrName::value)->as<ir::DenseAttr>();
  const int bits = bits_of(op.result().type());
  const std::size_t size = ir::info(op.result().type().elem()).bytes;
  Range r{kHuge, -kHuge};
  for (std::size_t at = 0; at + size <= data.bytes.size(); at += size) {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < size; ++i) n |= std::to_integer<std::uint64_t>(data.bytes[at + i]) << (8 * i);
    const auto v = static_cast<std::int64_t>(n << (64 - bits)) >> (64 - bits);
    r.lo = std::min<Int>(r.lo, v);
    r.hi = std::max<Int>(r.hi, v);
  }
  if (r.lo > r.hi) return unknown(op.result());
  return r.lo == r.hi ? Poly(r.lo) : Poly::of(prover_.make(r, true));
}

Poly Values::block_number(const ir::Operation& op, std::size_t axis) {
  const bool grid = op.op() == Op::GetNumTileBlocks;
  const bool of_pieces = !pieces_.bad() && !contract_->wide_grid;
  if (of_pieces && axis > 0) return Poly(grid ? 1 : 0);
  if (of_pieces && grid) return pieces_;
  const Int least = grid ? 1 : 0, most = of_pieces ? kMaxPieces - 1 : kMaxGridAxis - 1 + least;
  const Poly n = Poly::of(prover_.make({least, most}));
  if (of_pieces) prover_.define(pieces_ - Poly(1) - n);
  return n;
}

Poly Values::extent(ir::Value tensor_view, std::size_t axis) {
  const auto shape = tensor_view.type().shape();
  if (shape[axis] != ir::kDynamic) return Poly(shape[axis]);
  const ir::Operation* make = tensor_view.def();
  if (make == nullptr || make->op() != Op::MakeTensorView) return Poly::invalid();
  std::size_t number = 1;  // after the base
  for (std::size_t i = 0; i < axis; ++i) number += shape[i] == ir::kDynamic ? 1 : 0;
  const Poly dim = of(make->operand(number));
  return prover_.never_negative(dim) ? dim : Poly::invalid();  // an extent is read as unsigned
}

Values::Derived Values::derive(ir::Value v) {
  if (!is_integer(v.type())) return {Poly::invalid(), false};
  const ir::Operation* op = v.def();
  if (op == nullptr) {
    const bool of_entry = v.argument_block() == entry_;
    return {of_entry ? argument(v.index(), bits_of(v.type()), true) : unknown(v), false};
  }
  switch (op->op()) {
    case Op::Constant: return {constant(*op), false};
    case Op::Iota: {
      const Int last = v.type().num_elements() - 1;
      const bool as_is = last <= integers(bits_of(v.type())).hi;  // else it counts on from the smallest number
      return {as_is ? Poly::of(prover_.make({0, last}, last > 0)) : unknown(v), false};
    }
    case Op::Assume: return assumed(*op);
    case Op::GetTileBlockId:
    case Op::GetNumTileBlocks: return {block_number(*op, v.index()), false};
    case Op::GetTensorShape: return wrapped_extent(v, extent(op->operand(0), v.index()));
    case Op::GetIndexSpaceShape: return number_of_tiles(v, op->operand(0));
    case Op::Select: {
      const Known a = known(op->operand(1)), b = known(op->operand(2));
      const bool by_element = op->operand(0).type().num_elements() > 1;
      return {prover_.choice(a.poly, b.poly, by_element), a.weak || b.weak};
    }
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract: {
      const Known k = known(op->operand(0));
      return {renamed(k.poly), k.weak};
    }
    case Op::Cat: {
      const Known a = known(op->operand(0)), b = known(op->operand(1));
      return {prover_.choice(renamed(a.poly), renamed(b.poly), true), a.weak || b.weak};
    }
    case Op::NegI: {
      const Known k = known(op->operand(0));
      return wrapped(*op, Poly(0) - k.poly, k.weak);
    }
    case Op::AbsI: return absolute(*op, known(op->operand(0)));
    case Op::ExtI:
    case Op::TruncI: return resized(*op);
    default: break;
  }
  if (op->num_operands() != 2 || op->num_regions() != 0 || !is_integer(op->operand(0).type()))
    return {unknown(v), false};
  return derive_arithmetic(*op, known(op->operand(0)), known(op->operand(1)));
}

Values::Derived Values::assumed(const ir::Operation& op) {
  const Known k = known(op.operand(0));
  if (const auto* bounds = op.attr(AttrName::predicate)->as<ir::BoundedAttr>()) {
    if (bounds->lower) prover_.know(k.poly - Poly(*bounds->lower));
    if (bounds->upper) prover_.know(Poly(*bounds->upper) - k.poly);
  }
  return k;
}

/// `v`, a result of get_index_space_shape, is the number of tiles of `view` along one axis.
Values::Derived Values::number_of_tiles(ir::Value v, ir::Value view) {
  const ir::Type t = view.type();
  if (t.kind() != ir::TypeKind::PartitionView || view.def() == nullptr) return {unknown(v), false};
  const Int tile = t.tile_shape()[v.index()];
  const Poly dim = extent(view.def()->operand(0), static_cast<std::size_t>(t.dim_map()[v.index()]));
  return wrapped_extent(v, prover_.quotient(dim + Poly(tile - 1), Poly(tile)));
}

Values::Derived Values::wrapped_extent(ir::Value v, Poly exact) {
  if (!exact.bad() && fits(exact, bits_of(v.type()))) return {std::move(exact), false};
  return {unknown(v), true};
}

Values::Derived Values::derive_arithmetic(const ir::Operation& op, const Known& a, const Known& b) {
  const bool weak = a.weak || b.weak;
  switch (op.op()) {
    case Op::AddI: return wrapped(op, a.poly + b.poly, weak);
    case Op::SubI: return wrapped(op, a.poly - b.poly, weak);
    case Op::MulI: return wrapped(op, a.poly * b.poly, weak);
    case Op::DivI: return division(op, a, b);
    case Op::RemI: return remainder(op, a, b);
    case Op::MinI:
    case Op::MaxI: return extreme(op, a, b);
    case Op::ShLI:
    case Op::ShRI: return shifted(op, a, b);
    case Op::AndI: return masked(op, a, b);
    default: return {unknown(op.result()), false};
  }
}

Values::Derived Values::division(const ir::Operation& op, const Known& a, const Known& b) {
  const bool weak = a.weak || b.weak;
  const auto rounding = op.enum_attr<ir::Rounding>(AttrName::rounding, ir::Rounding::Zero);
  if (!prover_.never_negative(b.poly - Poly(1))) return {unknown(op.result()), true};
  const auto down = [&] { return prover_.quotient(a.poly, b.poly); };
  const auto up = [&] { return prover_.quotient(a.poly + b.poly - Poly(1), b.poly); };
  const bool positive = prover_.never_negative(a.poly);
  if (!positive && !is_signed(op)) return {unknown(op.result()), true};
  // The quotient of a number of the type by at least 1 is no longer than the number.
  if (rounding == ir::Rounding::PositiveInf) return {up(), weak};
  if (positive || rounding == ir::Rounding::NegativeInf) return {down(), weak};
  const Poly lo = down(), hi = up();
  return within(op.result(), &lo, &hi);
}

Values::Derived Values::remainder(const ir::Operation& op, const Known& a, const Known& b) {
  if (!prover_.never_negative(b.poly - Poly(1))) return {unknown(op.result()), true};
  if (prover_.never_negative(a.poly)) {
    const Poly rest = prover_.remainder(a.poly, b.poly);
    if (!rest.bad()) return {rest, a.weak || b.weak};
  }
  const Poly most = b.poly - Poly(1), least = is_signed(op) ? Poly(1) - b.poly : Poly(0);
  return within(op.result(), &least, &most);
}

Values::Derived Values::extreme(const ir::Operation& op, const Known& a, const Known& b) {
  const bool smaller = op.op() == Op::MinI;
  const bool left = is_signed(op) || prover_.never_negative(a.poly);
  const bool right = is_signed(op) || prover_.never_negative(b.poly);
  if (left && right) return {prover_.extreme(a.poly, b.poly, !smaller), a.weak || b.weak};
  if (!smaller || (!left && !right)) return {unknown(op.result()), true};
  const Poly zero(0);  // the smaller of two unsigned numbers is at most the one whose reading is known
  return within(op.result(), &zero, left ? &a.poly : &b.poly);
}

Values::Derived Values::shifted(const ir::Operation& op, const Known& a, const Known& b) {
  const auto by = shift_amount(prover_, b.poly, bits_of(op.result().type()));
  if (!by) return {unknown(op.result()), true};
  const Poly factor(Int{1} << *by);
  if (op.op() == Op::ShLI) return wrapped(op, a.poly * factor, a.weak);
  if (!is_signed(op) && !prover_.never_negative(a.poly)) return {unknown(op.result()), true};
  return {prover_.quotient(a.poly, factor), a.weak};
}

/// A number that is not negative bounds what is left of its bits.
Values::Derived Values::masked(const ir::Operation& op, const Known& a, const Known& b) {
  const bool left = prover_.never_negative(a.poly), right = prover_.never_negative(b.poly);
  if (!left && !right) return {unknown(op.result()), true};
  const Poly zero(0);
  const Derived k = within(op.result(), &zero, left ? &a.poly : &b.poly);
  if (left && right) prover_.define(b.poly - k.poly);
  return k;
}

Values::Derived Values::absolute(const ir::Operation& op, const Known& a) {
  if (prover_.never_negative(a.poly)) return a;
  const int bits = bits_of(op.result().type());
  if (!fits(Poly(0) - a.poly, bits)) return {unknown(op.result()), true};  // the smallest number is its own
  return {prover_.extreme(a.poly, Poly(0) - a.poly, true), a.weak};
}

Values::Derived Values::resized(const ir::Operation& op) {
  const ir::Value from = op.operand(0), to = op.result();
  if (op.op() == Op::TruncI) {
    if (!is_integer(to.type())) return {Poly::invalid(), false};
    const Known k = known(from);
    return wrapped(op, k.poly, k.weak);
  }
  const bool sign = is_signed(op);
  if (!is_integer(from.type())) {  // i1
    const Poly lo(sign ? -1 : 0), hi(sign ? 0 : 1);
    return {within(to, &lo, &hi).poly, false};
  }
  const Known k = known(from);
  if (sign || prover_.never_negative(k.poly)) return k;
  const Poly zero(0), most((Int{1} << bits_of(from.type())) - 1);
  return within(to, &zero, &most);
}

}  // namespace tessera::certify
