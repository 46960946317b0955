// Finds out whether an executable is NVIDIA's assembler, and which release. Results are cached in the process and in
// the user's cache, by path, size and time of the executable, because a probe takes two processes.
#pragma once
#include <string>

#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::tileiras {

struct Probe {
  Assembler assembler;  ///< without origin
  std::string problem;  ///< empty: usable
};

/// Never throws. A path that has no executable gives the problem "not there".
Probe probe(const std::string& path);

}  // namespace tessera::tileiras
