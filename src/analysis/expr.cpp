// Making launch expressions: interning, folding, and the few identities that tile arithmetic needs (a product divided
// by its factor, sums with constants, the smaller of two that are ordered in every launch).
#include "tessera/analysis/expr.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/interval.hpp"
#include "tessera/base/format.hpp"

namespace tessera::analysis {
namespace {

std::uint64_t hash_of(const ExprNode& n) {
  std::uint64_t h = static_cast<std::uint64_t>(n.kind) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(n.value);
  h = (h ^ n.lhs.id) * 0xC2B2AE3D27D4EB4Fu;
  h = (h ^ n.rhs.id) * 0x165667B19E3779F9u;
  return h ^ (static_cast<std::uint64_t>(n.bits) << 1 | (n.is_signed ? 1 : 0));
}

bool same(const ExprNode& a, const ExprNode& b) {
  return a.kind == b.kind && a.value == b.value && a.lhs == b.lhs && a.rhs == b.rhs && a.bits == b.bits &&
         a.is_signed == b.is_signed;
}

/// The factors, terms and choices of which order does not matter are kept in the order of their numbers, a constant
/// last.
bool commutes(ExprKind k) {
  return k == ExprKind::Add || k == ExprKind::Mul || k == ExprKind::Min || k == ExprKind::Max;
}

}  // namespace

ExprPool::ExprPool() { constant(0); }

Expr ExprPool::intern(ExprNode node) {
  const std::uint64_t h = hash_of(node);
  const auto [first, last] = index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    if (same(nodes_[it->second], node)) return {it->second};
  }
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(node);
  index_.emplace(h, id);
  return {id};
}

Expr ExprPool::constant(std::int64_t value) {
  ExprNode n;
  n.value = value;
  n.interval = {value, value};
  return intern(n);
}

int ExprPool::representative(int number) const {
  for (auto it = same_as_.find(number); it != same_as_.end(); it = same_as_.find(number)) number = it->second;
  return number;
}

void ExprPool::identify(int a, int b) {
  const auto [low, high] = std::minmax({representative(a), representative(b)});
  if (low != high) same_as_.emplace(high, low);
}

Expr ExprPool::arg(int number, int bits, bool is_signed) {
  number = representative(number);
  ExprNode n;
  n.kind = ExprKind::Arg;
  n.value = number;
  n.bits = static_cast<std::uint8_t>(bits);
  n.is_signed = is_signed;
  n.interval = integers_of(bits, is_signed);
  return intern(n);
}

Expr ExprPool::binary(ExprKind kind, Expr a, Expr b) {
  const auto x = constant_value(a), y = constant_value(b);
  std::int64_t folded = 0;
  if (x && y && evaluate_step(kind, *x, *y, folded)) return constant(folded);
  if (commutes(kind) && (x || (!y && b.id < a.id))) std::swap(a, b);
  ExprNode n;
  n.kind = kind;
  n.lhs = a;
  n.rhs = b;
  n.interval = interval_of(kind, nodes_[a.id].interval, nodes_[b.id].interval);
  return intern(n);
}

std::optional<std::int64_t> ExprPool::constant_value(Expr e) const {
  const ExprNode& n = nodes_[e.id];
  return n.kind == ExprKind::Const ? std::optional(n.value) : std::nullopt;
}

ExprPool::Offset ExprPool::split(Expr e) const {
  const ExprNode& n = nodes_[e.id];
  if (n.kind == ExprKind::Const) return {{0}, n.value};  // number 0 is the constant 0
  if (n.kind != ExprKind::Add) return {e, 0};
  const auto c = constant_value(n.rhs);
  return c ? Offset{n.lhs, *c} : Offset{e, 0};
}

Expr ExprPool::with_offset(Expr base, std::int64_t offset) {
  if (offset == 0) return base;
  if (base.id == 0) return constant(offset);
  return binary(ExprKind::Add, base, constant(offset));
}

Expr ExprPool::add(Expr a, Expr b) {
  const Offset x = split(a), y = split(b);
  std::int64_t offset = 0;
  if (__builtin_add_overflow(x.offset, y.offset, &offset)) return binary(ExprKind::Add, a, b);
  if (x.base.id == 0) return with_offset(y.base, offset);
  if (y.base.id == 0) return with_offset(x.base, offset);
  return with_offset(binary(ExprKind::Add, x.base, y.base), offset);
}

Expr ExprPool::sub(Expr a, Expr b) {
  const Offset x = split(a), y = split(b);
  std::int64_t offset = 0;
  if (__builtin_sub_overflow(x.offset, y.offset, &offset)) return binary(ExprKind::Sub, a, b);
  if (x.base == y.base) return constant(offset);
  if (y.base.id == 0) return with_offset(x.base, offset);
  return with_offset(binary(ExprKind::Sub, x.base, y.base), offset);
}

