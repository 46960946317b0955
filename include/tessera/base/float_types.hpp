// Host types of the narrow floating-point formats. They hold the bits, convert to float exactly (implicitly) and from
// other numbers with one round-to-nearest-even (explicitly); the fp8 formats saturate (PTX ISA 9.0, cvt.rn.satfinite).
//
// FloatFormat is the conversion between double and any narrower binary floating-point format, with one rounding: the
// definition that the host types, constant folding and the CPU backend's references share.
#pragma once
#include <cstdint>
#include <type_traits>

namespace tessera {

/// Where an inexact conversion goes.
enum class RoundTo : std::uint8_t { NearestEven, Zero, NegativeInf, PositiveInf };

/// A binary format of one sign bit, `exponent_bits` and `mantissa_bits`, IEEE 754 subnormals, and an exponent bias of
/// 2^(exponent_bits-1) - 1.
struct FloatFormat {
  std::uint8_t exponent_bits;
  std::uint8_t mantissa_bits;
  bool has_infinity;  ///< false: E4M3FN, where only the all-ones pattern is special (NaN)
  bool saturates;     ///< what is too large, infinities included, becomes the largest finite value

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// The bits below the sign of the largest finite value, of infinity (where there is one), and of the canonical NaN.
  constexpr std::uint32_t largest() const { return has_infinity ? infinity() - 1 : magnitude_mask() - 1; }
  constexpr std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  constexpr std::uint32_t quiet_nan() const {
    return has_infinity ? infinity() | 1u << (mantissa_bits - 1) : magnitude_mask();
  }
  constexpr std::uint32_t magnitude_mask() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
};

inline constexpr FloatFormat kF32{8, 23, true, false};
inline constexpr FloatFormat kTF32{8, 10, true, false};  ///< 19 significant bits; stored in the high end of 32
inline constexpr FloatFormat kF16{5, 10, true, false};
inline constexpr FloatFormat kBF16{8, 7, true, false};
inline constexpr FloatFormat kF8E4M3{4, 3, false, true};  ///< PTX ISA 9.0, cvt.rn.satfinite.e4m3x2
inline constexpr FloatFormat kF8E5M2{5, 2, true, true};   ///< PTX ISA 9.0, cvt.rn.satfinite.e5m2x2

/// The bits of `value` in `format`, rounded once. A NaN stays one: its sign and the leading payload bits are kept and
/// it is quiet. Overflow follows IEEE 754 (infinity, or the largest finite value where the rounding points towards
/// zero), except in formats that saturate.
std::uint32_t encode_float(const FloatFormat& format, double value, RoundTo rounding = RoundTo::NearestEven) noexcept;

/// The value of the low bits() bits of `bits`; exact.
double decode_float(const FloatFormat& format, std::uint32_t bits) noexcept;

/// A double between which and `value` lies no number of at most 51 significant bits and which rounds as `value` does
/// (round to odd): an integer goes through it to a narrow format with one rounding.
double to_double_odd(std::int64_t value) noexcept;
double to_double_odd(std::uint64_t value) noexcept;

namespace detail {

/// An integer as a double that rounds to a narrow format as the integer itself does.
template <class I>
double widen_integer(I v) noexcept {
  if constexpr (std::is_signed_v<I>)
    return to_double_odd(static_cast<std::int64_t>(v));
  else
    return to_double_odd(static_cast<std::uint64_t>(v));
}

}  // namespace detail

#define TESSERA_NARROW_FLOAT(Name, Bits)                                               \
  namespace detail {                                                                   \
  float Name##_to_float(Bits) noexcept;                                                \
  Bits to_##Name(float) noexcept;                                                      \
  Bits to_##Name(double) noexcept;                                                     \
  }                                                                                    \
  struct Name {                                                                        \
    Bits bits;                                                                         \
    Name() = default;                                                                  \
    explicit Name(float v) noexcept : bits(detail::to_##Name(v)) {}                    \
    explicit Name(double v) noexcept : bits(detail::to_##Name(v)) {}                   \
    template <class I>                                                                 \
      requires std::is_integral_v<I>                                                   \
    explicit Name(I v) noexcept : bits(detail::to_##Name(detail::widen_integer(v))) {} \
    operator float() const noexcept { return detail::Name##_to_float(bits); }          \
    static constexpr Name from_bits(Bits b) noexcept { return Name(Raw{b}); }          \
                                                                                       \
   private:                                                                            \
    struct Raw {                                                                       \
      Bits bits;                                                                       \
    };                                                                                 \
    constexpr explicit Name(Raw raw) noexcept : bits(raw.bits) {}                      \
  };
TESSERA_NARROW_FLOAT(f16, std::uint16_t)   ///< IEEE 754 binary16; overflows to infinity
TESSERA_NARROW_FLOAT(bf16, std::uint16_t)  ///< 8 exponent bits, 7 mantissa bits; overflows to infinity
TESSERA_NARROW_FLOAT(f8e4m3,
                     std::uint8_t)  ///< E4M3FN: no infinity, NaN 0x7F/0xFF, largest 448; infinities become +-448
TESSERA_NARROW_FLOAT(f8e5m2, std::uint8_t)  ///< E5M2: has infinities and NaN, largest 57344; infinities become +-57344
#undef TESSERA_NARROW_FLOAT

namespace detail {
float round_to_tf32(float) noexcept;
float round_to_tf32(double) noexcept;
}  // namespace detail

/// 8 exponent bits and 10 mantissa bits, stored as a float whose low 13 bits are zero.
struct tf32 {
  float value;
  tf32() = default;
  explicit tf32(float v) noexcept : value(detail::round_to_tf32(v)) {}
  explicit tf32(double v) noexcept : value(detail::round_to_tf32(v)) {}
  template <class I>
    requires std::is_integral_v<I>
  explicit tf32(I v) noexcept : value(detail::round_to_tf32(detail::widen_integer(v))) {}
  operator float() const noexcept { return value; }
};

}  // namespace tessera
