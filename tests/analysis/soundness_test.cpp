// Claims are true: every claim about a condition that a launch may use becomes an assertion, and the
// program runs on the CPU, for random programs and launches at and around the boundaries.
#include <gtest/gtest.h>

#include "analysis/random_launch.hpp"
#include "base/rounds.hpp"
#include "generate/claims.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;
using analysis::ClaimKind;

/// Claims about arguments are about what the launch passes.
void expect_arguments(const analysis::Facts& facts, const std::vector<std::uint64_t>& slots, std::uint64_t held) {
  for (const Claim& c : facts.claims()) {
    if (!c.holds(held)) continue;
    const auto number = static_cast<std::int64_t>(slots[static_cast<std::size_t>(c.index)]);
    if (c.kind == ClaimKind::ArgBounded) {
      EXPECT_LE(c.lower, number);
      EXPECT_LE(number, c.upper);
    } else if (c.kind == ClaimKind::ArgDivisible) {
      EXPECT_EQ(slots[static_cast<std::size_t>(c.index)] % c.divisor, 0u);
    }
  }
}

TEST(Soundness, ConditionsOfRandomPrograms) {
  std::uint64_t claims = 0;
  for (std::uint64_t seed = 0; seed < rounds(800); ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const auto errors = ir::verify(*module);
    ASSERT_TRUE(errors.empty()) << seed << ": " << errors[0].message << "\n" << ir::print(*module);
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract, passes::predicate_table());
    for (int launch = 0; launch < 4; ++launch) {
      const auto slots = random_launch(rng, contract);
      const std::uint64_t held = facts.evaluate(slots);
      expect_arguments(facts, slots, held);
      const auto copy = ir::clone(*module);
      claims += static_cast<std::uint64_t>(generate::assert_claims(*copy, facts, held));
      cpu::RunOptions options;
      options.threads = 1;
      try {
        cpu::Program::compile(*copy)->run(grid_of(contract, slots), slots, options);
      } catch (const Error& e) {
        std::string text;
        for (const auto& o : facts.obligations()) text += o.text + "\n";
        for (const std::uint64_t s : slots) text += std::to_string(static_cast<std::int64_t>(s)) + " ";
        FAIL() << "seed " << seed << ": " << e.what() << "\n" << ir::print(*copy) << text << "held " << held;
      }
    }
  }
  EXPECT_GT(claims, rounds(3000));  // otherwise this test has seen nothing
}

TEST(Soundness, RandomProgramsStayWellFormed) {
  for (std::uint64_t seed = 0; seed < rounds(300); ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract, passes::predicate_table());
    passes::apply_claims(*module, facts, rng());
    const auto errors = ir::verify(*module);
    ASSERT_TRUE(errors.empty()) << seed << ": " << errors[0].message << "\n" << ir::print(*module);
  }
}

TEST(Soundness, ClonesHaveTheSameObligations) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const analysis::Facts a = analysis::Facts::analyze(*module, contract, passes::predicate_table());
    const analysis::Facts b = analysis::Facts::analyze(*ir::clone(*module), contract, passes::predicate_table());
    ASSERT_EQ(a.obligations().size(), b.obligations().size());
    for (std::size_t i = 0; i < a.obligations().size(); ++i)
      EXPECT_EQ(a.obligations()[i].text, b.obligations()[i].text);
    for (int i = 0; i < 4; ++i) {
      const auto slots = random_launch(rng, contract);
      EXPECT_EQ(a.evaluate(slots), b.evaluate(slots));
    }
  }
}

}  // namespace
}  // namespace tessera::test