Expr ExprPool::mul(Expr a, Expr b) {
  if (constant_value(a)) std::swap(a, b);
  const auto k = constant_value(b);
  if (!k) return binary(ExprKind::Mul, a, b);
  if (*k == 0) return b;
  if (*k == 1) return a;
  const Offset x = split(a);
  std::int64_t offset = 0;
  if (x.offset != 0 && !__builtin_mul_overflow(x.offset, *k, &offset)) {
    return with_offset(x.base.id == 0 ? x.base : mul(x.base, b), offset);
  }
  const ExprNode& n = nodes_[a.id];
  const auto inner = n.kind == ExprKind::Mul ? constant_value(n.rhs) : std::nullopt;
  std::int64_t product = 0;
  if (inner && !__builtin_mul_overflow(*inner, *k, &product)) return mul(n.lhs, constant(product));
  return binary(ExprKind::Mul, a, b);
}

std::optional<Expr> ExprPool::quotient(Expr product, Expr factor) {
  int steps = kMaxFactors;
  return quotient(product, factor, steps);
}

/// Products share factors, so a walk over the tree can be exponentially longer than the number of nodes.
std::optional<Expr> ExprPool::quotient(Expr product, Expr factor, int& steps) {
  if (--steps < 0) return std::nullopt;
  if (product == factor) return constant(1);
  const ExprNode n = nodes_[product.id];
  if (n.kind != ExprKind::Mul) return std::nullopt;
  if (n.rhs == factor) return n.lhs;
  if (n.lhs == factor) return n.rhs;
  const auto k = constant_value(n.rhs), c = constant_value(factor);
  if (k && c && *c > 0 && *k % *c == 0) return mul(n.lhs, constant(*k / *c));
  if (const auto rest = quotient(n.lhs, factor, steps)) return mul(*rest, n.rhs);
  if (const auto rest = quotient(n.rhs, factor, steps)) return mul(n.lhs, *rest);
  return std::nullopt;
}

Expr ExprPool::floor_div(Expr a, Expr b) {
  const auto c = constant_value(b);
  if (c && *c == 1) return a;
  const Interval x = nodes_[a.id].interval, y = nodes_[b.id].interval;
  if (y.lo >= 1) {
    if (x.lo >= 0 && x.hi < y.lo) return constant(0);
    const Offset o = split(a);
    const auto rest = o.base.id == 0 ? std::nullopt : quotient(o.base, b);
    // (r * b + k) / b is r + k / b; for a k from -1 up to 0 that needs no b.
    if (rest && (o.offset == 0 || o.offset == -1)) return with_offset_of(*rest, o.offset);
    if (rest && c) return with_offset_of(*rest, floor_quotient(o.offset, *c));
  }
  return binary(ExprKind::FloorDiv, a, b);
}

Expr ExprPool::ceil_div(Expr a, Expr b) {
  const auto c = constant_value(b);
  if (c && *c == 1) return a;
  if (nodes_[b.id].interval.lo >= 1) {
    if (const auto rest = quotient(a, b)) return *rest;
  }
  return binary(ExprKind::CeilDiv, a, b);
}

Expr ExprPool::mod(Expr a, Expr b) {
  const Interval x = nodes_[a.id].interval, y = nodes_[b.id].interval;
  if (y.lo >= 1) {
    if (x.lo >= 0 && x.hi < y.lo) return a;
    if (quotient(a, b)) return constant(0);
  }
  return binary(ExprKind::Mod, a, b);
}

Expr ExprPool::min(Expr a, Expr b) {
  if (always_le(a, b)) return a;
  if (always_le(b, a)) return b;
  const Offset x = split(a), y = split(b);
  if (x.offset == y.offset && x.offset != 0) return with_offset_of(min(x.base, y.base), x.offset);
  return binary(ExprKind::Min, a, b);
}

Expr ExprPool::max(Expr a, Expr b) {
  if (always_le(a, b)) return b;
  if (always_le(b, a)) return a;
  const Offset x = split(a), y = split(b);
  if (x.offset == y.offset && x.offset != 0) return with_offset_of(max(x.base, y.base), x.offset);
  return binary(ExprKind::Max, a, b);
}

void ExprPool::promise(Expr e, Interval interval) {
  Interval& known = nodes_[e.id].interval;
  known.lo = std::max(known.lo, interval.lo);
  known.hi = std::min(known.hi, interval.hi);
}

