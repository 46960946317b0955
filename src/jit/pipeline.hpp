// The passes between a recording and code generation.
#pragma once
#include <cstdint>
#include <memory>

#include "tessera/ir/operation.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// A module ready for code generation, and what the passes decided about launching it.
struct Prepared {
  std::unique_ptr<ir::Module> module;
  int blocks_per_multiprocessor = 1;  ///< that should be resident (persistent kernels)
};

/// Runs the passes for `target` on a verified copy of `module`. Throws CompileError if the module breaks Tile IR's
/// rules.
Prepared prepare(const ir::Module& module, const passes::Target& target);

}  // namespace tessera::jit
