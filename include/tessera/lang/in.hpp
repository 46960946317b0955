// In<T, extents...>: a kernel parameter, a whole tensor shared by all blocks, read-only. Extents are static or `dyn`.
//
// TileGrid is a tensor as a grid of tiles: x.tiles(shape<64, 64>).
#pragma once
#include <utility>

#include "tessera/lang/gather.hpp"
#include "tessera/lang/mut.hpp"

namespace tessera {

/// The grid of D... tiles of a shared tensor. Tile (0, ..., 0) starts at the first element; tiles at the far edge are
/// padded.
template <Element T, int... D>
class TileGrid {
  static constexpr int kRank = sizeof...(D);
  static constexpr int kTile[] = {D...};

 public:
  const lang::PadSpec& padding() const { return pad_; }

  /// Number of tiles along an axis: ceil(dim / extent).
  Tile<i32> count(detail::AxisOf<kRank> axis) const {
    return Tile<i32>(lang::tile_count(tensor_, axis.value, kTile[axis.value]));
  }
  /// The tile at an index. Total: any index outside the grid (negative, too large) gives a tile of padding.
  Tile<T, D...> load(detail::IndexFor<D>... index, SourceLocation loc = SourceLocation::current()) const {
    const ir::Value at[] = {index.value()...};
    return Tile<T, D...>(lang::load_tile(tensor_, kTile, at, pad_, loc));
  }
  template <class... I>
    requires(sizeof...(I) != sizeof...(D) && sizeof...(I) != sizeof...(D) + 1)
  Tile<T, D...> load(const I&...) const {
    static_assert(detail::never<I...>, "load needs one tile index per axis of the tensor");
    return *static_cast<Tile<T, D...>*>(nullptr);
  }
  template <class... A>
  void store(const A&...) const {
    static_assert(
        detail::never<A...>,
        "cannot store through the tiles of an In: it is a shared, read-only tensor. Declare the parameter Mut<T, "
        "tile extents...> or MutTiles<T, tile extents...> to write it");
  }

 private:
  friend class lang::HandleAccess;
  TileGrid(lang::TensorRef tensor, const lang::PadSpec& pad) : tensor_(tensor), pad_(pad) {}
  lang::TensorRef ref() const { return tensor_; }

  lang::TensorRef tensor_;
  lang::PadSpec pad_;
};

namespace detail {

/// Shape of load_like(y, axes<A...>): the extent of y along its axes A, 1 along the others.
template <class Axes, class Piece>
struct LikeShape;
template <int... A, int... D>
struct LikeShape<Axes<A...>, Shape<D...>> {
  template <int... I>
  static auto make(std::integer_sequence<int, I...>) -> Shape<(contains<A...>(I) ? D : 1)...>;
  using type = decltype(make(std::make_integer_sequence<int, sizeof...(D)>{}));
};

template <int Rank, class Axes, class Piece>
struct LikeCheck;
template <int Rank, int... A, int... D>
struct LikeCheck<Rank, Axes<A...>, Shape<D...>> {
  static constexpr int kPiece = sizeof...(D);
  static constexpr bool in_range = ((A >= 0 && A < kPiece) && ...);
  static_assert(sizeof...(A) == Rank,
                "load_like(y, axes<...>) names one axis of y per axis of the tensor that is loaded");
  static_assert(in_range, "load_like(y, axes<...>) names an axis that y does not have");
  static_assert(all_different<A...>(), "load_like(y, axes<...>) names an axis twice");
  static constexpr bool ok = sizeof...(A) == Rank && in_range && all_different<A...>();
};
template <int Rank, int PieceRank>
struct LikeRankCheck {
  static_assert(
      Rank == PieceRank,
      "load_like(y) needs a tensor of y's rank: write load_like(y, axes<...>) with the axes of y that it follows");
  static constexpr bool ok = Rank == PieceRank;
};

}  // namespace detail

template <Element T, int... E>
class In {
  static_assert(sizeof...(E) >= 1,
                "an In has one extent per axis, static or dyn: In<T, dyn>; a single value is a Scalar<T>");
  static_assert(((E == dyn || E > 0) && ...), "an extent of an In is dyn or positive");
  static constexpr int kRank = sizeof...(E);

