// Host types of the narrow floating-point formats. They hold the bits, convert to float exactly (implicitly) and from float
// with round-to-nearest-even (explicitly); the fp8 formats saturate (PTX ISA 9.0, cvt.rn.satfinite).
#pragma once
#include <cstdint>

namespace tessera {

namespace detail {
float f16_to_float(std::uint16_t) noexcept;
std::uint16_t float_to_f16(float) noexcept;
float f8e4m3_to_float(std::uint8_t) noexcept;
std::uint8_t float_to_f8e4m3(float) noexcept;
float f8e5m2_to_float(std::uint8_t) noexcept;
std::uint8_t float_to_f8e5m2(float) noexcept;
float bf16_to_float(std::uint16_t) noexcept;
std::uint16_t float_to_bf16(float) noexcept;
float round_to_tf32(float) noexcept;
}  // namespace detail

#define TESSERA_NARROW_FLOAT(Name, Bits)                                                        \
  struct Name {                                                                                 \
    Bits bits;                                                                                  \
    Name() = default;                                                                           \
    explicit Name(float v) noexcept : bits(detail::float_to_##Name(v)) {}                       \
    operator float() const noexcept { return detail::Name##_to_float(bits); }                   \
    static constexpr Name from_bits(Bits b) noexcept { return Name(b, 0); }                     \
                                                                                                \
   private:                                                                                     \
    constexpr Name(Bits b, int) noexcept : bits(b) {}                                           \
  };
TESSERA_NARROW_FLOAT(f16, std::uint16_t)     ///< IEEE 754 binary16
TESSERA_NARROW_FLOAT(bf16, std::uint16_t)    ///< 8 exponent bits, 7 mantissa bits
TESSERA_NARROW_FLOAT(f8e4m3, std::uint8_t)   ///< E4M3FN: no infinity, NaN 0x7F/0xFF, largest 448
TESSERA_NARROW_FLOAT(f8e5m2, std::uint8_t)   ///< E5M2: infinities and NaN, largest finite 57344
#undef TESSERA_NARROW_FLOAT

/// 8 exponent bits and 10 mantissa bits, stored as 32 bits.
struct tf32 {
  float value;
  tf32() = default;
  explicit tf32(float v) noexcept : value(detail::round_to_tf32(v)) {}
  operator float() const noexcept { return value; }
};

}  // namespace tessera
