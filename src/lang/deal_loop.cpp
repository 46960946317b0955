// The loop over dealt tiles, and what happens when C++ leaves it.
#include "tessera/lang/deal_loop.hpp"

#include <exception>

#include "tessera/base/error.hpp"

namespace tessera::lang {

DealLoop::DealLoop(TensorRef tensor, Extents tile, DealOrder order, SourceLocation loc)
    : loc_(loc), piece_(begin_dealing(tensor, tile, order, loc)), exceptions_(std::uncaught_exceptions()) {}

DealLoop::~DealLoop() {
  if (open_) abandon_dealing(piece_, std::uncaught_exceptions() > exceptions_, loc_);
}

void DealLoop::close() {
  if (!open_) {
    throw TraceError(
        "an iterator over the tiles of a MutTiles was advanced past its end: the loop's body is traced once", loc_);
  }
  open_ = false;
  end_dealing(piece_);
}

}  // namespace tessera::lang
