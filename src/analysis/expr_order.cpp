// When one launch expression is never larger than another: by the intervals of what they can be, and by the shape of
// tile arithmetic (quotients, products with counts, roundings to a multiple). Everything else is compared at the
// launch.
#include "tessera/analysis/expr.hpp"

namespace tessera::analysis {

bool ExprPool::le(Expr a, Expr b, std::int64_t offset, int depth) const {
  const Offset x = split(a), y = split(b);
  // x.base + x.offset <= y.base + y.offset + offset
  if (__builtin_add_overflow(offset, y.offset, &offset) || __builtin_sub_overflow(offset, x.offset, &offset)) {
    return false;
  }
  a = x.base;
  b = y.base;
  if (a == b) return offset >= 0;
  const Interval i = nodes_[a.id].interval, j = nodes_[b.id].interval;
  std::int64_t least = 0;
  if (i.hi != INT64_MAX && j.lo != INT64_MIN && !__builtin_add_overflow(j.lo, offset, &least) && i.hi <= least) {
    return true;
  }
  if (depth == 0) return false;
  return le_by_upper(a, b, offset, depth - 1) || le_by_lower(a, b, offset, depth - 1) ||
         le_by_rounding(a, b, offset, depth - 1);
}

/// Something above `a` that is still not above b.
bool ExprPool::le_by_upper(Expr a, Expr b, std::int64_t offset, int depth) const {
  const ExprNode& n = nodes_[a.id];
  if (n.kind == ExprKind::Const || n.kind == ExprKind::Arg) return false;
  const Interval p = nodes_[n.lhs.id].interval, q = nodes_[n.rhs.id].interval;
  switch (n.kind) {
    case ExprKind::Min: return le(n.lhs, b, offset, depth) || le(n.rhs, b, offset, depth);
    case ExprKind::Max: return le(n.lhs, b, offset, depth) && le(n.rhs, b, offset, depth);
    case ExprKind::FloorDiv:
    case ExprKind::CeilDiv: return p.lo >= 0 && le(n.lhs, b, offset, depth);  // divisors are 1 and more
    case ExprKind::Mod:
      return (p.lo >= 0 && le(n.lhs, b, offset, depth)) ||
             (q.hi != INT64_MAX && offset != INT64_MAX && le(n.rhs, b, offset + 1, depth));
    default: return false;
  }
}

/// Something below `b` that is still not below a.
bool ExprPool::le_by_lower(Expr a, Expr b, std::int64_t offset, int depth) const {
  const ExprNode& n = nodes_[b.id];
  if (n.kind == ExprKind::Const || n.kind == ExprKind::Arg) return false;
  const Interval p = nodes_[n.lhs.id].interval, q = nodes_[n.rhs.id].interval;
  switch (n.kind) {
    case ExprKind::Max: return le(a, n.lhs, offset, depth) || le(a, n.rhs, offset, depth);
    case ExprKind::Min: return le(a, n.lhs, offset, depth) && le(a, n.rhs, offset, depth);
    case ExprKind::Mul:
      return (p.lo >= 1 && q.lo >= 0 && le(a, n.rhs, offset, depth)) ||
             (q.lo >= 1 && p.lo >= 0 && le(a, n.lhs, offset, depth));
    default: return false;
  }
}

/// The same rounding of both, or a multiple against what it was rounded from.
bool ExprPool::le_by_rounding(Expr a, Expr b, std::int64_t offset, int depth) const {
  const ExprNode &m = nodes_[a.id], &n = nodes_[b.id];
  const bool scaling = m.kind == ExprKind::Mul || m.kind == ExprKind::FloorDiv || m.kind == ExprKind::CeilDiv;
  if (scaling && m.kind == n.kind && m.rhs == n.rhs && offset >= 0 && nodes_[m.rhs.id].interval.lo >= 0 &&
      le(m.lhs, n.lhs, 0, depth)) {
    return true;
  }
  if (m.kind != ExprKind::Mul) return false;
  const ExprNode& inner = nodes_[m.lhs.id];
  const auto step = constant_value(m.rhs);
  if (!step || *step < 1 || inner.rhs != m.rhs || inner.lhs != b) return false;
  return (inner.kind == ExprKind::FloorDiv && offset >= 0) || (inner.kind == ExprKind::CeilDiv && offset >= *step - 1);
}

}  // namespace tessera::analysis
