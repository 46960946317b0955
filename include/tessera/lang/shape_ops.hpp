// Changing the shape of tiles: reshape, permute, transpose, broadcast, cat, extract. Elements are in row-major order.
#pragma once
#include <concepts>

#include "tessera/lang/math.hpp"

namespace tessera {
namespace detail {

template <class From, class To>
struct Reshape {
  static_assert(From::size == To::size, "reshape must keep the number of elements");
  static constexpr bool ok = From::size == To::size;
};
template <class From, class To>
struct Broadcast {
  static constexpr bool compute() {
    if (From::rank == 0) return true;
    if (From::rank != To::rank) return false;
    for (int i = 0; i < From::rank; ++i)
      if (From::extents[i] != To::extents[i] && From::extents[i] != 1) return false;
    return true;
  }
  static constexpr bool ok = compute();
  static_assert(ok, "broadcast: the ranks must agree and every extent must be kept, or be 1 in the source");
};
template <class S, class O>
struct Permutation {
  static constexpr bool ok = O::rank == S::rank && is_permutation<O>();
  static_assert(ok, "permute needs an order that names every axis of the tile once, as in order<1, 0>");
};
template <class S, int... O>
auto permuted(Order<O...>) -> Shape<extent<S>(O)...>;

template <int Rank, int A>
struct AxisCheck {
  static_assert(
      A >= 0 && A < Rank,
      "count the axes of a tile from axis<0>, the outermost, to axis<rank - 1>: this axis is not one of them");
  static constexpr bool ok = A >= 0 && A < Rank;
};
template <class A, class B, int Axis>
struct Concatenation {
  static constexpr bool compute() {
    if (A::rank != B::rank) return false;
    for (int i = 0; i < A::rank; ++i)
      if (i != Axis && A::extents[i] != B::extents[i]) return false;
    return true;
  }
  static constexpr bool shapes = compute();
  static constexpr bool power = is_power_of_two(extent<A>(Axis) + extent<B>(Axis));
  static_assert(shapes, "cat: the tiles must have the same extents along every other axis");
  static_assert(!shapes || power, "cat: the joint extent must be a power of two, so both tiles need the same extent");
  static constexpr bool ok = AxisCheck<A::rank, Axis>::ok && shapes && power;
};
template <class From, class To>
struct Extraction {
  static constexpr bool compute() {
    if (From::rank != To::rank) return false;
    for (int i = 0; i < From::rank; ++i)
      if (To::extents[i] > From::extents[i]) return false;
    return true;
  }
  static constexpr bool ok = compute();
  static_assert(ok, "extract: the slice must have the tile's rank and be no larger along any axis");
};
template <class X>
struct SliceIndex {
  static constexpr bool ok = is_host_integer<X>;
  static_assert(ok, "extract takes one index per axis: an int, or a Scalar<i32>");
};
template <>
struct SliceIndex<Tile<i32>> {
  static constexpr bool ok = true;
};
template <class X>
ir::Value slice_index(const X& x) {
  if constexpr (OperandOf<X>::is_tile)
    return x.value();
  else if constexpr (SliceIndex<X>::ok)
    return lang::splat(spec_of<i32, Shape<>>, x);
  else
    return {};
}

}  // namespace detail

template <class T, int... D, int... E>
Tile<T, E...> reshape(const Tile<T, D...>& x, Shape<E...>, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::Reshape<Shape<D...>, Shape<E...>>::ok)
    return Tile<T, E...>(lang::reshape(x.value(), Tile<T, E...>::spec, loc));
  else
    return Tile<T, E...>(x.value());
}

template <int First, int... E, class T, int... D>
Tile<T, First, E...> reshape(const Tile<T, D...>& x) {
  (void)sizeof(detail::ExplainShapeInBrackets<First, E...>);
  return Tile<T, First, E...>(x.value());
}

