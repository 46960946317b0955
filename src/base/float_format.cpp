// Conversions of floating-point formats on integers: no dependence on the rounding mode of the processor, on
// flush-to-zero, or on the compiler's floating-point options.
#include "tessera/base/float_types.hpp"

#include <bit>

namespace tessera {

namespace {

constexpr int kMantissa = 52;  // of double
constexpr int kBias = 1023;
constexpr std::uint64_t kHidden = std::uint64_t{1} << kMantissa;

/// `significand` / 2^shift, rounded; 1 <= shift.
constexpr std::uint64_t shift_right_rounded(std::uint64_t significand, int shift, bool negative, RoundTo rounding) {
  const bool vanishes = shift > kMantissa + 2;  // less than half of the last place: 0 < value < 1/2
  const std::uint64_t quotient = vanishes ? 0 : significand >> shift;
  const std::uint64_t rest = vanishes ? significand : significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = vanishes ? ~std::uint64_t{0} : std::uint64_t{1} << (shift - 1);
  switch (rounding) {
    case RoundTo::NearestEven: return quotient + (rest > half || (rest == half && (quotient & 1) != 0) ? 1 : 0);
    case RoundTo::Zero: return quotient;
    case RoundTo::NegativeInf: return quotient + (rest != 0 && negative ? 1 : 0);
    case RoundTo::PositiveInf: return quotient + (rest != 0 && !negative ? 1 : 0);
  }
  return quotient;
}

/// What a magnitude above the largest finite value becomes.
constexpr std::uint32_t overflow(const FloatFormat& f, bool infinite, bool negative, RoundTo rounding) {
  if (f.saturates) return f.largest();
  const bool towards_zero =
      rounding == RoundTo::Zero || rounding == (negative ? RoundTo::PositiveInf : RoundTo::NegativeInf);
  return !infinite && towards_zero ? f.largest() : f.infinity();
}

constexpr std::uint32_t encode(const FloatFormat& f, std::uint64_t bits, RoundTo rounding) {
  const bool negative = bits >> 63 != 0;
  const std::uint32_t sign = negative ? 1u << (f.bits() - 1) : 0;
  const int biased = static_cast<int>(bits >> kMantissa & 0x7FF);
  const std::uint64_t mantissa = bits & (kHidden - 1);
  if (biased == 0x7FF) {
    if (mantissa == 0) return sign | overflow(f, true, negative, rounding);
    const auto payload = static_cast<std::uint32_t>(mantissa >> (kMantissa - f.mantissa_bits));
    return sign | f.quiet_nan() | payload;
  }
  if (biased == 0 && mantissa == 0) return sign;

  // value = significand * 2^(exponent - 52); subnormal doubles have no hidden bit.
  const std::uint64_t significand = biased == 0 ? mantissa : mantissa | kHidden;
  const int exponent = biased == 0 ? 1 - kBias : biased - kBias;
  const int smallest = 1 - f.bias();  // exponent of the smallest normal number
  const bool subnormal = exponent < smallest;
  const int shift = kMantissa - f.mantissa_bits + (subnormal ? smallest - exponent : 0);
  // The hidden bit of a normal number adds one to the exponent field, as does a carry out of rounding.
  const std::uint64_t field = subnormal ? 0 : static_cast<std::uint64_t>(exponent - smallest) << f.mantissa_bits;
  const std::uint64_t magnitude = field + shift_right_rounded(significand, shift, negative, rounding);
  if (magnitude > f.largest()) return sign | overflow(f, false, negative, rounding);
  return sign | static_cast<std::uint32_t>(magnitude);
}

/// The double's bits of a narrow number.
constexpr std::uint64_t decode(const FloatFormat& f, std::uint32_t bits) {
  const std::uint64_t sign = static_cast<std::uint64_t>(bits >> (f.bits() - 1) & 1) << 63;
  const std::uint32_t magnitude = bits & f.magnitude_mask();
  if (magnitude > f.largest()) {
    const std::uint64_t special = std::uint64_t{0x7FF} << kMantissa;
    if (f.has_infinity) {  // infinity, or NaN with its payload
      const std::uint64_t payload = magnitude & ((1u << f.mantissa_bits) - 1);
      return sign | special | payload << (kMantissa - f.mantissa_bits);
    }
    return sign | special | kHidden >> 1;
  }
  std::uint64_t significand = magnitude & ((1u << f.mantissa_bits) - 1);
  int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  if (exponent == 0) {
    if (significand == 0) return sign;
    const int lead = std::bit_width(significand) - 1;  // normalise
    exponent = 1 - (f.mantissa_bits - lead);
    significand = (significand << (f.mantissa_bits - lead)) & ((std::uint64_t{1} << f.mantissa_bits) - 1);
  }
  return sign | static_cast<std::uint64_t>(exponent - f.bias() + kBias) << kMantissa |
         significand << (kMantissa - f.mantissa_bits);
}

template <class U>
double round_to_odd(U magnitude, bool negative) {
  const int excess = std::bit_width(magnitude) - (kMantissa + 1);
  if (excess > 0) {
    const U dropped = magnitude & ((U{1} << excess) - 1);
    magnitude = (magnitude >> excess | (dropped != 0 ? 1 : 0)) << excess;
  }
  const auto value = static_cast<double>(magnitude);
  return negative ? -value : value;
}

float narrow_to_float(const FloatFormat& f, std::uint32_t bits) {
  return std::bit_cast<float>(encode(kF32, decode(f, bits), RoundTo::NearestEven));
}
std::uint64_t bits_of(double v) { return std::bit_cast<std::uint64_t>(v); }
/// Widening a float keeps every value; a signalling NaN may come out quiet, which encode would do anyway.
std::uint64_t bits_of(float v) { return std::bit_cast<std::uint64_t>(static_cast<double>(v)); }

}  // namespace

std::uint32_t encode_float(const FloatFormat& format, double value, RoundTo rounding) noexcept {
  return encode(format, std::bit_cast<std::uint64_t>(value), rounding);
}
double decode_float(const FloatFormat& format, std::uint32_t bits) noexcept {
  return std::bit_cast<double>(decode(format, bits));
}
double to_double_odd(std::int64_t value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  return round_to_odd(value < 0 ? 0 - bits : bits, value < 0);
}
double to_double_odd(std::uint64_t value) noexcept { return round_to_odd(value, false); }

namespace detail {

#define TESSERA_NARROW_FLOAT(Name, Bits, format)                                                                   \
  float Name##_to_float(Bits b) noexcept { return narrow_to_float(format, b); }                                    \
  Bits to_##Name(float v) noexcept { return static_cast<Bits>(encode(format, bits_of(v), RoundTo::NearestEven)); } \
  Bits to_##Name(double v) noexcept { return static_cast<Bits>(encode(format, bits_of(v), RoundTo::NearestEven)); }
TESSERA_NARROW_FLOAT(f16, std::uint16_t, kF16)
TESSERA_NARROW_FLOAT(f8e4m3, std::uint8_t, kF8E4M3)
TESSERA_NARROW_FLOAT(f8e5m2, std::uint8_t, kF8E5M2)
TESSERA_NARROW_FLOAT(bf16, std::uint16_t, kBF16)
#undef TESSERA_NARROW_FLOAT

namespace {
float tf32_from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits << (kF32.mantissa_bits - kTF32.mantissa_bits));
}
}  // namespace
float round_to_tf32(float v) noexcept { return tf32_from_bits(encode(kTF32, bits_of(v), RoundTo::NearestEven)); }
float round_to_tf32(double v) noexcept { return tf32_from_bits(encode(kTF32, bits_of(v), RoundTo::NearestEven)); }

}  // namespace detail
}  // namespace tessera
