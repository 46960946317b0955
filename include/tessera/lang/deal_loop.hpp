// The loop over dealt tiles as a C++ object: its region is open from begin() to ++, and it notices when the loop is
// left by break, return or an exception.
#pragma once
#include "tessera/lang/access.hpp"

namespace tessera::lang {

class DealLoop {
 public:
  DealLoop(TensorRef tensor, Extents tile, DealOrder order, SourceLocation loc);
  ~DealLoop();
  DealLoop(const DealLoop&) = delete;
  DealLoop& operator=(const DealLoop&) = delete;

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
