// Orders of the rows and columns of a product's operand in which what a thread of mma holds are neighbours in memory.
// Operands of 8 bits are then read by words, not by one or two bytes. (Operands of 16 bits have instructions for it.)
#pragma once
#include "tessera/lang/lang.hpp"

namespace tessera::kernels {

/// The columns in another order, as both operands of a product may have theirs. A thread of mma holds four numbers of
/// each 16 columns, two of them in either half (PTX, mma.m16n8k16 and wgmma.m64nNk16, operand A). In this order a
/// thread's numbers are neighbours in memory.
template <class T, int R, int K>
Tile<T, R, K> in_mma_order(const Tile<T, R, K>& tile) {
  constexpr int kThreads = 4, kHalves = 2, kPair = 2, kColumns = kThreads * kHalves * kPair;
  auto parts = reshape(tile, shape<R, kThreads, K / kColumns, kHalves, kPair>);
  return reshape(permute(parts, order<0, 2, 3, 1, 4>), shape<R, K>);
}

/// The columns of a tile whose transpose is operand A, in another order: the rows of the product have it, too. Of each
/// 64 rows a warp of a warpgroup has 16, and a thread two of these, eight rows apart (PTX, wgmma.m64nNk16, operand A).
/// In this order the rows of a thread are neighbours in memory.
template <class T, int R, int D>
Tile<T, R, D> in_row_order(const Tile<T, R, D>& tile) {
  constexpr int kWarps = 4, kThreads = 8, kHalves = 2, kRows = kWarps * kThreads * kHalves;
  static_assert(D % kRows == 0);
  auto parts = reshape(tile, shape<R, kWarps, kThreads, D / kRows, kHalves>);
  return reshape(permute(parts, order<0, 3, 1, 4, 2>), shape<R, D>);
}
/// The inverse, for columns that are rows of such a product.
template <class T, int R, int D>
Tile<T, R, D> from_row_order(const Tile<T, R, D>& tile) {
  constexpr int kWarps = 4, kThreads = 8, kHalves = 2, kRows = kWarps * kThreads * kHalves;
  auto parts = reshape(tile, shape<R, D / kRows, kWarps, kHalves, kThreads>);
  return reshape(permute(parts, order<0, 2, 4, 1, 3>), shape<R, D>);
}

}  // namespace tessera::kernels
