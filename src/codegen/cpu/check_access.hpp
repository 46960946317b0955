// Checks of checked mode that belong to kinds of instructions rather than to memory.
#pragma once
#include "codegen/cpu/checker.hpp"
#include "codegen/cpu/memory_instr.hpp"

namespace tessera::cpu {

/// An index outside the view's index space, or an `inbounds` claim that does not hold, is an error.
void check_view_claims(const Frame&, const ViewAccess&, const Window&, const Site&);

}  // namespace tessera::cpu
