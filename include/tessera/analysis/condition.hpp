// Conditions over launch expressions, and conjunctions of them. Both are shared, so a conjunction is a number that can
// be compared; what the contract already decides is never kept.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/expr.hpp"

namespace tessera::analysis {

enum class ConditionKind : std::uint8_t {
  LessEqual,  ///< a <= b
  Divides     ///< divisor divides a
};

struct Condition {
  ConditionKind kind = ConditionKind::LessEqual;
  Expr a, b;
  std::uint64_t divisor = 1;
  bool operator==(const Condition&) const = default;
};

/// A conjunction of conditions, by its number in a ConditionPool.
struct Conditions {
  std::uint32_t id = 0;
  bool operator==(const Conditions&) const = default;
  bool always() const { return id == 0; }
  bool never() const { return id == 1; }
};
inline constexpr Conditions kAlways{0};
inline constexpr Conditions kNever{1};

class ConditionPool {
 public:
  explicit ConditionPool(ExprPool& exprs);
  ExprPool& exprs() { return *exprs_; }

  Conditions less_equal(Expr a, Expr b);
  Conditions divides(std::uint64_t divisor, Expr a);
  Conditions both(Conditions a, Conditions b);

  std::span<const std::uint32_t> terms(Conditions c) const { return sets_[c.id]; }
  const Condition& term(std::uint32_t number) const { return terms_[number]; }
  std::size_t num_terms() const { return terms_.size(); }
  /// The cost of a conjunction, to choose between two that prove the same: 0 for always, the highest for never.
  unsigned cost(Conditions c) const;
  /// "x.dim(1) is a multiple of 64 and y.dim(0) <= x.dim(0)".
  std::string text(Conditions c, std::span<const std::string> names = {}) const;
  std::string text(const Condition& c, std::span<const std::string> names = {}) const;

 private:
  Conditions single(const Condition& c);
  Conditions at_most(Expr x, std::int64_t limit);
  Conditions at_least(Expr x, std::int64_t limit);
  Conditions intern(std::vector<std::uint32_t> terms);
  ExprPool* exprs_;
  std::vector<Condition> terms_;
  std::vector<std::vector<std::uint32_t>> sets_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> term_index_, set_index_;
};

}  // namespace tessera::analysis
