// Mut<T, extents...>: a kernel parameter, the block's own piece of a tensor that the launch owns or borrows
// exclusively. There is one block per piece.
//
// Piece is a block's exclusive piece of a mutable tensor: the common interface of Mut and the handles of MutTiles.
//
// JointPiece is one with an extent that is no power of two, such as that of Mut<f16, 128, 160>. A tile has extents that
// are powers of two, so such a piece is made of sub-tiles: 160 = 128 + 32.
//
// With p pieces of n = 128 + 32 along an axis, the sub-tiles of 128 come first in the tensor, then those of 32:
//   | 128 of piece 0 | 128 of piece 1 | ... | 32 of piece 0 | 32 of piece 1 | ...
// Each sub-tile is a tile of an ordinary grid, and the sub-tiles of all pieces cover the tensor exactly once. Elements
// outside the tensor are clipped, as for any piece; a whole sub-tile may lie outside.
#pragma once
#include <array>
#include <bit>
#include <tuple>
#include <utility>

#include "tessera/lang/gather.hpp"

namespace tessera {

namespace detail {

/// Checks a stored tile; the facts are in the instantiation's name.
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
        "store a tile of the piece's shape: full<T, extents...>(value) for one value everywhere, exp(t) where "
        "std::exp(t) gave a number of the host");
    return false;
  }
}

}  // namespace detail

/// A piece as a grid of sub-tiles: y.sub(shape<16, 64>). Indices count inside the piece; accesses outside the piece or
/// outside the tensor read padding and store nothing.
template <Element T, class PieceShape, int... S>
class SubTiles;

template <Element T, int... P, int... S>
class SubTiles<T, Shape<P...>, S...> {
  static constexpr int kRank = sizeof...(S);
  static constexpr int kTile[] = {S...};
  static constexpr int kCount[] = {(P / S)...};

 public:
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
  friend class lang::HandleAccess;
  explicit SubTiles(lang::PieceRef piece) : piece_(piece) {}

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

  /// The piece's elements; outside the tensor the padding value.
  Tile<T, D...> load(detail::Padding<T> padding = pad::zero, SourceLocation loc = SourceLocation::current()) const {
    return Tile<T, D...>(lang::load_piece(piece_, padding.spec(), loc));
  }
  /// Writes the piece; elements outside the tensor are not stored. Later loads of the piece see the new values.
  template <class X>
  void store(const X& tile, SourceLocation loc = SourceLocation::current()) {
    if constexpr (detail::store_ok<T, Shape<D...>, X>()) { lang::store_piece(piece_, tile.value(), loc); }
  }

  /// Slices of the piece by index along axis K; an index outside the piece reads padding.
  template <int K, class I>
  auto gather(Axis<K>, const I& index, detail::Padding<T> padding = pad::zero,
              SourceLocation loc = SourceLocation::current()) const {
    using Check = detail::GatherCheck<K, I, D...>;
    constexpr int n = detail::LineOf<typename detail::ShapeOf<I>::type>::length;
    using Result = detail::IntsOf<typename detail::GatherShape<K, Check::line_ok ? n : 1, D...>::type>;
    using Slices = typename Result::template tile<T>;
    if constexpr (Check::ok) {
      return Slices(
          lang::load_piece_slices(piece_, K, detail::position(index, loc), Result::span(), padding.spec(), loc));
    } else {
      return *static_cast<Slices*>(nullptr);
    }
  }
  TESSERA_GATHERS(rank)  // One element of the piece per index, as In::gather; an index outside the piece reads padding.
  /// Writes slices of the piece by index along axis K. An index outside the piece is dropped; of equal indices the last
  /// one is stored.
  template <int K, class I, class X>
  void scatter(Axis<K>, const I& index, const X& values, SourceLocation loc = SourceLocation::current()) {
    if constexpr (detail::ScatterSlicesCheck<K, T, I, X, D...>::ok) {
      lang::store_piece_slices(piece_, K, detail::position(index, loc),
                               detail::IntsOf<typename detail::ShapeOf<X>::type>::span(), values.value(), loc);
    }
  }
  /// scatter(i, j, ..., values) writes one element of the piece per index: one integer tile (or number) per axis and
  /// the values, which broadcast to one shape. An index outside the piece is dropped; of equal indices the last one in
  /// row-major order is stored.
  template <class I, class V>
    requires(rank == 1 && !detail::is_axis<I>)
  void scatter(const I& i, const V& values, SourceLocation loc = SourceLocation::current()) {
    scatter_elements(std::make_integer_sequence<int, 2>{}, loc, i, values);
  }
  template <class I, class J, class V>
    requires(rank == 2 && !detail::is_axis<I>)
  void scatter(const I& i, const J& j, const V& values, SourceLocation loc = SourceLocation::current()) {
    scatter_elements(std::make_integer_sequence<int, 3>{}, loc, i, j, values);
  }
  template <class I, class J, class K, class V>
    requires(rank == 3 && !detail::is_axis<I>)
  void scatter(const I& i, const J& j, const K& k, const V& values, SourceLocation loc = SourceLocation::current()) {
    scatter_elements(std::make_integer_sequence<int, 4>{}, loc, i, j, k, values);
  }
  template <class I, class J, class K, class L, class V>
    requires(rank == 4 && !detail::is_axis<I>)
  void scatter(const I& i, const J& j, const K& k, const L& l, const V& values,
               SourceLocation loc = SourceLocation::current()) {
    scatter_elements(std::make_integer_sequence<int, 5>{}, loc, i, j, k, l, values);
  }
  // With more indices, operations have the line of the nearest named call before.
  template <class... A>
    requires(rank > 4 && sizeof...(A) == rank + 1 && !(detail::is_axis<A> || ...))
  void scatter(const A&... arguments) {
    scatter_elements(std::make_integer_sequence<int, rank + 1>{}, lang::Tracer::current().location(), arguments...);
  }
  template <class... A>
    requires(sizeof...(A) != rank + 1 && sizeof...(A) != rank + 2 && !(detail::is_axis<A> || ...))
  void scatter(const A&...) {
    static_assert(detail::never<A...>,
                  "scatter takes one index per axis of the piece and the values: scatter(i, j, ..., values), or slices "
                  "along one axis: scatter(axis<k>, index, values)");
  }

