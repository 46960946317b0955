// Shared by kernels along the last axis: tensors of any rank as rows, and the lengths that decide between one tile per
// row and a loop over chunks.
#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// One tile per row is fastest between these lengths; larger tiles spill registers.
inline constexpr int kShortestTile = 64, kLongestTile = 16384;
/// Elements per chunk of longer rows.
inline constexpr int kRowChunk = 4096;
/// Short rows share a block of so many elements where there are many rows: a GPU starts about one block a clock.
inline constexpr int kShortestSharedRow = 32, kLongestSharedRow = 512, kSharedElements = 2048;
inline bool shares_block(std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t kManyRows = 4096;  // fewer leave SMs without a block
  return n <= kLongestSharedRow && rows >= kManyRows;
}
/// The extent of a piece that holds a row of any length; only parts of it (y.sub) are loaded and stored.
inline constexpr int kWholeRow = 1 << 30;

/// The least number of U.
template <class U>
inline constexpr U lowest =
    std::numeric_limits<U>::has_infinity ? -std::numeric_limits<U>::infinity() : std::numeric_limits<U>::lowest();

// Rows of odd length are not aligned, and a tile that is not aligned is loaded element by element. So the first pass
// over such a row reads the tiles of C elements of the flat tensor that the row touches, which are aligned to 16 bytes:
// whole tiles, and the remainder at the tensor's end, at most one tile of the last row.

/// The position of a row of n elements, at least 2 C, in those tiles.
template <int C>
class TouchedTiles {
 public:
  template <class T>
  TouchedTiles(const Scalar<i32>& row, const Scalar<i32>& n, const In<T, dyn>& whole)
      : start_(row * n), n_(n), whole_(whole.dim(0) / C) {}
  Scalar<i32> first() const { return start_ / C; }
  Scalar<i32> end() const { return (start_ + n_ - 1) / C + 1; }
  /// The whole tiles are those from first() to whole_end().
  Scalar<i32> whole_end() const { return min(end(), whole_); }
  Scalar<bool> has_rest() const { return end() > whole_; }
  /// `t` where the elements of tile c belong to the row, `other` elsewhere.
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

/// A matrix of rows without gaps as whole tiles of C elements and a remainder.
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

/// The chunk that odd rows are processed in: an eighth of their tile, or kRowChunk; 0 for rows that are not odd or
/// faster in one tile. One tile is slower for rows that need a tile of at least From elements and leave a third of it
/// empty, because a kernel also computes on the empty part after its reductions. Measurements: bench/notes/odd_rows.md.
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
/// Calls f(integral_constant) with the result of odd_row_chunk<From>.
template <int From, class F>
auto with_odd_row_chunk(int chunk, F&& f) {
  return with_extent<std::min(From / kPartsOfOddTile, kRowChunk), kRowChunk>(chunk, std::forward<F>(f));
}

/// A tensor as a matrix of its rows along the last axis. Throws ShapeError if it is not contiguous, unless it has two
/// axes.
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
/// One value per row of x, with the extents of x without its last axis ({1} for a single axis).
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
