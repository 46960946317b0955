// A recorded kernel after all passes for sm_90, and that it computes what it computed before, on the CPU.
#pragma once
#include <cstring>

#include "analysis/support.hpp"
#include "passes/accepting.hpp"
#include "tessera/passes/pipeline.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {

struct Passed {
  std::unique_ptr<ir::Module> module;
  passes::Choices choices;
};

/// `K` after all passes for sm_90, for launches with tensors of these extents.
template <auto K>
Passed passed(const std::vector<std::vector<std::int64_t>>& dims, const passes::Tuning& tuning,
              const char* stop_after = "") {
  const Recorded r = recorded<K>();
  Passed p{ir::clone(*r.trace.module), {}};
  const auto claims = r.facts.claims_of(*p.module);
  passes::Work work;
  work.claims = claims;
  work.held = r.held(dims);
  work.contract = &r.contract;
  work.certifier = &kAcceptAll;
  work.stop_after = stop_after;
  p.choices = passes::run_passes(*p.module, {90, 132}, &tuning, work).choices;
  EXPECT_EQ(problems(*p.module), "");
  return p;
}

/// Runs `K` as it was recorded and after the passes; `arguments` by value, the first is written. Expects the same
/// bits. Returns what the passes made.
template <auto K, class Y, class... A>
Passed expect_same(const passes::Tuning& tuning, int blocks, Y y, A... arguments) {
  const auto slots_of = [&](Y& out) {
    Slots slots;
    slots.add(out);
    (slots.add(arguments), ...);
    return slots.values();
  };
  cpu::RunOptions options;
  options.threads = 1;
  Y expected = y;
  const Recorded r = recorded<K>();
  cpu::Program::compile(*r.trace.module)->run({static_cast<std::uint32_t>(blocks), 1, 1}, slots_of(expected), options);
  std::vector<std::vector<std::int64_t>> dims{y.dims};
  const auto add_dims = [&](const auto& a) {
    if constexpr (requires { a.dims; }) dims.push_back(a.dims);
  };
  (add_dims(arguments), ...);
  Passed p = passed<K>(dims, tuning);
  auto slots = slots_of(y);
  if (p.choices.launch_flags) slots.push_back(0);
  const auto grid = static_cast<std::uint32_t>((blocks + p.choices.pieces - 1) / p.choices.pieces);
  cpu::Program::compile(*p.module)->run({grid, 1, 1}, slots, options);
  EXPECT_EQ(std::memcmp(y.data.data(), expected.data.data(), y.data.size() * sizeof y.data[0]), 0)
      << passes::text_of(tuning);
  return p;
}

}  // namespace tessera::test