  /// The piece's index in the grid of pieces, per axis.
  std::array<Tile<i32>, rank> index(SourceLocation loc = SourceLocation::current()) const {
    lang::Tracer::current(loc).at(loc);  // operators that follow cannot know their line: they take this one
    return each([&](int a) { return lang::piece_index(piece_, a); }, std::make_integer_sequence<int, rank>{});
  }
  /// The piece's first element in the tensor, per axis.
  std::array<Tile<i32>, rank> origin(SourceLocation loc = SourceLocation::current()) const {
    lang::Tracer::current(loc).at(loc);
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

  /// The piece as a grid of sub-tiles, whose extents divide the piece's.
  template <int... S>
  SubTiles<T, Shape<D...>, S...> sub(Shape<S...>) const {
    static_assert(sizeof...(S) == sizeof...(D), "sub(shape<...>) needs one extent per axis of the piece");
    if constexpr (sizeof...(S) == sizeof...(D)) {
      static_assert(((detail::is_power_of_two(S) && S <= D) && ...),
                    "the extents of a sub-partition must be powers of two and no larger than those of the piece");
    }
    return lang::HandleAccess::make<SubTiles<T, Shape<D...>, S...>>(piece_);
  }
  template <int First, int... S, class... A>
  SubTiles<T, Shape<D...>, First, S...> sub(const A&...) const {
    (void)sizeof(detail::ExplainShapeInBrackets<First, S...>);
    return lang::HandleAccess::make<SubTiles<T, Shape<D...>, First, S...>>(piece_);
  }

 private:
  friend class lang::HandleAccess;
  template <Element, int...>
  friend class Mut;
  friend class unsafe_::Mut<T, D...>;
  explicit Piece(lang::PieceRef piece) : piece_(piece) {}
  lang::PieceRef ref() const { return piece_; }

  auto elements() const {
    return [piece = piece_](lang::Values at, lang::Extents shape, const lang::PadSpec& padding, SourceLocation loc) {
      return lang::load_piece_elements(piece, at, shape, padding, loc);
    };
  }
  template <int... I, class... A>
  void scatter_elements(std::integer_sequence<int, I...>, SourceLocation loc, const A&... arguments) {
    using Common = typename detail::JointOf<typename detail::ShapeOf<A>::type...>::type;
    if constexpr ((detail::ScatterArgument<T, I == rank, A>::ok && ...) && detail::ScatterShapeCheck<Common>::ok) {
      lang::Tracer::current(loc).at(loc);  // for what computes positions
      const ir::Value all[] = {detail::ScatterArgument<T, I == rank, A>::get(arguments, loc)...};
      lang::store_piece_elements(piece_, lang::Values(all, rank), detail::IntsOf<Common>::span(), all[rank], loc);
    }
  }
  template <class F, int... A>
  static std::array<Tile<i32>, rank> each(F f, std::integer_sequence<int, A...>) {
    return {Tile<i32>(f(A))...};
  }
  lang::PieceRef piece_;
};

namespace detail {

/// The extent of the first sub-tile, for n >= 1: the largest power of two in n.
constexpr int first_part(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }
constexpr int count_parts(int n) { return n <= 0 ? 0 : std::popcount(static_cast<unsigned>(n)); }
/// The extents of the sub-tiles, largest first: 160 gives 128 and 32.
constexpr int part_extent(int n, int number) {
  return number == 0 ? first_part(n) : part_extent(n - first_part(n), number - 1);
}
template <int D>
inline constexpr bool is_dyn = D == dyn;
/// Powers of two, except at most one extent, which is made of two or three sub-tiles.
template <int... D>
inline constexpr bool extents_ok =
    ((D > 0 && count_parts(D) <= 3) && ...) && ((is_power_of_two(D) ? 0 : 1) + ... + 0) <= 1;

}  // namespace detail

/// A piece with one extent that is a sum of two or three powers of two.
template <Element T, int... D>
class JointPiece {
  static_assert(sizeof...(D) >= 1, "a piece has at least one axis: Mut<T, extents...>");
  static_assert(
      !(detail::is_dyn<D> || ...),
      "give the piece a static extent along every axis: a power of two as large as the axis may be, of which "
      "y.sub(shape<...>) stores parts (what lies outside the tensor is clipped), or 1 for a block per position");
  static_assert((detail::is_dyn<D> || ...) || detail::extents_ok<D...>,
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

template <Element T, int... D>
class Mut : public detail::PieceOf<T, D...> {
  using Base = detail::PieceOf<T, D...>;

 public:
  using Base::store;
  template <class X, class... More>
    requires(sizeof...(More) > 0 && !(std::is_same_v<More, SourceLocation> && ...))
  void store(const X&, const More&...) {
    static_assert(
        detail::never<X>,
        "a Mut can only store its own piece: y.store(tile), without an index. Use y.sub(shape<...>) for parts of the "
        "piece, or MutTiles to store several");
  }

 private:
  friend class lang::HandleAccess;
  explicit Mut(lang::PieceRef piece) : Base(piece) {}
};

}  // namespace tessera
