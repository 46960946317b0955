// Floating-point formats as data, and exact arithmetic on them: an operation is carried out on unpacked 128-bit
// significands and rounded once, in any rounding mode, to any format. Slow (tens of nanoseconds) and simple: the
// reference for the fast implementations.
#pragma once
#include <cstdint>

#include "tessera/ir/attributes.hpp"
#include "tessera/ir/types.hpp"

namespace tessera::ir::soft {

__extension__ using u128 = unsigned __int128;

enum class Specials : std::uint8_t {
  Ieee,     ///< largest exponent: infinity and NaN
  NanOnly,  ///< no infinity; all ones is NaN (E4M3FN, E5M3FNU)
  None      ///< neither (E2M1FN)
};

/// A binary format. Bits of an element: [sign] exponent mantissa, shifted left by `shift`.
struct Format {
  std::uint8_t exponent_bits;
  std::uint8_t mantissa_bits;
  std::int16_t bias;
  bool has_sign;
  Specials specials;
  std::uint8_t shift;  ///< tf32 is stored in the high bits of 32
};
/// The format of a floating-point element other than F8E8M0FNU (which has no zero and is handled apart).
const Format& format(Elem);

enum class Class : std::uint8_t { Zero, Finite, Inf, NaN };

/// A value: (-1)^negative * significand * 2^exponent for Finite (significand != 0).
struct Unpacked {
  Class cls = Class::Zero;
  bool negative = false;
  bool sticky = false;  ///< the true magnitude lies strictly between this one and the next
  std::int32_t exponent = 0;
  u128 significand = 0;
};

Unpacked unpack(Elem, std::uint64_t bits);
Unpacked unpack_integer(bool negative, std::uint64_t magnitude);

enum class Overflow : std::uint8_t { Ieee, Saturate };
/// Rounds once. Approx, Full and NearestIntToZero round to nearest even. With Saturate, overflow and infinity become
/// the largest finite number; with Ieee, formats without infinity give NaN.
std::uint64_t pack(Elem, const Unpacked&, Rounding, Overflow = Overflow::Ieee);

Unpacked multiply(const Unpacked&, const Unpacked&);
/// x * y + z, exact up to `sticky`. The mode decides the sign of an exact zero.
Unpacked fused_multiply_add(const Unpacked& x, const Unpacked& y, const Unpacked& z, Rounding);
Unpacked add(const Unpacked&, const Unpacked&, Rounding);
Unpacked divide(const Unpacked&, const Unpacked&);
Unpacked square_root(const Unpacked&);

/// Truncated to an integer and clamped to a two's complement or unsigned range of `bits` bits; NaN gives 0.
std::uint64_t to_integer(const Unpacked&, int bits, bool is_signed);

}  // namespace tessera::ir::soft
