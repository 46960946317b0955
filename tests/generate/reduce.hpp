// Makes a program that fails smaller, step by step, as long as it fails.
#pragma once
#include <functional>

#include "generate/program.hpp"

namespace tessera::generate {

/// `fails(p)` is asked about programs that check() accepts, at most `most` times.
Program reduce(const Program&, const std::function<bool(Program&)>& fails, int most = 4000);

}  // namespace tessera::generate
