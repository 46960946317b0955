// The integer arithmetic that a kernel's accesses depend on, where overflow is an error that checked mode reports.
#pragma once
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// The operations addi, subi, muli and negi of `body` and everything in it that compute indices, offsets and extents of
/// accesses, in the order of the code. Wrapping on purpose (hashes: xori, mulhii, logical shifts, unsigned division)
/// and loads end the search.
std::vector<const ir::Operation*> index_arithmetic(const ir::Block& body);

}  // namespace tessera::analysis
