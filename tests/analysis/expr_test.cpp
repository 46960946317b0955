// Launch expressions: what is simplified keeps its value, what is ordered is ordered, intervals hold every value.
#include "tessera/analysis/expr.hpp"

#include <gtest/gtest.h>

#include <random>

#include "analysis/interval.hpp"
#include "analysis/launch_program.hpp"
#include "tessera/analysis/condition.hpp"

namespace tessera::analysis {
namespace {

TEST(Expr, FoldsConstantsAndSharesNodes) {
  ExprPool e;
  EXPECT_EQ(e.add(e.constant(2), e.constant(3)), e.constant(5));
  EXPECT_EQ(e.ceil_div(e.constant(7), e.constant(2)), e.constant(4));
  EXPECT_EQ(e.floor_div(e.constant(-7), e.constant(2)), e.constant(-4));
  EXPECT_EQ(e.mod(e.constant(-7), e.constant(4)), e.constant(1));
  const Expr x = e.arg(0), y = e.arg(1);
  EXPECT_EQ(e.add(x, y), e.add(y, x));
  EXPECT_EQ(e.sub(e.add(x, e.constant(1)), x), e.constant(1));
  EXPECT_EQ(e.add(e.add(x, e.constant(-1)), e.constant(1)), x);
  EXPECT_EQ(e.mul(e.add(x, e.constant(1)), e.constant(4)), e.add(e.mul(x, e.constant(4)), e.constant(4)));
  EXPECT_EQ(e.text(e.mul(e.sub(x, y), e.constant(2))), "(arg0 - arg1) * 2");
}

TEST(Expr, BlockCoordinatesOfAGridOfPieces) {
  ExprPool e;
  const Expr rows = e.arg(0), columns = e.arg(1);
  for (const Expr d : {rows, columns}) e.promise(d, {1, INT32_MAX});
  const Expr across = e.ceil_div(columns, e.constant(64));
  const Expr last = e.add(e.mul(rows, across), e.constant(-1));
  EXPECT_EQ(e.floor_div(last, across), e.add(rows, e.constant(-1)));
  EXPECT_EQ(e.min(last, e.add(across, e.constant(-1))), e.add(across, e.constant(-1)));
  EXPECT_TRUE(e.always_le(e.mul(across, e.constant(64)), e.add(columns, e.constant(63))));
  EXPECT_FALSE(e.always_le(e.mul(across, e.constant(64)), columns));
}

TEST(Expr, SharedPartsAreEvaluatedOnce) {
  ExprPool e;
  Expr a = e.arg(0), b = e.arg(1);
  for (int i = 0; i < 80; ++i) {  // Fibonacci's numbers: 2^55 nodes if written out
    const Expr next = e.add(e.min(a, e.add(b, e.arg(2))), e.max(b, a));
    b = a;
    a = next;
  }
  const std::uint64_t slots[] = {0, 0, 0}, large[] = {1, 1, 1};
  EXPECT_EQ(e.evaluate(a, slots), 0);
  EXPECT_TRUE(e.evaluate(a, large).has_value());
  const std::string text = e.text(a);
  EXPECT_LT(text.size(), 2000u);
  EXPECT_NE(text.find("..."), std::string::npos);
}

TEST(Expr, WhatLeaves64BitsIsUnknown) {
  ExprPool e;
  const Expr x = e.arg(0);
  const std::uint64_t large[] = {static_cast<std::uint64_t>(INT64_MAX)};
  EXPECT_FALSE(e.evaluate(e.add(x, e.constant(1)), large));
  EXPECT_FALSE(e.evaluate(e.mul(x, e.constant(2)), large));
  EXPECT_FALSE(e.evaluate(e.floor_div(x, e.arg(1)), large));  // no such slot
  const std::uint64_t zero[] = {5, 0};
  EXPECT_FALSE(e.evaluate(e.floor_div(x, e.arg(1)), zero));
  EXPECT_EQ(e.evaluate(e.arg(0, 32), std::vector<std::uint64_t>{0xFFFFFFFFu}), -1);
}

using Exact = std::optional<__int128>;

Exact exactly(ExprKind k, Exact a, Exact b) {
  if (!a || !b) return {};
  const __int128 x = *a, y = *b;
  const auto floored = [](__int128 p, __int128 q) { return p / q - (p % q < 0 ? 1 : 0); };
  switch (k) {
    case ExprKind::Add: return x + y;
    case ExprKind::Sub: return x - y;
    case ExprKind::Mul: return x * y;
    case ExprKind::FloorDiv: return y < 1 ? Exact{} : floored(x, y);
    case ExprKind::CeilDiv: return y < 1 ? Exact{} : -floored(-x, y);
    case ExprKind::Mod: return y < 1 ? Exact{} : x - floored(x, y) * y;
    case ExprKind::Min: return std::min(x, y);
    case ExprKind::Max: return std::max(x, y);
    default: return {};
  }
}

/// Random expressions with their exact values over some launches.
class Forest {
 public:
  explicit Forest(std::mt19937_64& rng) : rng_(rng) {
    for (int i = 0; i < 6; ++i) slots_.push_back(launch());
    for (int a = 0; a < 4; ++a) {
      const Expr arg = pool.arg(a);
      if (a < 3) pool.promise(arg, {a == 0 ? 1 : 0, INT32_MAX});
      std::vector<Exact> values;
      for (const auto& s : slots_) values.push_back(static_cast<std::int64_t>(s[static_cast<std::size_t>(a)]));
      keep(arg, values);
    }
    for (const std::int64_t c : {0, 1, 2, 3, 16, 64, -1, -64, 1 << 30})
      keep(pool.constant(c), std::vector<Exact>(slots_.size(), __int128{c}));
  }
  void grow() {
    const auto kind = static_cast<ExprKind>(2 + rng_() % 8);
    const std::size_t i = rng_() % exprs.size(), j = rng_() % exprs.size();
    const Expr a = exprs[i], b = exprs[j];
    std::vector<Exact> values;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      const Exact v = exactly(kind, exact[i][s], exact[j][s]);
      const bool fits = v && *v >= INT64_MIN / 4 && *v <= INT64_MAX / 4;
      values.push_back(fits ? v : Exact{});
    }
    keep(make(kind, a, b), values);
  }
  void check() const {
    for (std::size_t i = 0; i < exprs.size(); ++i) {
      const Interval in = pool[exprs[i]].interval;
      for (std::size_t s = 0; s < slots_.size(); ++s) {
        if (!exact[i][s]) continue;
        const auto v = static_cast<std::int64_t>(*exact[i][s]);
        const auto found = pool.evaluate(exprs[i], slots_[s]);
        if (found) { ASSERT_EQ(*found, v) << pool.text(exprs[i]); }
        ASSERT_TRUE(in.lo <= v && v <= in.hi) << pool.text(exprs[i]);
      }
      for (std::size_t j = 0; j < exprs.size(); ++j) {
        if (!pool.always_le(exprs[i], exprs[j])) continue;
        for (std::size_t s = 0; s < slots_.size(); ++s) {
          if (!exact[i][s] || !exact[j][s]) continue;
          ASSERT_TRUE(*exact[i][s] <= *exact[j][s]) << pool.text(exprs[i]) << " <= " << pool.text(exprs[j]);
        }
      }
    }
  }
  const std::vector<std::vector<std::uint64_t>>& launches() const { return slots_; }

