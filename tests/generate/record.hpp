// Records a program through the out-of-line functions behind the kernel language: what the typed classes (Tile, In,
// Mut, ...) call, in the same order, with shapes known at run time.
#pragma once
#include "generate/program.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::generate {

std::vector<lang::ParamInfo> param_infos(const Program&);

/// Throws TraceError where the language rejects the program.
lang::Trace record(const Program&, const lang::Specialization&);

}  // namespace tessera::generate
