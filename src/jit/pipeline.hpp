// The passes between a recording and code generation.
#pragma once
#include <memory>

#include "tessera/ir/operation.hpp"

namespace tessera::jit {

/// A verified copy of `module` after the default passes. Throws CompileError if the module breaks Tile IR's rules.
std::unique_ptr<ir::Module> prepared(const ir::Module& module);

}  // namespace tessera::jit