  ExprPool pool;
  std::vector<Expr> exprs;
  std::vector<std::vector<Exact>> exact;

 private:
  std::vector<std::uint64_t> launch() {
    const std::int64_t dims[] = {1, 2, 15, 16, 17, 63, 64, 65, 128, 1000, INT32_MAX};
    const auto dim = [&] { return static_cast<std::uint64_t>(dims[rng_() % std::size(dims)]); };
    return {dim(), rng_() % 5 == 0 ? 0 : dim(), dim(), rng_() % 2 == 0 ? dim() : std::uint64_t{0} - dim()};
  }
  Expr make(ExprKind kind, Expr a, Expr b) {
    switch (kind) {
      case ExprKind::Add: return pool.add(a, b);
      case ExprKind::Sub: return pool.sub(a, b);
      case ExprKind::Mul: return pool.mul(a, b);
      case ExprKind::FloorDiv: return pool.floor_div(a, b);
      case ExprKind::CeilDiv: return pool.ceil_div(a, b);
      case ExprKind::Mod: return pool.mod(a, b);
      case ExprKind::Min: return pool.min(a, b);
      default: return pool.max(a, b);
    }
  }
  void keep(Expr e, std::vector<Exact> values) {
    exprs.push_back(e);
    exact.push_back(std::move(values));
  }
  std::mt19937_64& rng_;
  std::vector<std::vector<std::uint64_t>> slots_;
};

TEST(Expr, RandomExpressionsKeepTheirValues) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 rng(seed);
    Forest f(rng);
    for (int i = 0; i < 40; ++i) f.grow();
    f.check();
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Condition, RandomConditionsMeanTheSameWhenCompiled) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 rng(seed);
    Forest f(rng);
    for (int i = 0; i < 30; ++i) f.grow();
    ConditionPool conditions(f.pool);
    LaunchProgram program;
    std::vector<std::vector<std::optional<bool>>> expected;  // by obligation, by launch
    while (expected.size() < 40) {
      const std::size_t i = rng() % f.exprs.size(), j = rng() % f.exprs.size();
      const std::uint64_t n = std::uint64_t{1} << rng() % 8;
      const bool divides = rng() % 3 == 0;
      const Conditions c = divides ? conditions.divides(n, f.exprs[i]) : conditions.less_equal(f.exprs[i], f.exprs[j]);
      std::vector<std::optional<bool>> truth;
      for (std::size_t s = 0; s < f.launches().size(); ++s) {
        const Exact a = f.exact[i][s], b = f.exact[j][s];
        if (!a || !b)
          truth.emplace_back();
        else
          truth.emplace_back(divides ? *a % static_cast<std::int64_t>(n) == 0 : *a <= *b);
      }
      if (c.always() || c.never()) {
        for (const auto& t : truth) {
          ASSERT_EQ(t.value_or(c.always()), c.always()) << f.pool.text(f.exprs[i]) << " ? " << f.pool.text(f.exprs[j]);
        }
        truth.assign(truth.size(), std::nullopt);
      }
      if (c.never()) continue;
      if (!program.add(conditions, f.pool, c)) break;
      expected.push_back(std::move(truth));
    }
    program.seal();
    for (std::size_t s = 0; s < f.launches().size(); ++s) {
      const std::uint64_t bits = program.evaluate(f.launches()[s]);
      for (std::size_t o = 0; o < expected.size(); ++o) {
        // An expression on the way may leave 64 bits where the whole does not; then the obligation is false.
        const bool held = ((bits >> o) & 1) != 0;
        ASSERT_FALSE(held && expected[o][s] == false) << "seed " << seed;
      }
    }
  }
}

