// The tests, and two options more: replaying a counterexample, and random programs for a given time.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "runtime/model/search.hpp"

namespace tessera::runtime::model {
namespace {

int replay(const char* setting, const char* program, const char* choices) {
  Counterexample given{parse(program), parse_setting(setting), choices, ""};
  Choices sequence = Choices::replay(choices);
  given.violation = run(given.program, given.setting, sequence).violation;
  std::printf("%s", describe(given).c_str());
  return given.violation.empty() ? 0 : 1;
}

int random_programs(double seconds, std::uint64_t seed) {
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  Statistics statistics;
  for (; elapsed() < seconds; ++seed) {
    std::mt19937_64 random(seed);
    const auto on = static_cast<Setting::On>(random() % 3);
    const auto plain = on == Setting::On::Gpu ? kinds_without_failures() : all_kinds();
    std::vector<Kind> kinds(plain.begin(), plain.end());
    kinds.insert(kinds.end(), graph_kinds().begin(), graph_kinds().end());
    const auto fault = static_cast<Setting::Fault>(on == Setting::On::Cuda ? random() % 2 : random() % 3);
    const Setting setting{on, fault, on == Setting::On::Gpu && random() % 4 == 0, 0};
    const Program program = random_program({3, 3, kinds}, 3 + random() % 12, random);
    if (const auto found = search_random(program, setting, statistics, 20, random())) {
      std::printf("seed %llu\n%s", static_cast<unsigned long long>(seed), describe(minimised(*found)).c_str());
      return 1;
    }
  }
  std::printf("%llu programs, %llu runs, next seed %llu\n", static_cast<unsigned long long>(statistics.programs),
              static_cast<unsigned long long>(statistics.runs), static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace
}  // namespace tessera::runtime::model

int main(int argc, char** argv) {
  using namespace tessera::runtime::model;
  ::testing::InitGoogleTest(&argc, argv);
  try {
    if (argc == 5 && std::strcmp(argv[1], "--replay") == 0) return replay(argv[2], argv[3], argv[4]);
    if (argc >= 3 && std::strcmp(argv[1], "--random") == 0)
      return random_programs(std::atof(argv[2]), argc == 5 ? std::strtoull(argv[4], nullptr, 10) : 1);
    return RUN_ALL_TESTS();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