 public:
  using element = T;
  static constexpr int rank = kRank;

  /// Extent of an axis in elements; a constant if it is static.
  Tile<i32> dim(detail::AxisOf<kRank> axis) const { return Tile<i32>(lang::tensor_dim(tensor_, axis.value)); }
  /// Distance of neighbours along an axis, in elements.
  Tile<i64> stride(detail::AxisOf<kRank> axis) const { return Tile<i64>(lang::tensor_stride(tensor_, axis.value)); }

  /// The tensor as a grid of tiles.
  template <int... D>
  auto tiles(Shape<D...>, detail::Padding<T> padding = pad::zero) const {
    static_assert(sizeof...(D) == sizeof...(E), "tiles(shape<...>) needs one extent per axis of the tensor");
    static_assert((detail::is_power_of_two(D) && ...), "the extents of a tile must be powers of two: edges are padded");
    return lang::HandleAccess::make<TileGrid<T, D...>>(tensor_, padding.spec());
  }

  template <int First, int... D, class... A>
  auto tiles(const A&...) const {
    (void)sizeof(detail::ExplainShapeInBrackets<First, D...>);
    return lang::HandleAccess::make<TileGrid<T, First, D...>>(tensor_, lang::PadSpec());
  }

  /// The region that the piece `y` occupies, as a tile of y's shape. Each axis has the extent of y's tensor, or 1 and
  /// is repeated; the launch throws ShapeError for anything else. Elements outside the tensor read as `padding`.
  template <Element U, int... D>
  Tile<T, D...> load_like(const Piece<U, D...>& y, detail::Padding<T> padding = pad::zero,
                          SourceLocation loc = SourceLocation::current()) const {
    return same_axes(y, lang::Regions::Agree, padding, loc);
  }
  /// The same for a tensor of any extents: elements outside it read as `padding`, and axes of 1 are not repeated.
  template <Element U, int... D>
  Tile<T, D...> load_like(const Piece<U, D...>& y, detail::Partial, detail::Padding<T> padding = pad::zero,
                          SourceLocation loc = SourceLocation::current()) const {
    return same_axes(y, lang::Regions::Partial, padding, loc);
  }
  /// The region along y's axes A, one per axis of this tensor; extent 1 along the others.
  template <Element U, int... D, int... A>
  auto load_like(const Piece<U, D...>& y, Axes<A...> axes, detail::Padding<T> padding = pad::zero,
                 SourceLocation loc = SourceLocation::current()) const {
    return named_axes(y, axes, lang::Regions::Agree, padding, loc);
  }
  template <Element U, int... D, int... A>
  auto load_like(const Piece<U, D...>& y, Axes<A...> axes, detail::Partial, detail::Padding<T> padding = pad::zero,
                 SourceLocation loc = SourceLocation::current()) const {
    return named_axes(y, axes, lang::Regions::Partial, padding, loc);
  }

  /// The tile whose first element is at these element offsets (any sign); elements outside the tensor read as padding.
  template <int... D>
  Tile<T, D...> load_at(Shape<D...>, detail::IndexFor<E>... start, detail::Padding<T> padding = pad::zero,
                        SourceLocation loc = SourceLocation::current()) const {
    static_assert(sizeof...(D) == sizeof...(E), "load_at(shape<...>, ...) needs one extent per axis of the tensor");
    static_assert((detail::is_power_of_two(D) && ...), "the extents of a tile must be powers of two");
    static constexpr int tile[] = {D...};
    const ir::Value at[] = {start.offset(loc)...};
    return Tile<T, D...>(lang::load_region(tensor_, tile, at, padding.spec(), loc));
  }

  template <int First, int... D, class... A>
  Tile<T, First, D...> load_at(const A&...) const {
    (void)sizeof(detail::ExplainShapeInBrackets<First, D...>);
    return *detail::fake<void, Tile<T, First, D...>>();
  }

