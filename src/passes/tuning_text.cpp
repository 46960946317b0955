// Tables of the tuning words; the on/off switches are in passes.def. Reading and writing both use them.
#include "tessera/passes/tuning_text.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/machine/machine.hpp"

namespace tessera::passes {
namespace {

struct NumberKey {
  const char* name;
  std::optional<int> Tuning::*member;
};
constexpr NumberKey kNumbers[] = {{"warps", &Tuning::warps},
                                  {"ctas", &Tuning::ctas},
                                  {"occupancy", &Tuning::occupancy},
                                  {"latency", &Tuning::latency},
                                  {"ahead", &Tuning::ahead},
                                  {"pieces", &Tuning::pieces},
                                  {"guards", &Tuning::guards},
                                  {"vectors", &Tuning::vectors},
                                  {"registers", &Tuning::registers},
                                  {"crowd", &Tuning::crowd},
                                  {"early_tiles", &Tuning::early_tiles},
                                  {"min_occupancy", &Tuning::min_occupancy},
                                  {"max_occupancy", &Tuning::max_occupancy},
                                  {"max_latency", &Tuning::max_latency},
                                  {"roll", &Tuning::roll}};
struct SwitchKey {
  const char* name;
  bool Tuning::*member;
};
constexpr SwitchKey kSwitches[] = {
#define TESSERA_SWITCH(word, member) {#word, &Tuning::member},
#include "passes/passes.def"
};
constexpr std::string_view kOverlap = "overlap", kSpread = "spread";
constexpr int kOverlaps = 4;  // of Overlap
struct PathKey {
  const char* name;
  std::optional<AccessPath> Tuning::*member;
};
constexpr PathKey kPathKeys[] = {{"access", &Tuning::access}, {"stores", &Tuning::stores}};
constexpr const char* kPaths[] = {"tma", "view", "pointer"};  // in the order of AccessPath

[[noreturn]] void fail(std::string_view word) {
  std::string known = "access=tma|view|pointer, stores=tma|view|pointer";
  for (const NumberKey& k : kNumbers) known += concat(", ", k.name, "=N");
  for (const SwitchKey& k : kSwitches) known += concat(", ", k.name, "=0|1");
  known += concat(", ", std::string(kSpread), "=N");
  known += concat(", ", std::string(kOverlap), "=0..", kOverlaps - 1);
  throw CompileError(concat("tuning: found \"", std::string(word), "\"; expected words like ", known));
}

int number(std::string_view word, std::string_view value) {
  int n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size()) fail(word);
  return n;
}

void apply(Tuning& t, std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos) fail(word);
  const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
  for (const NumberKey& k : kNumbers) {
    if (name == k.name) return void(t.*k.member = number(word, value));
  }
  if (name == kOverlap) {
    const int n = number(word, value);
    if (n < 0 || n >= kOverlaps) fail(word);
    return void(t.overlap = static_cast<Overlap>(n));
  }
  if (name == kSpread) return void(t.spread = number(word, value));
  const bool truth = value == "1";
  for (const SwitchKey& k : kSwitches) {
    if (name != k.name) continue;
    if (!truth && value != "0") fail(word);
    return void(t.*k.member = truth);
  }
  for (const PathKey& k : kPathKeys) {
    for (std::size_t i = 0; name == k.name && i < std::size(kPaths); ++i) {
      if (value == kPaths[i]) return void(t.*k.member = static_cast<AccessPath>(i));
    }
  }
  fail(word);
}

}  // namespace

Tuning parse_tuning(std::string_view text) {
  Tuning t;
  constexpr std::string_view separators = " ,\t";
  for (std::size_t at = text.find_first_not_of(separators); at != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    apply(t, text.substr(at, end - at));
    at = text.find_first_not_of(separators, end);
  }
  return t;
}

void require_power_of_two(const char* what, int value, int most) {
  if (value >= 1 && value <= most && (value & (value - 1)) == 0) return;
  throw CompileError(concat("tuning: expected ", what, " as a power of two from 1 to ", most, ", found ", value));
}
void require_range(const char* what, int value, int most) {
  if (value >= 1 && value <= most) return;
  throw CompileError(concat("tuning: expected ", what, " from 1 to ", most, ", found ", value));
}

void check_numbers(const Tuning& t) {
  constexpr int kMaxBlocks = 32, kMaxSteps = 10, kMaxPieces = 32, kMaxAhead = 2;
  require_power_of_two("spread", t.spread, 4);
  if (t.warps) require_power_of_two("warps", *t.warps, kMaxWarps);
  if (t.ctas) require_power_of_two("CTAs per cluster", *t.ctas, kMaxCtas);
  if (t.occupancy.value_or(0) != 0) require_range("occupancy", *t.occupancy, kMaxBlocks);
  if (t.min_occupancy) require_range("min_occupancy", *t.min_occupancy, kMaxBlocks);
  if (t.max_occupancy) require_range("max_occupancy", *t.max_occupancy, kMaxBlocks);
  if (t.crowd) require_range("crowd", *t.crowd, machine::kRegistersAThread);
  if (t.latency) require_range("latency", *t.latency, kMaxSteps);
  if (t.max_latency) require_range("max_latency", *t.max_latency, kMaxSteps);
  if (t.pieces) require_power_of_two("pieces", *t.pieces, kMaxPieces);
  const auto require_up_to = [](const char* what, const std::optional<int>& value, int most) {
    if (value && (*value < 0 || *value > most))
      throw CompileError(concat("tuning: expected ", what, " from 0 to ", most, ", found ", *value));
  };
  require_up_to("ahead", t.ahead, kMaxAhead);
  require_up_to("early_tiles", t.early_tiles, kMaxEarlyTiles);
}

std::string text_of(const Tuning& t) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const NumberKey& k : kNumbers) {
    if (t.*k.member) add(concat(k.name, "=", *(t.*k.member)));
  }
  if (t.spread != 1) add(concat(std::string(kSpread), "=", t.spread));
  for (const PathKey& k : kPathKeys) {
    if (t.*k.member) add(concat(k.name, "=", kPaths[static_cast<std::size_t>(*(t.*k.member))]));
  }
  for (const SwitchKey& k : kSwitches) {
    if (t.*k.member != Tuning{}.*k.member) add(concat(k.name, "=", t.*k.member ? 1 : 0));
  }
  if (t.overlap != Tuning{}.overlap) add(concat(std::string(kOverlap), "=", static_cast<int>(t.overlap)));
  return text;
}

}  // namespace tessera::passes
