// Interned conditions and conjunctions.
#include "tessera/analysis/condition.hpp"

#include <algorithm>

#include "tessera/base/format.hpp"

namespace tessera::analysis {
namespace {

std::uint64_t mix(std::uint64_t h, std::uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u; }

std::uint64_t hash_of(const Condition& c) {
  return mix(mix(mix(static_cast<std::uint64_t>(c.kind), c.a.id), c.b.id), c.divisor);
}

}  // namespace

ConditionPool::ConditionPool(ExprPool& exprs) : exprs_(&exprs) {
  sets_.resize(2);  // kAlways; kNever, whose terms nobody looks at
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
  const auto limit = e.constant_value(a);
  // 0 <= b - a, with the constants on one side, so that equal conditions are one.
  const Expr difference = e.sub(b, a);
  const ExprNode& d = e[difference];
  const auto offset = d.kind == ExprKind::Add ? e.constant_value(d.rhs) : std::nullopt;
  if (!limit && offset && !e.constant_value(b)) {
    const ExprNode& core = e[d.lhs];
    if (core.kind == ExprKind::Sub) {
      a = *offset < 0 && *offset != INT64_MIN ? e.add(core.rhs, e.constant(-*offset)) : core.rhs;
      b = *offset > 0 ? e.add(core.lhs, e.constant(*offset)) : core.lhs;
    }
  }
  const ExprNode& m = e[a];
  const ExprNode& n = e[b];
  if (m.kind == ExprKind::Mul && e[m.lhs].kind == ExprKind::CeilDiv && e[m.lhs].rhs == m.rhs && e[m.lhs].lhs == b) {
    if (const auto step = e.constant_value(m.rhs); step && *step > 0)
      return divides(static_cast<std::uint64_t>(*step), b);
  }
  if (limit && n.kind == ExprKind::CeilDiv) {  // c <= ceil(x / d): (c - 1) * d < x
    std::int64_t least = 0;
    const auto step = e.constant_value(n.rhs);
    if (step && *step > 0 && *limit > 0 && !__builtin_mul_overflow(*limit - 1, *step, &least))
      return less_equal(e.constant(least + 1), n.lhs);
  }
  Condition c;
  c.a = a;
  c.b = b;
  return single(c);
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
  std::vector<std::uint32_t> all;
  std::set_union(sets_[a.id].begin(), sets_[a.id].end(), sets_[b.id].begin(), sets_[b.id].end(),
                 std::back_inserter(all));
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
