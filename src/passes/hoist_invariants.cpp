// Loop-invariant code motion. Innermost loops first, so that a value can leave several loops.
#include <unordered_set>
#include <vector>

#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr std::int64_t kSmall = 256;  // elements: at most a few registers a thread to keep alive over a loop

/// Cheap to recompute, expensive to keep in registers: large constants, iotas and broadcasts. They are hoisted only
/// together with a user.
bool is_cheap_spread(const Operation& op) {
  const bool spreads = op.op() == Op::Constant || op.op() == Op::Broadcast || op.op() == Op::Iota;
  return spreads && op.result().type().num_elements() > kSmall;
}

/// True if the operation may run even if the loop has no iteration. Assumptions may hold only at their own place.
bool can_run_early(const Operation& op) { return is_pure(op) && op.op() != Op::Assume && op.num_results() != 0; }

class Hoister {
 public:
  bool run(ir::Block& block) {
    for (Operation& op : block) {
      for (std::size_t r = 0; r < op.num_regions(); ++r) run(op.region(r));
      if (op.op() == Op::For || op.op() == Op::Loop) hoist(op);
    }
    return changed_;
  }

 private:
  void hoist(Operation& loop) {
    ir::Block& body = loop.region(0);
    std::vector<Operation*> candidates;
    std::unordered_set<const Operation*> leaving;
    for (Operation& op : body)
      if (can_run_early(op) && invariant(op, body, leaving)) {
        candidates.push_back(&op);
        leaving.insert(&op);
      }
    for (std::size_t i = candidates.size(); i-- > 0;)
      if (is_cheap_spread(*candidates[i]) && !feeds(*candidates[i], leaving)) leaving.erase(candidates[i]);
    for (Operation* op : candidates) {
      if (!leaving.contains(op)) continue;
      op->move_before(&loop);
      changed_ = true;
    }
  }

  /// Everything that `op` and its regions use is outside the loop, or will be.
  static bool invariant(Operation& op, const ir::Block& body, const std::unordered_set<const Operation*>& leaving) {
    const auto outside = [&](Value v) { return defined_outside(v, body) || (v.def() && leaving.contains(v.def())); };
    for (const ir::OpOperand& use : op.operands())
      if (!outside(use.value)) return false;
    bool inner_ok = true;
    for (std::size_t r = 0; r < op.num_regions(); ++r)
      ir::walk(op.region(r), [&](const Operation& inner) {
        for (const ir::OpOperand& use : inner.operands())
          inner_ok = inner_ok && (!defined_outside(use.value, op.region(r)) || outside(use.value));
      });
    return inner_ok;
  }

  static bool feeds(const Operation& op, const std::unordered_set<const Operation*>& leaving) {
    for (ir::OpOperand* use = op.result().first_use(); use; use = use->next)
      if (leaving.contains(use->owner)) return true;
    return false;
  }

  bool changed_ = false;
};

}  // namespace

bool hoist_invariants(ir::Function& f) { return Hoister().run(f.body()); }

}  // namespace tessera::passes
