// The checker accepts the analysis's claims and rejects false ones, whatever a certificate states.
#include "certify/support.hpp"

#include "api/branch_kernels.hpp"
#include "passes/pass_support.hpp"

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
  EXPECT_EQ(judge(*r.trace.module, r.facts, held).unproven, 0u);
  // The comparison in the inner loop is the guard of the store. Claimed by force, it is rejected.
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
  EXPECT_EQ(verdict.unproven, guards.size());
}

TEST(Certify, TheGuardOfABoundedIndexIsProvenToHold) {
  const Recorded r = recorded<branch_kernels::store_bounded_part>();
  const std::uint64_t held = r.held({{256}});
  const auto verdict = judge(*r.trace.module, r.facts, held);
  EXPECT_EQ(verdict.unproven, 0u);
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

/// A certificate of one invariant over results or regions of the first operation of this kind.
struct Invariant {
  ir::Op op;
  std::uint32_t index;
  bool of_region, is_upper;
  std::int64_t bound;
};
std::size_t bad_invariants(const ir::Module& module, const Invariant& i) {
  analysis::Certificate c;
  std::uint32_t number = 0;
  std::optional<std::uint32_t> at;
  ir::walk(entry_of(module).body(), [&](const ir::Operation& op) {
    if (op.op() == i.op && !at) at = number;
    ++number;
  });
  c.terms.push_back({analysis::ExprKind::Const, 64, true, i.bound, 0, 0});
  c.invariants.push_back({at.value(), i.index, i.of_region, i.is_upper, 0, {}});
  return certify::check(entry_of(module), analysis::LaunchContract(), c, {}, 0).bad_invariants;
}

/// for i in (0 to 8) { n = 5 -> n + `step` }
std::unique_ptr<ir::Module> counted(std::int64_t step, std::int64_t rounds) {
  auto module = std::make_unique<ir::Module>();
  ir::Builder b(module->add_function("counted").body());
  const ir::Type i32 = ir::Type::tile(ir::Elem::I32);
  const auto number = [&](std::int64_t n) { return b.constant_int(ir::Elem::I32, n); };
  ir::Operation* loop = b.create(ir::Op::For, {number(0), number(rounds), number(1), number(5)}, {i32});
  ir::Block& body = loop->add_region();
  body.add_arg(i32);
  const ir::Value n = body.add_arg(i32);
  ir::Builder in(body);
  const ir::Value next = in.create(ir::Op::AddI, {n, in.constant_int(ir::Elem::I32, step)}, {i32})->result();
  in.create(ir::Op::Continue, {next}, {});
  b.create(ir::Op::Return, {}, {});
  return module;
}
TEST(Certify, InvariantsOfForLoops) {
  const auto still = counted(0, 8), down = counted(-1, 8), up = counted(1, 8);
  for (const bool region : {true, false}) {
    const std::uint32_t index = region ? 1 : 0;
    const auto bad = [&](const ir::Module& m, bool is_upper, std::int64_t bound) {
      return bad_invariants(m, {ir::Op::For, index, region, is_upper, bound});
    };
    // Of the result alone nothing follows for the value that is counted on.
    EXPECT_EQ(bad(*still, true, 5), region ? 0u : 1u);
    EXPECT_EQ(bad(*still, false, 5), region ? 0u : 1u);
    EXPECT_EQ(bad(*still, true, 4), 1u) << "the first value is above it";
    EXPECT_EQ(bad(*still, false, 6), 1u) << "the first value is below it";
    EXPECT_EQ(bad(*down, false, 5), 1u) << "the second value is below it";
    EXPECT_EQ(bad(*up, true, 5), 1u);
    EXPECT_EQ(bad_invariants(*still, {ir::Op::For, 7, region, true, 5}), 1u) << "there is no such value";
  }
  EXPECT_EQ(bad_invariants(*counted(100, 0), {ir::Op::For, 0, false, true, 4}), 1u) << "without an iteration it is 5";
}

/// for i in (0 to rounds) { n = 5 -> 1 }
std::unique_ptr<ir::Module> set_to_one(std::int64_t rounds) {
  auto module = std::make_unique<ir::Module>();
  ir::Builder b(module->add_function("set").body());
  const ir::Type i32 = ir::Type::tile(ir::Elem::I32);
  const auto number = [&](std::int64_t n) { return b.constant_int(ir::Elem::I32, n); };
  ir::Operation* loop = b.create(ir::Op::For, {number(0), number(rounds), number(1), number(5)}, {i32});
  ir::Block& body = loop->add_region();
  body.add_arg(i32);
  body.add_arg(i32);
  ir::Builder in(body);
  in.create(ir::Op::Continue, {in.constant_int(ir::Elem::I32, 1)}, {});
  b.create(ir::Op::Return, {}, {});
  return module;
}
TEST(Certify, ResultsOfForLoopsAreWhatEntersWithoutIterations) {
  const auto module = set_to_one(0);
  const auto bad = [&](std::int64_t bound) { return bad_invariants(*module, {ir::Op::For, 0, false, true, bound}); };
  EXPECT_EQ(bad(5), 0u);
  EXPECT_EQ(bad(4), 1u);
}

/// loop { n = 5 -> if (v < 3) { break 1 } else { }; continue n }: a result that breaks give, a value that goes on.
struct Broken : Kernel {
  explicit Broken(std::int64_t breaks_with) {
    const ir::Value v = arg(ir::Elem::I32), first = i32(5), limit = i32(3);
    ir::Operation* loop = b.create(ir::Op::Loop, {first}, {v.type()});
    ir::Block& body = loop->add_region();
    const ir::Value n = body.add_arg(v.type());
    ir::Builder in(body);
    const ir::Value less = in.create(ir::Op::CmpI, {v, limit}, {ir::Type::tile(ir::Elem::I1)},
                                     {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Less},
                                      {ir::AttrName::signedness, ir::Signedness::Signed}})
                               ->result();
    ir::Operation* branch = in.create(ir::Op::If, {less}, {});
    ir::Builder arm(branch->add_region());
    arm.create(ir::Op::Break, {arm.constant_int(ir::Elem::I32, breaks_with)}, {});
    ir::Builder other(branch->add_region());
    other.create(ir::Op::Yield, {}, {});
    in.create(ir::Op::Continue, {n}, {});
    keep(loop->result());
    (void)function();
  }
};
TEST(Certify, InvariantsOfLoopsThatBreak) {
  Broken one(1);
  const auto bad = [&](bool region, bool is_upper, std::int64_t bound) {
    return bad_invariants(one.module, {ir::Op::Loop, 0, region, is_upper, bound});
  };
  EXPECT_EQ(bad(true, true, 5), 0u);
  EXPECT_EQ(bad(true, true, 4), 1u);
  EXPECT_EQ(bad(false, true, 1), 0u) << "only what breaks give is the result";
  EXPECT_EQ(bad(false, true, 0), 1u);
  EXPECT_EQ(bad(false, false, 1), 0u);
  EXPECT_EQ(bad(false, false, 2), 1u);
}

