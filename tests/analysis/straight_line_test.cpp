// The work of the analysis grows with the length of straight-line code, not with its square: steps are counted.
#include <deque>

#include "analysis/collector.hpp"
#include "analysis/launch_program.hpp"
#include "analysis/support.hpp"
#include "tessera/analysis/dependents.hpp"
#include "tessera/analysis/kernel_facts.hpp"

namespace tessera::test {
namespace {

using namespace analysis;

template <int N>
lang::Specialization unrolled(const std::vector<lang::ParamInfo>& params) {
  lang::Specialization s = row_major(params);
  s.constants = {N};
  return s;
}

void guarded(Mut<i32, 64> y, Scalar<i32> a, Constant<int> n) {
  auto t = y.load();
  for (int i = 0; i < n; ++i) {
    tile_if (a > i) { t = t + 1; }
  }
  y.store(t);
}
/// How many values the analysis looks up because a branch refines what they may be made of.
template <int N>
std::size_t refined_values() {
  const Recorded r = recorded<guarded>(unrolled<N>);
  ExprPool exprs;
  ConditionPool conditions(exprs);
  std::deque<LaunchQuestion> questions;
  Collector collector(r.contract, conditions, {}, questions);
  (void)collector.collect(*r.trace.module->functions.front());
  return collector.stale_visits();
}
TEST(StraightLine, BranchesOnOneNumberAreLookedAtOnce) {
  const std::size_t some = refined_values<50>(), many = refined_values<400>();
  EXPECT_LE(many, 8 * some + 400) << "each branch looks at the uses of the number in all others: " << some;
}

TEST(StraightLine, ConditionsHaveAsManyTermsAsALaunchTests) {
  ExprPool exprs;
  ConditionPool pool(exprs);
  Conditions all = kAlways;
  for (int i = 0; i < static_cast<int>(LaunchProgram::kMaxTests); ++i)
    all = pool.both(all, pool.less_equal(exprs.arg(i), exprs.constant(100)));
  EXPECT_EQ(pool.terms(all).size(), LaunchProgram::kMaxTests);
  EXPECT_FALSE(all.never());
  EXPECT_EQ(pool.both(all, pool.less_equal(exprs.arg(0), exprs.constant(100))), all) << "it is one of them";
  EXPECT_TRUE(pool.both(all, pool.less_equal(exprs.arg(1000), exprs.constant(100))).never());
}

TEST(StraightLine, ProductsOfProductsAreDividedInFewSteps) {
  ExprPool exprs;
  Expr square = exprs.arg(0);
  for (int i = 0; i < 60; ++i) square = exprs.mul(square, square);
  const Expr other = exprs.arg(1);
  exprs.promise(other, {1, 1000});
  const Expr quotient = exprs.floor_div(square, other);  // 2^60 steps along the tree
  EXPECT_EQ(exprs[quotient].kind, ExprKind::FloorDiv);
  const Expr product = exprs.mul(exprs.arg(2), other);
  EXPECT_EQ(exprs.floor_div(product, other), exprs.arg(2));
}

/// Dependents has for all sources at once what depends_on has for each.
void nested_uses(Mut<f32, 64> y, In<f32, dyn> x, Scalar<i32> n) {
  auto t = x.load_like(y);
  auto s = t * 2.0f;
  for (auto k : range(n)) {
    auto u = x.tiles(shape<64>).load(k);
    s += u * t;
    tile_if (n > k) { s += sum(u); }
  }
  y.store(s + x.tiles(shape<64>).load(n));
}
TEST(Dependents, AreThoseOfEachSource) {
  const Recorded r = recorded<nested_uses>();
  const ir::Function& f = *r.trace.module->functions.front();
  std::vector<ir::Value> all, sources;
  ir::walk(f.body(), [&](const ir::Operation& op) {
    for (std::size_t i = 0; i < op.num_results(); ++i) all.push_back(op.result(i));
    if (is_load(op) || op.op() == ir::Op::GetTileBlockId || op.op() == ir::Op::MulF) sources.push_back(op.result(0));
  });
  ASSERT_GE(sources.size(), 5u);
  std::size_t found = 0;
  const Dependents of_all(f.body(), sources);
  for (const ir::Value v : all) {
    const bool expected = std::ranges::any_of(sources, [&](ir::Value from) { return depends_on(v, from); });
    EXPECT_EQ(of_all.contains(v), expected) << ir::print(*r.trace.module);
    found += expected ? 1 : 0;
    for (const ir::Value from : sources)
      EXPECT_EQ(values_behind(std::vector{v}, *from.def()->block()).contains(from.impl()), depends_on(v, from));
  }
  EXPECT_GT(found, sources.size());
  EXPECT_LT(found, all.size());
}

}  // namespace
}  // namespace tessera::test
