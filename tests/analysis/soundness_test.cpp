// Nothing is believed that is not so: every claim about a condition that a launch may use becomes an assertion, and the
// program runs on the CPU, for random programs and launches at and around the boundaries.
#include <gtest/gtest.h>

#include "analysis/random_launch.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/passes/apply_claims.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;
using analysis::ClaimKind;

/// i1: the divisor of `op` is 1.
ir::Value divides_by_one(ir::Builder& b, const ir::Operation& op) {
  const ir::Value by = op.operand(1), one = b.constant_int(by.type().elem(), 1, by.type().shape());
  return b
      .create(ir::Op::CmpI, {by, one}, {by.type().with_element(ir::Elem::I1)},
              {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
               {ir::AttrName::signedness, ir::Signedness::Signed}})
      ->result();
}

/// i1: the sum of a loop's induction variable and its step, a number of at least 1, does not wrap. Computed in the
/// loop.
ir::Value step_fits(ir::Builder& b, const ir::Operation& loop) {
  const ir::Value i = loop.region(0).arg(0), step = loop.operand(2);
  const auto more = [&](ir::Value x, ir::Value y) {
    return b
        .create(ir::Op::CmpI, {x, y}, {x.type().with_element(ir::Elem::I1)},
                {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Greater},
                 {ir::AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  };
  const ir::Value next = b.create(ir::Op::AddI, {i, step}, {i.type()})->result();
  const ir::Value rises = more(next, i), positive = more(step, b.constant_int(step.type().elem(), 0));
  return b.create(ir::Op::AndI, {rises, positive}, {rises.type()})->result();
}

/// Asserts every claim about a condition, a divisor or a loop that holds. Returns how many there were.
int assert_claims(ir::Module& module, const analysis::Facts& facts, std::uint64_t held) {
  int n = 0;
  for (const Claim& c : facts.claims()) {
    const bool loop = c.kind == ClaimKind::StepFits, divisor = c.kind == ClaimKind::DivisorIsOne;
    if ((c.kind != ClaimKind::Condition && !divisor && !loop) || !c.holds(held)) continue;
    ir::Operation* op = c.op;
    ir::Operation* next = loop ? op->region(0).front() : op->next();
    ir::Builder b = next ? ir::Builder::before(next) : ir::Builder(*op->block());
    ir::Value v = loop      ? step_fits(b, *op)
                  : divisor ? divides_by_one(b, *op)
                            : op->result(static_cast<std::size_t>(c.index));
    if (!c.truth) {
      const ir::Value one = b.constant_int(ir::Elem::I1, 1, v.type().shape());
      v = b.create(ir::Op::XOrI, {v, one}, {v.type()})->result();
    }
    b.create(ir::Op::Assert, {v}, {}, {{ir::AttrName::message, std::string("a claim")}});
    n += c.obligation == analysis::kHoldsAlways ? 1 : 2;
  }
  (void)module;
  return n;
}

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
  for (std::uint64_t seed = 0; seed < 800; ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const auto errors = ir::verify(*module);
    ASSERT_TRUE(errors.empty()) << seed << ": " << errors[0].message << "\n" << ir::print(*module);
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract);
    for (int launch = 0; launch < 4; ++launch) {
      const auto slots = random_launch(rng, contract);
      const std::uint64_t held = facts.evaluate(slots);
      expect_arguments(facts, slots, held);
      const auto copy = ir::clone(*module);
      claims += static_cast<std::uint64_t>(assert_claims(*copy, analysis::Facts::analyze(*copy, contract), held));
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
  EXPECT_GT(claims, 3000u);  // otherwise this test has seen nothing
}

TEST(Soundness, RandomProgramsStayWellFormed) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract);
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
    const analysis::Facts a = analysis::Facts::analyze(*module, contract);
    const analysis::Facts b = analysis::Facts::analyze(*ir::clone(*module), contract);
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
