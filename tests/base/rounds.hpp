// What tests do differently in builds with a sanitizer: fewer random rounds, no limits of time.
#pragma once
#include <cstdint>

#include "tessera/base/sanitizers.hpp"

namespace tessera::test {

/// Whether the program is built with a sanitizer: limits of time do not hold then.
inline constexpr bool kSanitizer = TESSERA_ASAN || TESSERA_TSAN;

/// `n`, and a quarter of it with a sanitizer: those builds, several times slower, look for misuse of memory and races,
/// which each round can show; the plain build looks for wrong results.
constexpr std::uint64_t rounds(std::uint64_t n) { return kSanitizer ? n / 4 : n; }

}  // namespace tessera::test
