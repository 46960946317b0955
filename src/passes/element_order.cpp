// Which kernels have tiles whose elements are in another order than that of memory.
#include "passes/element_order.hpp"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "tessera/analysis/access.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

std::vector<std::int64_t> long_axes(Type tile) {
  std::vector<std::int64_t> extents(tile.shape().begin(), tile.shape().end());
  std::erase(extents, 1);
  return extents;
}

/// True if a tile is computed by an operation after which a thread may have its elements in another order than that of
/// memory: `cat`, a broadcast, a permutation. Loads are in the order of memory.
bool may_be_in_another_order(Value tile) {
  std::unordered_set<const Operation*> seen;
  std::vector<Value> work{tile};
  while (!work.empty()) {
    const Operation* def = work.back().def();
    work.pop_back();
    if (def == nullptr) return true;  // carried by a loop
    if (!seen.insert(def).second || def->op() == Op::Constant || def->op() == Op::Iota || analysis::is_load(*def))
      continue;
    if (def->op() == Op::Cat || def->op() == Op::Broadcast || def->op() == Op::Permute || def->num_regions() > 0)
      return true;
    for (std::size_t i = 0; i < def->num_operands(); ++i)
      if (def->operand(i).type().is_tile() && def->operand(i).type().num_elements() > 1)
        work.push_back(def->operand(i));
  }
  return false;
}

/// A reshape that does more than add or drop axes of one element, of a tile that may be in another order.
bool joins_or_parts_axes(const Operation& op) {
  return op.op() == Op::Reshape && long_axes(op.operand(0).type()) != long_axes(op.result(0).type()) &&
         may_be_in_another_order(op.operand(0));
}

}  // namespace

bool reshapes_out_of_order(const ir::Function& f) {
  bool found = false;
  ir::walk(f.body(), [&](const Operation& op) { found |= joins_or_parts_axes(op); });
  return found;
}

}  // namespace tessera::passes
