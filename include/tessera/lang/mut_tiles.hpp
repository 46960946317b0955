// MutTiles<T, extents...>: a kernel parameter, all pieces of a mutable tensor with persistent tile scheduling, for any
// number of blocks:
//   for (auto out : c) { ... out.store(tile); }
// Every tile is assigned to exactly one block; only its handle can store it.
//
// TileLoop is the loop over the tiles of a MutTiles as a C++ object: its region is open from begin() to ++, and its
// destructor detects that the loop is left by break, return or an exception.
#pragma once
#include "tessera/lang/access.hpp"
#include "tessera/lang/mut.hpp"

namespace tessera::lang {

class TileLoop {
 public:
  TileLoop(TensorRef tensor, Extents tile, TileOrder order, SourceLocation loc);
  ~TileLoop();
  TileLoop(const TileLoop&) = delete;
  TileLoop& operator=(const TileLoop&) = delete;

  PieceRef piece() const { return piece_; }  ///< its accesses throw TraceError after close()
  void close();                              ///< throws TraceError the second time
  bool is_open() const { return open_; }

 private:
  SourceLocation loc_;
  PieceRef piece_;
  int exceptions_;
  bool open_ = true;
};

}  // namespace tessera::lang

namespace tessera {

namespace detail {

/// One loop over the tiles of this block, in one order.
template <Element T, int... D>
class ScheduledTiles {
  static constexpr int kTile[] = {D...};

 public:
  struct End {};
  class Iterator : lang::TileLoop {
   public:
    PieceOf<T, D...> operator*() const { return lang::HandleAccess::make<PieceOf<T, D...>>(piece()); }
    Iterator& operator++() {
      close();
      return *this;
    }
    bool operator!=(End) const { return is_open(); }

   private:
    friend class ScheduledTiles;
    using lang::TileLoop::TileLoop;
  };
  Iterator begin() const { return {tensor_, kTile, order_, loc_}; }
  End end() const { return {}; }

 private:
  friend class lang::HandleAccess;
  ScheduledTiles(lang::TensorRef tensor, lang::TileOrder order, SourceLocation loc)
      : tensor_(tensor), order_(order), loc_(loc) {}

  lang::TensorRef tensor_;
  lang::TileOrder order_;
  SourceLocation loc_;
};

}  // namespace detail

template <Element T, int... D>
class MutTiles {
  static_assert(sizeof...(D) >= 1, "MutTiles needs the extents of a tile: MutTiles<T, extents...>");
  static_assert(!(detail::is_dyn<D> || ...),
                "give the tiles a static extent along every axis, 1 along one whose length only the launch knows: the "
                "loop visits as many tiles as it takes");
  static_assert(
      (detail::is_dyn<D> || ...) || detail::extents_ok<D...>,
      "the extents of a tile must be powers of two, except one, which is a sum of two or three of them: edges "
      "are clipped");
  static constexpr int kTile[] = {D...};
  using Schedule = detail::ScheduledTiles<T, D...>;

 public:
  using element = T;
  static constexpr int rank = sizeof...(D);

  auto begin(SourceLocation loc = SourceLocation::current()) const { return scheduled({}, loc).begin(); }
  auto end() const { return typename Schedule::End{}; }

  /// Neighbouring blocks take neighbouring tiles of a row (the default), or of a column.
  Schedule row_order(SourceLocation loc = SourceLocation::current()) const {
    return scheduled({lang::TileOrderKind::Row, 0}, loc);
  }
  Schedule column_order(SourceLocation loc = SourceLocation::current()) const {
    return scheduled({lang::TileOrderKind::Column, 0}, loc);
  }
  /// Groups of `rows` rows of tiles over the last two axes, column by column inside a group, so that neighbouring
  /// blocks share what they load for a row and for a column.
  Schedule grouped(int rows, SourceLocation loc = SourceLocation::current()) const {
    static_assert(rank >= 2, "grouped needs at least two axes: use row_order");
    return scheduled({lang::TileOrderKind::Grouped, rows}, loc);
  }

  /// Extent of the whole tensor, and number of tiles, along an axis.
  Tile<i32> dim(detail::AxisOf<rank> axis) const { return Tile<i32>(lang::tensor_dim(tensor_, axis.value)); }
  Tile<i32> count(detail::AxisOf<rank> axis) const {
    return Tile<i32>(lang::tile_count(tensor_, axis.value, kTile[axis.value]));
  }
  template <class... A>
  void store(const A&...) const {
    static_assert(detail::never<A...>,
                  "tiles of a MutTiles are stored through their handle: for (auto out : c) out.store(tile)");
  }
  template <class... A>
  void load(const A&...) const {
    static_assert(detail::never<A...>,
                  "tiles of a MutTiles are loaded through their handle: for (auto out : c) out.load()");
  }
  template <class... A>
  void scatter(const A&...) const {
    static_assert(detail::never<A...>,
                  "tiles of a MutTiles are written through their handle: for (auto out : c) out.scatter(...)");
  }

 private:
  friend class lang::HandleAccess;
  explicit MutTiles(lang::TensorRef tensor) : tensor_(tensor) {}
  lang::TensorRef ref() const { return tensor_; }
  Schedule scheduled(lang::TileOrder order, SourceLocation loc) const {
    return lang::HandleAccess::make<Schedule>(tensor_, order, loc);
  }

  lang::TensorRef tensor_;
};

}  // namespace tessera
