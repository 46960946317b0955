// Conversions between elements, selections and pointer arithmetic on one element.
#include <bit>
#include <cmath>

#include "ir/semantics_impl.hpp"
#include "ir/soft_float.hpp"

namespace tessera::ir {
namespace {

/// Formats of 8 bits and fewer saturate when converted from floating point.
soft::Overflow overflow_of(Elem e) { return info(e).bits <= 8 ? soft::Overflow::Saturate : soft::Overflow::Ieee; }

soft::Unpacked unpack_double(double value) { return soft::unpack(Elem::F64, std::bit_cast<std::uint64_t>(value)); }

std::uint64_t double_to_integer(Elem e, double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::Zero: value = std::trunc(value); break;
    case Rounding::NegativeInf: value = std::floor(value); break;
    case Rounding::PositiveInf: value = std::ceil(value); break;
    case Rounding::NearestAway: value = std::round(value); break;
    case Rounding::NearestIntToZero: value = std::trunc(value); break;
    default: value = std::nearbyint(value); break;
  }
  return soft::to_integer(unpack_double(value), info(e).bits, e != Elem::I1);
}

}  // namespace

double to_double(Elem e, std::uint64_t bits) {
  if (!info(e).is_float) return static_cast<double>(to_signed(e, bits));
  if (e == Elem::F64) return std::bit_cast<double>(bits);
  if (e == Elem::F32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  return std::bit_cast<double>(soft::pack(Elem::F64, soft::unpack(e, bits), Rounding::NearestEven));
}

std::uint64_t from_double(Elem e, double value, Rounding rounding) {
  if (!info(e).is_float) return double_to_integer(e, value, rounding);
  return soft::pack(e, unpack_double(value), rounding, overflow_of(e));
}

std::int64_t to_signed(Elem e, std::uint64_t bits) {
  return e == Elem::I1 ? static_cast<std::int64_t>(bits & 1) : detail::sign_extended(bits, detail::width(e));
}

namespace detail {
namespace {

std::uint64_t integer_to_float(const ElementOp& op, std::uint64_t bits) {
  const int n = width(op.source);
  const bool negative = op.is_signed && sign_extended(bits, n) < 0;
  const std::uint64_t magnitude =
      negative ? std::uint64_t{0} - static_cast<std::uint64_t>(sign_extended(bits, n)) : zero_extended(bits, n);
  return soft::pack(op.result, soft::unpack_integer(negative, magnitude), op.rounding);
}

}  // namespace

std::uint64_t evaluate_conversion(const ElementOp& op, const std::uint64_t* x) {
  const int from = width(op.source), to = width(op.result);
  switch (op.op) {
    case Op::Select: return zero_extended((x[0] & 1) != 0 ? x[1] : x[2], from);
    case Op::Offset: {
      const std::int64_t steps = sign_extended(x[1], from);
      return x[0] + static_cast<std::uint64_t>(steps) * op.pointee_bytes;
    }
    case Op::ExtI:
      return zero_extended(
          op.is_signed ? static_cast<std::uint64_t>(sign_extended(x[0], from)) : zero_extended(x[0], from), to);
    case Op::FToF: return soft::pack(op.result, soft::unpack(op.source, x[0]), op.rounding, overflow_of(op.result));
    case Op::FToI: return soft::to_integer(soft::unpack(op.source, x[0]), to, op.is_signed);
    case Op::IToF: return integer_to_float(op, x[0]);
    default: return zero_extended(x[0], to);  // bitcast, trunci, pointer casts, assume
  }
}

}  // namespace detail
double padding_number(PaddingValue padding) {
  switch (padding) {
    case PaddingValue::Zero: break;
    case PaddingValue::NegZero: return -0.0;
    case PaddingValue::NaN: return __builtin_nan("");
    case PaddingValue::PosInf: return __builtin_inf();
    case PaddingValue::NegInf: return -__builtin_inf();
  }
  return 0;
}

}  // namespace tessera::ir
