// Floating-point operations that are rounded once: + - * / fma sqrt, extrema, rounding to integers, comparisons. f16
// and bf16 are computed by the loops of f32 and rounded again, which is exact for these operations (24 >= 2 * 11 + 2
// bits) except fma, which has a loop of its own.
#pragma once
#include "codegen/cpu/prims/kernels/float_formats.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using U = std::uint32_t;
  static constexpr U sign = 0x80000000u, nan = 0x7FC00000u;
};
template <>
struct FloatBits<double> {
  using U = std::uint64_t;
  static constexpr U sign = U{1} << 63, nan = U{0x7FF8} << 48;
};

/// f32 only: denormals become zero of their sign.
template <bool ftz>
TESSERA_INLINED float flush(float x) {
  if constexpr (!ftz) return x;
  const std::uint32_t bits = bits_as<std::uint32_t>(x);
  return bits_as<float>((bits & 0x7F800000u) == 0 ? bits & 0x80000000u : bits);
}
template <bool ftz>
TESSERA_INLINED double flush(double x) {
  return x;
}

#define TESSERA_PRIMS_FLOAT2(Name, expression)                \
  template <bool ftz>                                         \
  struct Name {                                               \
    template <class T>                                        \
    static __attribute__((always_inline)) T apply(T x, T y) { \
      const T a = flush<ftz>(x), b = flush<ftz>(y);           \
      return flush<ftz>(expression);                          \
    }                                                         \
  };
TESSERA_PRIMS_FLOAT2(AddFOp, a + b)
TESSERA_PRIMS_FLOAT2(SubFOp, a - b)
TESSERA_PRIMS_FLOAT2(MulFOp, a* b)
TESSERA_PRIMS_FLOAT2(DivFOp, a / b)
#undef TESSERA_PRIMS_FLOAT2

TESSERA_INLINED float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TESSERA_INLINED double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
TESSERA_INLINED float root(float a) { return __builtin_sqrtf(a); }
TESSERA_INLINED double root(double a) { return __builtin_sqrt(a); }

template <bool ftz>
struct FmaOp {
  template <class T>
  static __attribute__((always_inline)) T apply(T a, T b, T c) {
    return flush<ftz>(fused(flush<ftz>(a), flush<ftz>(b), flush<ftz>(c)));
  }
};
/// f16 and bf16: the product is exact in double; the error of the sum tells how to make it odd, so that it rounds once.
struct NarrowFmaOp {
  static __attribute__((always_inline)) float apply(float a, float b, float c) {
    const double p = static_cast<double>(a) * static_cast<double>(b), z = c;
    const double s = p + z, back = s - p;
    const double error = (p - (s - back)) + (z - back);
    const std::uint64_t bits = bits_as<std::uint64_t>(s);
    const bool toward_zero = (error < 0) != (s < 0);  // the true sum is smaller in magnitude
    const std::uint64_t odd = (bits - (toward_zero ? 1u : 0u)) | 1u;
    const bool inexact = error != 0 && error - error == 0;
    return to_odd_float(bits_as<double>(inexact ? odd : bits));
  }
};
#if defined(__FMA__) || defined(__aarch64__)
#define TESSERA_PRIMS_DIVIDE_BY_ONE 1
/// a[i] / d for one divisor. A division takes as long as twenty multiplications. With r = 1 / d rounded once and l what
/// is missing, a * r + a * l is off by hardly more than half a unit of the last place; correcting it by the remainder
/// times r gives the quotient rounded once (Markstein 1990, Computation of elementary functions on the IBM RISC
/// System/6000 processor), if nothing overflows or underflows. That is so for quotients and dividends well inside the
/// normal numbers, and for a dividend of +0 and a positive divisor; a stretch that has others is divided.
struct DivideByOne {
  static void apply(float* out, const float* a, float d, i64 n) {
    // Biased exponents; what is not a positive normal number far from the ends is left to the division. The remainder's
    // last place is 47 below the dividend's exponent and must be at least 2^-149.
    const i64 e = static_cast<i64>(bits_as<std::uint32_t>(d) >> 23);
    const i64 least = e - 124 > 27 ? e - 124 : 27, largest = e + 124 < 250 ? e + 124 : 250;
    if (e < 4 || e > 250) return plain(out, a, d, n);
    const auto low = static_cast<std::uint32_t>(least) << 23;
    const auto range = (static_cast<std::uint32_t>(largest) << 23) - low;
    const float r = 1.0f / d, l = fused(-r, d, 1.0f) * r;
    i64 i = 0;
#if defined(__AVX512F__)
    i = whole_vectors(out, a, n, d, r, l, low, range);
#endif
    constexpr i64 stretch = 1024;
    for (; i < n; i += stretch) {
      const i64 count = n - i < stretch ? n - i : stretch;
      if (outside(a + i, low, range, count))
        plain(out + i, a + i, d, count);
      else
        multiply(out + i, a + i, d, r, l, count);
    }
  }

