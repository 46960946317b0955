// Which block this is, and how many there are.
#pragma once
#include <array>
#include <utility>

#include "tessera/lang/access.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

/// block_id<1>() is one index, the block's number, 0 to num_blocks() - 1; in kernels with a Mut it is that of the
/// block's piece (row-major). auto [i, j] = block_id<2>() gives coordinates in a grid of that rank; launches number
/// their blocks along one axis, so all but the first are 0. The place of a piece along each axis is y.index().
template <int R>
auto block_id() {
  static_assert(R >= 1 && R <= 3, "a grid has one to three axes: block_id<1>(), block_id<2>() or block_id<3>()");
  if constexpr (R == 1) {
    return Tile<i32>(lang::block_coordinate(0, 1));
  } else {
    return []<int... A>(std::integer_sequence<int, A...>) {
      return std::array<Tile<i32>, R>{Tile<i32>(lang::block_coordinate(A, R))...};
    }(std::make_integer_sequence<int, R>{});
  }
}

/// One index can be named like several: auto [i] = block_id<1>();
template <std::size_t N>
  requires(N == 0)
Tile<i32> get(const Tile<i32>& index) {
  return index;
}

/// Number of blocks of the launch.
inline Tile<i32> num_blocks() { return Tile<i32>(lang::block_total()); }

}  // namespace tessera

template <>
struct std::tuple_size<tessera::Tile<tessera::i32>> : std::integral_constant<std::size_t, 1> {};
template <>
struct std::tuple_element<0, tessera::Tile<tessera::i32>> {
  using type = tessera::Tile<tessera::i32>;
};
