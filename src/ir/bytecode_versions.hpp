// Which bytecode version each thing in a module needs.
#pragma once
#include "tessera/ir/bytecode.hpp"

namespace tessera::ir {

/// Throws CompileError for the first thing that `version` cannot hold, and for versions that are not 13.1 to 13.4.
void check_version(const Module&, BytecodeVersion version);

}  // namespace tessera::ir
