// The lattice of ranges, and the effect of loops and branches on them; transfer.cpp has the operations.
#include "analysis/ranges.hpp"

#include <unordered_set>
#include <vector>

#include "analysis/interval.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;

namespace {

/// Comparisons and conjunctions of a condition that are looked at in each of its branches.
constexpr std::size_t kMaxParts = 256;

/// A loop's carried values lose a bound or gain a condition in every round, so few rounds are enough; after these
/// nothing is said about them.
constexpr int kMaxRounds = 6;

}  // namespace

RangeAnalysis::RangeAnalysis(const LaunchContract& contract, ConditionPool& conditions)
    : Dataflow(true), math_(conditions), launch_(contract, math_) {}

bool RangeAnalysis::follows(ir::Type type) const { return is_integer(type); }
IntRange RangeAnalysis::unknown(ir::Type type) const { return math_.unknown(bits_of(type)); }

IntRange RangeAnalysis::widen(const IntRange& before, const IntRange& after, int round) const {
  return round < kMaxRounds ? math_.widen(before, after) : math_.unknown(before.bits);
}

std::optional<IntRange> RangeAnalysis::argument(ir::Value v) {
  return launch_.argument(static_cast<int>(v.index()), bits_of(v.type()));
}

Conditions RangeAnalysis::step_fits(const ir::Operation& loop, const Bound& upper) {
  const IntRange step = range(loop.operand(2));
  const Bound& by = step.hi.front();
  ConditionPool& conditions = math_.conditions();
  ExprPool& e = math_.exprs();
  const Expr largest = e.constant(integers_of(step.bits, true).hi);
  const Conditions fits = conditions.less_equal(e.add(e.add(upper.value, e.constant(-1)), by.value), largest);
  Conditions when = math_.ge(step.lo, 1);
  if (loop.has_attr(AttrName::unsignedCmp)) {
    const Conditions start = math_.ge(range(loop.operand(0)).lo, 0), end = math_.ge(range(loop.operand(1)).lo, 0);
    when = conditions.both(when, conditions.both(start, end));
  }
  return conditions.both(conditions.both(upper.when, by.when), conditions.both(fits, when));
}

IntRange RangeAnalysis::induction(const ir::Operation& loop) {
  const IntRange lower = range(loop.operand(0)), upper = range(loop.operand(1));
  ConditionPool& conditions = math_.conditions();
  ExprPool& e = math_.exprs();
  IntRange r;
  r.bits = upper.bits;
  for (const Bound& u : upper.hi) {
    const Conditions all = step_fits(loop, u);
    r.hi.push({e.add(u.value, e.constant(-1)), all});
    for (const Bound& l : lower.lo) r.lo.push({l.value, conditions.both(l.when, all)});
  }
  const IntRange any = math_.unknown(r.bits);
  if (r.lo.empty()) r.lo = any.lo;
  if (r.hi.empty()) r.hi = any.hi;
  return r;
}

void RangeAnalysis::refine(ir::Value condition, bool truth, Scope& scope) {
  std::unordered_set<const ir::ValueImpl*> seen;  // parts of a condition may be used in it many times
  std::vector<ir::Value> work{condition};
  while (!work.empty() && seen.size() < kMaxParts) {
    const ir::Value part = work.back();
    work.pop_back();
    const ir::Operation* def = part.def();
    if (def == nullptr || !seen.insert(part.impl()).second) continue;
    if (def->op() == (truth ? Op::AndI : Op::OrI)) {
      work.push_back(def->operand(1));
      work.push_back(def->operand(0));
    } else if (def->op() == Op::CmpI && is_integer(def->operand(0).type())) {
      refine_compare(*def, truth, scope);
    }
  }
}

void RangeAnalysis::refine_compare(const ir::Operation& compare, bool truth, Scope& scope) {
  using P = ir::ComparisonPredicate;
  constexpr P kNegated[] = {P::NotEqual, P::Equal, P::GreaterEqual, P::Greater, P::LessEqual, P::Less};
  auto predicate = compare.enum_attr<P>(AttrName::comparison_predicate);
  if (!truth) predicate = kNegated[static_cast<std::size_t>(predicate)];
  const bool unsigned_ = compare.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Unsigned;
  ir::Value small = compare.operand(0), large = compare.operand(1);
  if (predicate == P::Greater || predicate == P::GreaterEqual) std::swap(small, large);
  const IntRange a = range(small), b = range(large);
  if (predicate == P::NotEqual) return;
  if (predicate == P::Equal) {
    tighten(small, b.lo, b.hi, scope);
    tighten(large, a.lo, a.hi, scope);
    return;
  }
  ConditionPool& conditions = math_.conditions();
  ExprPool& e = math_.exprs();
  const std::int64_t gap = predicate == P::Less || predicate == P::Greater ? 1 : 0;
  const Conditions readable = unsigned_ ? math_.ge(b.lo, 0) : kAlways;
  Bounds below, above;
  for (const Bound& y : b.hi) {
    if (e.constant_value(y.value) == integers_of(b.bits, true).hi) continue;
    below.push({e.add(y.value, e.constant(-gap)), conditions.both(y.when, readable)});
  }
  if (unsigned_) {
    Bounds zero;
    zero.push({e.constant(0), readable});
    tighten(small, zero, below, scope);
    return;
  }
  for (const Bound& x : a.lo) {
    if (e.constant_value(x.value) == integers_of(a.bits, true).lo) continue;
    above.push({e.add(x.value, e.constant(gap)), x.when});
  }
  tighten(small, {}, below, scope);
  tighten(large, above, {}, scope);
}

void RangeAnalysis::tighten(ir::Value v, const Bounds& lo, const Bounds& hi, Scope& scope) {
  if (v.def() != nullptr && v.def()->op() == Op::Constant) return;
  const IntRange* known = scope.find(v);
  scope.set(v, math_.tightened(known ? *known : range(v), lo, hi));
}

}  // namespace tessera::analysis
