// Forward and backward walks over many values at once (see dependents.hpp).
#include "tessera/analysis/dependents.hpp"

#include <algorithm>
#include <climits>
#include <vector>

#include "tessera/analysis/values.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr int kNowhere = INT_MAX;

}  // namespace

Dependents::Dependents(const ir::Block& body, std::span<const Value> sources) {
  for (const Value v : sources) sources_.insert(v.impl());
  if (!sources_.empty()) walk(body, 0);
}

/// Returns the least depth of what the block's operations use: what a loop or branch uses, its results depend on.
int Dependents::walk(const ir::Block& block, int depth) {
  int all = kNowhere;
  for (const Operation& op : block) {
    int used = kNowhere;
    for (const ir::OpOperand& use : op.operands())
      if (const auto it = depth_.find(use.value.impl()); it != depth_.end()) used = std::min(used, it->second);
    for (std::size_t r = 0; r < op.num_regions(); ++r) used = std::min(used, walk(op.region(r), depth + 1));
    all = std::min(all, used);
    for (std::size_t i = 0; i < op.num_results(); ++i) {
      const ir::ValueImpl* v = op.result(i).impl();
      const int own = std::min(used <= depth ? used : kNowhere, sources_.contains(v) ? depth : kNowhere);
      if (own != kNowhere) depth_.emplace(v, own);
    }
  }
  return all;
}

std::unordered_set<const ir::ValueImpl*> values_behind(std::span<const Value> values, const ir::Block& body) {
  std::unordered_set<const ir::ValueImpl*> seen;
  std::vector<Value> work(values.begin(), values.end());
  while (!work.empty()) {
    const Value next = work.back();
    work.pop_back();
    Operation* def = next ? next.def() : nullptr;
    if (!def || defined_outside(next, body) || !seen.insert(next.impl()).second) continue;
    const auto push = [&](const Operation& op) {
      for (const ir::OpOperand& use : op.operands()) work.push_back(use.value);
    };
    push(*def);
    for (std::size_t r = 0; r < def->num_regions(); ++r) ir::walk(def->region(r), push);
  }
  return seen;
}

bool ComputedFrom::through_control(const ir::OpOperand& use, std::vector<Value>& work) {
  const Operation& op = *use.owner;
  const std::size_t n = use.number();
  const auto carry = [&](const Operation& loop, std::size_t i) {
    add(loop.result(i), work);
    add(loop.region(0).arg(1 + i), work);
  };
  switch (op.op()) {
    case Op::If: return true;
    case Op::For:
      if (n >= first_carried_operand(op)) carry(op, n - first_carried_operand(op));
      return true;
    case Op::Yield:
    case Op::Continue: {
      const Operation* parent = op.parent_op();
      const bool ends = parent != nullptr && op.block()->terminator() == &op;
      if (ends && op.op() == Op::Yield && parent->op() == Op::If) add(parent->result(n), work);
      if (ends && op.op() == Op::Continue && parent->op() == Op::For) carry(*parent, n);
      return true;
    }
    default: return false;
  }
}

}  // namespace tessera::analysis
