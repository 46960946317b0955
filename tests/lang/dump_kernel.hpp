// Kernels that tests only record, or run without the jit, leave their bytecode too when TESSERA_DUMP=bytecode asks for
// it: the assembly test (tests/assemble) takes it from there.
#pragma once
#include <cstdlib>
#include <string_view>

#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::test {

inline void dump_if_asked(const ir::Module& module) {
  const char* what = std::getenv("TESSERA_DUMP");
  const char* folder = std::getenv("TESSERA_DUMP_DIR");
  if (what && folder && std::string_view(what) == "bytecode") tileiras::dump_bytecode(module, folder);
}

}  // namespace tessera::test
