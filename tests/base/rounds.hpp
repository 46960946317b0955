// What tests do differently in builds with a sanitizer: fewer random rounds, no limits of time.
#pragma once
#include <cstdint>

#include "tessera/base/sanitizers.hpp"

namespace tessera::test {

/// Whether the program is built with a sanitizer: limits of time do not hold then.
inline constexpr bool kSanitizer = TESSERA_ASAN || TESSERA_TSAN;

/// `n`, and an eighth of it with a sanitizer: those builds, many times slower, look for misuse of memory and races,
/// which each round can show; the plain build looks for wrong results.
constexpr std::uint64_t rounds(std::uint64_t n) { return kSanitizer ? (n + 7) / 8 : n; }

/// 1, and `n` with a sanitizer: tests of many combinations take every n-th of them there.
constexpr std::uint64_t one_in(std::uint64_t n) { return kSanitizer ? n : 1; }

}  // namespace tessera::test
