// Drops token edges that order nothing. A recording starts every chain with an empty token and hands chains through
// loops and branches; where no access has joined a chain, its token stands for nothing, and an access that waits for it
// waits for nobody.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "passes/rewriter.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// Tokens behind which no access stands. Starts from "all that make_token, joins, loops and branches give" and takes
/// away what an access reaches, until nothing changes: loops may hand tokens round.
class EmptyTokens {
 public:
  explicit EmptyTokens(ir::Function& f) {
    ir::walk(f.body(), [&](Operation& op) { note(op); });
    for (bool changed = true; changed;) {
      changed = false;
      for (const Flow& flow : flows_)
        if (empty_.contains(flow.to.impl()) && !empty_.contains(flow.from.impl())) {
          empty_.erase(flow.to.impl());
          changed = true;
        }
    }
  }
  bool contains(Value v) const { return empty_.contains(v.impl()); }

 private:
  struct Flow {
    Value from, to;
  };
  void flow(Value from, Value to) {
    if (!to.type().is_token()) return;
    empty_.insert(to.impl());
    flows_.push_back({from, to});
  }

  void note(Operation& op) {
    switch (op.op()) {
      case Op::MakeToken: empty_.insert(op.result().impl()); break;
      case Op::JoinTokens:
        for (const ir::OpOperand& use : op.operands()) flow(use.value, op.result());
        break;
      case Op::For:
      case Op::Loop: {
        const std::vector<Value> inits = op.group("initValues");
        for (std::size_t i = 0; i < inits.size(); ++i) {
          flow(inits[i], op.region(0).arg(first_carried_arg(op) + i));
          if (op.op() == Op::For) flow(inits[i], op.result(i));
        }
        break;
      }
      case Op::Continue:
      case Op::Break:
      case Op::Yield: note_exit(op); break;
      default: break;
    }
  }
  /// What leaves a region arrives at the loop's next iteration and at the results.
  void note_exit(Operation& exit) {
    Operation* to = exit.parent_op();
    if (exit.op() != Op::Yield)
      while (to && to->op() != Op::For && to->op() != Op::Loop) to = to->parent_op();
    if (!to || (to->op() != Op::For && to->op() != Op::Loop && to->op() != Op::If)) return;
    for (std::size_t i = 0; i < exit.num_operands(); ++i) {
      if (exit.op() == Op::Continue) flow(exit.operand(i), to->region(0).arg(first_carried_arg(*to) + i));
      if (exit.op() != Op::Continue || to->op() == Op::For) flow(exit.operand(i), to->result(i));
    }
  }

  std::unordered_set<const ir::ValueImpl*> empty_;
  std::vector<Flow> flows_;
};

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

bool order_tokens(ir::Function& f) {
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
