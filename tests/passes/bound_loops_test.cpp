// Bounds of loops near the ends of their type: the form a loop gets by what is known of them, and that the iterations
// are the same, on the CPU, whose number of iterations is exact.
#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "analysis/support.hpp"
#include "passes/pass_support.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

using ir::Elem;
using ir::Op;
using ir::Value;

/// for i in (lower to upper, step step), of which a test gives constants or arguments; how often it runs is stored.
struct BoundedLoop : Kernel {
  BoundedLoop(std::optional<std::int64_t> lower, std::optional<std::int64_t> upper, std::optional<std::int64_t> step) {
    const auto number = [&](std::optional<std::int64_t> n) { return n ? i32(*n) : arg(Elem::I32); };
    const Value l = number(lower), u = number(upper), s = number(step), zero = i32(0);
    loop = b.create(Op::For, {l, u, s, zero}, {zero.type()});
    ir::Block& body = loop->add_region();
    body.add_arg(l.type());
    const Value runs = body.add_arg(l.type());
    ir::Builder in(body);
    in.create(Op::Continue, {in.create(Op::AddI, {runs, in.constant_int(Elem::I32, 1)}, {zero.type()})->result()}, {});
    keep(loop->result(0));
    (void)function();
  }
  bool bound(const passes::Certifier* c) {
    const bool changed = passes::bound_loops(*module.functions.front(), c);
    EXPECT_EQ(problems_of(module), "");
    return changed;
  }
  std::int32_t runs(std::vector<std::int32_t> arguments) {
    std::int32_t n = -1;
    Slots slots;
    for (const std::int32_t v : arguments) slots.add(v);
    slots.add(&n);
    cpu::Program::compile(module)->run(cpu::Grid{1}, slots.values());
    return n;
  }
  ir::Operation* loop;
};

struct Judging final : passes::Certifier {
  explicit Judging(bool says) : says(says) {}
  std::vector<bool> judge(const ir::Function&, std::span<const analysis::Claim> claims) const override {
    asked += claims.size();
    return std::vector<bool>(claims.size(), says);
  }
  bool says;
  mutable std::size_t asked = 0;
};

TEST(BoundLoops, AnUpperBoundThatMayBeTheSmallestNumber) {
  const Judging no(false);
  BoundedLoop k(0, {}, 1);
  EXPECT_TRUE(k.bound(&no));
  EXPECT_EQ(no.asked, 1u) << "the lower bound is a constant";
  ASSERT_NE(k.loop->operand(1).def(), nullptr);
  EXPECT_EQ(k.loop->operand(1).def()->op(), Op::MaxI);
  for (const std::int32_t upper : {INT32_MIN, INT32_MIN + 1, -1, 0, 1, 7})
    EXPECT_EQ(k.runs({upper}), std::max(upper, 0)) << upper;
}

TEST(BoundLoops, ALowerBoundThatMayBeTheLargestNumber) {
  const Judging no(false);
  BoundedLoop k({}, 9, 1);
  EXPECT_TRUE(k.bound(&no));
  EXPECT_EQ(no.asked, 1u) << "the upper bound is a constant";
  ASSERT_NE(k.loop->operand(0).def(), nullptr);
  EXPECT_EQ(k.loop->operand(0).def()->op(), Op::MinI);
  for (const std::int32_t lower : {INT32_MAX, INT32_MAX - 3, 10, 9, 8, -2})
    EXPECT_EQ(k.runs({lower}), std::max(9 - lower, 0)) << lower;
}

TEST(BoundLoops, WhatIsKnownStays) {
  const Judging no(false), yes(true);
  BoundedLoop constant(0, 9, 1), certified(0, {}, 1), both({}, {}, 1);
  EXPECT_FALSE(constant.bound(&no));
  EXPECT_EQ(no.asked, 0u);
  EXPECT_FALSE(certified.bound(&yes));
  EXPECT_EQ(yes.asked, 1u);
  EXPECT_FALSE(both.bound(&yes));
  EXPECT_EQ(yes.asked, 3u) << "one claim for each bound";
}

/// Constants at a quarter of the type's range and beyond it.
TEST(BoundLoops, AQuarterOfTheTypesRangeIsFarEnough) {
  const Judging no(false);
  constexpr std::int64_t kQuarter = 1 << 30;
  BoundedLoop first(kQuarter, kQuarter + 5, 1), last(-kQuarter - 5, -kQuarter, 1);
  EXPECT_FALSE(first.bound(&no));
  EXPECT_FALSE(last.bound(&no));
  BoundedLoop above(kQuarter + 1, INT32_MAX, 1), below(INT32_MIN, -kQuarter - 1, 1);
  EXPECT_TRUE(above.bound(&no));
  EXPECT_TRUE(below.bound(&no));
  EXPECT_EQ(no.asked, 0u);
}

