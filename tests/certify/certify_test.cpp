// The checker accepts what the analysis finds out and refuses what is not so, whatever a certificate says.
#include "certify/support.hpp"

#include "api/branch_kernels.hpp"

namespace tessera::test {
namespace {

/// Every comparison of a kernel, claimed to be true and to be false, for launches of these obligations.
std::vector<analysis::Claim> every_comparison(const ir::Module& module) {
  std::vector<analysis::Claim> claims;
  ir::walk(entry_of(module).body(), [&](ir::Operation& op) {
    if (op.op() != ir::Op::CmpI) return;
    for (const bool truth : {true, false}) claims.push_back(condition_claim(op, truth));
  });
  return claims;
}

std::size_t count_certified(const certify::Verdict& v) {
  return static_cast<std::size_t>(std::count(v.certified.begin(), v.certified.end(), true));
}

TEST(Certify, TheGuardOfAMovedIndexIsNotProvenToHold) {
  const Recorded r = recorded<branch_kernels::store_parts>();
  const std::uint64_t held = r.held({{256}});
  EXPECT_EQ(judge(*r.trace.module, r.facts, held).refuted, 0u);
  // The comparison in the inner loop is the guard of the store. Claimed by force, it is refused.
  std::vector<analysis::Claim> guards;
  ir::walk(entry_of(*r.trace.module).body(), [&](ir::Operation& op) {
    const ir::Operation* loop = op.parent_op();
    if (op.op() == ir::Op::CmpI && loop && loop->op() == ir::Op::For && loop->parent_op() &&
        loop->parent_op()->op() == ir::Op::If)
      guards.push_back(condition_claim(op, true));
  });
  ASSERT_FALSE(guards.empty());
  const auto verdict = certify::check(entry_of(*r.trace.module), r.contract, r.facts.certificate(), guards, held);
  EXPECT_EQ(count_certified(verdict), 0u);
  EXPECT_EQ(verdict.refuted, guards.size());
}

TEST(Certify, TheGuardOfABoundedIndexIsProvenToHold) {
  const Recorded r = recorded<branch_kernels::store_bounded_part>();
  const std::uint64_t held = r.held({{256}});
  const auto verdict = judge(*r.trace.module, r.facts, held);
  EXPECT_EQ(verdict.refuted, 0u);
  EXPECT_GT(count_certified(verdict), 0u);
}

/// A counter that starts at 0 and is counted up: bounds of it that a certificate may claim.
struct Counter {
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>();
  analysis::LaunchContract contract;
  std::vector<analysis::Claim> claims;

  /// The kernel compares the counter of the loop with `limit` in each of `rounds` rounds; `step` is added to it.
  Counter(std::int64_t rounds, std::int64_t step, std::int64_t limit) {
    const ir::Type i32 = ir::Type::tile(ir::Elem::I32);
    ir::Function& f = module->add_function("counter");
    ir::Builder b(f.body());
    const auto number = [&](std::int64_t n) { return b.constant_int(ir::Elem::I32, n); };
    ir::Operation* loop = b.create(ir::Op::For, {number(0), number(rounds), number(1), number(0)}, {i32});
    ir::Block& body = loop->add_region();
    body.add_arg(i32);
    const ir::Value counter = body.add_arg(i32);
    ir::Builder in(body);
    ir::Operation* below =
        in.create(ir::Op::CmpI, {counter, in.constant_int(ir::Elem::I32, limit)}, {ir::Type::tile(ir::Elem::I1)},
                  {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Less},
                   {ir::AttrName::signedness, ir::Signedness::Signed}});
    ir::Operation* next = in.create(ir::Op::AddI, {counter, in.constant_int(ir::Elem::I32, step)}, {i32});
    in.create(ir::Op::Continue, {next->result()}, {});
    b.create(ir::Op::Return, {}, {});
    claims.push_back(condition_claim(*below, true));
  }

  /// With a certificate that says the counter is at most `bound`, or nothing.
  certify::Verdict with_bound(std::optional<std::int64_t> bound) const {
    analysis::Certificate c;
    std::uint32_t number = 0, loop = 0;
    ir::walk(entry_of(*module).body(), [&](const ir::Operation& op) {
      if (op.op() == ir::Op::For) loop = number;
      ++number;
    });
    if (bound) {
      c.terms.push_back({analysis::ExprKind::Const, 64, true, *bound, 0, 0});
      c.invariants.push_back({loop, 1, true, true, 0, {}});
    }
    return certify::check(entry_of(*module), contract, c, claims, 0);
  }
};

TEST(Certify, ABoundThatALoopKeepsProvesWhatFollowsFromIt) {
  const Counter still(8, 0, 5);  // stays 0
  EXPECT_TRUE(still.with_bound(4).certified[0]);
  EXPECT_EQ(still.with_bound(4).bad_invariants, 0u);
}

TEST(Certify, ABoundThatALoopBreaksIsNoFact) {
  const Counter counts(8, 1, 5);  // is 7 in the last round
  EXPECT_FALSE(counts.with_bound(4).certified[0]);
  EXPECT_EQ(counts.with_bound(4).bad_invariants, 1u);
  EXPECT_FALSE(counts.with_bound({}).certified[0]);
}

TEST(Certify, ABoundThatTheFirstValueBreaksIsNoFact) {
  const Counter down(8, -1, -1);  // starts at 0, and every round keeps "at most -2" once it holds
  EXPECT_FALSE(down.with_bound(-2).certified[0]);
  EXPECT_EQ(down.with_bound(-2).bad_invariants, 1u);
}

TEST(Certify, NothingIsCertifiedForAnObligationThatIsNotHeld) {
  const Recorded r = recorded<branch_kernels::sum_tiles>();
  const auto verdict = judge(*r.trace.module, r.facts, 0);
  for (std::size_t i = 0; i < verdict.certified.size(); ++i)
    EXPECT_FALSE(verdict.certified[i] && r.facts.claims()[i].obligation != analysis::kHoldsAlways);
}

TEST(Certify, AConditionAndItsOppositeAreNotBothProven) {
  const Recorded r = recorded<branch_kernels::sum_tiles>();
  const auto claims = every_comparison(*r.trace.module);
  const auto verdict =
      certify::check(entry_of(*r.trace.module), r.contract, r.facts.certificate(), claims, r.held({{16}, {64}}));
  for (std::size_t i = 0; i + 1 < claims.size(); i += 2) EXPECT_FALSE(verdict.certified[i] && verdict.certified[i + 1]);
}

}  // namespace
}  // namespace tessera::test
