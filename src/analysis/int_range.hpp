// The range of one integer value: bounds that are launch expressions, each under its conditions. Private
// to the layer. docs/compiler/facts.md says why there are alternatives.
#pragma once
#include <array>
#include <optional>

#include "tessera/analysis/condition.hpp"

namespace tessera::analysis {

/// One bound of a value, valid in launches where `when` holds.
struct Bound {
  Expr value;
  Conditions when;
  bool operator==(const Bound&) const = default;
};

/// Up to three bounds of the same side; each holds on its own, the first is the most precise.
class Bounds {
 public:
  static constexpr std::size_t kMax = 3;
  void push(Bound b) {
    if (b.when.never() || count_ == kMax) return;
    for (const Bound& other : *this) {
      if (other == b) return;
    }
    bounds_[count_++] = b;
  }
  const Bound* begin() const { return bounds_.data(); }
  const Bound* end() const { return bounds_.data() + count_; }
  const Bound& front() const { return bounds_[0]; }
  bool empty() const { return count_ == 0; }
  bool operator==(const Bounds& o) const {
    if (count_ != o.count_) return false;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!(bounds_[i] == o.bounds_[i])) return false;
    }
    return true;
  }

 private:
  std::array<Bound, kMax> bounds_{};
  std::size_t count_ = 0;
};

/// Bounds of an integer's signed reading; of a tile, of every element. Neither side is ever empty.
struct IntRange {
  Bounds lo, hi;
  int bits = 32;
  bool operator==(const IntRange&) const = default;
};

/// Arithmetic on ranges with Tile IR's wrapping integers: a result that may leave its type's signed range is bounded
/// only where the launch keeps it inside.
class RangeMath {
 public:
  explicit RangeMath(ConditionPool& conditions) : conditions_(&conditions), exprs_(&conditions.exprs()) {}
  ConditionPool& conditions() const { return *conditions_; }
  ExprPool& exprs() const { return *exprs_; }

  IntRange unknown(int bits) const;
  IntRange between(Expr lo, Expr hi, int bits, Conditions when = kAlways) const;
  IntRange between(std::int64_t lo, std::int64_t hi, int bits) const;

  /// The cheapest proof that everything is <= limit, or >= limit.
  Conditions le(const Bounds& hi, Expr limit) const;
  Conditions ge(const Bounds& lo, Expr limit) const;
  Conditions ge(const Bounds& lo, std::int64_t limit) const { return ge(lo, exprs_->constant(limit)); }
  /// The cheapest proof that every a is <= every b (plus `slack`).
  Conditions ordered(const IntRange& a, const IntRange& b, std::int64_t slack = 0) const;

  /// The only number it can be.
  std::optional<std::int64_t> exact(const IntRange& a) const;

  IntRange add(const IntRange& a, const IntRange& b) const;
  IntRange sub(const IntRange& a, const IntRange& b) const;
  IntRange mul(const IntRange& a, const IntRange& b) const;
  IntRange div(const IntRange& a, const IntRange& b, bool is_signed, bool up) const;
  IntRange rem(const IntRange& a, const IntRange& b, bool is_signed) const;
  IntRange min(const IntRange& a, const IntRange& b, bool is_signed) const;
  IntRange max(const IntRange& a, const IntRange& b, bool is_signed) const;
  IntRange shift_left(const IntRange& a, const IntRange& b) const;
  IntRange shift_right(const IntRange& a, const IntRange& b, bool is_signed) const;
  IntRange bit_and(const IntRange& a, const IntRange& b) const;
  IntRange negated(const IntRange& a) const;
  IntRange absolute(const IntRange& a) const;
  /// Sign or zero extension, or truncation, to `bits`.
  IntRange resized(const IntRange& a, int bits, bool is_signed) const;

  /// The union of a and b.
  IntRange join(const IntRange& a, const IntRange& b) const;
  /// The parts of `before` that also bound `after`: a loop's value that starts in `before` and is stepped to `after`.
  IntRange widen(const IntRange& before, const IntRange& after) const;
  /// `a` with better bounds of one side put first.
  IntRange tightened(IntRange a, const Bounds& lo, const Bounds& hi) const;

 private:
  Conditions fits(const Bounds& lo, const Bounds& hi, int bits) const;
  IntRange wrapped(const Bounds& lo, const Bounds& hi, int bits) const;
  IntRange conditional(IntRange r, Conditions when) const;
  Bounds under(const Bounds& b, Conditions when) const;
  bool never_negative(const IntRange& a) const;
  IntRange scaled(const IntRange& a, std::int64_t factor) const;
  template <class F>
  Bounds combine(const Bounds& a, const Bounds& b, F f) const;
  ConditionPool* conditions_;
  ExprPool* exprs_;
};

}  // namespace tessera::analysis
