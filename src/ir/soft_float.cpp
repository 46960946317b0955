// Exact floating-point arithmetic on unpacked significands (see soft_float.hpp).
#include "ir/soft_float.hpp"

#include <algorithm>
#include <bit>

#include "tessera/base/float_types.hpp"

namespace tessera::ir::soft {
namespace {

constexpr Unpacked kNaN{Class::NaN, false, false, 0, 0};

int highest_bit(u128 v) {
  const auto high = static_cast<std::uint64_t>(v >> 64);
  return high ? 127 - std::countl_zero(high) : 63 - std::countl_zero(static_cast<std::uint64_t>(v));
}

/// Moves the leading bit to position `bit`; only for shifts that lose nothing.
Unpacked normalized(Unpacked x, int bit) {
  const int by = bit - highest_bit(x.significand);
  x.significand = by >= 0 ? x.significand << by : x.significand >> -by;
  x.exponent -= by;
  return x;
}

bool round_up(Rounding mode, bool negative, bool odd, bool half, bool rest) {
  switch (mode) {
    case Rounding::Zero: return false;
    case Rounding::NegativeInf: return negative && (half || rest);
    case Rounding::PositiveInf: return !negative && (half || rest);
    case Rounding::NearestAway: return half;
    default: return half && (rest || odd);
  }
}

/// The largest finite number of a format, as exponent and mantissa fields.
std::uint64_t largest(const Format& f) {
  const std::uint64_t ones = (std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1;
  switch (f.specials) {
    case Specials::Ieee: return ones - (std::uint64_t{1} << f.mantissa_bits);
    case Specials::NanOnly: return ones - 1;
    case Specials::None: return ones;
  }
  return 0;
}

std::uint64_t infinity(const Format& f) { return largest(f) + 1; }  // Ieee formats only

std::uint64_t nan(const Format& f) {
  const std::uint64_t ones = (std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1;
  switch (f.specials) {
    case Specials::Ieee: return infinity(f) | (std::uint64_t{1} << (f.mantissa_bits - 1));
    case Specials::NanOnly: return ones;
    case Specials::None: return largest(f);  // PTX cvt to e2m1: NaN becomes the largest positive number
  }
  return 0;
}

std::uint64_t overflowed(const Format& f, bool negative, Rounding mode, Overflow overflow) {
  const bool stays_finite = mode == Rounding::Zero || (mode == Rounding::NegativeInf && !negative) ||
                            (mode == Rounding::PositiveInf && negative);
  if (overflow == Overflow::Saturate || stays_finite || f.specials == Specials::None) return largest(f);
  return f.specials == Specials::Ieee ? infinity(f) : nan(f);
}

/// Exponent and mantissa fields of a finite, nonzero magnitude.
std::uint64_t round_magnitude(const Format& f, const Unpacked& x, Rounding mode, Overflow overflow) {
  const int leading = highest_bit(x.significand) + x.exponent;
  int unit = std::max(leading, 1 - f.bias) - f.mantissa_bits;  // exponent of the last kept bit
  const int shift = unit - x.exponent;
  u128 kept = 0;
  bool half = false, rest = x.sticky;
  if (shift <= 0) {
    kept = x.significand << -shift;
  } else if (shift > 127) {
    rest = true;
  } else {
    const u128 dropped = x.significand & ((u128{1} << shift) - 1), middle = u128{1} << (shift - 1);
    kept = x.significand >> shift;
    half = (dropped & middle) != 0;
    rest = rest || (dropped & (middle - 1)) != 0;
  }
  auto mantissa = static_cast<std::uint64_t>(kept);
  if (round_up(mode, x.negative, mantissa & 1, half, rest)) ++mantissa;
  const std::uint64_t implicit = std::uint64_t{1} << f.mantissa_bits;
  if (mantissa < implicit) return mantissa;  // zero or subnormal
  if (mantissa == 2 * implicit) {
    mantissa = implicit;
    ++unit;
  }
  const std::int64_t biased = std::int64_t{unit} + f.mantissa_bits + f.bias;
  if (biased >= (std::int64_t{1} << f.exponent_bits)) return overflowed(f, x.negative, mode, overflow);
  const std::uint64_t fields = (static_cast<std::uint64_t>(biased) << f.mantissa_bits) | (mantissa - implicit);
  return fields > largest(f) ? overflowed(f, x.negative, mode, overflow) : fields;
}

/// E8M0: a power of two; 0xFF is NaN, there is neither zero nor sign (the sign is dropped, zero becomes the smallest).
std::uint64_t pack_e8m0(const Unpacked& x, Rounding mode) {
  if (x.cls == Class::NaN) return 0xFF;
  if (x.cls == Class::Inf) return 0xFE;
  if (x.cls == Class::Zero) return 0;
  const int top = highest_bit(x.significand);
  const bool inexact = x.sticky || (x.significand & ((u128{1} << top) - 1)) != 0;
  const bool half = top > 0 && ((x.significand >> (top - 1)) & 1) != 0;
  const bool up = mode == Rounding::PositiveInf ? inexact : mode == Rounding::Zero ? false : half;
  return static_cast<std::uint64_t>(std::clamp(top + x.exponent + (up ? 1 : 0) + 127, 0, 254));
}

std::uint64_t integer_square_root(u128 v, bool& exact) {
  std::uint64_t root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const std::uint64_t next = root | (std::uint64_t{1} << bit);
    if (u128{next} * next <= v) root = next;
  }
  exact = u128{root} * root == v;
  return root;
}

/// |x| - |y| or |x| + |y| of two finite numbers with the leading bit at 125.
Unpacked combine(Unpacked x, Unpacked y, Rounding mode) {
  if (x.exponent < y.exponent || (x.exponent == y.exponent && x.significand < y.significand)) std::swap(x, y);
  const int distance = x.exponent - y.exponent;
  bool lost = false;
  if (distance > 126) {
    lost = true;
    y.significand = 0;
  } else if (distance > 0) {
    lost = (y.significand & ((u128{1} << distance) - 1)) != 0;
    y.significand >>= distance;
  }
  if (x.negative == y.negative) {
    x.significand += y.significand;
  } else {
    x.significand -=
        y.significand + (lost ? 1 : 0);  // what was lost lies below: borrow, and let `sticky` stand for the rest
    if (x.significand == 0) return {Class::Zero, mode == Rounding::NegativeInf, false, 0, 0};
  }
  x.sticky = lost;
  return x;
}

constexpr Format of(const FloatFormat& f, std::uint8_t shift = 0) {
  return {f.exponent_bits,
          f.mantissa_bits,
          static_cast<std::int16_t>(f.bias()),
          true,
          f.has_infinity ? Specials::Ieee : Specials::NanOnly,
          shift};
}

}  // namespace

const Format& format(Elem e) {
  static constexpr Format f16 = of(kF16), bf16 = of(kBF16), f32 = of(kF32), tf32 = of(kTF32, 13), e4m3 = of(kF8E4M3),
                          e5m2 = of(kF8E5M2);
  // Those that are no element types of the language, and f64, which base's conversions start from.
  static constexpr Format f64{11, 52, 1023, true, Specials::Ieee, 0}, e2m1{2, 1, 1, true, Specials::None, 0},
      e5m3{5, 3, 15, false, Specials::NanOnly, 0};
  switch (e) {
    case Elem::F16: return f16;
    case Elem::BF16: return bf16;
    case Elem::F32: return f32;
    case Elem::TF32: return tf32;
    case Elem::F8E4M3FN: return e4m3;
    case Elem::F8E5M2: return e5m2;
    case Elem::F4E2M1FN: return e2m1;
    case Elem::F8E5M3FNU: return e5m3;
    default: return f64;
  }
}

Unpacked unpack(Elem e, std::uint64_t bits) {
  if (e == Elem::F8E8M0FNU) {
    bits &= 0xFF;
    return bits == 0xFF ? kNaN : Unpacked{Class::Finite, false, false, static_cast<int>(bits) - 127, 1};
  }
  const Format& f = format(e);
  bits >>= f.shift;
  const std::uint64_t ones = (std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1, fields = bits & ones;
  Unpacked x;
  x.negative = f.has_sign && ((bits >> (f.exponent_bits + f.mantissa_bits)) & 1) != 0;
  if (fields > largest(f)) {
    x.cls = f.specials == Specials::Ieee && fields == infinity(f) ? Class::Inf : Class::NaN;
    return x;
  }
  if (fields == 0) return x;
  const std::uint64_t mantissa = fields & ((std::uint64_t{1} << f.mantissa_bits) - 1);
  const int biased = static_cast<int>(fields >> f.mantissa_bits);
  x.cls = Class::Finite;
  x.significand = biased ? mantissa | (std::uint64_t{1} << f.mantissa_bits) : mantissa;
  x.exponent = std::max(biased, 1) - f.bias - f.mantissa_bits;
  return x;
}

Unpacked unpack_integer(bool negative, std::uint64_t magnitude) {
  if (magnitude == 0) return {};
  return {Class::Finite, negative, false, 0, magnitude};
}

std::uint64_t pack(Elem e, const Unpacked& x, Rounding mode, Overflow overflow) {
  if (e == Elem::F8E8M0FNU) return pack_e8m0(x, mode);
  const Format& f = format(e);
  if (x.cls == Class::NaN) return nan(f) << f.shift;
  if (x.negative && !f.has_sign) return 0;  // unsigned formats: the nearest number is zero
  std::uint64_t fields = 0;
  if (x.cls == Class::Inf) fields = overflowed(f, x.negative, Rounding::NearestEven, overflow);
  if (x.cls == Class::Finite) fields = round_magnitude(f, x, mode, overflow);
  const std::uint64_t sign = x.negative ? std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits) : 0;
  const bool no_sign = f.specials == Specials::NanOnly && fields == nan(f);
  return ((no_sign ? 0 : sign) | fields) << f.shift;
}

Unpacked multiply(const Unpacked& x, const Unpacked& y) {
  if (x.cls == Class::NaN || y.cls == Class::NaN) return kNaN;
  const bool negative = x.negative != y.negative;
  if (x.cls == Class::Inf || y.cls == Class::Inf) {
    if (x.cls == Class::Zero || y.cls == Class::Zero) return kNaN;
    return {Class::Inf, negative, false, 0, 0};
  }
  if (x.cls == Class::Zero || y.cls == Class::Zero) return {Class::Zero, negative, false, 0, 0};
  return {Class::Finite, negative, false, x.exponent + y.exponent, x.significand * y.significand};
}

Unpacked add(const Unpacked& x, const Unpacked& y, Rounding mode) {
  if (x.cls == Class::NaN || y.cls == Class::NaN) return kNaN;
  if (x.cls == Class::Inf || y.cls == Class::Inf) {
    if (x.cls == y.cls && x.negative != y.negative) return kNaN;
    return x.cls == Class::Inf ? x : y;
  }
  if (x.cls == Class::Zero && y.cls == Class::Zero) {
    const bool negative = x.negative == y.negative ? x.negative : mode == Rounding::NegativeInf;
    return {Class::Zero, negative, false, 0, 0};
  }
  if (x.cls == Class::Zero) return y;
  if (y.cls == Class::Zero) return x;
  return combine(normalized(x, 125), normalized(y, 125), mode);
}

Unpacked fused_multiply_add(const Unpacked& x, const Unpacked& y, const Unpacked& z, Rounding mode) {
  return add(multiply(x, y), z, mode);
}

Unpacked divide(const Unpacked& x, const Unpacked& y) {
  if (x.cls == Class::NaN || y.cls == Class::NaN) return kNaN;
  const bool negative = x.negative != y.negative;
  if (x.cls == Class::Inf) return y.cls == Class::Inf ? kNaN : Unpacked{Class::Inf, negative, false, 0, 0};
  if (y.cls == Class::Inf) return {Class::Zero, negative, false, 0, 0};
  if (y.cls == Class::Zero) return x.cls == Class::Zero ? kNaN : Unpacked{Class::Inf, negative, false, 0, 0};
  if (x.cls == Class::Zero) return {Class::Zero, negative, false, 0, 0};
  const Unpacked a = normalized(x, 122), b = normalized(y, 52);  // a quotient of at least 70 bits
  const u128 quotient = a.significand / b.significand;
  const bool inexact = quotient * b.significand != a.significand;
  return {Class::Finite, negative, inexact, a.exponent - b.exponent, quotient};
}

Unpacked square_root(const Unpacked& x) {
  if (x.cls == Class::NaN || (x.negative && x.cls != Class::Zero)) return kNaN;
  if (x.cls != Class::Finite) return x;
  Unpacked a = normalized(x, 124);
  if (a.exponent & 1) a = normalized(x, 123);
  bool exact = false;
  const std::uint64_t root = integer_square_root(a.significand, exact);
  return {Class::Finite, false, !exact, a.exponent / 2, root};
}

std::uint64_t to_integer(const Unpacked& x, int bits, bool is_signed) {
  if (x.cls == Class::NaN || x.cls == Class::Zero) return 0;
  const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  const std::uint64_t top = std::uint64_t{1} << (bits - 1);
  const std::uint64_t limit = is_signed ? (x.negative ? top : top - 1) : (x.negative ? 0 : all);
  std::uint64_t magnitude = limit;
  if (x.cls == Class::Finite) {
    const int leading = highest_bit(x.significand) + x.exponent;
    if (leading < 0) return 0;
    if (leading < 64) {
      const u128 v = x.exponent >= 0 ? x.significand << x.exponent : x.significand >> std::min(-x.exponent, 127);
      magnitude = std::min(static_cast<std::uint64_t>(v), limit);
    }
  }
  return (x.negative ? std::uint64_t{0} - magnitude : magnitude) & all;
}

}  // namespace tessera::ir::soft
