// A program as C++ with the public headers, as a user would write it, to be read and compiled.
#pragma once
#include "generate/program.hpp"

namespace tessera::generate {

/// The program must have been checked.
std::string to_cpp(const Program&);

}  // namespace tessera::generate
