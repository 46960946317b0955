// How often tests at random try something.
#pragma once
#include <cstdint>

#include "tessera/base/sanitizers.hpp"

namespace tessera::test {

/// `n`, and a quarter of it with a sanitizer: those builds, several times slower, look for misuse of memory and races,
/// which each round can show; the plain build looks for wrong results.
constexpr std::uint64_t rounds(std::uint64_t n) { return TESSERA_ASAN || TESSERA_TSAN ? n / 4 : n; }

}  // namespace tessera::test
