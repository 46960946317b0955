// Integer operations on one element of 1 to 64 bits.
#include <algorithm>

#include "ir/semantics_impl.hpp"
#include "ir/soft_float.hpp"

namespace tessera::ir::detail {
namespace {

/// Truncated, floored or raised quotient. x/0 = 0 and MIN/-1 = MIN (wraps).
std::uint64_t quotient(const ElementOp& op, std::uint64_t a, std::uint64_t b, int bits) {
  if (zero_extended(b, bits) == 0) return 0;
  if (!op.is_signed) {
    const std::uint64_t x = zero_extended(a, bits), y = zero_extended(b, bits);
    return x / y + (op.rounding == Rounding::PositiveInf && x % y != 0 ? 1 : 0);
  }
  const std::int64_t x = sign_extended(a, bits), y = sign_extended(b, bits);
  if (y == -1) return std::uint64_t{0} - static_cast<std::uint64_t>(x);
  std::int64_t q = x / y;
  const bool inexact = x % y != 0, below_zero = (x < 0) != (y < 0);
  if (op.rounding == Rounding::NegativeInf && inexact && below_zero) --q;
  if (op.rounding == Rounding::PositiveInf && inexact && !below_zero) ++q;
  return static_cast<std::uint64_t>(q);
}

/// x - (x/y)*y with the truncated quotient; so x%0 = x and MIN%-1 = 0.
std::uint64_t remainder(const ElementOp& op, std::uint64_t a, std::uint64_t b, int bits) {
  if (zero_extended(b, bits) == 0) return a;
  if (!op.is_signed) return zero_extended(a, bits) % zero_extended(b, bits);
  const std::int64_t x = sign_extended(a, bits), y = sign_extended(b, bits);
  return y == -1 ? 0 : static_cast<std::uint64_t>(x % y);
}

std::uint64_t shifted_right(const ElementOp& op, std::uint64_t a, std::uint64_t amount, int bits) {
  const auto by = static_cast<int>(std::min<std::uint64_t>(amount, 63));
  if (op.is_signed) return static_cast<std::uint64_t>(sign_extended(a, bits) >> by);
  return amount >= static_cast<std::uint64_t>(bits) ? 0 : zero_extended(a, bits) >> by;
}

bool less(const ElementOp& op, std::uint64_t a, std::uint64_t b, int bits) {
  return op.is_signed ? sign_extended(a, bits) < sign_extended(b, bits)
                      : zero_extended(a, bits) < zero_extended(b, bits);
}

std::uint64_t apply(const ElementOp& op, const std::uint64_t* x, int bits) {
  const std::uint64_t a = x[0], b = op.arity > 1 ? x[1] : 0;
  switch (op.op) {
    case Op::AbsI: return sign_extended(a, bits) < 0 ? std::uint64_t{0} - a : a;
    case Op::NegI: return std::uint64_t{0} - a;
    case Op::AddI: return a + b;
    case Op::SubI: return a - b;
    case Op::MulI: return a * b;
    case Op::MulhiI: {
      const auto product = soft::u128{zero_extended(a, bits)} * zero_extended(b, bits);
      return static_cast<std::uint64_t>(product >> bits);
    }
    case Op::AndI: return a & b;
    case Op::OrI: return a | b;
    case Op::XOrI: return a ^ b;
    case Op::MaxI: return less(op, a, b, bits) ? b : a;
    case Op::MinI: return less(op, b, a, bits) ? b : a;
    case Op::DivI: return quotient(op, a, b, bits);
    case Op::RemI: return remainder(op, a, b, bits);
    case Op::ShLI: {
      const std::uint64_t amount = zero_extended(b, bits);
      return amount >= static_cast<std::uint64_t>(bits) ? 0 : a << amount;
    }
    case Op::ShRI: return shifted_right(op, a, zero_extended(b, bits), bits);
    default: return 0;
  }
}

}  // namespace

bool compare(ComparisonPredicate predicate, bool less, bool equal) {
  switch (predicate) {
    case ComparisonPredicate::Equal: return equal;
    case ComparisonPredicate::NotEqual: return !equal;
    case ComparisonPredicate::Less: return less;
    case ComparisonPredicate::LessEqual: return less || equal;
    case ComparisonPredicate::Greater: return !less && !equal;
    case ComparisonPredicate::GreaterEqual: return !less;
  }
  return false;
}

std::uint64_t evaluate_integer(const ElementOp& op, const std::uint64_t* x) {
  const int bits = width(op.source);
  if (op.op == Op::CmpI)
    return compare(op.predicate, less(op, x[0], x[1], bits), zero_extended(x[0], bits) == zero_extended(x[1], bits))
               ? 1
               : 0;
  return zero_extended(apply(op, x, bits), bits);
}

}  // namespace tessera::ir::detail
