// The loop over the tiles of a MutTiles as a C++ object: its region is open from begin() to ++, and its destructor
// detects that the loop is left by break, return or an exception.
#pragma once
#include "tessera/lang/access.hpp"

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
