// The loop over the tiles of a MutTiles, and what happens when C++ code leaves it.
#include "tessera/lang/mut_tiles.hpp"

#include <exception>

#include "tessera/base/error.hpp"

namespace tessera::lang {

TileLoop::TileLoop(TensorRef tensor, Extents tile, TileOrder order, SourceLocation loc)
    : loc_(loc), piece_(begin_tile_loop(tensor, tile, order, loc)), exceptions_(std::uncaught_exceptions()) {}

TileLoop::~TileLoop() {
  if (open_) abandon_tile_loop(piece_, std::uncaught_exceptions() > exceptions_, loc_);
}

void TileLoop::close() {
  if (!open_) {
    throw TraceError(
        "an iterator over the tiles of a MutTiles was advanced past its end: the loop's body is traced once", loc_);
  }
  open_ = false;
  end_tile_loop(piece_);
}

}  // namespace tessera::lang