TEST(Condition, OfNumbersThatLeave64BitsDoesNotHold) {
  ExprPool e;
  const Expr product = e.mul(e.arg(0), e.arg(1)), one = e.constant(1);
  ConditionPool c(e);
  LaunchProgram program;
  ASSERT_TRUE(program.add(c, e, c.less_equal(product, one)));
  ASSERT_TRUE(program.add(c, e, c.less_equal(one, product)));
  ASSERT_TRUE(program.add(c, e, c.divides(64, product)));
  ASSERT_TRUE(program.add(c, e, c.less_equal(one, e.arg(0))));
  program.seal();
  const std::uint64_t large = std::uint64_t{1} << 32;
  EXPECT_EQ(program.evaluate(std::vector<std::uint64_t>{large, 16}), 0b1110u);
  EXPECT_EQ(program.evaluate(std::vector<std::uint64_t>{large, large}), 0b1000u) << "the product is 0 in 64 bits";
  EXPECT_EQ(program.evaluate(std::vector<std::uint64_t>{large, large / 2}), 0b1000u) << "it is negative";
}

TEST(Condition, AMultipleIsSeen) {
  ExprPool e;
  const Expr x = e.arg(0), n = e.constant(64);
  e.promise(x, {0, INT32_MAX});
  ConditionPool c(e);
  const Conditions whole = c.less_equal(e.mul(e.ceil_div(x, n), n), x);
  EXPECT_EQ(whole, c.divides(64, x));
  EXPECT_EQ(c.text(whole), "arg0 is a multiple of 64");
  EXPECT_TRUE(c.less_equal(e.mul(e.floor_div(x, n), n), x).always());
  EXPECT_TRUE(c.less_equal(e.add(x, e.constant(1)), x).never());
  EXPECT_EQ(c.text(c.less_equal(e.constant(2), e.ceil_div(x, n))), "65 <= arg0");
  EXPECT_EQ(c.both(whole, c.both(whole, kAlways)), whole);
  EXPECT_TRUE(c.both(whole, kNever).never());
}

}  // namespace
}  // namespace tessera::analysis