 private:
#if defined(__AVX512F__)
  /// Four vectors at a time, looked at and divided while they are in registers; returns how many elements are done.
  static TESSERA_INLINED i64 whole_vectors(float* out, const float* a, i64 n, float d, float r, float l,
                                           std::uint32_t low, std::uint32_t range) {
    constexpr i64 lanes = 16, together = 4;
    const __m512i least = _mm512_set1_epi32(static_cast<int>(low)), span = _mm512_set1_epi32(static_cast<int>(range));
    const __m512 divisor = _mm512_set1_ps(d), near = _mm512_set1_ps(r), rest = _mm512_set1_ps(l);
    i64 at = 0;
    for (; at + lanes * together <= n; at += lanes * together) {
      __m512 x[together];
      __m512i farthest = _mm512_setzero_si512();
      for (i64 k = 0; k < together; ++k) {
        x[k] = _mm512_loadu_ps(a + at + lanes * k);
        farthest = _mm512_max_epu32(farthest, _mm512_sub_epi32(_mm512_castps_si512(x[k]), least));
      }
      // Positive numbers are looked at first; then magnitudes, where +0 is no exception.
      const bool special =
          _mm512_cmpgt_epu32_mask(farthest, span) != 0 && outside(a + at, low, range, lanes * together);
      for (i64 k = 0; k < together; ++k) {
        const __m512 q = _mm512_fmadd_ps(x[k], near, _mm512_mul_ps(x[k], rest));
        const __m512 corrected = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, divisor, x[k]), near, q);
        _mm512_storeu_ps(out + at + lanes * k, special ? _mm512_div_ps(x[k], divisor) : corrected);
      }
    }
    return at;
  }
#endif
  static TESSERA_OUTLINED void plain(float* out, const float* a, float d, i64 n) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) out[i] = a[i] / d;
  }
  /// Whether a magnitude is outside [low, low + range] and the element not +0. Positive numbers are looked at first.
  static bool outside(const float* a, std::uint32_t low, std::uint32_t range, i64 n) {
    std::uint32_t farthest = 0;
    for (i64 i = 0; i < n; ++i) {
      const std::uint32_t above = bits_as<std::uint32_t>(a[i]) - low;
      farthest = above > farthest ? above : farthest;
    }
    if (farthest <= range) return false;
    farthest = 0;
    for (i64 i = 0; i < n; ++i) {
      const std::uint32_t bits = bits_as<std::uint32_t>(a[i]), above = bits == 0 ? 0 : (bits & 0x7FFFFFFFu) - low;
      farthest = above > farthest ? above : farthest;
    }
    return farthest > range;
  }
  static void multiply(float* out, const float* a, float d, float r, float l, i64 n) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) {
      const float q = fused(a[i], r, a[i] * l);
      out[i] = fused(fused(-q, d, a[i]), r, q);
    }
  }
};
inline void divide_by_one(void* out, const void* a, const void* d, const void*, i64 n) {
  DivideByOne::apply(static_cast<float*>(out), static_cast<const float*>(a), *static_cast<const float*>(d), n);
}
#endif

template <bool ftz>
struct SqrtOp {
  template <class T>
  static __attribute__((always_inline)) T apply(T a) {
    return flush<ftz>(root(flush<ftz>(a)));
  }
};

/// maximumNumber / maximum of IEEE 754-2019 (and their mirrors), with -0 < +0.
template <bool maximum, bool propagate_nan, bool ftz>
struct ExtremumOp {
  template <class T>
  static __attribute__((always_inline)) T apply(T x, T y) {
    using Bits = FloatBits<T>;
    using U = typename Bits::U;
    const T a = flush<ftz>(x), b = flush<ftz>(y);
    const U ua = bits_as<U>(a), ub = bits_as<U>(b);
    const bool a_wins = maximum ? a > b : a < b;
    U r = a_wins ? ua : ub;                          // b where either is NaN
    r = a == b ? (maximum ? ua & ub : ua | ub) : r;  // differs from both only for zeros of unequal sign
    if (propagate_nan) {
      r = ((a != a) | (b != b)) ? Bits::nan : r;
    } else {
      r = b != b ? ua : r;
      r = bits_as<T>(r) != bits_as<T>(r) ? Bits::nan : r;
    }
    return bits_as<T>(r);
  }
};

struct CeilOp {
  static float apply(float a) { return __builtin_ceilf(a); }
  static double apply(double a) { return __builtin_ceil(a); }
};
struct FloorOp {
  static float apply(float a) { return __builtin_floorf(a); }
  static double apply(double a) { return __builtin_floor(a); }
};

/// absf and negf work on bits (NaN payloads stay).
template <class U, bool negate>
struct SignOp {
  static constexpr U sign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  static U apply(U a) { return static_cast<U>(negate ? a ^ sign : a & static_cast<U>(~sign)); }
};

