// A recorded kernel after all passes for sm_90, and that it computes what it computed before, on the CPU.
#pragma once
#include <cstring>
#include <tuple>

#include "analysis/support.hpp"
#include "tessera/certify/certify.hpp"
#include "tessera/passes/pipeline.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {

/// The i-th of numbers for inputs: multiples of 1/8 from -6.25 to 6.25, of which no 101 in a row repeat.
inline float number(std::int64_t i) { return static_cast<float>((i * 37) % 101 - 50) / 8.0f; }

struct Passed {
  std::unique_ptr<ir::Module> module;
  passes::Choices choices;
};

/// Verifies the claims of passes as a compile does, for launches that hold `held`. One that is rejected fails the test,
/// as it does a compile with TESSERA_VERIFY=claims.
struct Certifying final : passes::Certifier {
  const Recorded& recorded;
  std::uint64_t held;
  Certifying(const Recorded& r, std::uint64_t h) : recorded(r), held(h) {}
  std::vector<bool> judge(const ir::Function& f, std::span<const analysis::Claim> claims) const override {
    std::vector<bool> all = answer(f, claims);
    for (std::size_t i = 0; i < claims.size(); ++i)
      EXPECT_TRUE(all[i]) << "kind " << static_cast<int>(claims[i].kind) << "\n" << ir::print(f);
    return all;
  }
  std::vector<bool> answer(const ir::Function& f, std::span<const analysis::Claim> questions) const override {
    analysis::Certificate certificate = recorded.facts.certificate();
    certificate.invariants.clear();  // the operations have other numbers by now
    return certify::check(f, recorded.contract, certificate, questions, held).certified;
  }
};

/// `r` after all passes for sm_90, for launches with these arguments.
inline Passed passed(const Recorded& r, const std::vector<std::uint64_t>& slots, const passes::Tuning& tuning,
                     const char* stop_after = "") {
  Passed p{ir::clone(*r.trace.module), {}};
  const auto claims = r.facts.claims_of(*p.module);
  const Certifying certifier(r, r.facts.evaluate(slots));
  passes::Work work;
  work.claims = claims;
  work.predicates = certifier.held;
  work.contract = &r.contract;
  work.certifier = &certifier;
  work.stop_after = stop_after;
  p.choices = passes::run_passes(*p.module, {90, 132}, &tuning, work).choices;
  EXPECT_EQ(problems(*p.module), "");
  return p;
}
/// For launches with tensors of these extents and, where the call says it, so many blocks.
inline Passed passed(const Recorded& r, const std::vector<std::vector<std::int64_t>>& dims,
                     const passes::Tuning& tuning, const char* stop_after = "", std::uint64_t blocks = 1) {
  return passed(r, r.slots(dims, blocks), tuning, stop_after);
}
template <auto K>
Passed passed(const std::vector<std::vector<std::int64_t>>& dims, const passes::Tuning& tuning,
              const char* stop_after = "", std::uint64_t blocks = 1) {
  return passed(recorded<K>(), dims, tuning, stop_after, blocks);
}

/// The grid of a launch of so many pieces: what the launcher makes (tests/host/launch_grid_test.cpp compares them).
inline cpu::Grid grid_of(const passes::Choices& choices, std::uint64_t pieces,
                         const std::vector<std::uint64_t>& slots) {
  const auto per_block = static_cast<std::uint64_t>(choices.abi.pieces);
  const auto blocks = static_cast<std::uint32_t>((pieces + per_block - 1) / per_block);
  if (!choices.abi.grid.used) return {blocks, 1, 1};
  const auto along = [&](const calling::GridAxis& axis) {
    if (axis.argument < 0) return std::uint32_t{1};
    const auto extent = static_cast<std::uint64_t>(axis.extent);
    return static_cast<std::uint32_t>((slots.at(static_cast<std::size_t>(axis.argument)) + extent - 1) / extent);
  };
  const std::uint32_t x = along(choices.abi.grid.x), y = along(choices.abi.grid.y);
  EXPECT_EQ(blocks % (x * y), 0u) << "z has what x and y leave";
  return {x, y, blocks / (x * y)};
}

/// Runs `r` as it was recorded and after the passes; `arguments` by value, some of them written. Expects the same bits
/// in all tensors. Returns what the passes made.
template <class... A>
Passed expect_same(const Recorded& r, const passes::Tuning& tuning, int blocks, const A&... arguments) {
  cpu::RunOptions options;
  options.threads = 1;
  const auto slots_of = [&](std::tuple<A...>& copies) {
    Slots slots;
    std::apply([&](const auto&... a) { (slots.add(a), ...); }, copies);
    auto values = slots.values();
    if (lang::counts_blocks(r.trace.params)) values.push_back(static_cast<std::uint64_t>(blocks));
    return values;
  };
  const auto run = [&](const ir::Module& module, const passes::Choices& choices) {
    std::tuple<A...> copies(arguments...);
    auto values = slots_of(copies);
    const cpu::Grid grid = grid_of(choices, static_cast<std::uint64_t>(blocks), values);
    if (choices.abi.launch_flags) values.push_back(0);
    cpu::Program::compile(module)->run(grid, values, options);
    return copies;
  };
  const std::tuple<A...> expected = run(*r.trace.module, {});
  std::tuple<A...> copies(arguments...);
  Passed p = passed(r, slots_of(copies), tuning);
  const std::tuple<A...> found = run(*p.module, p.choices);
  int number = 0;
  const auto compare = [&](const auto& e, const auto& f) {
    if constexpr (requires { e.dims; }) {
      const std::size_t bytes = e.data.size() * sizeof e.data[0];
      EXPECT_EQ(std::memcmp(e.data.data(), f.data.data(), bytes), 0)
          << "argument " << number << ", " << passes::text_of(tuning);
    }
    ++number;
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (compare(std::get<I>(expected), std::get<I>(found)), ...);
  }(std::index_sequence_for<A...>{});
  return p;
}
template <auto K, class... A>
Passed expect_same(const passes::Tuning& tuning, int blocks, const A&... arguments) {
  return expect_same(recorded<K>(), tuning, blocks, arguments...);
}

}  // namespace tessera::test
