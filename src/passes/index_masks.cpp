// See index_masks.hpp.
#include "passes/index_masks.hpp"

#include <algorithm>
#include <utility>

#include "passes/values.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::ComparisonPredicate;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

// Nested minima double the work at each level.
constexpr int kDepth = 12;
std::optional<KnownRange> range_of(Value v, int depth);

std::optional<KnownRange> assumed(const Operation& op, int depth) {
  const auto* bounds = op.attr(AttrName::predicate)->as<ir::BoundedAttr>();
  if (bounds == nullptr || !bounds->lower || !bounds->upper) return range_of(op.operand(0), depth - 1);
  return KnownRange{*bounds->lower, *bounds->upper};
}

std::optional<KnownRange> range_of(Value v, int depth) {
  if (depth == 0) return std::nullopt;
  if (const auto c = constant_int(v)) return KnownRange{*c, *c};
  const Operation* op = v.def();
  if (op == nullptr) return std::nullopt;
  switch (op->op()) {
    case Op::Assume: return assumed(*op, depth);
    case Op::Reshape:
    case Op::Broadcast: return range_of(op->operand(0), depth - 1);
    case Op::TruncI: {
      const auto b = range_of(op->operand(0), depth - 1);
      const std::int64_t most = (std::int64_t{1} << (ir::info(v.type().elem()).bits - 1)) - 1;
      return b && b->low >= 0 && b->high <= most ? b : std::nullopt;
    }
    case Op::MinI: {
      const auto a = range_of(op->operand(0), depth - 1), b = range_of(op->operand(1), depth - 1);
      if (!a || !b || op->enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Signed)
        return std::nullopt;
      return KnownRange{std::min(a->low, b->low), std::min(a->high, b->high)};
    }
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<KnownRange> known_range(Value v) { return range_of(v, kDepth); }

std::int64_t counts_to(Value v) {
  const Operation* op = behind_shapes(v).def();
  return op != nullptr && op->op() == Op::Iota ? op->result().type().shape()[0] : 0;
}

std::optional<IndexMask> index_mask(const Operation& op) {
  if (op.op() != Op::CmpI) return std::nullopt;
  IndexMask m{op.operand(0), op.operand(1), op.enum_attr<ComparisonPredicate>(AttrName::comparison_predicate),
              op.enum_attr<ir::Signedness>(AttrName::signedness)};
  if (counts_to(m.places) == 0) {
    std::swap(m.places, m.number);
    switch (m.how) {
      case ComparisonPredicate::Less: m.how = ComparisonPredicate::Greater; break;
      case ComparisonPredicate::LessEqual: m.how = ComparisonPredicate::GreaterEqual; break;
      case ComparisonPredicate::Greater: m.how = ComparisonPredicate::Less; break;
      case ComparisonPredicate::GreaterEqual: m.how = ComparisonPredicate::LessEqual; break;
      default: break;
    }
  }
  const bool ordered = m.how != ComparisonPredicate::Equal && m.how != ComparisonPredicate::NotEqual;
  return ordered && counts_to(m.places) > 0 ? std::optional(m) : std::nullopt;
}

}  // namespace tessera::passes
