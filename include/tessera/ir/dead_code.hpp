// Dead code elimination: removes pure operations and loads without effect, and unused values that loops carry and `if`s
// yield.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::ir {

/// Marks from effects (stores, atomics, print, assert) backwards and sweeps the rest. Values carried around a loop only
/// for their own sake disappear, also where they go round in a cycle through several loops.
void remove_dead_code(Function&);

}  // namespace tessera::ir
