// Proofs about bounds, and the effect of loops and branches on them. The arithmetic is in range_math.cpp.
#include "analysis/int_range.hpp"

#include "analysis/interval.hpp"

namespace tessera::analysis {

IntRange RangeMath::between(Expr lo, Expr hi, int bits, Conditions when) const {
  IntRange r;
  r.bits = bits;
  r.lo.push({lo, when});
  r.hi.push({hi, when});
  return r.lo.empty() ? unknown(bits) : r;
}

IntRange RangeMath::between(std::int64_t lo, std::int64_t hi, int bits) const {
  return between(exprs_->constant(lo), exprs_->constant(hi), bits);
}

IntRange RangeMath::unknown(int bits) const {
  const Interval all = integers_of(bits, true);
  return between(all.lo, all.hi, bits);
}

namespace {

/// The cheapest of the conditions that `each(bound)` gives.
template <class F>
Conditions cheapest(const ConditionPool& pool, const Bounds& bounds, F each) {
  Conditions best = kNever;
  for (const Bound& b : bounds) {
    const Conditions c = each(b);
    if (pool.cost(c) < pool.cost(best)) best = c;
    if (best.always()) break;
  }
  return best;
}

}  // namespace

Conditions RangeMath::le(const Bounds& hi, Expr limit) const {
  return cheapest(*conditions_, hi,
                  [&](const Bound& b) { return conditions_->both(b.when, conditions_->less_equal(b.value, limit)); });
}

Conditions RangeMath::ge(const Bounds& lo, Expr limit) const {
  return cheapest(*conditions_, lo,
                  [&](const Bound& b) { return conditions_->both(b.when, conditions_->less_equal(limit, b.value)); });
}

Conditions RangeMath::ordered(const IntRange& a, const IntRange& b, std::int64_t slack) const {
  return cheapest(*conditions_, b.lo, [&](const Bound& below) {
    const Expr limit = exprs_->add(below.value, exprs_->constant(slack));
    return conditions_->both(below.when, le(a.hi, limit));
  });
}

Bounds RangeMath::under(const Bounds& b, Conditions when) const {
  if (when.always()) return b;
  Bounds out;
  for (const Bound& x : b) out.push({x.value, conditions_->both(x.when, when)});
  return out;
}

IntRange RangeMath::conditional(IntRange r, Conditions when) const {
  if (when.never()) return unknown(r.bits);
  r.lo = under(r.lo, when);
  r.hi = under(r.hi, when);
  const IntRange all = unknown(r.bits);
  if (r.lo.empty()) r.lo = all.lo;
  if (r.hi.empty()) r.hi = all.hi;
  return r;
}

IntRange RangeMath::join(const IntRange& a, const IntRange& b) const {
  IntRange out;
  out.bits = a.bits;
  const auto merge = [&](const Bounds& x, const Bounds& y, Bounds& into, auto pick) {
    for (const Bound& p : x) {
      for (const Bound& q : y) {
        if (p.value == q.value) into.push({p.value, conditions_->both(p.when, q.when)});
      }
    }
    const Bound &p = x.front(), &q = y.front();
    into.push({pick(p.value, q.value), conditions_->both(p.when, q.when)});
  };
  merge(a.lo, b.lo, out.lo, [&](Expr x, Expr y) { return exprs_->min(x, y); });
  merge(a.hi, b.hi, out.hi, [&](Expr x, Expr y) { return exprs_->max(x, y); });
  return conditional(out, kAlways);
}

IntRange RangeMath::widen(const IntRange& before, const IntRange& after) const {
  IntRange out;
  out.bits = before.bits;
  for (const Bound& p : before.lo) {
    const Conditions kept = cheapest(
        *conditions_, after.lo, [&](const Bound& q) { return exprs_->always_le(p.value, q.value) ? q.when : kNever; });
    out.lo.push({p.value, conditions_->both(p.when, kept)});
  }
  for (const Bound& p : before.hi) {
    const Conditions kept = cheapest(
        *conditions_, after.hi, [&](const Bound& q) { return exprs_->always_le(q.value, p.value) ? q.when : kNever; });
    out.hi.push({p.value, conditions_->both(p.when, kept)});
  }
  return conditional(out, kAlways);  // a side that lost all its bounds is that of the type
}

IntRange RangeMath::tightened(IntRange a, const Bounds& lo, const Bounds& hi) const {
  const auto prepend = [](const Bounds& better, const Bounds& old) {
    Bounds out = better;
    for (const Bound& b : old) out.push(b);
    return out;
  };
  a.lo = prepend(lo, a.lo);
  a.hi = prepend(hi, a.hi);
  return a;
}

}  // namespace tessera::analysis