/// Axis k of the result is axis O[k] of `x`.
template <class T, int... D, int... O>
auto permute(const Tile<T, D...>& x, Order<O...> o, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::Permutation<Shape<D...>, Order<O...>>::ok) {
    using Result = detail::tile_of_t<T, decltype(detail::permuted<Shape<D...>>(o))>;
    return Result(lang::permute(x.value(), Result::spec, Order<O...>::values, loc));
  } else {
    return x;
  }
}

namespace detail {

template <int Rank, int... I>
constexpr auto swap_last(std::integer_sequence<int, I...>) {
  return Order<(I == Rank - 1 ? Rank - 2 : I == Rank - 2 ? Rank - 1 : I)...>{};
}
template <int Rank>
struct Transposable {
  static_assert(Rank >= 2, "transpose swaps the last two axes: the tile needs rank 2 or more");
  static constexpr bool ok = Rank >= 2;
};

}  // namespace detail

/// Swaps the last two axes.
template <class T, int... D>
auto transpose(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {
  constexpr int rank = sizeof...(D);
  if constexpr (detail::Transposable<rank>::ok)
    return permute(x, detail::swap_last<rank>(std::make_integer_sequence<int, rank>{}), loc);
  else
    return x;
}

/// Repeats along axes of extent 1; a scalar fills any shape.
template <class T, int... D, int... E>
Tile<T, E...> broadcast(const Tile<T, D...>& x, Shape<E...>, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::Broadcast<Shape<D...>, Shape<E...>>::ok)
    return Tile<T, E...>(lang::broadcast(x.value(), Tile<T, E...>::spec, loc));
  else
    return Tile<T, E...>(x.value());
}

template <int First, int... E, class T, int... D>
Tile<T, First, E...> broadcast(const Tile<T, D...>& x) {
  (void)sizeof(detail::ExplainShapeInBrackets<First, E...>);
  return Tile<T, First, E...>(x.value());
}

/// `a` then `b` along one axis.
template <class T, int... A, class U, int... B, int K>
auto cat(const Tile<T, A...>& a, const Tile<U, B...>& b, Axis<K>, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::SameElement<T, U>::ok && detail::Concatenation<Shape<A...>, Shape<B...>, K>::ok) {
    constexpr int joint = detail::extent<Shape<A...>>(K) + detail::extent<Shape<B...>>(K);
    using Result = detail::tile_of_t<T, detail::with_extent_t<Shape<A...>, K, joint>>;
    const ir::Value x = a.value();
    return Result(lang::concatenate(x, b.value(), Result::spec, K, loc));
  } else {
    return a;
  }
}

template <class T, int... A, class U, int... B, std::integral S>
auto cat(const Tile<T, A...>& a, const Tile<U, B...>&, S) {
  (void)sizeof(detail::ExplainAxisNumber<S>);
  return a;
}

/// The slice of a tile with the given slice index per axis (in units of the slice's extents). An index outside takes
/// the nearest slice.
template <class T, int... D, int... E, class... I>
  requires(sizeof...(I) == sizeof...(E))
Tile<T, E...> extract(const Tile<T, D...>& x, Shape<E...>, const I&... index) {
  const ir::Value source = x.value();
  if constexpr (detail::Extraction<Shape<D...>, Shape<E...>>::ok && (detail::SliceIndex<I>::ok && ...)) {
    const ir::Value indices[] = {detail::slice_index(index)..., ir::Value()};
    return Tile<T, E...>(lang::extract(source, Tile<T, E...>::spec, std::span(indices, sizeof...(I)), {}));
  } else {
    return Tile<T, E...>(source);
  }
}
template <class T, int... D, int... E, class... I>
  requires(sizeof...(I) != sizeof...(E))
Tile<T, E...> extract(const Tile<T, D...>& x, Shape<E...>, const I&...) {
  static_assert(detail::never<T>, "extract takes one slice index per axis: extract(x, shape<...>, i, j)");
  return Tile<T, E...>(x.value());
}

}  // namespace tessera
