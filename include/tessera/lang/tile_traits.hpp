// Element type and shape of an argument that may be a tile or a host number.
#pragma once
#include <type_traits>

#include "tessera/lang/tile.hpp"

namespace tessera::detail {

template <class X>
inline constexpr bool is_tile = false;
template <class T, int... D>
inline constexpr bool is_tile<Tile<T, D...>> = true;

/// Element type of a tile; void for anything else.
template <class X>
struct ElementOfTile {
  using type = void;
};
template <class T, int... D>
struct ElementOfTile<Tile<T, D...>> {
  using type = T;
};

/// Shape of a tile; rank 0 for a host number.
template <class X>
struct ShapeOf {
  using type = Shape<>;
};
template <class T, int... D>
struct ShapeOf<Tile<T, D...>> {
  using type = Shape<D...>;
};

}  // namespace tessera::detail
