// A tensor as a grid of tiles: x.tiles(shape<64, 64>).
#pragma once
#include "tessera/lang/index.hpp"
#include "tessera/lang/pad.hpp"

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

}  // namespace tessera
