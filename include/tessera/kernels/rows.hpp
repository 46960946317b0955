// What kernels along the last axis share: tensors of any rank as rows, and the lengths that decide between one tile a
// row and a walk in chunks.
#pragma once
#include <limits>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// One tile a row is best between these lengths (tileiras: rows of 512 to 16384 at 3.3 to 4.24 TB/s; a tile of 65536
/// spills its registers, 0.3).
inline constexpr int kShortestTile = 64, kLongestTile = 16384;
/// Elements of a chunk of longer rows.
inline constexpr int kRowChunk = 4096;
/// The extent of a piece that holds a row of any length; only parts of it (y.sub) are loaded and stored.
inline constexpr int kWholeRow = 1 << 30;

/// No number of U is less.
template <class U>
inline constexpr U lowest =
    std::numeric_limits<U>::has_infinity ? -std::numeric_limits<U>::infinity() : std::numeric_limits<U>::lowest();

/// A tensor as a matrix of its rows along the last axis. ShapeError if it has other than two axes and gaps.
template <Operand X>
View<element_of<X>, 2> rows_of(const X& x, SourceLocation where) {
  if constexpr (X::rank == 2) {
    return x.view(where);
  } else {
    std::int64_t rows = 1;
    for (int i = 0; i + 1 < X::rank; ++i) rows *= x.dim(i, where);
    return tessera::reshape(x.view(where), Dims<2>(rows, x.dim(X::rank - 1, where)), where);
  }
}
/// A matrix of rows_of(x) with the extents of x.
template <Element T, Operand X>
Op<Tensor<T, X::rank>> as_rank_of(Op<Tensor<T, 2>> op, const X& x, SourceLocation where) {
  if constexpr (X::rank == 2)
    return op;
  else
    return tessera::reshape(std::move(op), x.dims(where), where);
}
/// One value for each row of x, with the extents of x without its last axis ({1} for a single axis).
template <Element T, Operand X>
auto as_rows_of(Op<Tensor<T, 1>> op, const X& x, SourceLocation where) {
  constexpr int r = X::rank > 1 ? X::rank - 1 : 1;
  std::array<std::int64_t, r> d{1};
  for (int i = 0; i + 1 < X::rank; ++i) d[static_cast<std::size_t>(i)] = x.dim(i, where);
  if constexpr (r == 1)
    return op;
  else
    return tessera::reshape(std::move(op), Dims<r>::from(d, where), where);
}

}  // namespace tessera::kernels
