// Matrix multiply-accumulate on tiles.
#pragma once
#include "tessera/lang/math.hpp"

namespace tessera {

namespace detail {

template <class T>
struct AccumulatorOf {
  using type = f32;
};
template <>
struct AccumulatorOf<f64> {
  using type = f64;
};
template <>
struct AccumulatorOf<i8> {
  using type = i32;
};
template <>
struct AccumulatorOf<u8> {
  using type = i32;
};

template <class T>
inline constexpr bool is_fp8 = std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;
template <class T>
inline constexpr bool is_byte = std::is_same_v<T, i8> || std::is_same_v<T, u8>;

}  // namespace detail

/// The element type that `mma` accumulates in by default: f32 for floats of up to 32 bits, f64, i32 for 8-bit integers.
template <Element T>
using acc_t = typename detail::AccumulatorOf<T>::type;

/// Lets the device accumulate products of fp8 with fewer bits, which is faster on Hopper: mma(a, b, acc, fast_acc).
struct FastAccumulation {};
inline constexpr FastAccumulation fast_acc{};

namespace detail {

template <class A, class B>
struct MmaOperands {
  static constexpr bool known = is_number<A> ? is_float<A> || is_byte<A> : !std::is_same_v<A, bool>;
  static constexpr bool agree = std::is_same_v<A, B> || (is_byte<A> && is_byte<B>);
  static_assert(known, "mma(a, b, acc) multiplies f64 f32 tf32 f16 bf16 f8e4m3 f8e5m2 i8 u8: convert with cast");
  static_assert(!known || agree, "mma(a, b, acc): a and b must have one element type (i8 and u8 may be mixed)");
  static constexpr bool ok = known && agree;
};
template <class A, class C>
struct MmaAccumulator {
  static constexpr bool half = (std::is_same_v<A, f16> || is_fp8<A>)&&std::is_same_v<C, f16>;
  static constexpr bool ok = std::is_same_v<C, acc_t<A>> || half;
  static_assert(ok,
                "mma(a, b, acc): the accumulator's element type must be acc_t of the operands' (f32, f64 or i32; f16 "
                "also with f16 "
                "and fp8)");
};
template <class A, class B, class C>
struct MmaShapes {
  static constexpr int rank = C::rank;
  static constexpr bool ranks = (rank == 2 || rank == 3) && A::rank == rank && B::rank == rank;
  static constexpr int M = extent<A>(rank - 2), K = extent<A>(rank - 1), K2 = extent<B>(rank - 2),
                       N = extent<B>(rank - 1);
  static constexpr bool batch = rank == 2 || (extent<A>(0) == extent<B>(0) && extent<A>(0) == extent<C>(0));
  static constexpr bool result = M == extent<C>(rank - 2) && N == extent<C>(rank - 1);
  static_assert(ranks,
                "mma(a, b, acc) takes tiles of rank 2 (M x K, K x N, M x N), or rank 3 with one leading batch axis");
  static_assert(!ranks || K == K2,
                "mma(a, b, acc): a's columns must equal b's rows (a is M x K, b is K x N, acc is M x N)");
  static_assert(!ranks || result, "mma(a, b, acc): the accumulator must have a's rows and b's columns");
  static_assert(!ranks || batch, "mma(a, b, acc): the batch extents must agree");
  static constexpr bool ok = ranks && K == K2 && result && batch;
};

template <class X, int... A, class Y, int... B, class Z, int... C>
Tile<Z, C...> multiplied(const Tile<X, A...>& a, const Tile<Y, B...>& b, const Tile<Z, C...>& acc, bool fast,
                         SourceLocation loc) {
  if constexpr (MmaShapes<Shape<A...>, Shape<B...>, Shape<C...>>::ok && MmaOperands<X, Y>::ok) {
    if constexpr (MmaAccumulator<X, Z>::ok) {
      const ir::Value x = a.value(), y = b.value();
      return Tile<Z, C...>(lang::multiply_accumulate(x, y, acc.value(), element_type<X>, element_type<Y>, fast, loc));
    } else {
      return acc;
    }
  } else {
    return acc;
  }
}

}  // namespace detail

/// acc + a * b: matrices of M x K, K x N and M x N, with one common leading batch axis or none. f32 operands are
/// multiplied as f32.
template <class X, int... A, class Y, int... B, class Z, int... C>
Tile<Z, C...> mma(const Tile<X, A...>& a, const Tile<Y, B...>& b, const Tile<Z, C...>& acc,
                  SourceLocation loc = SourceLocation::current()) {
  return detail::multiplied(a, b, acc, false, loc);
}
template <class X, int... A, class Y, int... B, class Z, int... C>
Tile<Z, C...> mma(const Tile<X, A...>& a, const Tile<Y, B...>& b, const Tile<Z, C...>& acc, FastAccumulation,
                  SourceLocation loc = SourceLocation::current()) {
  static_assert(detail::is_fp8<X>, "fast_acc is for operands of f8e4m3 and f8e5m2");
  return detail::multiplied(a, b, acc, true, loc);
}

}  // namespace tessera
