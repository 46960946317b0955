// What kernels along the last axis share: tensors of any rank as rows, and the lengths that decide between one tile a
// row and a walk in chunks.
#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

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

// Rows of odd length begin anywhere, and what begins anywhere is loaded an element at a time. So such rows are first
// walked in the tiles of C elements of the flat tensor that they touch, which begin where the hardware loads 16 bytes
// at once: whole tiles, and what is left at the tensor's end, at most one tile of the last row.

/// Where a row of n elements, at least 2 C, lies in those tiles.
template <int C>
class TouchedTiles {
 public:
  template <class T>
  TouchedTiles(const Scalar<i32>& row, const Scalar<i32>& n, const In<T, dyn>& whole)
      : start_(row * n), n_(n), whole_(whole.dim(0) / C) {}
  Scalar<i32> first() const { return start_ / C; }
  Scalar<i32> end() const { return (start_ + n_ - 1) / C + 1; }
  /// The whole ones are those from first() to whole_end().
  Scalar<i32> whole_end() const { return min(end(), whole_); }
  Scalar<bool> has_rest() const { return end() > whole_; }
  /// `t` where the elements of tile c are the row's, `other` elsewhere.
  template <class F>
  Tile<F, 1, C> own(const Tile<F, C>& t, const Scalar<i32>& c, F other) const {
    auto inside = cast<u32>(iota<i32, 1, C>(axis<1>) + (c * C - start_)) < cast<u32>(n_);
    return where(inside, reshape(t, shape<1, C>), other);
  }
  template <class F>
  Tile<F, 1, C> own_rest(const Tile<F, C>& t, F other) const {
    return own(t, whole_, other);
  }

 private:
  Scalar<i32> start_, n_, whole_;
};

/// A matrix of rows without gaps as whole tiles of C elements and the rest.
template <Element T>
struct FlatRows {
  View<T, 1> whole, rest;
  FlatRows(const View<T, 2>& rows, int tile, SourceLocation where)
      : FlatRows(tessera::reshape(rows, Dims<1>(rows.dim(0) * rows.dim(1), where), where), tile) {}

 private:
  FlatRows(const View<T, 1>& flat, std::int64_t tile)
      : whole(flat.template slice<0>(0, flat.dim(0) / tile * tile)),
        rest(flat.template slice<0>(flat.dim(0) / tile * tile, flat.dim(0))) {}
};

/// The tile that odd rows are walked in, an eighth of their own or kRowChunk; 0 for rows that are not odd or better in
/// one tile. Those that need a tile of at least From elements and leave a third of it empty are not: what a kernel
/// computes behind its reductions it computes of the empty part as well. (Timed on an H200 were rows of 4097, 5001 and
/// 9001, in one tile and in an eighth of it: layer norm 1.99 and 2.47, 2.34 and 2.60, 2.12 and 2.21 TB/s; softmax 2.71
/// and 2.47, 3.05 and 2.60, 2.46 and 2.63; RMS norm 3.05 and 3.02, 3.27 and 3.04, 2.82 and 2.71. Neither the third nor
/// the eighth is tuned.)
inline constexpr int kPartsOfOddTile = 8;
template <int From, Element T>
int odd_row_chunk(const View<T, 2>& rows) {
  constexpr std::int64_t kVector = 16 / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t n = rows.dim(1);
  const bool flat = rows.stride(1) == 1 && rows.stride(0) == n;
  if (n % kVector == 0 || !flat || rows.dim(0) >= std::numeric_limits<std::int32_t>::max() / n) return 0;
  if (n > kLongestTile) return kRowChunk;
  const auto tile = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  return 3 * n < 2 * tile && tile >= From ? static_cast<int>(tile / kPartsOfOddTile) : 0;
}
/// Calls f(integral_constant) with what odd_row_chunk<From> has answered.
template <int From, class F>
auto with_odd_row_chunk(int chunk, F&& f) {
  return with_extent<std::min(From / kPartsOfOddTile, kRowChunk), kRowChunk>(chunk, std::forward<F>(f));
}

/// A tensor as a matrix of its rows along the last axis. ShapeError if it has other than two axes and gaps.
template <Operand X>
View<element_of<X>, 2> rows_of(const X& x, SourceLocation where) {
  if constexpr (X::rank == 2) {
    return x.view(where);
  } else {
    std::int64_t rows = 1;
    for (int i = 0; i + 1 < X::rank; ++i) rows *= x.dim(i, where);
    return tessera::reshape(x.view(where), Dims<2>({rows, x.dim(X::rank - 1, where)}, where), where);
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
