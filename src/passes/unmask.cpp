// Narrows masks to the part of a tile where they can be false. A row of 1000 in a tile of 1024 ends in the last
// quarter. If the launch guarantees that (`assume bounded<769, 1023>` of the tensor's extent), three quarters need no
// mask:
//
//   inside = iota < n      =>      inside = iota < 768 or iota < n
//
// The assembler evaluates a comparison with a constant for each element of a thread, because it knows the range of
// thread numbers. It makes no use of the assumption itself. docs/compiler/unmask.md.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::ComparisonPredicate;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// A signed range of all elements of an integer tile.
struct Bounds {
  std::int64_t low, high;
};

constexpr int kDepth = 12;
std::optional<Bounds> bounds_of(Value v, int depth = kDepth);

std::optional<Bounds> assumed(const Operation& op, int depth) {
  const auto* bounds = op.attr(AttrName::predicate)->as<ir::BoundedAttr>();
  if (bounds == nullptr || !bounds->lower || !bounds->upper) return bounds_of(op.operand(0), depth - 1);
  return Bounds{*bounds->lower, *bounds->upper};
}

/// Follows the operations between a tensor's extent and a mask only: nested minima would double the work at each level.
std::optional<Bounds> bounds_of(Value v, int depth) {
  if (depth == 0) return std::nullopt;
  if (const auto c = constant_int(v)) return Bounds{*c, *c};
  const Operation* op = v.def();
  if (op == nullptr) return std::nullopt;
  switch (op->op()) {
    case Op::Assume: return assumed(*op, depth);
    case Op::Reshape:
    case Op::Broadcast: return bounds_of(op->operand(0), depth - 1);
    case Op::TruncI: {
      const auto b = bounds_of(op->operand(0), depth - 1);
      const std::int64_t most = (std::int64_t{1} << (ir::info(v.type().elem()).bits - 1)) - 1;
      return b && b->low >= 0 && b->high <= most ? b : std::nullopt;
    }
    case Op::MinI: {
      const auto a = bounds_of(op->operand(0), depth - 1), b = bounds_of(op->operand(1), depth - 1);
      if (!a || !b || op->enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Signed)
        return std::nullopt;
      return Bounds{std::min(a->low, b->low), std::min(a->high, b->high)};
    }
    default: return std::nullopt;
  }
}

/// How far `v` counts 0, 1, ... along one of its axes; 0 if it does not.
std::int64_t counts_to(Value v) {
  const Operation* op = behind_shapes(v).def();
  return op != nullptr && op->op() == Op::Iota ? op->result().type().shape()[0] : 0;
}

/// A comparison of indices with a scalar, the indices on the left.
struct Mask {
  Value places, number;
  ComparisonPredicate how;
  ir::Signedness sign;
};

std::optional<Mask> mask_of(const Operation& op) {
  if (op.op() != Op::CmpI) return std::nullopt;
  Mask m{op.operand(0), op.operand(1), op.enum_attr<ComparisonPredicate>(AttrName::comparison_predicate),
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

/// Indices below the result are known to be below the scalar; 0: none. In whole quarters of the tile, because the
/// obligations are about one half and three quarters (analysis/collect_access.cpp).
std::int64_t surely_below(const Mask& m) {
  if (constant_int(behind_shapes(m.number))) return 0;  // the assembler evaluates that itself
  const std::int64_t quarter = counts_to(m.places) / 4;
  const auto number = bounds_of(m.number);
  return quarter > 0 && number && number->low > 0 ? number->low / quarter * quarter : 0;
}

void split(Operation& op, const Mask& m, std::int64_t known) {
  ir::Builder b = ir::Builder::before(&op);
  b.loc = op.loc;
  const ir::Type type = m.places.type();
  const Value edge = b.constant_int(type.elem(), known, type.shape());
  const bool below = m.how == ComparisonPredicate::Less || m.how == ComparisonPredicate::LessEqual;
  // With the signedness of the comparison: 8-bit indices in a tile of 256 may be negative.
  const auto at_edge = below ? ComparisonPredicate::Less : ComparisonPredicate::GreaterEqual;
  const Value sure = compared(b, at_edge, m.places, edge, m.sign),
              rest = compared(b, m.how, m.places, m.number, m.sign);
  const Value whole = b.create(below ? Op::OrI : Op::AndI, {sure, rest}, {rest.type()})->result();
  op.result().replace_all_uses_with(whole);
  op.erase();
}

}  // namespace

bool unmask(ir::Function& f, const Certifier* certifier) {
  std::vector<Operation*> found;
  std::vector<analysis::Claim> claims;
  ir::walk(f.body(), [&](Operation& op) {
    const auto m = mask_of(op);
    const std::int64_t known = m ? surely_below(*m) : 0;
    if (known == 0) return;
    found.push_back(&op);
    claims.push_back(
        {.kind = analysis::ClaimKind::AtLeast, .op = &op, .index = op.operand(0) == m->number ? 0 : 1, .lower = known});
  });
  const std::vector<bool> may = certified(certifier, f, claims);
  bool changed = false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!may[i]) continue;
    const Mask m = *mask_of(*found[i]);
    split(*found[i], m, surely_below(m));
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
