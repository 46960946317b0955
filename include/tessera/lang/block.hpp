// Which block this is, and how many there are.
#pragma once
#include <array>
#include <utility>

#include "tessera/lang/access.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

namespace detail {
template <int... A>
std::array<Tile<i32>, sizeof...(A)> block_coordinates(std::integer_sequence<int, A...>) {
  return {Tile<i32>(lang::block_coordinate(A, static_cast<int>(sizeof...(A))))...};
}
}  // namespace detail

/// The block's coordinates in the launch's grid; block_id<1>() is its number, 0 to num_blocks() - 1. In kernels with a
/// Mut the number is that of the block's piece (row-major).
template <int R>
std::array<Tile<i32>, R> block_id() {
  static_assert(R >= 1 && R <= 3, "a grid has one to three axes: block_id<1>(), block_id<2>() or block_id<3>()");
  return detail::block_coordinates(std::make_integer_sequence<int, R>{});
}

/// Number of blocks of the launch.
inline Tile<i32> num_blocks() { return Tile<i32>(lang::block_total()); }

}  // namespace tessera
