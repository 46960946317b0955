// The loop over dealt tiles, and what happens when C++ leaves it.
#include "tessera/lang/deal_loop.hpp"

#include <exception>

namespace tessera::lang {

DealLoop::DealLoop(TensorRef tensor, Extents tile, DealOrder order, SourceLocation loc)
    : tensor_(tensor), tile_(tile), order_(order), loc_(loc), exceptions_(std::uncaught_exceptions()) {}

DealLoop::~DealLoop() {
  if (open_) abandon_dealing(piece_, std::uncaught_exceptions() > exceptions_, loc_);
}

PieceRef DealLoop::open() {
  piece_ = begin_dealing(tensor_, tile_, order_, loc_);
  open_ = true;
  return piece_;
}

void DealLoop::close() {
  open_ = false;
  end_dealing(piece_);
  done_ = true;
}

}  // namespace tessera::lang