  /// Slices by index along axis K; an index outside reads padding.
  template <int K, class I>
  auto gather(Axis<K>, const I& index, detail::Padding<T> padding = pad::zero,
              SourceLocation loc = SourceLocation::current()) const {
    using Check = detail::GatherCheck<K, I, E...>;
    constexpr int n = detail::LineOf<typename detail::ShapeOf<I>::type>::length;
    using Result = detail::IntsOf<typename detail::GatherShape<K, Check::line_ok ? n : 1, E...>::type>;
    if constexpr (Check::ok) {
      return typename Result::template tile<T>(
          lang::load_slices(tensor_, K, detail::position(index, loc), Result::span(), padding.spec(), loc));
    } else {
      return *detail::fake<void, typename Result::template tile<T>>();
    }
  }
  TESSERA_GATHERS(kRank)  // One element per index, a tile or number per axis, which broadcast; then the padding.

  /// The tensor with its axes in another order: axis a of the view is axis order[a].
  template <int... O>
  auto permuted(Order<O...>) const {
    static_assert(sizeof...(O) == sizeof...(E), "permuted(order<...>) names every axis of the tensor once");
    static_assert(detail::all_different<O...>() && ((O >= 0 && O < kRank) && ...),
                  "permuted(order<...>) names every axis of the tensor once");
    static constexpr int order[] = {O...};
    using View = In<T, detail::Ints<E...>::values[O]...>;
    return lang::HandleAccess::make<View>(lang::permuted_tensor(tensor_, order));
  }

  template <class... A>
  void store(const A&...) const {
    static_assert(detail::never<A...>,
                  "cannot store to an In: it is a shared, read-only tensor. Declare the parameter Mut<T, tile "
                  "extents...> to write it");
  }
  template <class... A>
  void scatter(const A&...) const {
    static_assert(
        detail::never<A...>,
        "cannot scatter into an In: it is a shared, read-only tensor. Scatter into the block's own piece of a "
        "Mut, or add into an Acc");
  }
  template <class... A>
  void add(const A&...) const {
    static_assert(detail::never<A...>,
                  "cannot add to an In: it is a shared, read-only tensor. Declare the parameter Acc<T, extents...>");
  }

 private:
  friend class lang::HandleAccess;
  explicit In(lang::TensorRef tensor) : tensor_(tensor) {}
  lang::TensorRef ref() const { return tensor_; }

  auto elements() const {
    return [tensor = tensor_](lang::Values at, lang::Extents shape, const lang::PadSpec& padding, SourceLocation loc) {
      return lang::load_elements(tensor, at, shape, padding, loc);
    };
  }
  template <Element U, int... D>
  Tile<T, D...> same_axes(const Piece<U, D...>& y, lang::Regions regions, const detail::Padding<T>& padding,
                          SourceLocation loc) const {
    if constexpr (detail::LikeRankCheck<kRank, sizeof...(D)>::ok) {
      return like<Shape<D...>>(lang::HandleAccess::ref(y), std::make_integer_sequence<int, kRank>{}, regions, padding,
                               loc);
    } else {
      return *detail::fake<void, Tile<T, D...>>();
    }
  }
  template <Element U, int... D, int... A>
  auto named_axes(const Piece<U, D...>& y, Axes<A...>, lang::Regions regions, const detail::Padding<T>& padding,
                  SourceLocation loc) const {
    using Result = typename detail::LikeShape<Axes<A...>, Shape<D...>>::type;
    if constexpr (detail::LikeCheck<kRank, Axes<A...>, Shape<D...>>::ok) {
      return like<Result>(lang::HandleAccess::ref(y), std::integer_sequence<int, A...>{}, regions, padding, loc);
    } else {
      return *detail::fake<void, typename detail::IntsOf<Result>::template tile<T>>();
    }
  }
  template <class Result, int... A>
  auto like(lang::PieceRef y, std::integer_sequence<int, A...>, lang::Regions regions,
            const detail::Padding<T>& padding, SourceLocation loc) const {
    static constexpr int axes[] = {A...};
    return typename detail::IntsOf<Result>::template tile<T>(
        lang::load_like(tensor_, y, axes, regions, padding.spec(), loc));
  }
  lang::TensorRef tensor_;
};

}  // namespace tessera

#undef TESSERA_GATHERS
