// A program as C++ against the public headers: what a stranger would write, to be read and compiled.
#pragma once
#include "generate/program.hpp"

namespace tessera::generate {

/// Of a checked program.
std::string to_cpp(const Program&);

}  // namespace tessera::generate
