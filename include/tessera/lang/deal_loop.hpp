// The loop over dealt tiles as a C++ object: opens its region when the tile is taken, closes it on ++, and notices when
// the loop is left by break, return or an exception.
#pragma once
#include "tessera/lang/access.hpp"

namespace tessera::lang {

class DealLoop {
 public:
  /// `tile` must outlive the loop.
  DealLoop(TensorRef tensor, Extents tile, DealOrder order, SourceLocation loc);
  ~DealLoop();
  DealLoop(const DealLoop&) = delete;
  DealLoop& operator=(const DealLoop&) = delete;

  PieceRef open();
  void close();
  bool done() const { return done_; }

 private:
  TensorRef tensor_;
  Extents tile_;
  DealOrder order_;
  SourceLocation loc_;
  PieceRef piece_;
  int exceptions_;
  bool open_ = false;
  bool done_ = false;
};

}  // namespace tessera::lang
