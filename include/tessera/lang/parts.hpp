// Pieces with an extent that is no power of two, such as Mut<f16, 128, 160>. A tile has extents that are powers of two,
// so such a piece is made of sub-tiles: 160 = 128 + 32.
//
// With p pieces of n = 128 + 32 along an axis, the sub-tiles of 128 come first in the tensor, then those of 32:
//   | 128 of piece 0 | 128 of piece 1 | ... | 32 of piece 0 | 32 of piece 1 | ...
// Each sub-tile is a tile of an ordinary grid, and the sub-tiles of all pieces cover the tensor exactly once. Elements
// outside the tensor are clipped, as for any piece; a whole sub-tile may lie outside.
#pragma once
#include <bit>
#include <tuple>

#include "tessera/lang/piece.hpp"

namespace tessera {

namespace detail {

/// The extent of the first sub-tile, for n >= 1: the largest power of two in n.
constexpr int first_part(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }
constexpr int count_parts(int n) { return n <= 0 ? 0 : std::popcount(static_cast<unsigned>(n)); }
/// The extents of the sub-tiles, largest first: 160 gives 128 and 32.
constexpr int part_extent(int n, int number) {
  return number == 0 ? first_part(n) : part_extent(n - first_part(n), number - 1);
}
/// Powers of two, except at most one extent, which is made of two or three sub-tiles.
template <int... D>
inline constexpr bool extents_ok =
    ((D > 0 && count_parts(D) <= 3) && ...) && ((is_power_of_two(D) ? 0 : 1) + ... + 0) <= 1;

}  // namespace detail

/// A piece with one extent that is a sum of two or three powers of two.
template <Element T, int... D>
class JointPiece {
  static_assert(sizeof...(D) >= 1, "a piece has at least one axis: Mut<T, extents...>");
  static_assert(detail::extents_ok<D...>,
                "the extents of a piece must be powers of two, except one, which is a sum of two or three of them: "
                "edges are clipped");
  static constexpr int kParts = (1 + ... + (detail::count_parts(D) - 1));

 public:
  using element = T;
  static constexpr int rank = sizeof...(D);
  static constexpr int extents[] = {D...};

  /// The sub-tiles, largest first, each a Piece with extents that are powers of two: auto [wide, narrow] = y.parts();
  auto parts() const {
    return [&]<int... N>(std::integer_sequence<int, N...>) {
      return std::tuple(part<N>()...);
    }(std::make_integer_sequence<int, kParts>{});
  }

  /// The piece's index per axis, in the grid of pieces. Sub-tiles have their own indices, in grids of their extents.
  std::array<Tile<i32>, rank> index(SourceLocation loc = SourceLocation::current()) const {
    lang::Tracer::current(loc).at(loc);
    return [&]<int... A>(std::integer_sequence<int, A...>) {
      return std::array<Tile<i32>, rank>{Tile<i32>(lang::piece_index(piece_, A))...};
    }(std::make_integer_sequence<int, rank>{});
  }
  /// Extent of the whole tensor, and number of pieces, along an axis.
  Tile<i32> dim(detail::AxisOf<rank> axis) const { return Tile<i32>(lang::piece_dim(piece_, axis.value)); }
  Tile<i32> count(detail::AxisOf<rank> axis) const { return Tile<i32>(lang::piece_count(piece_, axis.value)); }

  template <class... A>
  void store(const A&...) const {
    static_assert(detail::never<A...>,
                  "this piece has an extent that is no power of two: store its sub-tiles, parts()");
  }
  template <class... A>
  Tile<T> load(const A&...) const {
    static_assert(detail::never<A...>, "this piece has an extent that is no power of two: load its sub-tiles, parts()");
    return *static_cast<Tile<T>*>(nullptr);
  }

 private:
  friend class lang::HandleAccess;
  template <Element, int...>
  friend class Mut;
  explicit JointPiece(lang::PieceRef piece) : piece_(piece) {}
  lang::PieceRef ref() const { return piece_; }

  template <int N>
  auto part() const {
    using Part = Piece<T, (detail::is_power_of_two(D) ? D : detail::part_extent(D, N))...>;
    return lang::HandleAccess::make<Part>(lang::piece_part(piece_, N));
  }
  lang::PieceRef piece_;
};

namespace detail {

template <bool Joint, class T, int... D>
struct PieceChoice {
  using type = Piece<T, D...>;
};
template <class T, int... D>
struct PieceChoice<true, T, D...> {
  using type = JointPiece<T, D...>;
};
/// The type of a block's piece: a Piece, or a JointPiece if its extents are not all powers of two.
template <class T, int... D>
using PieceOf = typename PieceChoice<!(is_power_of_two(D) && ...), T, D...>::type;

}  // namespace detail

}  // namespace tessera
