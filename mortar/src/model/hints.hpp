// Compiler hints of single kernels, where the compiler's own choice was measured to be slower (bench/notes/mortar.md).
#pragma once
#include <cstdint>
#include <string>

#include "tessera/jit/tuning.hpp"

namespace mortar {

/// A record with one word of docs/tuning.md, such as "warps=", and its number.
inline tessera::TuningRecord hinted(const char* word, std::int64_t n) {
  tessera::TuningRecord record;
  record.hints = word + std::to_string(n);
  return record;
}

}  // namespace mortar
