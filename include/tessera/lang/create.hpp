// Creating tiles: constants and iota.
#pragma once
#include "tessera/lang/math.hpp"

namespace tessera {

namespace detail {
/// The user's line. Not a SourceLocation: zeros<f32>({0}) is a host tensor, and {0} would initialise one.
struct CallSite {
  SourceLocation loc;
  constexpr CallSite(SourceLocation where) : loc(where) {}  // NOLINT(google-explicit-constructor)
};
}  // namespace detail

/// All elements equal `value`, a host number.
template <class T, int... D, detail::HostNumber S>
Tile<T, D...> full(S value, detail::CallSite at = SourceLocation::current()) {
  if constexpr (detail::Literal<T, S>::ok)
    return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, value, at.loc));
  else
    return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 0));
}
/// All elements equal a scalar of the kernel.
template <class T, int... D, class U>
Tile<T, D...> full(const Tile<U>& value, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::SameElement<T, U>::ok)
    return Tile<T, D...>(lang::broadcast(value.value(), Tile<T, D...>::spec, loc));
  else
    return Tile<T, D...>(value.value());
}
template <class T, int... D>
Tile<T, D...> zeros(detail::CallSite at = SourceLocation::current()) {
  return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 0, at.loc));
}
template <class T, int... D>
Tile<T, D...> ones(detail::CallSite at = SourceLocation::current()) {
  return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 1, at.loc));
}

namespace detail {

template <class T, class S, int A>
struct Counting {
  static_assert(is_integer<T>, "iota makes tiles of integers: convert with cast<f32>(iota<i32, ...>(axis<0>))");
  static_assert(A >= 0 && A < S::rank, "iota: the axis is not one of the tile's axes (axis<0> is the outermost)");
  static constexpr int bits = 8 * sizeof(T) - (element_class<T> == ElementClass::Signed ? 1 : 0);
  static constexpr bool fits = bits >= 31 || extent<S>(A) <= (1 << (bits < 31 ? bits : 0));
  static_assert(!is_integer<T> || fits, "iota: the element type cannot count that far; count in i32");
  static constexpr bool ok = is_integer<T> && A >= 0 && A < S::rank && fits;
};

}  // namespace detail

/// 0, 1, 2, ... along one axis, the same along the others: `iota<i32, BM, 1>(axis<0>)`.
template <class T, int... D, int A>
Tile<T, D...> iota(Axis<A>, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::Counting<T, Shape<D...>, A>::ok)
    return Tile<T, D...>(lang::iota(Tile<T, D...>::spec, A, loc));
  else
    return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 0));
}
template <class T, int N>
Tile<T, N> iota(SourceLocation loc = SourceLocation::current()) {
  return iota<T, N>(axis<0>, loc);
}

}  // namespace tessera
