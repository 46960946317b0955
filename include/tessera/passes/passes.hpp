// The passes one by one, in the order in which optimize() runs them. Each leaves a module that verifies; a page in
// docs/compiler says why and when each fires.
#pragma once
#include "tessera/ir/operation.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::passes {

/// Chooses how each load and store reaches memory; loads and stores that become pointer tiles are rewritten.
void choose_access_paths(ir::Function&, const Target&, const Tuning& = {});

/// Sets the entry's and the accesses' hints from a cost model over what the kernel does.
Choices choose_hints(ir::Function&, const Target&, const Tuning& = {});

}  // namespace tessera::passes
