// Floating-point elements as compile-time types: how a stretch of them becomes f32 or f64 and back. The bit tricks are
// plain loops, so that every compiler turns them into vector code; f16 uses the processor's own conversions where it
// has them.
#pragma once
#include "codegen/cpu/prims/kernels/support.hpp"
#include "codegen/cpu/prims/kernels/wide_load.hpp"

#if defined(__F16C__) || defined(__AVX512BW__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

/// Bits of a format of at most 16 bits with `E` exponent and `M` mantissa bits. `ieee`: the largest exponent holds
/// infinity and NaN; `nan_only`: all ones is NaN; neither: every pattern is a number (NaN becomes the largest).
template <int ExponentBits, int MantissaBits, int Bias, bool ieee, bool nan_only, bool saturate>
struct SmallFormat {
  static constexpr std::uint32_t sign = 1u << (ExponentBits + MantissaBits);
  static constexpr std::uint32_t ones = sign - 1;
  static constexpr std::uint32_t infinity = ((1u << ExponentBits) - 1) << MantissaBits;
  static constexpr std::uint32_t largest = ieee ? infinity - 1 : nan_only ? ones - 1 : ones;
  static constexpr std::uint32_t nan = ieee ? infinity | (1u << (MantissaBits - 1)) : ones;
  static constexpr std::uint32_t overflow = saturate || !ieee ? largest : infinity;

  static float widen(std::uint32_t v) {
    const std::uint32_t magnitude = v & ones, negative = (v & sign) << (31 - ExponentBits - MantissaBits);
    // Subnormals by an integer conversion, not as subnormals of f32: multiplying those is slow on many processors.
    constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - Bias) << 23;
    const float unit = bits_as<float>(static_cast<std::uint32_t>(127 + 1 - Bias - MantissaBits) << 23);
    const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * unit;
    const std::uint32_t normal = (magnitude << (23 - MantissaBits)) + rebias;
    std::uint32_t r = magnitude < (1u << MantissaBits) ? bits_as<std::uint32_t>(small) : normal;
    if (ieee) r = magnitude >= infinity ? 0x7F800000u | (magnitude << (23 - MantissaBits)) : r;
    if (nan_only) r = magnitude == ones ? 0x7FC00000u : r;
    return bits_as<float>(r | negative);
  }

  static std::uint32_t narrow(float x) {
    const std::uint32_t bits = bits_as<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
    constexpr int drop = 23 - MantissaBits;
    const std::uint32_t rounded = (magnitude + ((magnitude >> drop) & 1) + ((1u << (drop - 1)) - 1)) >> drop;
    const std::uint32_t normal = rounded - (static_cast<std::uint32_t>(127 - Bias) << MantissaBits);
    // Below the smallest normal number: adding 2^(23 + exponent of the last place) rounds at the right bit.
    const float magic = bits_as<float>(static_cast<std::uint32_t>(127 + 1 - Bias - MantissaBits + 23) << 23);
    const std::uint32_t small =
        bits_as<std::uint32_t>(bits_as<float>(magnitude) + magic) - bits_as<std::uint32_t>(magic);
    constexpr std::uint32_t smallest_normal = static_cast<std::uint32_t>(127 + 1 - Bias) << 23;
    std::uint32_t r = magnitude < smallest_normal ? small : normal;
    // Compared before rounding wraps the exponent: everything from 2^(exponent range) on overflows.
    const bool large = magnitude >= (static_cast<std::uint32_t>(127 + (1 << ExponentBits) - Bias) << 23);
    r = large || r > largest ? overflow : r;
    const bool is_nan = magnitude > 0x7F800000u;
    const std::uint32_t negative = is_nan ? 0u : (bits >> (31 - ExponentBits - MantissaBits)) & sign;
    return (is_nan ? nan : r) | negative;
  }
};

/// A floating element: `U` its storage, `Compute` the type it is computed in, load and store between both, `rounded` a
/// value of the compute type as the element holds it.
template <Elem>
struct Float;

template <>
struct Float<Elem::F32> {
  using U = std::uint32_t;
  using Compute = float;
  static constexpr bool direct = true;
  static float load_one(U v) { return bits_as<float>(v); }
  static U store_one(float v) { return bits_as<U>(v); }
};
template <>
struct Float<Elem::F64> {
  using U = std::uint64_t;
  using Compute = double;
  static constexpr bool direct = true;
  static double load_one(U v) { return bits_as<double>(v); }
  static U store_one(double v) { return bits_as<U>(v); }
};

/// load and store of formats whose elements are converted one by one.
template <class Derived, class UT, Elem e>
struct Converted {
  using U = UT;
  using Compute = float;
  static constexpr bool direct = false;
  static TESSERA_OUTLINED void load(float* to, const U* from, i64 n) {
    i64 i = 0;
    if constexpr (WideLoad<e>::exists) {
      for (; i + kOddLanes <= n; i += kOddLanes) {
        if (WideLoad<e>::is_odd(from + i)) [[unlikely]] {
          for (i64 k = i; k < i + kOddLanes; ++k) to[k] = Derived::load_one(from[k]);
        } else {
          for (i64 k = i; k < i + kOddLanes; k += kWideLanes) store_wide(to + k, WideLoad<e>::load(from + k));
        }
      }
    }
    TESSERA_INDEPENDENT
    for (; i < n; ++i) to[i] = Derived::load_one(from[i]);
  }
  static TESSERA_OUTLINED void store(U* to, const float* from, i64 n) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) to[i] = Derived::store_one(from[i]);
  }
};

