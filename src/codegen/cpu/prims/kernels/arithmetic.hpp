// Floating-point operations that are rounded once: + - * / fma sqrt, extrema, rounding to integers, comparisons. f16
// and bf16 are computed in f32 and rounded again, which is exact for these operations (24 >= 2 * 11 + 2 bits) except
// fma.
#pragma once
#include "codegen/cpu/prims/kernels/float_formats.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

/// out = F::apply(operands) on the compute type of element E; the result is an element, or the byte of an i1.
template <Elem E, class F, int arity, bool to_bool = false>
struct FloatKernel {
  using Fmt = Float<E>;
  using T = typename Fmt::Compute;
  using A = std::conditional_t<Fmt::direct, T, typename Fmt::U>;
  using B = std::conditional_t<(arity > 1), A, None>;
  using C = std::conditional_t<(arity > 2), A, None>;
  using Out = std::conditional_t<to_bool, std::uint8_t, A>;
  static constexpr bool any_length = Fmt::direct;

  template <class R>
  static void compute(R* out, const T* a, [[maybe_unused]] const T* b, [[maybe_unused]] const T* c, i64 n) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) {
      if constexpr (arity == 1) out[i] = F::apply(a[i]);
      if constexpr (arity == 2) out[i] = F::apply(a[i], b[i]);
      if constexpr (arity == 3) out[i] = F::apply(a[i], b[i], c[i]);
    }
  }

  /// Whether one operand may be one value, kept in a register.
  static constexpr bool takes_one = Fmt::direct && arity == 2 && !to_bool;
  /// Operand `one` is one value, the other has n elements.
  template <int one>
  static void chunk_with_one(Out* out, const A* a, const A* b, i64 n) {
    const T value = one == 0 ? *a : *b;
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) out[i] = one == 0 ? F::apply(value, b[i]) : F::apply(a[i], value);
  }

  static void chunk(Out* out, const A* a, [[maybe_unused]] const B* b, [[maybe_unused]] const C* c, i64 n) {
    if constexpr (Fmt::direct) {
      if constexpr (arity == 1) compute(out, a, nullptr, nullptr, n);
      if constexpr (arity == 2) compute(out, a, b, nullptr, n);
      if constexpr (arity == 3) compute(out, a, b, c, n);
    } else {
      alignas(64) float x[arity][kChunk];
      Fmt::load(x[0], a, n);
      if constexpr (arity > 1) Fmt::load(x[arity > 1 ? 1 : 0], b, n);
      if constexpr (arity > 2) Fmt::load(x[arity > 2 ? 2 : 0], c, n);
      if constexpr (to_bool) {
        compute(out, x[0], x[arity > 1 ? 1 : 0], x[arity > 2 ? 2 : 0], n);
      } else {
        compute(x[0], x[0], x[arity > 1 ? 1 : 0], x[arity > 2 ? 2 : 0], n);
        Fmt::store(out, x[0], n);
      }
    }
  }
};

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

