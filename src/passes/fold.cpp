// Constant folding and algebraic simplification, by the rules of fold_rules, and control flow with known conditions.
// Every operation is visited once, and again when one of its operands has changed.
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/fold_rules.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

class Folder {
 public:
  bool run(ir::Function& f) {
    ir::walk(f.body(), [&](Operation& op) { push(op); });
    std::reverse(work_.begin(), work_.end());  // taken from the end: definitions before their uses
    while (!work_.empty()) {
      Operation* op = work_.back();
      work_.pop_back();
      if (queued_.erase(op)) visit(*op);
    }
    return changed_;
  }

 private:
  void push(Operation& op) {
    if (queued_.insert(&op).second) work_.push_back(&op);
  }
  void push_users(Value v) {
    for (ir::OpOperand* use = v.first_use(); use; use = use->next) push(*use->owner);
  }

  void visit(Operation& op) {
    switch (op.op()) {
      case Op::If: return fold_if(op);
      case Op::For: return fold_for(op);
      case Op::Assert:
        if (constant_int(op.operand(0)) == 1) substitute(op, {});
        return;
      default: break;
    }
    if (!is_pure(op) || op.num_results() != 1 || op.num_regions() != 0 || op.op() == Op::Constant) return;
    if (!op.result().has_uses()) return;
    const Value v = simplified(op);
    if (!v) return;
    substitute(op, {v});
  }

  /// Replaces the results by `values`, erases the operation and revisits its users.
  void substitute(Operation& op, const std::vector<Value>& values) {
    changed_ = true;
    for (const Value v : values) {
      if (v.def()) push(*v.def());
      known_conditions_.erase(v.impl());  // has more uses
    }
    for (std::size_t i = 0; i < values.size(); ++i) push_users(op.result(i));
    forget(op);
    replace(op, values);
  }
  /// Removes operations that are about to be erased from the work list.
  void forget(Operation& op) {
    queued_.erase(&op);
    for (std::size_t r = 0; r < op.num_regions(); ++r)
      ir::walk(op.region(r), [&](Operation& inner) { queued_.erase(&inner); });
  }

  void fold_if(Operation& op) {
    const auto c = constant_int(op.operand(0));
    if (c) return take_branch(op, *c ? 0 : 1);
    know_condition(op);
    // A value that both arms yield unchanged.
    if (op.num_regions() != 2) return;
    const Operation* a = op.region(0).terminator();
    const Operation* b = op.region(1).terminator();
    if (!a || !b || a->op() != Op::Yield || b->op() != Op::Yield) return;
    for (std::size_t i = 0; i < op.num_results(); ++i)
      if (op.result(i).has_uses() && a->operand(i) == b->operand(i)) reroute(op.result(i), a->operand(i));
  }

  /// Inside an arm the condition is true, or false. One walk over the condition's uses is for all its branches, of
  /// which there may be as many as uses.
  void know_condition(Operation& op) {
    const Value condition = op.operand(0);
    if (!known_conditions_.insert(condition.impl()).second) return;
    std::vector<std::pair<ir::OpOperand*, std::size_t>> known;
    for (ir::OpOperand* use = condition.first_use(); use; use = use->next)
      if (const auto arm = arm_around(*use->owner, condition)) known.emplace_back(use, *arm);
    for (const auto& [use, region] : known) {
      ir::Builder b = ir::Builder::before(use->owner);
      Operation& user = *use->owner;
      use->set(b.constant_int(ir::Elem::I1, region == 0 ? 1 : 0));
      push(user);
      changed_ = true;
    }
  }
  /// The arm that `op` stands in of the outermost branch with this condition.
  static std::optional<std::size_t> arm_around(const Operation& op, Value condition) {
    std::optional<std::size_t> arm;
    for (const Operation* at = &op; at; at = at->parent_op()) {
      const Operation* branch = at->parent_op();
      if (branch && branch->op() == Op::If && branch->operand(0) == condition)
        arm = at->block() == &branch->region(0) ? 0 : 1;
    }
    return arm;
  }

  void take_branch(Operation& op, std::size_t region) {
    if (region >= op.num_regions()) return substitute(op, {});
    ir::Block& taken = op.region(region);
    const Operation* end = taken.terminator();
    if (end && end->op() != Op::Yield) return;  // leaves a loop or the kernel: what follows would be unreachable
    const std::vector<Value> values = end ? end->operand_values() : std::vector<Value>{};
    move_body_before(taken, op);
    substitute(op, values);
  }

  void fold_for(Operation& op) {
    ir::Block& body = op.region(0);
    const Operation* end = body.terminator();
    const auto low = constant_int(op.operand(0)), high = constant_int(op.operand(1)),
               step = constant_int(op.operand(2));
    const bool straight = end && end->op() == Op::Continue && !op.has_attr(ir::AttrName::unsignedCmp);
    if (straight && low && high && step && *step > 0) {
      if (*low >= *high) return substitute(op, op.group("initValues"));
      if (*high - *low <= *step && !leaves_early(op)) return run_once(op);
    }
    if (!straight) return;
    for (std::size_t i = 0; i < op.num_results(); ++i) {  // carried unchanged
      const Value arg = body.arg(1 + i);
      if (end->operand(i) != arg || leaves_early(op)) continue;
      reroute(arg, op.operand(3 + i));
      reroute(op.result(i), op.operand(3 + i));
    }
  }
  void run_once(Operation& op) {
    ir::Block& body = op.region(0);
    for (std::size_t i = 0; i < body.num_args(); ++i) {
      push_users(body.arg(i));
      known_conditions_.erase(op.operand(i == 0 ? 0 : 2 + i).impl());
      body.arg(i).replace_all_uses_with(op.operand(i == 0 ? 0 : 2 + i));
    }
    const std::vector<Value> values = body.terminator()->operand_values();
    move_body_before(body, op);
    substitute(op, values);
  }

  void reroute(Value from, Value to) {
    if (!from.has_uses()) return;
    changed_ = true;
    push_users(from);
    known_conditions_.erase(to.impl());
    from.replace_all_uses_with(to);
  }

  std::vector<Operation*> work_;
  std::unordered_set<Operation*> queued_;
  std::unordered_set<const ir::ValueImpl*> known_conditions_;  ///< whose uses in arms have been replaced
  bool changed_ = false;
};

}  // namespace

bool fold(ir::Function& f) { return Folder().run(f); }

}  // namespace tessera::passes
