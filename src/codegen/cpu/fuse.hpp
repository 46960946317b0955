// Joins elementwise instructions, and the store that ends them, to chains that run strip by strip (strip_instr.hpp).
#pragma once
#include "codegen/cpu/plan.hpp"

namespace tessera::cpu {

/// Rewrites both codes; adds buffers for strips. Runs between translation and planning.
void fuse_chains(std::vector<BufferInfo>& buffers, Code& uniform, Code& block);

}  // namespace tessera::cpu