/// Division of f32, which looks for a divisor that is one value for a row or for all.
inline void run_division(void* dst, const Operand* s, i64 rows, i64 cols) {
  constexpr i64 size = sizeof(float);
  const bool whole = rows == 1 || s[0].row_stride == cols * size;
  if (s[0].splat || s[0].uniform || !(s[1].splat || s[1].uniform) || (rows == 1 && cols == 1))
    return run<FloatKernel<Elem::F32, DivFOp<false>, 2>>(dst, s, rows, cols);
  const i64 step = s[1].uniform ? 0 : s[1].row_stride;
  if (whole && step == 0) {
    cols *= rows;
    rows = 1;
  }
  for (i64 r = 0; r < rows; ++r)
    DivideByOne::apply(static_cast<float*>(dst) + r * cols,
                       reinterpret_cast<const float*>(static_cast<const char*>(s[0].data) + r * s[0].row_stride),
                       *reinterpret_cast<const float*>(static_cast<const char*>(s[1].data) + r * step), cols);
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
struct RemFOp {  // fmod is exact, a library call per element
  static float apply(float a, float b) { return __builtin_fmodf(a, b); }
  static double apply(double a, double b) { return __builtin_fmod(a, b); }
};

/// absf and negf work on bits (NaN payloads stay).
template <Elem e, bool negate>
struct SignOp {
  using U = StorageOf<e>;
  static constexpr U sign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  static U apply(U a) { return static_cast<U>(negate ? a ^ sign : a & static_cast<U>(~sign)); }
};

template <ir::ComparisonPredicate predicate, bool ordered>
struct CmpFOp {
  template <class T>
  static __attribute__((always_inline)) std::uint8_t apply(T a, T b) {
    using P = ir::ComparisonPredicate;
    const bool less = a<b, greater = a> b;  // both false where an operand is NaN
    if constexpr (ordered) {
      return predicate == P::Equal       ? a == b
             : predicate == P::NotEqual  ? less || greater
             : predicate == P::Less      ? less
             : predicate == P::LessEqual ? a <= b
             : predicate == P::Greater   ? greater
                                         : a >= b;
    } else {
      return predicate == P::Equal       ? !(less || greater)
             : predicate == P::NotEqual  ? a != b
             : predicate == P::Less      ? !(a >= b)
             : predicate == P::LessEqual ? !greater
             : predicate == P::Greater   ? !(a <= b)
                                         : !less;
    }
  }
};

/// Directed rounding is rare: one element at a time through the reference.
template <Op op, Elem e, ir::Rounding rounding, bool ftz, int arity>
ElementwiseFn by_reference() {
  constexpr ElementOp element{
      .op = op, .source = e, .result = e, .rounding = rounding, .flush_to_zero = ftz, .arity = arity};
  using U = StorageOf<e>;
  return run<
      ByReference<element, U, U, std::conditional_t<(arity > 1), U, None>, std::conditional_t<(arity > 2), U, None>>>;
}
template <Op op, Elem e, bool ftz, int arity>
ElementwiseFn directed(ir::Rounding r) {
  using R = ir::Rounding;
  if (r == R::Zero) return by_reference<op, e, R::Zero, ftz, arity>();
  if (r == R::NegativeInf) return by_reference<op, e, R::NegativeInf, ftz, arity>();
  return by_reference<op, e, R::PositiveInf, ftz, arity>();
}
inline bool is_directed(ir::Rounding r) {
  return r == ir::Rounding::Zero || r == ir::Rounding::NegativeInf || r == ir::Rounding::PositiveInf;
}

template <Elem e, bool ftz, template <bool> class F, Op op, int arity>
ElementwiseFn rounded(const ElementOp& x) {
  return is_directed(x.rounding) ? directed<op, e, ftz, arity>(x.rounding) : run<FloatKernel<e, F<ftz>, arity>>;
}

template <Elem e, bool ftz, bool maximum>
ElementwiseFn extremum(const ElementOp& x) {
  return x.propagate_nan ? run<FloatKernel<e, ExtremumOp<maximum, true, ftz>, 2>>
                         : run<FloatKernel<e, ExtremumOp<maximum, false, ftz>, 2>>;
}

template <Elem e, bool ordered>
ElementwiseFn compare_floats(ir::ComparisonPredicate p) {
  using P = ir::ComparisonPredicate;
  switch (p) {
    case P::Equal: return run<FloatKernel<e, CmpFOp<P::Equal, ordered>, 2, true>>;
    case P::NotEqual: return run<FloatKernel<e, CmpFOp<P::NotEqual, ordered>, 2, true>>;
    case P::Less: return run<FloatKernel<e, CmpFOp<P::Less, ordered>, 2, true>>;
    case P::LessEqual: return run<FloatKernel<e, CmpFOp<P::LessEqual, ordered>, 2, true>>;
    case P::Greater: return run<FloatKernel<e, CmpFOp<P::Greater, ordered>, 2, true>>;
    case P::GreaterEqual: return run<FloatKernel<e, CmpFOp<P::GreaterEqual, ordered>, 2, true>>;
  }
  return nullptr;
}

/// Operations that flush_to_zero changes.
template <Elem e, bool ftz>
ElementwiseFn arithmetic_with(const ElementOp& x) {
  switch (x.op) {
    case Op::AddF: return rounded<e, ftz, AddFOp, Op::AddF, 2>(x);
    case Op::SubF: return rounded<e, ftz, SubFOp, Op::SubF, 2>(x);
    case Op::MulF: return rounded<e, ftz, MulFOp, Op::MulF, 2>(x);
    case Op::DivF:
#if defined(TESSERA_PRIMS_DIVIDE_BY_ONE)
      if constexpr (e == Elem::F32 && !ftz)
        if (!is_directed(x.rounding)) return run_division;
#endif
      return rounded<e, ftz, DivFOp, Op::DivF, 2>(x);
    case Op::Sqrt: return rounded<e, ftz, SqrtOp, Op::Sqrt, 1>(x);
    case Op::Fma:
      if (is_directed(x.rounding)) return directed<Op::Fma, e, ftz, 3>(x.rounding);
      if constexpr (Float<e>::direct)
        return run<FloatKernel<e, FmaOp<ftz>, 3>>;
      else
        return run<FloatKernel<e, NarrowFmaOp, 3>>;
    case Op::MaxF: return extremum<e, ftz, true>(x);
    case Op::MinF: return extremum<e, ftz, false>(x);
    default: return nullptr;
  }
}

template <Elem e>
ElementwiseFn arithmetic_of(const ElementOp& x) {
  using U = StorageOf<e>;
  switch (x.op) {
    case Op::AbsF: return run<Plain<SignOp<e, false>, U, U>>;
    case Op::NegF: return run<Plain<SignOp<e, true>, U, U>>;
    case Op::Ceil: return run<FloatKernel<e, CeilOp, 1>>;
    case Op::Floor: return run<FloatKernel<e, FloorOp, 1>>;
    case Op::RemF: return run<FloatKernel<e, RemFOp, 2>>;
    case Op::CmpF: return x.ordered ? compare_floats<e, true>(x.predicate) : compare_floats<e, false>(x.predicate);
    default: break;
  }
  if constexpr (e == Elem::F32)
    if (x.flush_to_zero) return arithmetic_with<e, true>(x);
  return arithmetic_with<e, false>(x);
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