struct Chosen : Kernel {
  Chosen() {
    const ir::Value condition = arg(ir::Elem::I1);
    ir::Operation* branch = b.create(ir::Op::If, {condition}, {ir::Type::tile(ir::Elem::I32)});
    for (const std::int64_t n : {3, 8}) {
      ir::Builder arm(branch->add_region());
      arm.create(ir::Op::Yield, {arm.constant_int(ir::Elem::I32, n)}, {});
    }
    keep(branch->result());
    (void)function();
  }
};
TEST(Certify, InvariantsOfBranches) {
  Chosen k;
  const auto bad = [&](bool is_upper, std::int64_t bound) {
    return bad_invariants(k.module, {ir::Op::If, 0, false, is_upper, bound});
  };
  EXPECT_EQ(bad(true, 8), 0u);
  EXPECT_EQ(bad(true, 7), 1u);
  EXPECT_EQ(bad(false, 3), 0u);
  EXPECT_EQ(bad(false, 4), 1u);
}

// ---- arithmetic that wraps
// -------------------------------------------------------------------------------------------

template <bool Bounded>
void one_more(Mut<i32, 1> y, Scalar<i32> v) {
  auto r = zeros<i32, 1>();
  tile_if (Bounded ? v < 100 : v == v) { r = cast<i32>(full<bool, 1>(v + 1 > v)); }
  y.store(r);
}
template <auto K>
bool more_is_more() {
  const Recorded r = recorded<K>();
  std::vector<analysis::Claim> claims;
  ir::walk(entry_of(*r.trace.module).body(), [&](ir::Operation& op) {
    if (op.op() == ir::Op::CmpI &&
        op.enum_attr<ir::ComparisonPredicate>(ir::AttrName::comparison_predicate) == ir::ComparisonPredicate::Greater)
      claims.push_back(condition_claim(op, true));
  });
  EXPECT_EQ(claims.size(), 1u);
  constexpr std::uint64_t nothing_held = 0;  // else a launch may be asked that the sum fits
  return count_certified(
             certify::check(entry_of(*r.trace.module), r.contract, r.facts.certificate(), claims, nothing_held)) != 0;
}
TEST(Certify, ASumThatMayWrapIsNotMore) {
  EXPECT_TRUE(more_is_more<one_more<true>>());
  EXPECT_FALSE(more_is_more<one_more<false>>());
}

