// Host types of the narrow floating-point formats. They hold the bits, convert to float exactly (implicitly) and from
// other numbers with one round-to-nearest-even (explicitly); the fp8 formats saturate (PTX ISA 9.0, cvt.rn.satfinite).
#pragma once
#include <cstdint>
#include <type_traits>

#include "tessera/base/float_format.hpp"

namespace tessera {

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