template <>
struct Float<Elem::BF16> : Converted<Float<Elem::BF16>, std::uint16_t, Elem::BF16> {
  static float load_one(U v) { return bits_as<float>(static_cast<std::uint32_t>(v) << 16); }
  static U store_one(float v) {
    const std::uint32_t bits = bits_as<std::uint32_t>(v);
    const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16;
    return static_cast<U>((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : rounded);
  }
#if defined(__AVX512BW__)
  /// store_one of 16 numbers that are not NaN; the result is in the upper halves.
  static TESSERA_INLINED __m512i round_upper(__m512 v) {
    const __m512i bits = _mm512_castps_si512(v), half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    return _mm512_mask_sub_epi32(half, odd, half, _mm512_set1_epi32(-1));
  }
  /// Two vectors of results become one by a permutation, where the compiler narrows each by two.
  static TESSERA_OUTLINED void store(U* to, const float* from, i64 n) {
    alignas(64) static constexpr U upper[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i order = _mm512_load_si512(upper);
    i64 i = 0;
    for (; i + 32 <= n; i += 32) {
      const __m512 a = _mm512_loadu_ps(from + i), b = _mm512_loadu_ps(from + i + 16);
      if (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) == 0) [[likely]] {
        _mm512_storeu_si512(to + i, _mm512_permutex2var_epi16(round_upper(a), order, round_upper(b)));
      } else {
        for (i64 k = i; k < i + 32; ++k) to[k] = store_one(from[k]);
      }
    }
    for (; i < n; ++i) to[i] = store_one(from[i]);
  }
#endif
};
template <>
struct Float<Elem::TF32> : Converted<Float<Elem::TF32>, std::uint32_t, Elem::TF32> {
  static float load_one(U v) { return bits_as<float>(v & 0xFFFFE000u); }
  static U store_one(float v) {
    const std::uint32_t bits = bits_as<std::uint32_t>(v);
    const std::uint32_t rounded = (bits + 0xFFFu + ((bits >> 13) & 1)) & 0xFFFFE000u;
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : rounded;
  }
};
/// A power of two without sign; only read here (writing it takes a rounding mode: the reference).
template <>
struct Float<Elem::F8E8M0FNU> : Converted<Float<Elem::F8E8M0FNU>, std::uint8_t, Elem::F8E8M0FNU> {
  static float load_one(U v) {
    const std::uint32_t e = v;
    return bits_as<float>(e == 255 ? 0x7FC00000u : e == 0 ? 0x00400000u : e << 23);
  }
};
template <class S, Elem e>
struct Small : Converted<Float<e>, std::uint8_t, e> {
  static float load_one(std::uint8_t v) { return S::widen(v); }
  static std::uint8_t store_one(float v) { return static_cast<std::uint8_t>(S::narrow(v)); }
};
template <>
struct Float<Elem::F8E4M3FN> : Small<SmallFormat<4, 3, 7, false, true, true>, Elem::F8E4M3FN> {};
template <>
struct Float<Elem::F8E5M2> : Small<SmallFormat<5, 2, 15, true, false, true>, Elem::F8E5M2> {};
template <>
struct Float<Elem::F4E2M1FN> : Small<SmallFormat<2, 1, 1, false, false, true>, Elem::F4E2M1FN> {};
/// Unsigned: what is negative becomes zero.
template <>
struct Float<Elem::F8E5M3FNU> : Converted<Float<Elem::F8E5M3FNU>, std::uint8_t, Elem::F8E5M3FNU> {
  using S = SmallFormat<5, 3, 15, false, true, true>;
  static float load_one(U v) { return S::widen(v); }
  static U store_one(float v) {
    const U r = static_cast<U>(S::narrow(v));
    return bits_as<std::uint32_t>(v) > 0x80000000u && v == v ? U{0} : r;
  }
};

template <>
struct Float<Elem::F16> {
  using U = std::uint16_t;
  using Compute = float;
  using S = SmallFormat<5, 10, 15, true, false, false>;
  static constexpr bool direct = false;
  static float load_one(U v) { return S::widen(v); }
  static U store_one(float v) { return static_cast<U>(S::narrow(v)); }
  static TESSERA_OUTLINED void load(float* to, const U* from, i64 n) {
    i64 i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
      _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from + i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from + i))));
#elif defined(__aarch64__)
    for (; i + 8 <= n; i += 8) {
      const float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(from + i));
      vst1q_f32(to + i, vcvt_f32_f16(vget_low_f16(v)));
      vst1q_f32(to + i + 4, vcvt_high_f32_f16(v));
    }
#endif
    TESSERA_INDEPENDENT
    for (; i < n; ++i) to[i] = load_one(from[i]);
  }
  static TESSERA_OUTLINED void store(U* to, const float* from, i64 n) {
    i64 i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to + i),
                          _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i_u*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__aarch64__)
    for (; i + 8 <= n; i += 8) {
      const float16x4_t low = vcvt_f16_f32(vld1q_f32(from + i));
      vst1q_u16(to + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(from + i + 4))));
    }
#endif
    TESSERA_INDEPENDENT
    for (; i < n; ++i) to[i] = store_one(from[i]);
  }
};

/// A double as a float that rounds again without harm: truncated, with the last bit set if anything was lost (round to
/// odd).
TESSERA_INLINED float to_odd_float(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  const std::uint32_t bits = bits_as<std::uint32_t>(nearest);
  const bool away = __builtin_fabs(back) > __builtin_fabs(x), inexact = back != x && x == x;
  const std::uint32_t truncated = bits - (away ? 1u : 0u);
  return bits_as<float>(inexact ? truncated | 1u : bits);
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
