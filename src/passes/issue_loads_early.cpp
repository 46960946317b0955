// Moves loads before the reductions and scans that stand in front of them. A reduction across a block's threads ends in
// a barrier, and no assembler moves a load over one: a row's weights that are read after its mean has been computed
// wait for that mean, although nothing depends on it. Issued first, they are on the way while the row is reduced.
//
//   t = load x          t = load x
//   m = reduce t   =>   w = load weights
//   w = load weights    m = reduce t
//   y = f(t, m, w)      y = f(t, m, w)
//
// What is loaded early is held longer, so only as many bytes move as the reduced tile itself has, twice.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "passes/kernel_facts.hpp"
#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Block;
using ir::Op;
using ir::Operation;

namespace {

constexpr std::int64_t kLeastElements = 256;  // of a reduction across threads: smaller ones have no barrier to wait at
constexpr std::int64_t kMostShare = 2;        // bytes that may move, as a multiple of the reduced bytes

bool is_reduction(const Operation& op) {
  return (op.op() == Op::Reduce || op.op() == Op::Scan) && op.operand(0).type().num_elements() >= kLeastElements;
}

std::int64_t bytes_of(ir::Type tile) {
  return tile.num_elements() * (tile.is_pointer() ? 8 : ir::info(tile.elem()).bytes);
}

/// A load that nothing orders: of memory that is only read.
bool is_free_load(const Operation& op) { return is_load(op) && !op.single("token") && !op.result(1).has_uses(); }

/// The load and what it needs after `limit` in the same block, operands first; empty if something of it cannot move.
std::vector<Operation*> movable_slice(Operation& load, const std::unordered_set<const Operation*>& after) {
  std::vector<Operation*> slice;
  const auto collect = [&](const auto& self, Operation& op) -> bool {
    if (std::find(slice.begin(), slice.end(), &op) != slice.end()) return true;
    if (&op != &load && (!is_pure(op) || op.num_regions() != 0)) return false;
    for (const ir::OpOperand& operand : op.operands()) {
      Operation* def = operand.value.def();
      if (def && after.contains(def) && !self(self, *def)) return false;
    }
    slice.push_back(&op);
    return true;
  };
  return collect(collect, load) ? slice : std::vector<Operation*>{};
}

bool issue_early_in(Block& block) {
  Operation* first = nullptr;
  std::unordered_set<const Operation*> after;
  std::vector<Operation*> loads;
  for (Operation& op : block) {
    if (!first && is_reduction(op)) first = &op;
    if (!first) continue;
    after.insert(&op);
    if (is_free_load(op)) loads.push_back(&op);
  }
  if (!first) return false;
  std::int64_t budget = kMostShare * bytes_of(first->operand(0).type());
  bool changed = false;
  for (Operation* load : loads) {
    const std::int64_t bytes = bytes_of(load->result().type());
    if (bytes > budget) continue;
    const std::vector<Operation*> slice = movable_slice(*load, after);
    if (slice.empty()) continue;
    for (Operation* op : slice) {
      op->move_before(first);
      after.erase(op);
    }
    budget -= bytes;
    changed = true;
  }
  return changed;
}

bool issue_early_below(Block& block) {
  bool changed = issue_early_in(block);
  for (Operation& op : block) {
    if (op.op() == Op::Reduce || op.op() == Op::Scan) continue;
    for (std::size_t r = 0; r < op.num_regions(); ++r) changed = issue_early_below(op.region(r)) || changed;
  }
  return changed;
}

}  // namespace

bool issue_loads_early(ir::Function& f) { return issue_early_below(f.body()); }

}  // namespace tessera::passes
