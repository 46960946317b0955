// Index arguments of gathers, scatters and accumulations: integer tiles that broadcast to each other, and the resulting
// shapes.
#pragma once
#include <type_traits>

#include "tessera/lang/index.hpp"
#include "tessera/lang/tile_traits.hpp"

namespace tessera::detail {

/// Shapes of equal rank broadcast where one side is 1; rank 0 fits anything; void if they do not fit.
template <class A, class B>
struct Joint {
  using type = void;
};
template <int... A, int... B>
  requires(sizeof...(A) == sizeof...(B) && ((A == B || A == 1 || B == 1) && ...))
struct Joint<Shape<A...>, Shape<B...>> {
  using type = Shape<(A > B ? A : B)...>;
};
template <int... A>
  requires(sizeof...(A) > 0)
struct Joint<Shape<A...>, Shape<>> {
  using type = Shape<A...>;
};
template <int... B>
  requires(sizeof...(B) > 0)
struct Joint<Shape<>, Shape<B...>> {
  using type = Shape<B...>;
};
template <class B>
struct Joint<void, B> {
  using type = void;
};

/// The common shape of any number of shapes; void if they do not fit.
template <class First, class... Rest>
struct JointOf {
  using type = First;
};
template <class First, class Second, class... Rest>
struct JointOf<First, Second, Rest...> : JointOf<typename Joint<First, Second>::type, Rest...> {};

template <class X>
inline constexpr bool is_position = is_host_integer<X>;
template <class T, int... D>
inline constexpr bool is_position<Tile<T, D...>> =
    element_class<T> == ElementClass::Signed || element_class<T> == ElementClass::Unsigned;

template <class X>
struct PositionCheck {
  static_assert(is_position<X>, "an index must be an integer or a tile of integers");
  static constexpr bool ok = is_position<X>;
};

/// An index widened to a position: i32 or i64.
template <class T, int... D>
ir::Value position(const Tile<T, D...>& index, SourceLocation) {
  return lang::as_position(index.value(), element_class<T> == ElementClass::Signed);
}
template <class I>
  requires(is_host_integer<I>)
ir::Value position(I index, SourceLocation loc) {
  return Index(index, loc).value();
}

template <class S>
struct IntsOf;
template <int... D>
struct IntsOf<Shape<D...>> : Ints<D...> {
  static constexpr lang::Extents span() { return {Ints<D...>::values, sizeof...(D)}; }
  template <class T>
  using tile = Tile<T, D...>;
};

/// The number of elements of a tile that has at most one extent other than 1; 0 for other tiles.
template <class S>
struct LineOf;
template <int... D>
struct LineOf<Shape<D...>> {
  static constexpr int length = ((D > 1 ? 1 : 0) + ... + 0) <= 1 ? (1 * ... * D) : 0;
};

/// The result shape of gathering along axis K: the index's length along K, the whole static extent along the others.
template <int K, int N, int... E>
struct GatherShape {
  template <int... I>
  static auto make(std::integer_sequence<int, I...>) -> Shape<(I == K ? N : E)...>;
  using type = decltype(make(std::make_integer_sequence<int, sizeof...(E)>{}));
  template <int... I>
  static constexpr bool others_static(std::integer_sequence<int, I...>) {
    return ((I == K || is_power_of_two(E)) && ...);
  }
};
template <int K, class Index, int... E>
struct GatherCheck {
  static constexpr bool axis_ok = K >= 0 && K < static_cast<int>(sizeof...(E));
  static constexpr bool line_ok = LineOf<typename ShapeOf<Index>::type>::length > 0;
  static constexpr bool static_ok =
      GatherShape<K, 1, E...>::others_static(std::make_integer_sequence<int, sizeof...(E)>{});
  static_assert(axis_ok, "gather(axis<k>, index): the tensor has no such axis");
  static_assert(is_position<Index>, "gather(axis<k>, index): the index must be a tile of integers");
  static_assert(line_ok, "gather(axis<k>, index): the index tile may have one axis longer than 1 only");
  static_assert(
      static_ok,
      "gather(axis<k>, index) takes whole slices: the other axes of the tensor need static extents that are powers of "
      "two, as in In<T, dyn, 64>");
  static constexpr bool ok = axis_ok && is_position<Index> && line_ok && static_ok;
};

}  // namespace tessera::detail