/// Expressions share subexpressions, so a walk over the tree can be exponentially longer than the number of nodes.
/// Short ones are evaluated directly, others with memoization.
std::optional<std::int64_t> ExprPool::evaluate(Expr e, std::span<const std::uint64_t> slots) const {
  int steps = kShortExpression;
  const auto value = evaluate_short(e, slots, steps);
  return steps >= 0 ? value : evaluate_shared(e, slots);
}

std::optional<std::int64_t> ExprPool::leaf(const ExprNode& n, std::span<const std::uint64_t> slots) const {
  if (n.kind == ExprKind::Const) return n.value;
  const auto i = static_cast<std::size_t>(n.value);
  return i < slots.size() ? std::optional(read_slot(slots[i], n.bits, n.is_signed)) : std::nullopt;
}

namespace {

std::optional<std::int64_t> step(ExprKind kind, std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  std::int64_t result = 0;
  return a && b && evaluate_step(kind, *a, *b, result) ? std::optional(result) : std::nullopt;
}

bool is_leaf(const ExprNode& n) { return n.kind == ExprKind::Const || n.kind == ExprKind::Arg; }

}  // namespace

std::optional<std::int64_t> ExprPool::evaluate_node(Expr e, std::span<const std::uint64_t> slots,
                                                    std::span<const std::optional<std::int64_t>> lower) const {
  const ExprNode& n = nodes_[e.id];
  return is_leaf(n) ? leaf(n, slots) : step(n.kind, lower[n.lhs.id], lower[n.rhs.id]);
}

/// Takes one of `steps` for each node; below 0 the value means nothing.
std::optional<std::int64_t> ExprPool::evaluate_short(Expr e, std::span<const std::uint64_t> slots, int& steps) const {
  const ExprNode& n = nodes_[e.id];
  if (--steps < 0) return std::nullopt;
  if (is_leaf(n)) return leaf(n, slots);
  const auto a = evaluate_short(n.lhs, slots, steps), b = evaluate_short(n.rhs, slots, steps);
  return step(n.kind, a, b);
}

std::optional<std::int64_t> ExprPool::evaluate_shared(Expr e, std::span<const std::uint64_t> slots) const {
  std::unordered_map<std::uint32_t, std::optional<std::int64_t>> known;
  std::vector<Expr> open{e};
  while (!open.empty()) {
    const Expr next = open.back();
    const ExprNode& n = nodes_[next.id];
    if (!is_leaf(n)) {
      const std::size_t before = open.size();
      for (const Expr part : {n.lhs, n.rhs})
        if (!known.contains(part.id)) open.push_back(part);
      if (open.size() > before) continue;
    }
    known[next.id] = is_leaf(n) ? leaf(n, slots) : step(n.kind, known.at(n.lhs.id), known.at(n.rhs.id));
    open.pop_back();
  }
  return known.at(e.id);
}

/// Long text is truncated, because it can be exponentially long.
std::string ExprPool::text(Expr e, std::span<const std::string> names) const {
  int nodes = kMaxNodesOfText;
  return text(e, names, nodes);
}

std::string ExprPool::text(Expr e, std::span<const std::string> names, int& nodes) const {
  if (--nodes < 0) return "...";
  const ExprNode& n = nodes_[e.id];
  const auto side = [&](Expr x) {
    const ExprKind k = nodes_[x.id].kind;
    const bool sum = k == ExprKind::Add || k == ExprKind::Sub;
    return sum && n.kind != ExprKind::Add ? concat("(", text(x, names, nodes), ")") : text(x, names, nodes);
  };
  const auto infix = [&](const char* op) { return concat(side(n.lhs), op, side(n.rhs)); };
  const auto call = [&](const char* f, const char* separator) {
    const bool list = separator[0] == ',';
    return concat(f, "(", list ? text(n.lhs, names, nodes) : side(n.lhs), separator,
                  list ? text(n.rhs, names, nodes) : side(n.rhs), ")");
  };
  switch (n.kind) {
    case ExprKind::Const: return concat(n.value);
    case ExprKind::Arg: {
      const auto i = static_cast<std::size_t>(n.value);
      return i < names.size() ? names[i] : concat("arg", n.value);
    }
    case ExprKind::Add: {
      const auto c = constant_value(n.rhs);
      if (c && *c < 0 && *c != INT64_MIN) return concat(side(n.lhs), " - ", -*c);
      return infix(" + ");
    }
    case ExprKind::Sub: return infix(" - ");
    case ExprKind::Mul: return infix(" * ");
    case ExprKind::FloorDiv: return call("floor", " / ");
    case ExprKind::CeilDiv: return call("ceil", " / ");
    case ExprKind::Mod: return call("", " mod ");
    case ExprKind::Min: return call("min", ", ");
    case ExprKind::Max: return call("max", ", ");
  }
  return {};
}

}  // namespace tessera::analysis