/// Equal, NotEqual, Less and LessEqual; the other two exchange their operands.
template <ir::ComparisonPredicate predicate, bool ordered>
struct CmpFOp {
  template <class T>
  static __attribute__((always_inline)) std::uint8_t apply(T a, T b) {
    using P = ir::ComparisonPredicate;
    const bool less = a<b, greater = a> b;  // both false where an operand is NaN
    if constexpr (ordered) {
      return predicate == P::Equal      ? a == b
             : predicate == P::NotEqual ? less || greater
             : predicate == P::Less     ? less
                                        : a <= b;
    } else {
      return predicate == P::Equal      ? !(less || greater)
             : predicate == P::NotEqual ? a != b
             : predicate == P::Less     ? !(a >= b)
                                        : !greater;
    }
  }
};

template <class T, bool ordered>
Loop compare_floats(ir::ComparisonPredicate p) {
  using P = ir::ComparisonPredicate;
  using U8 = std::uint8_t;
  const bool swapped = p == P::Greater || p == P::GreaterEqual;
  switch (p) {
    case P::Equal: return {loop<CmpFOp<P::Equal, ordered>, U8, T, T>};
    case P::NotEqual: return {loop<CmpFOp<P::NotEqual, ordered>, U8, T, T>};
    case P::Less:
    case P::Greater: return {.loop = loop<CmpFOp<P::Less, ordered>, U8, T, T>, .swapped = swapped};
    case P::LessEqual:
    case P::GreaterEqual: return {.loop = loop<CmpFOp<P::LessEqual, ordered>, U8, T, T>, .swapped = swapped};
  }
  return {};
}

/// The loops of a binary operation. Where one operand is one value, it stays in a register; if its place does not
/// matter, one such loop is enough.
template <class F, class T, bool commutative>
Loop binary() {
  Loop l{.loop = loop<F, T, T, T>, .with_one = {nullptr, loop_with_one<F, T, 1>}};
  if constexpr (!commutative) l.with_one[0] = loop_with_one<F, T, 0>;
  return l;
}

template <class T, bool maximum>
Loop extremum(const ElementOp& x) {
  return x.propagate_nan ? binary<ExtremumOp<maximum, true, false>, T, true>()
                         : binary<ExtremumOp<maximum, false, false>, T, true>();
}

template <class T>
Loop division() {
  Loop l = binary<DivFOp<false>, T, false>();
#if defined(TESSERA_PRIMS_DIVIDE_BY_ONE)
  if constexpr (__is_same(T, float)) l.with_one[1] = divide_by_one;
#endif
  return l;
}

/// f32 whose denormals are zeros.
inline Loop flushed_arithmetic(const ElementOp& x) {
  using T = float;
  switch (x.op) {
    case Op::AddF: return {loop<AddFOp<true>, T, T, T>};
    case Op::SubF: return {loop<SubFOp<true>, T, T, T>};
    case Op::MulF: return {loop<MulFOp<true>, T, T, T>};
    case Op::DivF: return {loop<DivFOp<true>, T, T, T>};
    case Op::Sqrt: return {loop<SqrtOp<true>, T, T>};
    case Op::Fma: return {loop<FmaOp<true>, T, T, T, T>};
    case Op::MaxF:
      return {x.propagate_nan ? loop<ExtremumOp<true, true, true>, T, T, T>
                              : loop<ExtremumOp<true, false, true>, T, T, T>};
    case Op::MinF:
      return {x.propagate_nan ? loop<ExtremumOp<false, true, true>, T, T, T>
                              : loop<ExtremumOp<false, false, true>, T, T, T>};
    default: return {};
  }
}

template <class T>
Loop arithmetic_of(const ElementOp& x) {
  switch (x.op) {
    case Op::Ceil: return {loop<CeilOp, T, T>};
    case Op::Floor: return {loop<FloorOp, T, T>};
    case Op::CmpF: return x.ordered ? compare_floats<T, true>(x.predicate) : compare_floats<T, false>(x.predicate);
    case Op::AddF: return binary<AddFOp<false>, T, true>();
    case Op::SubF: return binary<SubFOp<false>, T, false>();
    case Op::MulF: return binary<MulFOp<false>, T, true>();
    case Op::DivF: return division<T>();
    case Op::Sqrt: return {loop<SqrtOp<false>, T, T>};
    case Op::Fma: return {loop<FmaOp<false>, T, T, T, T>};
    case Op::MaxF: return extremum<T, true>(x);
    case Op::MinF: return extremum<T, false>(x);
    default: return {};
  }
}

template <bool negate>
LoopFn change_sign(int bytes) {
  using U16 = std::uint16_t;
  using U32 = std::uint32_t;
  using U64 = std::uint64_t;
  return bytes == 2   ? loop<SignOp<U16, negate>, U16, U16>
         : bytes == 4 ? loop<SignOp<U32, negate>, U32, U32>
                      : loop<SignOp<U64, negate>, U64, U64>;
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
