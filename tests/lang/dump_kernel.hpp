// Writes the bytecode of kernels that tests only record, or run without the jit's cache, if TESSERA_DUMP is set: the
// assembly test (tests/assemble) reads it.
#pragma once
#include "tessera/jit/compile.hpp"

namespace tessera::test {

inline void dump_if_asked(const ir::Module& module) { jit::dump(module, module.functions.front()->name); }

}  // namespace tessera::test