/// Of `lower` and `upper` a certifier knows some sides: which form the loop gets, and that it runs as often as before.
TEST(BoundLoops, TheFormFollowsFromWhatIsKnownOfTheBounds) {
  using analysis::ClaimKind;
  using Known = std::set<std::pair<ClaimKind, int>>;
  struct Knows final : passes::Certifier {
    explicit Knows(const Known& known) : known(known) {}
    std::vector<bool> judge(const ir::Function&, std::span<const analysis::Claim> claims) const override {
      std::vector<bool> may;
      for (const analysis::Claim& c : claims) {
        EXPECT_EQ(c.kind == ClaimKind::AtLeast ? c.lower : c.upper,
                  c.kind == ClaimKind::AtLeast ? -(1 << 30) : 1 << 30);
        may.push_back(known.contains({c.kind, c.index}));
      }
      return may;
    }
    const Known& known;
  };
  constexpr auto kLeast = ClaimKind::AtLeast, kMost = ClaimKind::AtMost;
  enum Form { Stays, Upper, Lower, Shifted, Counted };
  const auto form_of = [](const Known& known, std::int32_t lower, std::int32_t upper) {
    const Knows knows(known);
    BoundedLoop k({}, {}, 1);
    const bool changed = k.bound(&knows);
    EXPECT_EQ(k.runs({lower, upper}), std::max<std::int64_t>(std::int64_t{upper} - lower, 0)) << lower << " " << upper;
    if (!changed) return Stays;
    if (k.loop->operand(0).type().elem() == Elem::I64) return Counted;
    const auto is = [&](std::size_t i, Op op) {
      return k.loop->operand(i).def() != nullptr && k.loop->operand(i).def()->op() == op;
    };
    EXPECT_EQ(is(0, Op::SubI), is(1, Op::SubI));
    EXPECT_EQ(is(0, Op::SubI) + is(0, Op::MinI) + is(1, Op::MaxI), 1);
    return is(0, Op::SubI) ? Shifted : is(0, Op::MinI) ? Lower : Upper;
  };
  constexpr std::int32_t kLow = INT32_MIN, kHigh = INT32_MAX;
  const std::pair<std::int32_t, std::int32_t> bounds[] = {{3, 8},
                                                          {8, 3},
                                                          {-4, 0},
                                                          {0, 0},
                                                          {1000, 1001},
                                                          {kHigh, kLow},
                                                          {kLow, kLow + 2},
                                                          {kHigh - 3, kHigh},
                                                          {1 << 30, (1 << 30) + 2},
                                                          {(1 << 30) + 1, (1 << 30) + 3},
                                                          {kHigh, 0}};
  for (const auto& [lower, upper] : bounds) {
    EXPECT_EQ(form_of(Known{{kMost, 0}, {kLeast, 1}}, lower, upper), Stays);
    EXPECT_EQ(form_of(Known{{kMost, 0}, {kLeast, 0}}, lower, upper), Upper);
    EXPECT_EQ(form_of(Known{{kMost, 0}, {kLeast, 0}, {kMost, 1}}, lower, upper), Upper);
    EXPECT_EQ(form_of(Known{{kMost, 1}, {kLeast, 1}}, lower, upper), Lower);
    EXPECT_EQ(form_of(Known{{kMost, 1}, {kLeast, 1}, {kLeast, 0}}, lower, upper), Lower);
    EXPECT_EQ(form_of(Known{{kLeast, 1}}, lower, upper), Shifted);
    EXPECT_EQ(form_of(Known{{kLeast, 0}}, lower, upper), Shifted);
    EXPECT_EQ(form_of(Known{{kLeast, 0}, {kLeast, 1}}, lower, upper), Shifted);
    EXPECT_EQ(form_of(Known{{kMost, 0}, {kMost, 1}}, lower, upper), Counted);
    EXPECT_EQ(form_of(Known{}, lower, upper), Counted);
  }
}

/// The induction variable has the values of the original loop, and the bounds stay away from the ends of the type.
TEST(BoundLoops, AShiftedLoopHasTheSameValues) {
  struct LeastOfLower final : passes::Certifier {
    std::vector<bool> judge(const ir::Function&, std::span<const analysis::Claim> claims) const override {
      std::vector<bool> may;
      for (const analysis::Claim& c : claims) may.push_back(c.kind == analysis::ClaimKind::AtLeast && c.index == 0);
      return may;
    }
  };
  Kernel k;
  const Value lower = k.arg(Elem::I32), upper = k.arg(Elem::I32), none = k.i32(0);
  ir::Operation* loop = k.b.create(Op::For, {lower, upper, k.i32(1), none}, {none.type()});
  ir::Block& body = loop->add_region();
  const Value i = body.add_arg(lower.type()), sum = body.add_arg(none.type());
  ir::Builder in(body);
  const Value next = in.create(Op::MulI, {sum, in.constant_int(Elem::I32, 31)}, {none.type()})->result();
  in.create(Op::Continue, {in.create(Op::AddI, {next, i}, {none.type()})->result()}, {});
  k.keep(loop->result(0));
  ir::Function& f = k.function();
  const LeastOfLower certifier;
  ASSERT_TRUE(passes::bound_loops(f, &certifier));
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(loop->operand(0).def()->op(), Op::SubI);
  const std::pair<std::int32_t, std::int32_t> bounds[] = {
      {INT32_MAX - 3, INT32_MAX}, {INT32_MAX, 0}, {(1 << 30) + 1, (1 << 30) + 9}, {1 << 30, (1 << 30) + 9}, {-3, 4}};
  for (const auto& [from, to] : bounds) {
    std::uint32_t expected = 0;
    for (std::int64_t n = from; n < to; ++n) expected = expected * 31 + static_cast<std::uint32_t>(n);
    std::int32_t found = -1;
    Slots slots;
    slots.add(from);
    slots.add(to);
    slots.add(&found);
    cpu::Program::compile(k.module)->run(cpu::Grid{1}, slots.values());
    EXPECT_EQ(static_cast<std::uint32_t>(found), expected) << from << " " << to;
  }
}

