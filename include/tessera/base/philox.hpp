// Counter-based random numbers: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC 2011). The number of an element depends on the seed and the element's offset only, so kernels on
// any device and host fills agree, whatever the grid.
//
// The algorithms are templates over an arithmetic `A`: once plain C++ numbers (uniform_at, normal_at below), once
// emission of Tile IR over whole tiles. They use only exactly rounded operations (integers, + - * / sqrt fma), and no
// multiplication feeds an addition except inside fma, so every device and compiler computes the same bits, normal
// numbers included.
#pragma once
#include <array>
#include <cstdint>

#include "tessera/base/element.hpp"

namespace tessera::detail {

/// Ten rounds over a counter of four words with a key of two.
template <class A>
std::array<typename A::Word, 4> philox(A& a, std::array<typename A::Word, 4> c, std::array<typename A::Word, 2> key) {
  using Word = typename A::Word;
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      key[0] = a.add(key[0], a.word(0x9E3779B9U));  // golden ratio
      key[1] = a.add(key[1], a.word(0xBB67AE85U));  // sqrt(3) - 1
    }
    const Word m0 = a.word(0xD2511F53U), m1 = a.word(0xCD9E8D57U);
    const Word hi0 = a.mul_high(m0, c[0]), lo0 = a.mul(m0, c[0]);
    const Word hi1 = a.mul_high(m1, c[2]), lo1 = a.mul(m1, c[2]);
    c = {a.bit_xor(a.bit_xor(hi1, c[1]), key[0]), lo1, a.bit_xor(a.bit_xor(hi0, c[3]), key[1]), lo0};
  }
  return c;
}

/// What differs between 32-bit and 64-bit floats. `Bits` of randomness, and how many terms the series below need.
template <class F>
struct RandomFormat;
template <>
struct RandomFormat<float> {
  static constexpr int bits = 24, mantissa = 23, log_terms = 6, sin_terms = 5, cos_terms = 6;
  static constexpr std::int64_t sqrt_half = 0x3F3504F3;  ///< bits of sqrt(1/2)
};
template <>
struct RandomFormat<double> {
  static constexpr int bits = 53, mantissa = 52, log_terms = 12, sin_terms = 10, cos_terms = 11;
  static constexpr std::int64_t sqrt_half = 0x3FE6A09E667F3BCD;
};

constexpr double power_of_two(int exponent) {
  double v = 1.0;
  for (; exponent > 0; --exponent) v *= 2.0;
  for (; exponent < 0; ++exponent) v *= 0.5;
  return v;
}

/// ln(x) for x in (0, 1]: x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)).
template <class F, class A>
typename A::template Float<F> log_of_unit(A& a, typename A::template Float<F> x) {
  using Format = RandomFormat<F>;
  const auto bits = a.template bits_of<F>(x);
  const auto e = a.shift_right_signed(a.sub(bits, a.template integer<F>(Format::sqrt_half)), Format::mantissa);
  const auto m = a.template from_bits<F>(a.sub(bits, a.shift_left(e, Format::mantissa)));
  const auto one = a.template real<F>(1.0);
  const auto s = a.div(a.sub_real(m, one), a.add_real(m, one));
  const auto s2 = a.mul_real(s, s);
  auto p = a.template real<F>(1.0 / (2 * Format::log_terms + 1));
  for (int k = Format::log_terms - 1; k >= 0; --k) p = a.fma(p, s2, a.template real<F>(1.0 / (2 * k + 1)));
  const auto ln2 = a.template real<F>(0.693147180559945309417232121458);
  return a.fma(a.template to_real<F>(e), ln2, a.mul_real(a.add_real(s, s), p));
}

/// cos(2 pi i / 2^bits) for 0 <= i < 2^bits: reduced exactly to an eighth of a turn, then the Taylor series.
template <class F, class A, class I>
typename A::template Float<F> cos_of_turn(A& a, I i) {
  using Format = RandomFormat<F>;
  constexpr int quarter = Format::bits - 2;
  const auto q = a.shift_right_signed(a.add(i, a.template integer<F>(std::int64_t{1} << (quarter - 1))), quarter);
  const auto r = a.sub(i, a.shift_left(q, quarter));
  const auto x = a.mul_real(a.template to_real<F>(r),
                            a.template real<F>(6.283185307179586476925286766559 * power_of_two(-Format::bits)));
  const auto x2 = a.mul_real(x, x);
  double factorial = 1.0;
  for (int k = 2; k <= 2 * Format::cos_terms; ++k) factorial *= k;
  auto c = a.template real<F>((Format::cos_terms % 2 == 0 ? 1.0 : -1.0) / factorial);
  for (int k = Format::cos_terms - 1; k >= 0; --k) {
    factorial /= (2.0 * k + 2.0) * (2.0 * k + 1.0);
    c = a.fma(c, x2, a.template real<F>((k % 2 == 0 ? 1.0 : -1.0) / factorial));
  }
  factorial = 1.0;
  for (int k = 2; k <= 2 * Format::sin_terms + 1; ++k) factorial *= k;
  auto s = a.template real<F>((Format::sin_terms % 2 == 0 ? 1.0 : -1.0) / factorial);
  for (int k = Format::sin_terms - 1; k >= 0; --k) {
    factorial /= (2.0 * k + 3.0) * (2.0 * k + 2.0);
    s = a.fma(s, x2, a.template real<F>((k % 2 == 0 ? 1.0 : -1.0) / factorial));
  }
  s = a.mul_real(s, x);
  const auto odd = a.template bit_set<F>(q, 0), half = a.template bit_set<F>(a.add(q, a.template bit<F>(q, 0)), 1);
  const auto magnitude = a.choose(odd, s, c);  // quarter turns: cos, -sin, -cos, sin
  return a.choose(half, a.neg(magnitude), magnitude);
}

/// Uniform in [0, 1): multiples of 2^-bits, exactly representable.
template <class F, class A>
typename A::template Float<F> uniform_from(A& a, const std::array<typename A::Word, 4>& words) {
  constexpr int bits = RandomFormat<F>::bits;
  return a.mul_real(a.template to_real<F>(a.template top_bits<F>(words[0], words[1], bits)),
                    a.template real<F>(power_of_two(-bits)));
}

/// Standard normal by Box and Muller.
template <class F, class A>
typename A::template Float<F> normal_from(A& a, const std::array<typename A::Word, 4>& words) {
  constexpr int bits = RandomFormat<F>::bits;
  const auto first = a.add(a.template top_bits<F>(words[0], words[1], bits), a.template integer<F>(1));
  const auto u = a.mul_real(a.template to_real<F>(first), a.template real<F>(power_of_two(-bits)));  // (0, 1]
  const auto radius = a.sqrt(a.mul_real(log_of_unit<F>(a, u), a.template real<F>(-2.0)));
  return a.mul_real(radius, cos_of_turn<F>(a, a.template top_bits<F>(words[2], words[3], bits)));
}

}  // namespace tessera::detail

namespace tessera {

/// The four words of an element.
std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t offset);

/// What random::uniform<T> and random::normal<T> give in a kernel for (seed, offset). T: f64 f32 f16 bf16; uniform also
/// u32, u64.
template <class T>
T uniform_at(std::uint64_t seed, std::uint64_t offset);
template <class T>
T normal_at(std::uint64_t seed, std::uint64_t offset);

}  // namespace tessera
