// Compiled code without the code: what is kept with a cubin.
#pragma once
#include "jit/code/sha256.hpp"
#include "tessera/abi/kernel_abi.hpp"
#include "tessera/jit/code_report.hpp"

namespace tessera::jit {

/// What a launch needs of a module after the passes besides its code.
struct CodeShape {
  Digest identity{};  ///< of what the code follows from: equal ones are the same code
  calling::KernelAbi abi;
  int occupancy = 0;  ///< blocks of an SM that it was compiled for; 0: left to the assembler
  int ctas = 1;       ///< per cluster
  Form form = Form::Chosen;
};

}  // namespace tessera::jit
