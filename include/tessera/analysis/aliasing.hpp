// Which accesses touch the same elements. docs/compiler/aliasing.md.
#pragma once
#include "tessera/analysis/divisibility.hpp"

namespace tessera::analysis {

/// True if two scalar integers differ whenever both are computed in the same iteration of all loops around them: they
/// are one value and another number added to it (modulo their width), or known low bits differ.
bool never_equal(ir::Value, ir::Value, const Divisibility&);

/// True if two loads or stores through partition views of one tensor view never share an element: their tiles are
/// different parts of one line of it. That holds whatever the other strides are, so also where a tensor overlaps
/// itself. False: they may share elements.
bool disjoint(const ir::Operation&, const ir::Operation&, const Divisibility&);

}  // namespace tessera::analysis
