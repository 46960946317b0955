// Elementary functions of f32, by polynomials (minimax fits made for this file, or Taylor series in double), with
// explicit fused multiply-adds, so that every instruction set gives the same bits. f16 and bf16 go by way of f32; f64
// calls the C library, one element at a time (library.inl). The measured errors are in docs/semantics.md.
#pragma once
#include "codegen/cpu/prims/kernels/arithmetic.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

/// 2^n for n in [-126, 127] and [-1022, 1023].
TESSERA_INLINED float power2f(std::int32_t n) { return bits_as<float>(static_cast<std::uint32_t>(n + 127) << 23); }
TESSERA_INLINED double power2d(std::int32_t n) {
  return bits_as<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52);
}
TESSERA_INLINED float clamped(float x, float low, float high) {  // NaN stays
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}
TESSERA_INLINED double clamped(double x, double low, double high) {
  const double raised = x < low ? low : x;
  return raised > high ? high : raised;
}
/// The int32 that a whole number of at most 2^30 is. NaN and what lies below -2^30 give -2^30: converting them would be
/// undefined, and what is made of the result is NaN or replaced.
template <class T>
TESSERA_INLINED std::int32_t whole(T n) {
  constexpr T least = -0x1p30f;
  return static_cast<std::int32_t>(n > least ? n : least);
}
/// Two powers, so that a result beyond the normal numbers is rounded once.
TESSERA_INLINED float scaled(float p, std::int32_t n) {
  const std::int32_t half = n >> 1;
  return p * power2f(half) * power2f(n - half);
}

