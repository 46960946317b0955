// The order of a tile's elements in the registers of a thread.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// True if a reshape joins or parts axes of a tile whose elements a thread may have in another order than that of
/// memory. The assembler loads small tiles wrongly in such layouts: docs/compiler/narrow_small_loads.md.
bool reshapes_out_of_order(const ir::Function&);

}  // namespace tessera::passes
