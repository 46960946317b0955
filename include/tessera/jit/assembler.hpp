// The assembler that this process uses for a GPU.
#pragma once
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::jit {

using tileiras::assembler_for;

}  // namespace tessera::jit