// ---- elements of a tile
// ----------------------------------------------------------------------------------------------

/// Two elements of a tile are compared: of one number, of two halves, of a choice by elements, of one by the block.
void of_one(Mut<i32, 1> y, Scalar<i32> v) {
  const auto t = full<i32, 8>(v);
  y.store(cast<i32>(extract(t, shape<1>, 0) == extract(t, shape<1>, 7)));
}
void of_halves(Mut<i32, 1> y, Scalar<i32> v) {
  const auto t = cat(full<i32, 4>(v), full<i32, 4>(3), axis<0>);
  y.store(cast<i32>(extract(t, shape<1>, 0) == extract(t, shape<1>, 7)));
}
void of_a_choice(Mut<i32, 1> y, Scalar<i32> v) {
  const auto t = where(iota<i32, 8>(axis<0>) < 4, full<i32, 8>(v), full<i32, 8>(3));
  y.store(cast<i32>(extract(t, shape<1>, 0) == extract(t, shape<1>, 7)));
}
void of_places(Mut<i32, 1> y, Scalar<i32> v) {
  const auto t = iota<i32, 8>(axis<0>) + v;
  y.store(cast<i32>(extract(t, shape<1>, 0) == extract(t, shape<1>, 7)));
}
template <auto K>
bool elements_are_equal() {
  const Recorded r = recorded<K>();
  std::vector<analysis::Claim> claims;
  ir::walk(entry_of(*r.trace.module).body(), [&](ir::Operation& op) {
    if (op.op() != ir::Op::CmpI ||
        op.enum_attr<ir::ComparisonPredicate>(ir::AttrName::comparison_predicate) != ir::ComparisonPredicate::Equal)
      return;
    claims.push_back(condition_claim(op, true));
  });
  EXPECT_EQ(claims.size(), 1u);
  return count_certified(
             certify::check(entry_of(*r.trace.module), r.contract, r.facts.certificate(), claims, r.held({{16}}))) != 0;
}
TEST(Certify, ElementsOfATileAreNotOneNumber) {
  EXPECT_TRUE(elements_are_equal<of_one>());
  EXPECT_FALSE(elements_are_equal<of_halves>());
  EXPECT_FALSE(elements_are_equal<of_a_choice>());
  EXPECT_FALSE(elements_are_equal<of_places>());
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
