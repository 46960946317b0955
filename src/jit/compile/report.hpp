// A readable report about a compiled kernel: the compiler's part of `tessera explain`.
#pragma once
#include <cstdint>
#include <string>

#include "jit/compile/pipeline.hpp"
#include "tessera/analysis/facts.hpp"

namespace tessera::jit {

/// The obligations with those that do not hold marked, every load and store with its path and line, the hints.
std::string report(const analysis::Facts& facts, std::uint64_t predicates, const Prepared& prepared,
                   const std::string& label);

}  // namespace tessera::jit
