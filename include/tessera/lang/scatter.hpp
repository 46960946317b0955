// The arguments of a scatter into a block's own piece, checked while compiling.
#pragma once
#include "tessera/lang/gather.hpp"

namespace tessera::detail {

/// The most indices of one scatter. Every index is compared with the later ones, so that the last of equal indices
/// wins; the assembler's time grows with the square (tileiras 13.5, sm_90: 1 s for 256 indices, 12 s for 1024, minutes
/// for 4096).
inline constexpr long long kScatteredIndices = 1024;

/// The scattered values: a tile or a number, of the tensor's element type.
template <class T, class V>
struct ScatterValueCheck {
  static_assert(!is_tile<V> || std::is_same_v<T, typename ElementOfTile<V>::type>,
                "scatter: the values' element type differs from the tensor's: convert them with cast<T>(tile)");
  static constexpr bool ok = !is_tile<V> || std::is_same_v<T, typename ElementOfTile<V>::type>;
};

template <long long Indices>
struct ScatterSizeCheck {
  static constexpr bool ok = Indices <= kScatteredIndices;
  static_assert(ok, "a scatter takes at most 1024 indices at once, which are compared with each other: scatter parts");
};

/// scatter(axis<k>, index, values) into a piece of D....
template <int K, class T, class Index, class Values, int... D>
struct ScatterSlicesCheck {
  static constexpr bool axis_ok = K >= 0 && K < static_cast<int>(sizeof...(D));
  static constexpr int length = LineOf<typename ShapeOf<Index>::type>::length;
  using Expected = typename GatherShape<K, length == 0 ? 1 : length, D...>::type;
  static constexpr bool index_ok = is_position<Index> && length > 0;
  static constexpr bool shape_ok = is_tile<Values> && std::is_same_v<typename ShapeOf<Values>::type, Expected>;
  static_assert(axis_ok, "scatter(axis<k>, index, values): the piece has no such axis");
  static_assert(is_position<Index>, "scatter(axis<k>, index, values): the index must be a tile of integers");
  static_assert(length > 0, "scatter(axis<k>, index, values): the index tile may have one axis longer than 1 only");
  static_assert(!axis_ok || !index_ok || shape_ok,
                "scatter(axis<k>, index, values): the values must be a tile of the piece's shape, with one slice per "
                "index along axis k");
  static constexpr bool ok =
      axis_ok && index_ok && shape_ok && ScatterValueCheck<T, Values>::ok && ScatterSizeCheck<length>::ok;
};

/// The shape of scatter(i, j, ..., values): the one that indices and values broadcast to.
template <class Common>
struct ScatterShapeCheck {
  static_assert(!std::is_void_v<Common>, "scatter: the index tiles and the values must broadcast to one shape");
  static constexpr bool ok = false;
};
template <int... D>
struct ScatterShapeCheck<Shape<D...>> {
  static constexpr bool ok = ScatterSizeCheck<Shape<D...>::size>::ok;
};

/// One argument of scatter(i, j, ..., values): a position, or the values of a tensor of T.
template <class T, bool IsValue, class X>
struct ScatterArgument {
  static constexpr bool ok = PositionCheck<X>::ok;
  static ir::Value get(const X& x, SourceLocation loc) { return position(x, loc); }
};
template <class T, class X>
struct ScatterArgument<T, true, X> {
  static constexpr bool ok = ScatterValueCheck<T, X>::ok;
  static ir::Value get(const X& x, SourceLocation) {
    if constexpr (is_tile<X>)
      return x.value();
    else
      return Tile<T>(x).value();
  }
};

template <class X>
inline constexpr bool is_axis = false;
template <int A>
inline constexpr bool is_axis<Axis<A>> = true;

}  // namespace tessera::detail