struct ExpF {
  static TESSERA_INLINED float apply(float value) {
    const float x = clamped(value, -104.0f, 89.0f);
    const float n = fused(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;  // 1.5 * 2^23: rounded to an integer
    const float r = fused(n, 0x1.05c610p-29f, fused(n, -0x1.62e430p-1f, x));
    float p = 0x1.9f0816p-13f;
    p = fused(p, r, 0x1.6d8db2p-10f);
    p = fused(p, r, 0x1.111272p-7f);
    p = fused(p, r, 0x1.55548ep-5f);
    p = fused(p, r, 0x1.555554p-3f);
    p = fused(p, r, 0.5f);
    p = fused(p, r, 1.0f);
    return scaled(fused(p, r, 1.0f), whole(n));
  }
};

/// ExpF over a stretch. The loop above has its steps one by one for any instruction set; AVX-512 has an instruction for
/// the last ones (VSCALEFPS: p * 2^n, rounded once).
#if defined(__AVX512F__)
/// `count` vectors step by step together: each step waits for the one before.
template <int count>
TESSERA_INLINED void exponential(__m512 (&x)[count]) {
  const auto c = [](float v) __attribute__((always_inline)) { return _mm512_set1_ps(v); };
  const auto each = [](auto step) __attribute__((always_inline)) {
    for (int i = 0; i < count; ++i) step(i);
  };
  __m512 k[count], p[count];
  each([&](int i) { x[i] = _mm512_max_ps(c(-104.0f), x[i]); });  // the second operand where one is NaN
  each([&](int i) { x[i] = _mm512_min_ps(c(89.0f), x[i]); });
  each([&](int i) { k[i] = _mm512_fmadd_ps(x[i], c(0x1.715476p+0f), c(0x1.8p23f)); });
  each([&](int i) { k[i] = _mm512_sub_ps(k[i], c(0x1.8p23f)); });
  each([&](int i) { x[i] = _mm512_fmadd_ps(k[i], c(-0x1.62e430p-1f), x[i]); });
  each([&](int i) { x[i] = _mm512_fmadd_ps(k[i], c(0x1.05c610p-29f), x[i]); });
  each([&](int i) { p[i] = _mm512_fmadd_ps(c(0x1.9f0816p-13f), x[i], c(0x1.6d8db2p-10f)); });
  each([&](int i) { p[i] = _mm512_fmadd_ps(p[i], x[i], c(0x1.111272p-7f)); });
  each([&](int i) { p[i] = _mm512_fmadd_ps(p[i], x[i], c(0x1.55548ep-5f)); });
  each([&](int i) { p[i] = _mm512_fmadd_ps(p[i], x[i], c(0x1.555554p-3f)); });
  each([&](int i) { p[i] = _mm512_fmadd_ps(p[i], x[i], c(0.5f)); });
  each([&](int i) { p[i] = _mm512_fmadd_ps(p[i], x[i], c(1.0f)); });
  each([&](int i) { p[i] = _mm512_fmadd_ps(p[i], x[i], c(1.0f)); });
  each([&](int i) { x[i] = _mm512_scalef_ps(p[i], k[i]); });
}
#endif
TESSERA_INLINED void exponential(float* out, const float* a, i64 n) {
#if defined(__AVX512F__)
  constexpr i64 lanes = 16, together = 4;
  i64 at = 0;
  for (; at + lanes * together <= n; at += lanes * together) {
    __m512 x[together];
    for (i64 i = 0; i < together; ++i) x[i] = _mm512_loadu_ps(a + at + lanes * i);
    exponential(x);
    for (i64 i = 0; i < together; ++i) _mm512_storeu_ps(out + at + lanes * i, x[i]);
  }
  for (; at < n; at += lanes) {
    const auto mask = static_cast<__mmask16>(n - at >= lanes ? 0xFFFF : (1 << (n - at)) - 1);
    __m512 x[1] = {_mm512_maskz_loadu_ps(mask, a + at)};
    exponential(x);
    _mm512_mask_storeu_ps(out + at, mask, x[0]);
  }
#else
  TESSERA_INDEPENDENT
  for (i64 i = 0; i < n; ++i) out[i] = ExpF::apply(a[i]);
#endif
}
template <bool ftz>
struct Exp2F {
  static TESSERA_INLINED float apply(float value) {
    const float x = clamped(flush<ftz>(value), -151.0f, 129.0f);
    const float n = __builtin_rintf(x), r = x - n;
    float p = 0x1.fde5f8p-17f;
    p = fused(p, r, 0x1.445c84p-13f);
    p = fused(p, r, 0x1.5d8a86p-10f);
    p = fused(p, r, 0x1.3b29f4p-7f);
    p = fused(p, r, 0x1.c6b08ap-5f);
    p = fused(p, r, 0x1.ebfbe0p-3f);
    p = fused(p, r, 0x1.62e430p-1f);
    return flush<ftz>(scaled(fused(p, r, 1.0f), whole(n)));
  }
};

/// x = 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
struct Decomposed {
  float exponent, f;
};
TESSERA_INLINED Decomposed decompose(float x) {
  const bool denormal = x < 0x1p-126f;
  const float normal = denormal ? x * 0x1p25f : x;
  const std::int32_t bits = bits_as<std::int32_t>(normal) - 0x3F3504F3;
  const float m = bits_as<float>((bits & 0x007FFFFF) + 0x3F3504F3);
  return {static_cast<float>((bits >> 23) - (denormal ? 25 : 0)), m - 1.0f};
}
/// What log and log2 give where x is not a positive finite number.
TESSERA_INLINED float log_special(float x, float r) {
  const float infinity = bits_as<float>(0x7F800000u), nan = bits_as<float>(0x7FC00000u);
  r = x == infinity ? infinity : r;
  r = x == 0.0f ? -infinity : r;
  return x >= 0.0f ? r : nan;
}

struct LogF {
  static TESSERA_INLINED float apply(float x) {
    const auto [e, f] = decompose(x);
    float p = -0x1.383d66p-4f;
    p = fused(p, f, 0x1.08640ap-3f);
    p = fused(p, f, -0x1.0f4228p-3f);
    p = fused(p, f, 0x1.226e16p-3f);
    p = fused(p, f, -0x1.5425ccp-3f);
    p = fused(p, f, 0x1.99a414p-3f);
    p = fused(p, f, -0x1.000430p-2f);
    p = fused(p, f, 0x1.555550p-2f);
    p = fused(p, f, -0x1.fffff8p-2f);
    const float small = fused(f * f, p, e * -0x1.bd0106p-13f);  // ln 2 = 0x1.63p-1 (exact times e) + the rest
    return log_special(x, fused(e, 0x1.63p-1f, f + small));
  }
};

struct Log2F {
  static TESSERA_INLINED float apply(float x) {
    const auto [e, f] = decompose(x);
    float p = 0x1.8d6560p-4f;
    p = fused(p, f, -0x1.591a36p-3f);
    p = fused(p, f, 0x1.5fb200p-3f);
    p = fused(p, f, -0x1.6e943ep-3f);
    p = fused(p, f, 0x1.a4123ep-3f);
    p = fused(p, f, -0x1.ec786ap-3f);
    p = fused(p, f, 0x1.277f3ap-2f);
    p = fused(p, f, -0x1.715490p-2f);
    p = fused(p, f, 0x1.ec7088p-2f);
    p = fused(p, f, -0x1.715476p-1f);
    const float low = f * fused(p, f, 0x1.4ae0c0p-26f);  // log2(e) = 0x1.715476p+0 + 0x1.4ae0cp-26
    return log_special(x, e + fused(f, 0x1.715476p+0f, low));
  }
};

struct TanhF {
  static TESSERA_INLINED float apply(float x) {
    const float a = __builtin_fabsf(x), u = x * x;
    float p = 0x1.124ffep-9f;
    p = fused(p, u, -0x1.0a2d78p-7f);
    p = fused(p, u, 0x1.633042p-6f);
    p = fused(p, u, -0x1.b9e65ep-5f);
    p = fused(p, u, 0x1.11103ep-3f);
    p = fused(p, u, -0x1.555554p-2f);
    const float small = fused(x * u, p, x);
    const float large = 1.0f - 2.0f / (ExpF::apply(a > 10.0f ? 20.0f : a + a) + 1.0f);
    const float r = a < 0.625f ? small : large;
    const float with_sign = bits_as<float>(bits_as<std::uint32_t>(r) | (bits_as<std::uint32_t>(x) & 0x80000000u));
    return x != x ? x : with_sign;  // the sign: also of -0
  }
};

/// The quotient of two rounded steps, corrected by half its residual 1 - x y^2.
template <bool ftz>
struct RsqrtF {
  static TESSERA_INLINED float apply(float value) {
    const float x = flush<ftz>(value), y = 1.0f / __builtin_sqrtf(x);
    const float high = x * y, low = fused(x, y, -high);
    const float residual = fused(-high, y, 1.0f) - low * y;  // NaN for 0 and infinity
    return flush<ftz>(residual == residual ? fused(y, 0.5f * residual, y) : y);
  }
};

// ---- in double: what cancels, or needs more than 24 bits on the way.

/// e^x for |x| <= 700, relative error below 2^-37 (Taylor, |r| <= ln(2) / 2).
TESSERA_INLINED double exp_in_double(double x) {
  const double n = __builtin_rint(x * 0x1.71547652b82fep+0);
  const double r = fused(n, -0x1.62e42fefa39efp-1, x);
  double p = 1.0 / 3628800;
  p = fused(p, r, 1.0 / 362880);
  p = fused(p, r, 1.0 / 40320);
  p = fused(p, r, 1.0 / 5040);
  p = fused(p, r, 1.0 / 720);
  p = fused(p, r, 1.0 / 120);
  p = fused(p, r, 1.0 / 24);
  p = fused(p, r, 1.0 / 6);
  p = fused(p, r, 0.5);
  p = fused(p, r, 1.0);
  return fused(p, r, 1.0) * power2d(whole(n));
}

struct CoshF {
  static TESSERA_INLINED float apply(float x) {
    const double e = exp_in_double(clamped(static_cast<double>(x), -200.0, 200.0));
    return static_cast<float>(0.5 * (e + 1.0 / e));
  }
};
struct SinhF {
  static TESSERA_INLINED float apply(float value) {
    const double x = value, u = x * x;
    const double e = exp_in_double(clamped(x, -200.0, 200.0));
    double p = 1.0 / 39916800;
    p = fused(p, u, 1.0 / 362880);
    p = fused(p, u, 1.0 / 5040);
    p = fused(p, u, 1.0 / 120);
    p = fused(p, u, 1.0 / 6);
    const double small = fused(x * u, p, x);
    return static_cast<float>(u < 1.0 ? small : 0.5 * (e - 1.0 / e));
  }
};

/// log2 of a positive double, relative error below 2^-44: atanh series in s = (m - 1) / (m + 1), |s| <= 0.1716.
TESSERA_INLINED double log2_in_double(double x) {
  const std::int64_t bits = bits_as<std::int64_t>(x) - 0x3FE6A09E667F3BCD;
  const double m = bits_as<double>((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD);
  const double e = static_cast<double>(static_cast<std::int32_t>(bits >> 52));
  const double s = (m - 1.0) / (m + 1.0), u = s * s;
  double p = 1.0 / 17;
  p = fused(p, u, 1.0 / 15);
  p = fused(p, u, 1.0 / 13);
  p = fused(p, u, 1.0 / 11);
  p = fused(p, u, 1.0 / 9);
  p = fused(p, u, 1.0 / 7);
  p = fused(p, u, 1.0 / 5);
  p = fused(p, u, 1.0 / 3);
  p = fused(p, u, 1.0);
  return fused(2.0 * s * p, 0x1.71547652b82fep+0, e);
}

struct PowF {
  static TESSERA_INLINED float apply(float value, float exponent) {
    const double infinity = __builtin_inf();
    const double x = value, y = exponent, a = __builtin_fabs(x);
    double l = log2_in_double(a);
    l = a == 0.0 ? -infinity : a == infinity ? infinity : l;
    const double p = clamped(y * l, -300.0, 300.0);
    const double magnitude = exp_in_double(p * 0x1.62e42fefa39efp-1);
    const bool integer = __builtin_rint(y) == y;
    const double half = 0.5 * y;
    const bool odd = integer & (__builtin_rint(half) != half);
    const std::uint64_t sign = bits_as<std::uint64_t>(x) & (odd ? std::uint64_t{1} << 63 : 0);
    double r = bits_as<double>(bits_as<std::uint64_t>(magnitude) | sign);
    const bool undefined = (x < 0.0) & (a < infinity) & !integer;
    r = undefined ? bits_as<double>(std::uint64_t{0x7FF8} << 48) : r;
    const double sum = x + y;
    const bool nan = (x != x) | (y != y);
    r = nan ? sum : r;
    const bool turning = (x == -1.0) & (__builtin_fabs(y) == infinity);
    r = turning ? 1.0 : r;
    r = x == 1.0 ? 1.0 : r;
    r = y == 0.0 ? 1.0 : r;
    return static_cast<float>(r);
  }
};

enum class Trig { Sin, Cos, Tan };

/// |x| up to 2^27: reduced by multiples of pi/2 in two parts, Taylor on [-pi/4, pi/4].
template <Trig which>
struct TrigF {
  static constexpr float limit = 0x1p27f;

  static TESSERA_INLINED float apply(float value) {
    const double x = value, n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
    const double r = fused(n, -0x1.1a62633145c07p-54, fused(n, -0x1.921fb54442d18p+0, x)), u = r * r;
    double s = -1.0 / 39916800;
    s = fused(s, u, 1.0 / 362880);
    s = fused(s, u, -1.0 / 5040);
    s = fused(s, u, 1.0 / 120);
    s = fused(s, u, -1.0 / 6);
    const double sine = fused(r * u, s, r);
    double c = 1.0 / 479001600;
    c = fused(c, u, -1.0 / 3628800);
    c = fused(c, u, 1.0 / 40320);
    c = fused(c, u, -1.0 / 720);
    c = fused(c, u, 1.0 / 24);
    c = fused(c, u, -0.5);
    const double cosine = fused(c, u, 1.0);
    const std::int32_t quadrant = whole(n < 0x1p30 ? n : 0x1p30) + (which == Trig::Cos ? 1 : 0);
    const bool swapped = (quadrant & 1) != 0;
    double result = 0;
    if constexpr (which == Trig::Tan) {
      result = swapped ? -cosine / sine : sine / cosine;
    } else {
      const double picked = swapped ? cosine : sine;
      result = (quadrant & 2) != 0 ? -picked : picked;
    }
    if constexpr (which == Trig::Cos) return static_cast<float>(result);
    return value == 0.0f ? value : static_cast<float>(result);  // -0 stays
  }
  static float apply_large(float x) {
    if constexpr (which == Trig::Sin) return static_cast<float>(__builtin_sin(x));
    if constexpr (which == Trig::Cos) return static_cast<float>(__builtin_cos(x));
    return static_cast<float>(__builtin_tan(x));
  }
};

/// The few elements beyond the reduction's range are computed again by the C library.
template <Trig which>
void trigonometric(float* out, const float* a, i64 n) {
  using F = TrigF<which>;
  alignas(64) float x[kUniformCopies];
  std::int32_t any = 0;
  for (i64 i = 0; i < n; ++i) {
    x[i] = a[i];
    any |= !(__builtin_fabsf(x[i]) <= F::limit);
  }
  TESSERA_INDEPENDENT
  for (i64 i = 0; i < n; ++i) out[i] = F::apply(x[i]);
  if (any == 0) return;
  for (i64 i = 0; i < n; ++i)
    if (!(__builtin_fabsf(x[i]) <= F::limit)) out[i] = F::apply_large(x[i]);
}

struct RsqrtD {
  static double apply(double x) { return 1.0 / __builtin_sqrt(x); }
};

template <class F>
Loop unary() {
  return {loop<F, float, float>};
}
template <Trig which>
void trigonometric_loop(void* out, const void* a, const void*, const void*, i64 n) {
  trigonometric<which>(static_cast<float*>(out), static_cast<const float*>(a), n);
}
inline void exponential_loop(void* out, const void* a, const void*, const void*, i64 n) {
  exponential(static_cast<float*>(out), static_cast<const float*>(a), n);
}

inline Loop elementary_of(const ElementOp& op) {
  const bool ftz = op.flush_to_zero;
  switch (op.op) {
    case Op::Exp: return {exponential_loop};
    case Op::Exp2: return ftz ? unary<Exp2F<true>>() : unary<Exp2F<false>>();
    case Op::Log: return unary<LogF>();
    case Op::Log2: return unary<Log2F>();
    case Op::TanH: return unary<TanhF>();
    case Op::CosH: return unary<CoshF>();
    case Op::SinH: return unary<SinhF>();
    case Op::Rsqrt: return ftz ? unary<RsqrtF<true>>() : unary<RsqrtF<false>>();
    case Op::Sin: return {.loop = trigonometric_loop<Trig::Sin>, .any_length = false};
    case Op::Cos: return {.loop = trigonometric_loop<Trig::Cos>, .any_length = false};
    case Op::Tan: return {.loop = trigonometric_loop<Trig::Tan>, .any_length = false};
    case Op::Pow: return {loop<PowF, float, float, float>};
    default: return {};
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
