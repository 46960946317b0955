// What tests do differently in slow builds, which are those with a sanitizer and those that run in an emulator: fewer
// random rounds, no limits of time.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include "tessera/base/sanitizers.hpp"

namespace tessera::test {

/// Whether the program is built with a sanitizer: limits of time do not hold then.
inline constexpr bool kSanitizer = TESSERA_ASAN || TESSERA_TSAN;

/// Whether each round takes many times longer than in the plain build. A program for another processor runs in an
/// emulator.
#ifdef TESSERA_TEST_EMULATED
inline constexpr bool kSlow = true;
#else
inline constexpr bool kSlow = kSanitizer;
#endif

/// Whether a slow build is to run everything all the same: TESSERA_TEST_ROUNDS=all, as scripts/long-tests.sh sets it.
inline bool all_rounds() {
  static const bool set = std::getenv("TESSERA_TEST_ROUNDS") != nullptr;
  return set;
}

/// `n`, and a sixteenth of it in a slow build: those builds look for misuse of memory, races and another processor's
/// arithmetic, which each round can show; the plain build looks for wrong results.
inline std::uint64_t rounds(std::uint64_t n) { return kSlow && !all_rounds() ? (n + 15) / 16 : n; }

/// 1, and `n` in a slow build: tests of many combinations take every n-th of them there.
inline std::uint64_t one_in(std::uint64_t n) { return kSlow && !all_rounds() ? n : 1; }
/// Where such a test begins: at another one each day, so that all have their turn.
inline std::uint64_t first_of(std::uint64_t n) {
  constexpr std::uint64_t kSecondsADay = 24 * 60 * 60;
  return kSlow && !all_rounds() ? static_cast<std::uint64_t>(std::time(nullptr)) / kSecondsADay % n : 0;
}

}  // namespace tessera::test
