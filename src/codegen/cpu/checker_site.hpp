// The data that checked mode needs about one memory instruction.
#pragma once
#include <cstdint>

#include "codegen/cpu/frame.hpp"
#include "tessera/base/source_location.hpp"

namespace tessera::cpu {

struct Site {
  SourceLocation where;
  const char* verb = "";  ///< "load", "store", "atomic update"
  int root = -1;          ///< entry argument that the address was computed from; -1: unknown
  bool reads = false, writes = false;
  bool atomic = false;      ///< atomic updates of different blocks do not conflict with each other
  Ref token_in, token_out;  ///< i32: number of the access (or join) that the token stands for
};

}  // namespace tessera::cpu
