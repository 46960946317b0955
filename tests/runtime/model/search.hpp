// Searching for a run that breaks a promise; minimising and printing what was found.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/model/run.hpp"

namespace tessera::runtime::model {

struct Counterexample {
  Program program;
  Setting setting;
  std::string choices, violation;
};

/// How much was looked at.
struct Statistics {
  std::uint64_t programs = 0, runs = 0, redundant = 0, truncated = 0;
};

/// Runs the program with all choices, at most `limit` runs.
std::optional<Counterexample> search_all(const Program& program, const Setting& setting, Statistics& statistics,
                                         std::uint64_t limit = ~std::uint64_t{0}, bool reduced = true);
/// Runs it with `count` random sequences of choices.
std::optional<Counterexample> search_random(const Program& program, const Setting& setting, Statistics& statistics,
                                            std::uint64_t count, std::uint64_t seed);
/// A smaller counterexample that still breaks some promise.
Counterexample minimised(const Counterexample& found);
/// The program, the device, the choices, the violation, and the steps in their order.
std::string describe(const Counterexample& found);

}  // namespace tessera::runtime::model
