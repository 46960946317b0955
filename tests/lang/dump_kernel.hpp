// Kernels that tests only record, or run without the jit's cache, leave their bytecode too when TESSERA_DUMP asks for
// it: the assembly test (tests/assemble) takes it from there.
#pragma once
#include "tessera/jit/compile.hpp"

namespace tessera::test {

inline void dump_if_asked(const ir::Module& module) { jit::dump(module, module.functions.front()->name); }

}  // namespace tessera::test
