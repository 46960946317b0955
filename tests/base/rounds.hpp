// What tests ask for less of in builds with a sanitizer: rounds at random, and speed.
#pragma once
#include <cstdint>

#include "tessera/base/sanitizers.hpp"

namespace tessera::test {

/// Whether a sanitizer is compiled in: nothing is to be said of speed then.
inline constexpr bool kSanitizer = TESSERA_ASAN || TESSERA_TSAN;

/// `n`, and a quarter of it with a sanitizer: those builds, several times slower, look for misuse of memory and races,
/// which each round can show; the plain build looks for wrong results.
constexpr std::uint64_t rounds(std::uint64_t n) { return kSanitizer ? n / 4 : n; }

}  // namespace tessera::test