/// Whether the operations that make an upper bound tell that it is not negative: nothing is asked then.
bool is_seen_positive(const std::function<Value(Kernel&)>& upper) {
  Kernel k;
  const Value u = upper(k);
  ir::Operation* loop = k.b.create(Op::For, {k.i32(0), u, k.i32(1)}, {});
  ir::Block& body = loop->add_region();
  body.add_arg(u.type());
  ir::Builder(body).create(Op::Continue, {}, {});
  ir::Function& f = k.function();
  const Judging yes(true);
  EXPECT_FALSE(passes::bound_loops(f, &yes));
  return yes.asked == 0;
}
Value of_two(Kernel& k, Op op, Value x, Value y, ir::Signedness sign) {
  return k.op(op, {x, y}, x.type(), {{ir::AttrName::signedness, sign}});
}
Value divided(Kernel& k, Value x, Value y, ir::Signedness sign) {
  return k.op(Op::DivI, {x, y}, x.type(),
              {{ir::AttrName::signedness, sign}, {ir::AttrName::rounding, ir::Rounding::Zero}});
}
TEST(BoundLoops, FromTheOperations) {
  using enum ir::Signedness;
  const auto any = [](Kernel& k) { return k.arg(Elem::I32); };
  const auto extent = [&](Kernel& k) {
    const Value v = any(k);
    return k.op(Op::Assume, {v}, v.type(), {{ir::AttrName::predicate, ir::BoundedAttr{0, INT32_MAX}}});
  };
  EXPECT_FALSE(is_seen_positive(any));
  EXPECT_TRUE(is_seen_positive(extent));
  EXPECT_TRUE(is_seen_positive([&](Kernel& k) { return of_two(k, Op::MaxI, any(k), k.i32(0), Signed); }));
  EXPECT_FALSE(is_seen_positive([&](Kernel& k) { return of_two(k, Op::MaxI, any(k), k.i32(0), Unsigned); }));
  EXPECT_FALSE(is_seen_positive([&](Kernel& k) { return of_two(k, Op::MinI, any(k), k.i32(5), Signed); }));
  EXPECT_TRUE(is_seen_positive([&](Kernel& k) { return of_two(k, Op::MinI, any(k), k.i32(5), Unsigned); }));
  EXPECT_TRUE(is_seen_positive([&](Kernel& k) { return divided(k, extent(k), k.i32(3), Unsigned); }));
  EXPECT_FALSE(is_seen_positive([&](Kernel& k) { return divided(k, any(k), k.i32(3), Unsigned); }));
  EXPECT_TRUE(is_seen_positive([&](Kernel& k) { return divided(k, extent(k), k.i32(3), Signed); }));
  EXPECT_FALSE(is_seen_positive([&](Kernel& k) { return divided(k, extent(k), any(k), Signed); }));
  EXPECT_FALSE(is_seen_positive([&](Kernel& k) { return k.binary(Op::AddI, extent(k), k.i32(1)); })) << "may wrap";
}

TEST(BoundLoops, StepsThatCannotLeaveTheTypeStay) {
  const Judging yes(true);
  constexpr std::int64_t kMost = 1 << 24;
  BoundedLoop short_steps(0, 9, kMost), long_steps(0, 9, kMost + 1);
  EXPECT_FALSE(short_steps.bound(&yes));
  EXPECT_TRUE(long_steps.bound(&yes));
}

TEST(BoundLoops, BoundsAndStepsOfWhichNothingIsKnownAreCounted) {
  const Judging no(false);
  BoundedLoop ends({}, {}, 1), steps(0, 100, {}), long_steps(0, 5, 1 << 28), low(INT32_MIN, {}, 1);
  for (BoundedLoop* k : {&ends, &steps, &long_steps, &low}) {
    EXPECT_TRUE(k->bound(&no));
    EXPECT_EQ(k->loop->operand(1).type().elem(), Elem::I64) << "a count";
  }
  EXPECT_EQ(ends.runs({INT32_MIN, INT32_MIN + 3}), 3);
  EXPECT_EQ(ends.runs({5, INT32_MIN}), 0);
  EXPECT_EQ(steps.runs({INT32_MAX}), 1);
  EXPECT_EQ(steps.runs({7}), 15);
  EXPECT_EQ(long_steps.runs({}), 1);
  EXPECT_EQ(low.runs({INT32_MIN + 5}), 5);
  EXPECT_EQ(low.runs({INT32_MIN}), 0);
}

}  // namespace THIS_FILE
