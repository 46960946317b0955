// Whether a result depends on the order in which a block combines elements.
#include <algorithm>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;

namespace {

/// Operations on integers that may be done in any order. (An addition that wraps is one; one that may not overflow is
/// not, because a partial sum might.)
bool has_any_order(const Operation& op) {
  switch (op.op()) {
    case Op::AndI:
    case Op::OrI:
    case Op::XOrI:
    case Op::MaxI:
    case Op::MinI: return true;
    case Op::AddI:
    case Op::MulI: {
      using ir::IntegerOverflow;
      return op.enum_attr(ir::AttrName::overflow, IntegerOverflow::None) == IntegerOverflow::None;
    }
    default: return false;
  }
}

/// A reduction or a scan of one tile whose body is one such operation.
bool combines_in_any_order(const Operation& op) {
  if (op.num_results() != 1 || op.num_regions() != 1) return false;
  std::size_t operations = 0;
  bool fine = true;
  for (const Operation& inner : op.region(0)) {
    if (&inner == op.region(0).terminator()) continue;
    ++operations;
    fine = fine && has_any_order(inner);
  }
  return operations == 1 && fine;
}

bool is_atomic(const Operation& op) {
  const auto access = access_of(op);
  return op.op() == Op::AtomicCASTko || (access && access->kind == AccessKind::Atomic);
}

}  // namespace

bool order_matters(const ir::Function& f) {
  bool matters = false;
  ir::walk(f.body(), [&](const Operation& op) {
    const bool combines = op.op() == Op::Reduce || op.op() == Op::Scan;
    matters = matters || is_product(op) || is_atomic(op) || (combines && !combines_in_any_order(op));
  });
  return matters;
}

}  // namespace tessera::analysis
