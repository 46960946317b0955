// Integer arithmetic on ranges. Every rule is about the exact result; `wrapped` adds that it fits the type. Where an
// operation reads its operands as unsigned, the rule requires that they are not negative, which makes both readings
// equal.
#include <algorithm>
#include <optional>

#include "analysis/int_range.hpp"
#include "analysis/interval.hpp"

namespace tessera::analysis {

template <class F>
Bounds RangeMath::combine(const Bounds& a, const Bounds& b, F f) const {
  Bounds out;
  for (const Bound& x : a) {
    for (const Bound& y : b) out.push({f(x.value, y.value), conditions_->both(x.when, y.when)});
  }
  return out;
}

Conditions RangeMath::fits(const Bounds& lo, const Bounds& hi, int bits) const {
  const Interval all = integers_of(bits, true);
  return conditions_->both(ge(lo, exprs_->constant(all.lo)), le(hi, exprs_->constant(all.hi)));
}

IntRange RangeMath::wrapped(const Bounds& lo, const Bounds& hi, int bits) const {
  if (lo.empty() || hi.empty()) return unknown(bits);
  IntRange r;
  r.lo = lo;
  r.hi = hi;
  r.bits = bits;
  return conditional(r, fits(lo, hi, bits));
}

bool RangeMath::never_negative(const IntRange& a) const { return ge(a.lo, 0).always(); }

IntRange RangeMath::add(const IntRange& a, const IntRange& b) const {
  const auto sum = [&](Expr x, Expr y) { return exprs_->add(x, y); };
  return wrapped(combine(a.lo, b.lo, sum), combine(a.hi, b.hi, sum), a.bits);
}

IntRange RangeMath::sub(const IntRange& a, const IntRange& b) const {
  const auto difference = [&](Expr x, Expr y) { return exprs_->sub(x, y); };
  return wrapped(combine(a.lo, b.hi, difference), combine(a.hi, b.lo, difference), a.bits);
}

std::optional<std::int64_t> RangeMath::exact(const IntRange& a) const {
  for (const Bound& lo : a.lo) {
    const auto k = lo.when.always() ? exprs_->constant_value(lo.value) : std::nullopt;
    if (!k) continue;
    for (const Bound& hi : a.hi) {
      if (hi.when.always() && hi.value == lo.value) return k;
    }
  }
  return std::nullopt;
}

IntRange RangeMath::scaled(const IntRange& a, std::int64_t factor) const {
  const Expr k = exprs_->constant(factor);
  Bounds lo, hi;
  for (const Bound& x : factor < 0 ? a.hi : a.lo) lo.push({exprs_->mul(x.value, k), x.when});
  for (const Bound& x : factor < 0 ? a.lo : a.hi) hi.push({exprs_->mul(x.value, k), x.when});
  return wrapped(lo, hi, a.bits);
}

IntRange RangeMath::mul(const IntRange& a, const IntRange& b) const {
  if (const auto k = exact(b)) return scaled(a, *k);
  if (const auto k = exact(a)) return scaled(b, *k);
  const Conditions positive = conditions_->both(ge(a.lo, 0), ge(b.lo, 0));
  if (positive.never()) return unknown(a.bits);
  Bounds lo;
  lo.push({exprs_->constant(0), positive});
  for (const Bound& x : a.lo) {
    for (const Bound& y : b.lo) {
      const Conditions both = conditions_->both(x.when, y.when);
      const Expr zero = exprs_->constant(0);
      const Conditions signs =
          conditions_->both(conditions_->less_equal(zero, x.value), conditions_->less_equal(zero, y.value));
      lo.push({exprs_->mul(x.value, y.value), conditions_->both(both, signs)});
    }
  }
  const Bounds hi = combine(a.hi, b.hi, [&](Expr x, Expr y) { return exprs_->mul(x, y); });
  return conditional(wrapped(lo, hi, a.bits), positive);
}

IntRange RangeMath::div(const IntRange& a, const IntRange& b, bool is_signed, bool up) const {
  const Conditions divisor = ge(b.lo, 1), dividend = ge(a.lo, 0);
  const Expr zero = exprs_->constant(0);
  const auto quotient = [&](Expr x, Expr y) { return up ? exprs_->ceil_div(x, y) : exprs_->floor_div(x, y); };
  IntRange r;
  r.bits = a.bits;
  // A larger divisor brings the quotient nearer to 0, so the smallest one gives both ends where the sign is open. Only
  // a lower bound that is itself a divisor can be divided by.
  const auto by_smallest = [&](const Bounds& ends, Bounds& into, Conditions sign, auto each) {
    for (const Bound& x : ends) {
      for (const Bound& y : b.lo) {
        const Conditions proper = conditions_->both(y.when, conditions_->less_equal(exprs_->constant(1), y.value));
        into.push({each(x.value, y.value), conditions_->both(conditions_->both(x.when, sign), proper)});
      }
    }
  };
  by_smallest(a.hi, r.hi, dividend, quotient);
  for (const Bound& x : a.lo) {
    for (const Bound& y : b.hi)
      r.lo.push({quotient(x.value, y.value), conditions_->both(conditions_->both(x.when, y.when), dividend)});
  }
  if (is_signed && !dividend.always()) {
    by_smallest(a.hi, r.hi, kAlways, [&](Expr x, Expr y) { return quotient(exprs_->max(x, zero), y); });
    by_smallest(a.lo, r.lo, kAlways, [&](Expr x, Expr y) { return exprs_->floor_div(exprs_->min(x, zero), y); });
  }
  return conditional(r, divisor);
}

IntRange RangeMath::rem(const IntRange& a, const IntRange& b, bool is_signed) const {
  const Conditions divisor = ge(b.lo, 1), dividend = ge(a.lo, 0);
  const Expr zero = exprs_->constant(0), minus_one = exprs_->constant(-1);
  IntRange r;
  r.bits = a.bits;
  for (const Bound& y : b.hi) r.hi.push({exprs_->add(y.value, minus_one), conditions_->both(y.when, divisor)});
  if (is_signed && dividend.never()) {
    for (const Bound& y : b.hi)
      r.lo.push({exprs_->sub(exprs_->constant(1), y.value), conditions_->both(y.when, divisor)});
    return conditional(r, kAlways);
  }
  const Conditions sign = is_signed ? dividend : kAlways;
  r.lo.push({zero, conditions_->both(divisor, sign)});
  if (!dividend.never()) {
    for (const Bound& x : a.hi) {
      const Conditions when = conditions_->both(x.when, conditions_->both(divisor, dividend));
      const Bound& y = b.hi.front();
      if (y.when.always())
        r.hi.push({exprs_->min(x.value, exprs_->add(y.value, minus_one)), when});
      else
        r.hi.push({x.value, when});
    }
  }
  // The smaller of both bounds first, where one needs no more than the other.
  if (r.hi.end() - r.hi.begin() > 1 && dividend.always()) {
    Bounds sorted;
    sorted.push(r.hi.begin()[1].when == r.hi.front().when ? r.hi.begin()[1] : r.hi.front());
    for (const Bound& x : r.hi) sorted.push(x);
    r.hi = sorted;
  }
  return conditional(r, kAlways);
}

IntRange RangeMath::min(const IntRange& a, const IntRange& b, bool is_signed) const {
  // Each side bounds the result by itself; read unsigned, if it is not negative, and then the result is not either.
  const Conditions positive_a = is_signed ? kAlways : ge(a.lo, 0), positive_b = is_signed ? kAlways : ge(b.lo, 0);
  const Conditions positive = conditions_->both(positive_a, positive_b);
  const Interval all = integers_of(a.bits, true);
  const Bound& x = a.hi.front();
  const Bound& y = b.hi.front();
  const Bound left{x.value, conditions_->both(x.when, positive_a)},
      right{y.value, conditions_->both(y.when, positive_b)};
  const Bound joint{exprs_->min(x.value, y.value), conditions_->both(left.when, right.when)};
  const auto informative = [&](const Bound& p) { return exprs_->constant_value(p.value) != all.hi; };
  const unsigned cheapest = std::min(informative(left) ? conditions_->cost(left.when) : ~0u,
                                     informative(right) ? conditions_->cost(right.when) : ~0u);
  IntRange r;
  r.bits = a.bits;
  if (conditions_->cost(joint.when) <= cheapest) r.hi.push(joint);
  const bool right_first = !informative(left) || conditions_->cost(right.when) < conditions_->cost(left.when);
  for (const Bound& p : {right_first ? right : left, right_first ? left : right}) {
    if (informative(p)) r.hi.push(p);
  }
  r.hi.push(joint);
  if (!is_signed) {
    r.lo.push(
        {exprs_->constant(0), conditions_->cost(positive_b) < conditions_->cost(positive_a) ? positive_b : positive_a});
  }
  for (const Bound& p : a.lo) {
    for (const Bound& q : b.lo) {
      r.lo.push({exprs_->min(p.value, q.value), conditions_->both(conditions_->both(p.when, q.when), positive)});
    }
  }
  return conditional(r, kAlways);
}

IntRange RangeMath::max(const IntRange& a, const IntRange& b, bool is_signed) const {
  const auto larger = [&](Expr x, Expr y) { return exprs_->max(x, y); };
  const Conditions positive = is_signed ? kAlways : conditions_->both(ge(a.lo, 0), ge(b.lo, 0));
  IntRange r;
  r.bits = a.bits;
  const Bound &x = a.lo.front(), &y = b.lo.front();
  r.lo.push({larger(x.value, y.value), conditions_->both(x.when, y.when)});
  for (const Bounds* side : {&a.lo, &b.lo}) {
    for (const Bound& p : *side) r.lo.push(p);
  }
  r.hi = combine(a.hi, b.hi, larger);
  return conditional(r, positive);
}

IntRange RangeMath::shift_left(const IntRange& a, const IntRange& b) const {
  const auto by = exact(b);
  if (!by || *by < 0 || *by >= a.bits - 1) return unknown(a.bits);
  return scaled(a, std::int64_t{1} << *by);
}

IntRange RangeMath::shift_right(const IntRange& a, const IntRange& b, bool is_signed) const {
  const auto by = exact(b);
  if (!by || *by < 0 || *by >= a.bits - 1) return unknown(a.bits);
  const Expr divisor = exprs_->constant(std::int64_t{1} << *by);
  IntRange r;
  r.bits = a.bits;
  for (const Bound& x : a.lo) r.lo.push({exprs_->floor_div(x.value, divisor), x.when});
  for (const Bound& x : a.hi) r.hi.push({exprs_->floor_div(x.value, divisor), x.when});
  return is_signed ? r : conditional(r, ge(a.lo, 0));
}

IntRange RangeMath::bit_and(const IntRange& a, const IntRange& b) const {
  // A side that is never negative bounds the result by itself, whatever the other is.
  IntRange r = unknown(a.bits);
  Bounds hi;
  for (const IntRange* side : {&a, &b}) {
    const Conditions positive = ge(side->lo, 0);
    for (const Bound& x : side->hi) hi.push({x.value, conditions_->both(x.when, positive)});
  }
  if (hi.empty()) return r;
  const Conditions either =
      never_negative(a) || never_negative(b) ? kAlways : (ge(a.lo, 0).never() ? ge(b.lo, 0) : ge(a.lo, 0));
  r.hi = hi;
  r.lo = {};
  r.lo.push({exprs_->constant(0), either});
  return conditional(r, kAlways);
}

IntRange RangeMath::negated(const IntRange& a) const { return sub(between(0, 0, a.bits), a); }

IntRange RangeMath::absolute(const IntRange& a) const {
  if (never_negative(a)) return a;
  Bounds zero;  // the smallest number is its own absolute value
  zero.push({exprs_->constant(0), ge(a.lo, integers_of(a.bits, true).lo + 1)});
  return tightened(max(a, negated(a), true), zero, {});
}

IntRange RangeMath::resized(const IntRange& a, int bits, bool is_signed) const {
  if (bits < a.bits) return wrapped(a.lo, a.hi, bits);
  IntRange r = a;
  r.bits = bits;
  if (is_signed) return r;
  const Conditions positive = ge(a.lo, 0);
  if (!positive.never()) return conditional(r, positive);
  const Interval all = integers_of(a.bits, false);
  return between(all.lo, all.hi, bits);
}

}  // namespace tessera::analysis
