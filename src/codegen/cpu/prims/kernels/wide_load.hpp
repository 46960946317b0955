// A vector of f32 from narrow floats in memory, with the instructions of the set: what the compiler makes of the
// conversion of one element takes several times as many. Where a set has no such instructions, no format is
// loaded like this.
#pragma once
#include "codegen/cpu/prims/kernels/support.hpp"

#if defined(__AVX512BW__) || (defined(__AVX2__) && defined(__F16C__))
#include <immintrin.h>
#endif

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

#if defined(__AVX512BW__)
using Wide = __m512;
inline constexpr i64 kWideLanes = 16;
using HalfBits = __m256i;
TESSERA_INLINED HalfBits load_half_bits(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i_u*>(from));
}
TESSERA_INLINED __m128i load_bytes(const void* from) { return _mm_loadu_si128(static_cast<const __m128i_u*>(from)); }
TESSERA_INLINED Wide from_upper(HalfBits v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
TESSERA_INLINED Wide from_half(HalfBits v) { return _mm512_cvtph_ps(v); }
/// The bits of f16, for a byte whose exponent is five bits long; and where it is four, those of a number 2^8 smaller.
TESSERA_INLINED HalfBits five_bit_exponents(__m128i v) { return _mm256_slli_epi16(_mm256_cvtepu8_epi16(v), 8); }
TESSERA_INLINED HalfBits four_bit_exponents(__m128i v) {
  return _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(v), 7), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
}
/// All bits but the sign set: NaN of E4M3.
TESSERA_INLINED bool has_nan_of_e4m3(const void* from) {
  const __m512i all = _mm512_set1_epi8(0x7F);
  return _mm512_cmpeq_epi8_mask(_mm512_and_si512(_mm512_loadu_si512(from), all), all) != 0;
}
TESSERA_INLINED Wide load_wide(const float* from) { return _mm512_loadu_ps(from); }
TESSERA_INLINED void store_wide(float* to, Wide v) { _mm512_storeu_ps(to, v); }
TESSERA_INLINED Wide fused_wide(Wide a, Wide b, Wide c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__) && defined(__F16C__)
using Wide = __m256;
inline constexpr i64 kWideLanes = 8;
using HalfBits = __m128i;
TESSERA_INLINED HalfBits load_half_bits(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i_u*>(from));
}
TESSERA_INLINED __m128i load_bytes(const void* from) { return _mm_loadl_epi64(static_cast<const __m128i_u*>(from)); }
TESSERA_INLINED Wide from_upper(HalfBits v) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
TESSERA_INLINED Wide from_half(HalfBits v) { return _mm256_cvtph_ps(v); }
TESSERA_INLINED HalfBits five_bit_exponents(__m128i v) { return _mm_slli_epi16(_mm_cvtepu8_epi16(v), 8); }
TESSERA_INLINED HalfBits four_bit_exponents(__m128i v) {
  return _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(v), 7), _mm_set1_epi16(static_cast<short>(0xBFFF)));
}
TESSERA_INLINED bool has_nan_of_e4m3(const void* from) {
  const __m256i all = _mm256_set1_epi8(0x7F), v = _mm256_loadu_si256(static_cast<const __m256i_u*>(from));
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(v, all), all)) != 0;
}
TESSERA_INLINED Wide load_wide(const float* from) { return _mm256_loadu_ps(from); }
TESSERA_INLINED void store_wide(float* to, Wide v) { _mm256_storeu_ps(to, v); }
TESSERA_INLINED Wide fused_wide(Wide a, Wide b, Wide c) { return _mm256_fmadd_ps(a, b, c); }
#else
using Wide = float;
inline constexpr i64 kWideLanes = 1;
TESSERA_INLINED Wide load_wide(const float* from) { return *from; }
TESSERA_INLINED void store_wide(float* to, Wide v) { *to = v; }
TESSERA_INLINED Wide fused_wide(Wide a, Wide b, Wide c) { return __builtin_fmaf(a, b, c); }
#endif

/// Elements that are looked at together before they are loaded.
inline constexpr i64 kOddLanes = 4 * kWideLanes;

/// Formats that are loaded by vectors: `load` of kWideLanes elements. It takes a NaN of some formats for a number:
/// `is_odd` says whether there is one among kOddLanes elements.
template <Elem>
struct WideLoad {
  static constexpr bool exists = false;
};
#if defined(__AVX512BW__) || (defined(__AVX2__) && defined(__F16C__))
template <>
struct WideLoad<Elem::BF16> {
  static constexpr bool exists = true;
  static TESSERA_INLINED bool is_odd(const std::uint16_t*) { return false; }
  static TESSERA_INLINED Wide load(const std::uint16_t* from) { return from_upper(load_half_bits(from)); }
};
template <>
struct WideLoad<Elem::F16> {
  static constexpr bool exists = true;
  static TESSERA_INLINED bool is_odd(const std::uint16_t*) { return false; }
  static TESSERA_INLINED Wide load(const std::uint16_t* from) { return from_half(load_half_bits(from)); }
};
template <>
struct WideLoad<Elem::F8E5M2> {
  static constexpr bool exists = true;
  static TESSERA_INLINED bool is_odd(const std::uint8_t*) { return false; }
  static TESSERA_INLINED Wide load(const std::uint8_t* from) { return from_half(five_bit_exponents(load_bytes(from))); }
};
/// By way of f16, which holds all numbers times 2^-8; the factor is exact.
template <>
struct WideLoad<Elem::F8E4M3FN> {
  static constexpr bool exists = true;
  static TESSERA_INLINED bool is_odd(const std::uint8_t* from) { return has_nan_of_e4m3(from); }
  static TESSERA_INLINED Wide load(const std::uint8_t* from) {
    return from_half(four_bit_exponents(load_bytes(from))) * (Wide{} + 256.0f);
  }
};
#endif

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
