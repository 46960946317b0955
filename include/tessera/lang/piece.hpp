// A block's exclusive piece of a mutable tensor: what Mut and the handles of MutTiles have in common.
#pragma once
#include <array>
#include <utility>

#include "tessera/lang/index.hpp"
#include "tessera/lang/pad.hpp"
#include "tessera/lang/tile_traits.hpp"

namespace tessera {

namespace detail {

/// Checks a stored tile: the facts stand in the instantiation's name.
template <class T, class U, class Piece, class Stored>
struct StoreCheck {
  static_assert(std::is_same_v<T, U>,
                "store: the tile's element type differs from the tensor's: convert it with cast<T>(tile)");
  static_assert(std::is_same_v<Piece, Stored>,
                "store: the tile's shape must be exactly the shape of the piece: reshape or broadcast the tile first");
  static constexpr bool ok = std::is_same_v<T, U> && std::is_same_v<Piece, Stored>;
};
/// True if X is a tile of T with exactly the shape of the piece; reports what is wrong otherwise.
template <class T, class PieceShape, class X>
constexpr bool store_ok() {
  if constexpr (is_tile<X>) {
    return StoreCheck<T, typename ElementOfTile<X>::type, PieceShape, typename ShapeOf<X>::type>::ok;
  } else {
    static_assert(
        never<X>,
        "store takes a tile of the piece's shape; use full<T, extents...>(value) to store one value everywhere");
    return false;
  }
}

}  // namespace detail

/// A piece seen as a grid of smaller tiles: y.sub(shape<16, 64>). Indices count inside the piece; accesses outside the
/// piece or outside the tensor read padding and store nothing.
template <Element T, class PieceShape, int... S>
class SubTiles;

template <Element T, int... P, int... S>
class SubTiles<T, Shape<P...>, S...> {
  static constexpr int kRank = sizeof...(S);
  static constexpr int kTile[] = {S...};
  static constexpr int kCount[] = {(P / S)...};

 public:
  explicit SubTiles(lang::PieceRef piece) : piece_(piece) {}

  /// Number of tiles of the whole piece along an axis; at the edge of the tensor some of them lie outside.
  static constexpr int count(detail::AxisOf<kRank> axis) { return kCount[axis.value]; }
  Tile<T, S...> load(detail::IndexFor<S>... index, SourceLocation loc = SourceLocation::current()) const {
    return load_padded(pad::zero, loc, index.value()...);
  }
  Tile<T, S...> load(detail::IndexFor<S>... index, detail::Padding<T> padding,
                     SourceLocation loc = SourceLocation::current()) const {
    return load_padded(padding, loc, index.value()...);
  }
  template <class X>
  void store(detail::IndexFor<S>... index, const X& tile, SourceLocation loc = SourceLocation::current()) {
    if constexpr (detail::store_ok<T, Shape<S...>, X>()) {
      const ir::Value at[] = {index.value()...};
      lang::store_sub(piece_, kTile, at, tile.value(), loc);
    }
  }

 private:
  template <class... V>
  Tile<T, S...> load_padded(const detail::Padding<T>& padding, SourceLocation loc, const V&... index) const {
    const ir::Value at[] = {index...};
    return Tile<T, S...>(lang::load_sub(piece_, kTile, at, padding.spec(), loc));
  }
  lang::PieceRef piece_;
};

template <Element T, int... D>
class Piece {
  static_assert(sizeof...(D) >= 1, "a piece has at least one axis: Mut<T, extents...>");
  static_assert((detail::is_power_of_two(D) && ...), "the extents of a piece must be powers of two: edges are clipped");

 public:
  using element = T;
  static constexpr int rank = sizeof...(D);
  static constexpr int extents[] = {D...};

  explicit Piece(lang::PieceRef piece) : piece_(piece) {}

  /// The piece's elements; outside the tensor the padding value.
  Tile<T, D...> load(detail::Padding<T> padding = pad::zero, SourceLocation loc = SourceLocation::current()) const {
    return Tile<T, D...>(lang::load_piece(piece_, padding.spec(), loc));
  }
  /// Writes the piece; what lies outside the tensor is not stored. Later loads of the piece see it.
  template <class X>
  void store(const X& tile, SourceLocation loc = SourceLocation::current()) {
    if constexpr (detail::store_ok<T, Shape<D...>, X>()) { lang::store_piece(piece_, tile.value(), loc); }
  }

  /// Which piece this is: its index in the grid of pieces, per axis.
  std::array<Tile<i32>, rank> index() const {
    return each([&](int a) { return lang::piece_index(piece_, a); }, std::make_integer_sequence<int, rank>{});
  }
  /// The piece's first element in the tensor, per axis.
  std::array<Tile<i32>, rank> origin() const {
    return each([&](int a) { return lang::piece_origin(piece_, a); }, std::make_integer_sequence<int, rank>{});
  }
  /// Row-major element offset of each element in the whole tensor (by its dimensions, whatever its strides).
  Tile<i64, D...> offsets(SourceLocation loc = SourceLocation::current()) const {
    return Tile<i64, D...>(lang::piece_offsets(piece_, loc));
  }
  /// Extent of the whole tensor.
  Tile<i32> dim(detail::AxisOf<rank> axis) const { return Tile<i32>(lang::piece_dim(piece_, axis.value)); }
  /// Number of pieces along an axis.
  Tile<i32> count(detail::AxisOf<rank> axis) const { return Tile<i32>(lang::piece_count(piece_, axis.value)); }

  /// The piece as a grid of smaller tiles, whose extents divide the piece's.
  template <int... S>
  SubTiles<T, Shape<D...>, S...> sub(Shape<S...>) const {
    static_assert(sizeof...(S) == sizeof...(D), "sub(shape<...>) needs one extent per axis of the piece");
    if constexpr (sizeof...(S) == sizeof...(D)) {
      static_assert(((detail::is_power_of_two(S) && S <= D) && ...),
                    "the extents of a sub-partition must be powers of two and no larger than those of the piece");
    }
    return SubTiles<T, Shape<D...>, S...>(piece_);
  }

  lang::PieceRef ref() const { return piece_; }

 private:
  template <class F, int... A>
  static std::array<Tile<i32>, rank> each(F f, std::integer_sequence<int, A...>) {
    return {Tile<i32>(f(A))...};
  }
  lang::PieceRef piece_;
};

}  // namespace tessera
