// Floating-point operations on one element: those that IEEE 754 defines, rounded once, and elementary functions,
// computed in double and rounded to the element.
#include <bit>
#include <cmath>

#include "ir/semantics_impl.hpp"
#include "ir/soft_float.hpp"

namespace tessera::ir::detail {
namespace {

using soft::Unpacked;

std::uint64_t sign_bit(Elem e) {
  const soft::Format& f = soft::format(e);
  return std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits + f.shift);
}

/// IEEE 754-2019 maximumNumber / minimumNumber, or maximum / minimum with propagate_nan; -0 < +0.
std::uint64_t extremum(const ElementOp& op, std::uint64_t a, std::uint64_t b) {
  const bool nan_a = is_nan(op.source, a), nan_b = is_nan(op.source, b);
  if ((nan_a && nan_b) || (op.propagate_nan && (nan_a || nan_b))) return canonical_nan(op.source);
  if (nan_a) return b;
  if (nan_b) return a;
  const double x = to_double(op.source, a), y = to_double(op.source, b);
  const bool a_less = x < y || (x == y && std::signbit(x) && !std::signbit(y));
  return (op.op == Op::MaxF) == a_less ? b : a;
}

bool compare_floats(const ElementOp& op, std::uint64_t a, std::uint64_t b) {
  if (is_nan(op.source, a) || is_nan(op.source, b)) return !op.ordered;
  const double x = to_double(op.source, a), y = to_double(op.source, b);
  return compare(op.predicate, x < y, x == y);
}

Unpacked arithmetic(const ElementOp& op, const Unpacked& a, const Unpacked& b, const Unpacked& c) {
  switch (op.op) {
    case Op::AddF: return soft::add(a, b, op.rounding);
    case Op::SubF: {
      Unpacked negated = b;
      negated.negative = !b.negative;
      return soft::add(a, negated, op.rounding);
    }
    case Op::MulF: return soft::multiply(a, b);
    case Op::Fma: return soft::fused_multiply_add(a, b, c, op.rounding);
    case Op::DivF: return soft::divide(a, b);
    default: return soft::square_root(a);
  }
}

double with_sign(double magnitude, bool negative) { return negative ? -magnitude : magnitude; }

/// x^n for an integer n of any size: the sign follows n's parity, which a double may not hold.
double power_of_integer(double x, std::int64_t n) {
  const bool negative = std::signbit(x) && (n & 1) != 0;
  if (std::isnan(x)) return n == 0 ? 1.0 : x;
  return with_sign(std::pow(std::fabs(x), static_cast<double>(n)), negative);
}

double elementary(Op op, double x, double y) {
  switch (op) {
    case Op::Atan2: return std::atan2(x, y);
    case Op::Cos: return std::cos(x);
    case Op::CosH: return std::cosh(x);
    case Op::Exp: return std::exp(x);
    case Op::Exp2: return std::exp2(x);
    case Op::Log: return std::log(x);
    case Op::Log2: return std::log2(x);
    case Op::Pow: return std::pow(x, y);
    case Op::Rsqrt: return 1.0 / std::sqrt(x);
    case Op::Sin: return std::sin(x);
    case Op::SinH: return std::sinh(x);
    case Op::Tan: return std::tan(x);
    case Op::TanH: return std::tanh(x);
    default: return 0.0;
  }
}

}  // namespace

bool is_nan(Elem e, std::uint64_t bits) { return soft::unpack(e, bits).cls == soft::Class::NaN; }
std::uint64_t canonical_nan(Elem e) {
  return soft::pack(e, {soft::Class::NaN, false, false, 0, 0}, Rounding::NearestEven);
}

std::uint64_t evaluate_exact(const ElementOp& op, const std::uint64_t* x) {
  const Elem e = op.source;
  const std::uint64_t all = mask(width(e));
  if (op.op == Op::AbsF) return x[0] & all & ~sign_bit(e);
  if (op.op == Op::NegF) return (x[0] ^ sign_bit(e)) & all;
  const std::uint64_t a = flushed(op, x[0] & all), b = op.arity > 1 ? flushed(op, x[1] & all) : 0;
  switch (op.op) {
    case Op::CmpF: return compare_floats(op, a, b) ? 1 : 0;
    case Op::MaxF:
    case Op::MinF: return extremum(op, a, b);
    case Op::Ceil: return from_double(e, std::ceil(to_double(e, a)));
    case Op::Floor: return from_double(e, std::floor(to_double(e, a)));
    case Op::RemF: return from_double(e, std::fmod(to_double(e, a), to_double(e, b)));  // fmod is exact
    default: break;
  }
  const std::uint64_t c = op.arity > 2 ? flushed(op, x[2] & all) : 0;
  return flushed(
      op, soft::pack(e, arithmetic(op, soft::unpack(e, a), soft::unpack(e, b), soft::unpack(e, c)), op.rounding));
}

std::uint64_t evaluate_elementary(const ElementOp& op, const std::uint64_t* x) {
  const Elem e = op.source;
  const double a = to_double(e, flushed(op, zero_extended(x[0], width(e))));
  if (op.op == Op::FPowI) return from_double(e, power_of_integer(a, sign_extended(x[1], width(op.exponent))));
  const double b = op.arity > 1 ? to_double(e, x[1]) : 0.0;
  return flushed(op, from_double(e, elementary(op.op, a, b)));
}

}  // namespace tessera::ir::detail
