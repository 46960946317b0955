// Interned conditions and conjunctions.
#include "tessera/analysis/condition.hpp"

#include <algorithm>

#include "analysis/interval.hpp"
#include "analysis/launch_program.hpp"
#include "tessera/base/format.hpp"

namespace tessera::analysis {
namespace {

std::uint64_t mix(std::uint64_t h, std::uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u; }

std::uint64_t hash_of(const Condition& c) {
  return mix(mix(mix(static_cast<std::uint64_t>(c.kind), c.a.id), c.b.id), c.divisor);
}

}  // namespace

ConditionPool::ConditionPool(ExprPool& exprs) : exprs_(&exprs) {
  sets_.resize(2);  // kAlways; kNever, whose terms are not used
  set_index_.emplace(0, 0);
}

Conditions ConditionPool::single(const Condition& c) {
  const std::uint64_t h = hash_of(c);
  const auto [first, last] = term_index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    if (terms_[it->second] == c) return intern({it->second});
  }
  const auto number = static_cast<std::uint32_t>(terms_.size());
  terms_.push_back(c);
  term_index_.emplace(h, number);
  return intern({number});
}

Conditions ConditionPool::intern(std::vector<std::uint32_t> terms) {
  std::uint64_t h = 0;
  for (const std::uint32_t t : terms) h = mix(h, t);
  const auto [first, last] = set_index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    if (sets_[it->second] == terms) return {it->second};
  }
  const auto id = static_cast<std::uint32_t>(sets_.size());
  sets_.push_back(std::move(terms));
  set_index_.emplace(h, id);
  return {id};
}

Conditions ConditionPool::less_equal(Expr a, Expr b) {
  ExprPool& e = *exprs_;
  if (e.always_le(a, b)) return kAlways;
  if (e.always_le(e.add(b, e.constant(1)), a)) return kNever;
  const ExprPool::Offset x = e.split(a), y = e.split(b);
  std::int64_t offset = 0;
  if (__builtin_sub_overflow(y.offset, x.offset, &offset) || offset == INT64_MIN) return single({.a = a, .b = b});
  if (y.base.id == 0) return at_most(x.base, offset);
  if (x.base.id == 0) return at_least(y.base, -offset);
  // Constants on one side, so that equal conditions are one.
  a = offset < 0 ? e.add(x.base, e.constant(-offset)) : x.base;
  b = offset > 0 ? e.add(y.base, e.constant(offset)) : y.base;
  const ExprNode& m = e[x.base];
  if (offset == 0 && m.kind == ExprKind::Mul && e[m.lhs].kind == ExprKind::CeilDiv && e[m.lhs].rhs == m.rhs &&
      e[m.lhs].lhs == b) {
    const auto step = e.constant_value(m.rhs);
    if (step && *step > 0) return divides(static_cast<std::uint64_t>(*step), b);
  }
  return single({.a = a, .b = b});
}

/// x <= limit, with a scaling by a constant undone.
Conditions ConditionPool::at_most(Expr x, std::int64_t limit) {
  ExprPool& e = *exprs_;
  const ExprNode n = e[x];
  const auto k = n.kind == ExprKind::Mul || n.kind == ExprKind::CeilDiv ? e.constant_value(n.rhs) : std::nullopt;
  if (k && *k > 0) {
    std::int64_t inner = floor_quotient(limit, *k);
    if (n.kind == ExprKind::Mul) return less_equal(n.lhs, e.constant(inner));
    if (!__builtin_mul_overflow(limit, *k, &inner)) return less_equal(n.lhs, e.constant(inner));
  }
  return single({.a = x, .b = e.constant(limit)});
}

/// limit <= x, with a scaling by a constant undone.
Conditions ConditionPool::at_least(Expr x, std::int64_t limit) {
  ExprPool& e = *exprs_;
  const ExprNode n = e[x];
  const bool divided = n.kind == ExprKind::CeilDiv || n.kind == ExprKind::FloorDiv;
  const auto k = divided ? e.constant_value(n.rhs) : std::nullopt;
  std::int64_t inner = 0;
  if (k && *k > 0 && n.kind == ExprKind::FloorDiv && !__builtin_mul_overflow(limit, *k, &inner))
    return less_equal(e.constant(inner), n.lhs);
  if (k && *k > 0 && limit > INT64_MIN && n.kind == ExprKind::CeilDiv &&
      !__builtin_mul_overflow(limit - 1, *k, &inner) && inner != INT64_MAX)
    return less_equal(e.constant(inner + 1), n.lhs);
  return single({.a = e.constant(limit), .b = x});
}

Conditions ConditionPool::divides(std::uint64_t divisor, Expr a) {
  if (divisor <= 1) return kAlways;
  if (const auto v = exprs_->constant_value(a)) {
    return static_cast<std::uint64_t>(*v < 0 ? -(*v + 1) : *v) % divisor == (*v < 0 ? divisor - 1 : 0) ? kAlways
                                                                                                       : kNever;
  }
  const ExprNode& n = (*exprs_)[a];
  if (n.kind == ExprKind::Mul) {
    const auto k = exprs_->constant_value(n.rhs);
    if (k && *k > 0 && static_cast<std::uint64_t>(*k) % divisor == 0) return kAlways;
  }
  Condition c;
  c.kind = ConditionKind::Divides;
  c.a = a;
  c.divisor = divisor;
  return single(c);
}

Conditions ConditionPool::both(Conditions a, Conditions b) {
  if (a == b || b.always()) return a;
  if (a.always()) return b;
  if (a.never() || b.never()) return kNever;
  // No obligation can have more tests than a launch evaluates. Without the limit a chain of n operations, each of
  // which may wrap, would need n tests for its last one, and n * n in all.
  std::vector<std::uint32_t> all;
  all.reserve(sets_[a.id].size() + sets_[b.id].size());
  std::set_union(sets_[a.id].begin(), sets_[a.id].end(), sets_[b.id].begin(), sets_[b.id].end(),
                 std::back_inserter(all));
  if (all.size() > LaunchProgram::kMaxTests) return kNever;
  return intern(std::move(all));
}

unsigned ConditionPool::cost(Conditions c) const {
  if (c.never()) return ~0u;
  unsigned sum = 0;
  for (const std::uint32_t t : sets_[c.id]) sum += terms_[t].kind == ConditionKind::Divides ? 2 : 3;
  return sum;
}

std::string ConditionPool::text(const Condition& c, std::span<const std::string> names) const {
  if (c.kind == ConditionKind::Divides) { return concat(exprs_->text(c.a, names), " is a multiple of ", c.divisor); }
  return concat(exprs_->text(c.a, names), " <= ", exprs_->text(c.b, names));
}

std::string ConditionPool::text(Conditions c, std::span<const std::string> names) const {
  if (c.always()) return "always";
  if (c.never()) return "never";
  std::vector<std::string> parts;
  for (const std::uint32_t t : sets_[c.id]) parts.push_back(text(terms_[t], names));
  return join(parts, " and ");
}

}  // namespace tessera::analysis
