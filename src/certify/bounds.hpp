// Constant bounds of integers, and those of their sums and products. Private to the layer.
#pragma once
#include <algorithm>
#include <array>
#include <memory_resource>
#include <vector>

#include "certify/poly.hpp"

namespace tessera::certify {

/// Every integer in [lo, hi]; -kHuge and kHuge stand for "no bound".
struct Range {
  Int lo = -kHuge, hi = kHuge;
};
using Ranges = std::pmr::vector<Range>;  ///< by atoms

inline Int clamped(Int v) { return std::clamp(v, -kHuge, kHuge); }

/// Products of bounds, where kHuge is "no bound".
inline Int bound_product(Int a, Int b) {
  if (a == 0 || b == 0) return 0;
  Int out = 0;
  if (is_short(a) && is_short(b)) return clamped(short_product(a, b));
  if (a >= kHuge || a <= -kHuge || b >= kHuge || b <= -kHuge || __builtin_mul_overflow(a, b, &out))
    return (a < 0) == (b < 0) ? kHuge : -kHuge;
  return clamped(out);
}

inline Range range_product(Range a, Range b) {
  if (a.lo >= 0 && b.lo >= 0) return {bound_product(a.lo, b.lo), bound_product(a.hi, b.hi)};
  const std::array<Int, 4> corners{bound_product(a.lo, b.lo), bound_product(a.lo, b.hi), bound_product(a.hi, b.lo),
                                   bound_product(a.hi, b.hi)};
  return {*std::min_element(corners.begin(), corners.end()), *std::max_element(corners.begin(), corners.end())};
}

inline Int bound_sum(Int a, Int b, Int unbounded) {
  return a == unbounded || b == unbounded ? unbounded : clamped(a + b);
}

inline Range product_range(Product p, const Ranges& of) {
  if (p == 0) return {1, 1};
  Range r = of[factor(p, 0)];
  for (p >>= 16; p != 0; p >>= 16) r = range_product(r, of[factor(p, 0)]);
  return r;
}

inline Range term_range(const PolyTerm& t, const Ranges& of) {
  const Range r = product_range(t.product, of);
  if (t.coefficient == 1) return r;
  if (t.coefficient == -1) return {-r.hi, -r.lo};
  const Int x = bound_product(t.coefficient, r.lo), y = bound_product(t.coefficient, r.hi);
  return t.coefficient < 0 ? Range{y, x} : Range{x, y};
}

inline Range sum_range(const PolyView& p, const Ranges& of) {
  if (p.bad()) return {};
  Range sum{0, 0};
  for (const PolyTerm& t : p.terms()) {
    const Range r = term_range(t, of);
    sum = {bound_sum(sum.lo, r.lo, -kHuge), bound_sum(sum.hi, r.hi, kHuge)};
  }
  return sum;
}

}  // namespace tessera::certify
