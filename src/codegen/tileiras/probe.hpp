// Asking an executable whether it is NVIDIA's assembler, and which release. Answers are kept in the process and in the
// user's cache, by path, size and time of the executable, because asking costs two processes.
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
