// The loops over runs, and the minimiser: operations are left out first, then choices are set to the first alternative.
#include "runtime/model/search.hpp"

#include <utility>

#include "tessera/base/format.hpp"

namespace tessera::runtime::model {

namespace {

std::optional<Counterexample> once(const Program& program, const Setting& setting, Choices& choices,
                                   Statistics& statistics) {
  const Outcome outcome = run(program, setting, choices);
  ++statistics.runs;
  statistics.redundant += outcome.redundant ? 1 : 0;
  statistics.truncated += choices.truncated() ? 1 : 0;
  if (outcome.violation.empty()) return std::nullopt;
  return Counterexample{program, setting, choices.text(), outcome.violation};
}

std::optional<Counterexample> replayed(const Program& program, const Setting& setting, const std::string& choices) {
  Statistics none;
  Choices replay = Choices::replay(choices);
  return once(program, setting, replay, none);
}

/// Some failing run of a smaller program.
std::optional<Counterexample> fails(const Program& program, const Setting& setting) {
  constexpr std::uint64_t kRuns = 3000;
  Statistics none;
  if (auto found = search_all(program, setting, none, kRuns)) return found;
  return search_random(program, setting, none, kRuns, 1);
}

}  // namespace

std::optional<Counterexample> search_all(const Program& program, const Setting& setting, Statistics& statistics,
                                         std::uint64_t limit, bool reduced) {
  ++statistics.programs;
  Choices choices = Choices::all(reduced);
  std::uint64_t runs = 0;
  do {
    if (auto found = once(program, setting, choices, statistics)) return found;
  } while (choices.next() && ++runs < limit);
  return std::nullopt;
}

std::optional<Counterexample> search_random(const Program& program, const Setting& setting, Statistics& statistics,
                                            std::uint64_t count, std::uint64_t seed) {
  ++statistics.programs;
  for (std::uint64_t i = 0; i < count; ++i) {
    Choices choices = Choices::random(seed + i);
    if (auto found = once(program, setting, choices, statistics)) return found;
  }
  return std::nullopt;
}

Counterexample minimised(const Counterexample& found) {
  Counterexample best = found;
  for (std::size_t i = 0; i < best.program.size();) {
    Program shorter = best.program;
    shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
    std::optional<Counterexample> smaller;
    if (makes_sense(shorter)) smaller = fails(shorter, best.setting);
    if (smaller)
      best = *smaller;
    else
      ++i;
  }
  for (std::size_t i = 1; i < best.choices.size(); ++i) {
    std::string zeroed = best.choices;
    if (std::exchange(zeroed[i], '0') == '0') continue;
    if (auto same = replayed(best.program, best.setting, zeroed)) best = *same;
  }
  while (best.choices.size() > 1 && best.choices.back() == '0') best.choices.pop_back();
  return best;
}

std::string describe(const Counterexample& found) {
  Choices replay = Choices::replay(found.choices);
  const Outcome outcome = run(found.program, found.setting, replay, true);
  std::string text = concat("violation: ", found.violation, "\nreplay with: --replay '", model::text(found.setting),
                            "' '", model::text(found.program), "' '", found.choices, "'\n");
  for (const std::string& line : outcome.log) text += concat("  ", line, "\n");
  return text;
}

}  // namespace tessera::runtime::model
