// Drops token edges that order nothing. A recording starts every chain with an empty token and passes chains through
// loops and branches. Where no access has joined a chain yet, waiting for its token has no effect.
#include <algorithm>
#include <vector>

#include "passes/rewriter.hpp"
#include "tessera/analysis/tokens.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

using analysis::EmptyTokens;

namespace {

/// An access without its token operand.
void drop_token(Operation& op) {
  std::vector<Value> operands;
  std::vector<std::uint32_t> sizes;
  for (const ir::GroupInfo& g : op.info().operands) {
    const std::vector<Value> values = g.name == "token" ? std::vector<Value>{} : op.group(g.name);
    operands.insert(operands.end(), values.begin(), values.end());
    sizes.push_back(static_cast<std::uint32_t>(values.size()));
  }
  op.set_operands(operands, sizes);
}

bool has_optional_token(const Operation& op) {
  const int group = op.info().operand_group("token");
  return group >= 0 && op.info().operands[static_cast<std::size_t>(group)].arity == ir::Arity::Optional;
}

/// Each joined token once, empty ones not at all. True if the join went or changed.
bool simplify_join(Operation& join, const EmptyTokens& empty) {
  std::vector<Value> left;
  for (const ir::OpOperand& use : join.operands())
    if (!empty.contains(use.value) && std::find(left.begin(), left.end(), use.value) == left.end())
      left.push_back(use.value);
  if (left.empty() || left.size() == join.num_operands()) return false;
  if (left.size() == 1) {
    replace(join, left);
  } else {
    const std::vector<std::uint32_t> sizes{static_cast<std::uint32_t>(left.size())};
    join.set_operands(left, sizes);
  }
  return true;
}

}  // namespace

bool drop_empty_tokens(ir::Function& f) {
  const EmptyTokens empty(f);
  std::vector<Operation*> waiting, joins;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::JoinTokens) joins.push_back(&op);
    if (!has_optional_token(op)) return;
    const Value token = op.single("token");
    if (token && empty.contains(token)) waiting.push_back(&op);
  });
  bool changed = !waiting.empty();
  for (Operation* op : waiting) drop_token(*op);
  for (Operation* join : joins) changed = simplify_join(*join, empty) || changed;
  return changed;
}

}  // namespace tessera::passes
