// A generated program as NVIDIA's assembler compiles it, for a GPU that need not be here.
#pragma once
#include <string>

#include "generate/program.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::generate {

struct Assembled {
  double seconds = 0;  ///< the assembler's processor time, of all forms together
  jit::CubinResources resources;
  std::string form;     ///< the name of the form that was taken; empty: the chosen one
  std::string problem;  ///< empty: none
};

/// What the first launch of a program says of its tensors.
lang::Specialization specialization_of(const Program&);

/// The program as its first launch compiles it for a GPU of compute capability `sm`. It is a problem if no form is
/// accepted, if the assembler needs more than 20 s, and if the code spills where another form of jit::all_forms() does
/// not. Sets TESSERA_TUNING, so one thread may call it at a time. The program has been checked.
Assembled assembled(const Program&, int sm);

}  // namespace tessera::generate
