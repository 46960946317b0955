// Mark and sweep over structured control flow. A loop or an `if` is live as a shell (bounds, condition) when something
// inside has an effect or one of its values is used; each carried value is marked for itself.
#include "tessera/ir/dead_code.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "tessera/base/pointer_numbers.hpp"

namespace tessera::ir {
namespace {

bool is_carrier(const Operation& op) { return op.op() == Op::For || op.op() == Op::Loop || op.op() == Op::If; }
std::size_t first_carried_operand(const Operation& op) { return op.op() == Op::For ? 3 : 0; }
std::size_t first_carried_arg(const Operation& op) { return op.op() == Op::For ? 1 : 0; }

/// The loop that a `break` or `continue` belongs to, or the `if` of a `yield`.
Operation* target_of(const Operation& terminator) {
  Operation* op = terminator.parent_op();
  if (terminator.op() != Op::Break && terminator.op() != Op::Continue) return op;
  while (op && op->op() != Op::For && op->op() != Op::Loop) op = op->parent_op();
  return op;
}

class Liveness {
 public:
  void run(Block& body) {
    walk(body, [&](Operation& op) { note_exit(op); });
    std::stable_sort(exits_.begin(), exits_.end(), ByTarget{});
    walk(body, [&](Operation& op) {
      const bool returns_early = op.op() == Op::Return && op.parent_op();
      if (op.info().has(traits::Write | traits::Effect) || returns_early) mark_op(&op);
    });
    while (!work_.empty()) {
      Value v = work_.back();
      work_.pop_back();
      visit(v);
    }
  }
  bool live(const Operation& op) const { return ops_.contains(&op); }
  bool live(Value v) const { return values_.contains(v.impl()); }

 private:
  void mark(Value v) {
    if (v && values_.give(v.impl()).second) work_.push_back(v);
  }

  void mark_op(Operation* op) {
    mark_shell(op);
    if (is_carrier(*op)) return;
    for (OpOperand& use : op->operands()) mark(use.value);
    for (std::size_t i = 0; i < op->num_regions(); ++i)  // reduce, scan: the body belongs to the operation
      walk(op->region(i), [&](Operation& inner) {
        ops_.give(&inner);
        for (OpOperand& use : inner.operands()) mark(use.value);
      });
  }

  /// The operation itself and what decides whether it runs.
  void mark_shell(Operation* op) {
    for (; op && ops_.give(op).second; op = op->parent_op()) {
      if (op->op() == Op::For)
        for (std::size_t i = 0; i < 3; ++i) mark(op->operand(i));
      if (op->op() == Op::If) mark(op->operand(0));
      for (const Exit& exit : exits_of(op)) mark_shell(exit.op);
    }
  }

  /// Remembers the `break`s and `continue`s of each loop, and the `yield`s of each `if`.
  void note_exit(Operation& op) {
    if (!op.info().has(traits::Terminator) || op.op() == Op::Return) return;
    if (Operation* target = target_of(op); target && is_carrier(*target)) exits_.push_back({target, &op});
  }
  struct Exit {
    Operation* target;
    Operation* op;
  };
  struct ByTarget {
    bool operator()(const Exit& a, const Exit& b) const { return std::less<>()(a.target, b.target); }
  };
  std::span<const Exit> exits_of(Operation* target) const {
    const auto [first, last] = std::equal_range(exits_.begin(), exits_.end(), Exit{target, nullptr}, ByTarget{});
    return {first, last};
  }

  void mark_carried(Operation* op, std::size_t i) {
    mark_shell(op);
    mark(op->result(i));
    for (const Exit& exit : exits_of(op)) mark(exit.op->operand(i));
    if (op->op() == Op::If) return;
    mark(op->operand(first_carried_operand(*op) + i));
    mark(op->region(0).arg(first_carried_arg(*op) + i));
  }

  void visit(Value v) {
    if (Operation* def = v.def()) return is_carrier(*def) ? mark_carried(def, v.index()) : mark_op(def);
    Operation* parent = v.argument_block()->parent();
    if (!parent) return;  // a kernel argument
    if (!is_carrier(*parent)) return mark_op(parent);
    const std::size_t skip = first_carried_arg(*parent);
    if (v.index() < skip) return mark_shell(parent);
    mark_carried(parent, v.index() - skip);
  }

  PointerNumbers ops_{512}, values_{512};
  std::vector<Exit> exits_;
  std::vector<Value> work_;
};

std::vector<Operation*> terminators_of(Operation& op) {
  std::vector<Operation*> found;
  for (std::size_t r = 0; r < op.num_regions(); ++r)
    walk(op.region(r), [&](Operation& inner) {
      const bool exit = inner.op() == Op::Break || inner.op() == Op::Continue || inner.op() == Op::Yield;
      if (exit && target_of(inner) == &op) found.push_back(&inner);
    });
  return found;
}

void drop_operand(Operation& op, std::size_t i) {
  std::vector<Value> values = op.operand_values();
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
  std::vector<std::uint32_t> sizes(op.group_sizes().begin(), op.group_sizes().end());
  --sizes.back();  // carried values are the last, variadic group
  op.set_operands(values, sizes);
}

/// Takes the dead carried values out of a live loop or `if`: terminators and initial values first, then what they fed.
void sweep_carried(Operation& op, const Liveness& live) {
  const std::vector<Operation*> exits = op.num_results() ? terminators_of(op) : std::vector<Operation*>{};
  for (std::size_t i = op.num_results(); i-- > 0;) {
    if (live.live(op.result(i))) continue;
    for (Operation* exit : exits) drop_operand(*exit, i);
    if (op.op() != Op::If) drop_operand(op, first_carried_operand(op) + i);
  }
}

void erase_carried(Operation& op, const Liveness& live) {
  for (std::size_t i = op.num_results(); i-- > 0;) {
    if (live.live(op.result(i))) continue;
    if (op.op() != Op::If) op.region(0).erase_arg(first_carried_arg(op) + i);
    op.erase_result(i);
  }
}

template <class F>
void for_each_carrier(Block& block, const Liveness& live, F f) {
  for (Operation& op : block) {
    if (!is_carrier(op) || !live.live(op)) continue;
    f(op);
    for (std::size_t r = 0; r < op.num_regions(); ++r) for_each_carrier(op.region(r), live, f);
  }
}

void sweep(Block& block, const Liveness& live) {
  for (Operation* op = block.back(); op;) {
    Operation* previous = op->prev();
    if (!live.live(*op) && !op->info().has(traits::Terminator)) {
      op->erase();
    } else if (is_carrier(*op)) {
      for (std::size_t r = 0; r < op->num_regions(); ++r) sweep(op->region(r), live);
    }
    op = previous;
  }
}

}  // namespace

void remove_dead_code(Function& function) {
  Liveness live;
  live.run(function.body());
  for_each_carrier(function.body(), live, [&](Operation& op) { sweep_carried(op, live); });
  sweep(function.body(), live);
  for_each_carrier(function.body(), live, [&](Operation& op) { erase_carried(op, live); });
}

}  // namespace tessera::ir
