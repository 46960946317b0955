// Takes the guard of a load out of a loop with products where it is the same in every iteration (loop unswitching):
// with a branch in the loop the assembler keeps one step of loads in flight. docs/compiler/split_loops.md.
#include <algorithm>
#include <optional>
#include <vector>

#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// Operations of a loop that is copied: the assembler gets both copies.
constexpr std::size_t kLargestSwitched = 400;

bool is_in(const Value& v, const Operation& loop) {
  for (const Operation* at = v.def() ? v.def() : v.argument_block()->parent(); at; at = at->parent_op())
    if (at == &loop) return true;
  return false;
}

/// The branches of the loop's body that load, under a condition from outside of the loop.
std::vector<Operation*> guards_of(Operation& loop) {
  std::vector<Operation*> guards;
  for (Operation& op : loop.region(0)) {
    if (op.op() != Op::If || op.num_results() == 0 || is_in(op.operand(0), loop)) continue;
    bool loads = false;
    for (const Operation& inner : op.region(0)) loads = loads || analysis::access_of(inner).has_value();
    if (loads) guards.push_back(&op);
  }
  return guards;
}

bool can_unswitch(Operation& loop) {
  if (loop.op() != Op::For || leaves_early(loop)) return false;
  std::size_t size = 0;
  bool product = false;
  ir::walk(loop.region(0), [&](const Operation& op) { ++size, product = product || analysis::is_product(op); });
  return product && size <= kLargestSwitched && !guards_of(loop).empty();
}

/// All operations in the loop. Those of a copy come in the same order.
std::vector<Operation*> operations(Operation& loop) {
  std::vector<Operation*> ops;
  ir::walk(loop.region(0), [&](Operation& op) { ops.push_back(&op); });
  return ops;
}

void unswitch(Operation& loop) {
  const std::vector<Operation*> guards = guards_of(loop);
  Builder b = Builder::before(&loop);
  b.loc = guards.front()->loc;
  Value all;
  std::vector<Value> conditions;
  for (const Operation* guard : guards) {
    const Value condition = guard->operand(0);
    if (std::ranges::find(conditions, condition) != conditions.end()) continue;
    conditions.push_back(condition);
    all = all ? b.create(Op::AndI, {all, condition}, {condition.type()})->result() : condition;
  }
  std::vector<ir::Type> types;
  for (std::size_t i = 0; i < loop.num_results(); ++i) types.push_back(loop.result(i).type());
  const Value condition[] = {all};
  Operation* versions = b.create(Op::If, condition, types);
  for (std::size_t i = 0; i < types.size(); ++i) loop.result(i).replace_all_uses_with(versions->result(i));
  Builder fast(versions->add_region()), slow(versions->add_region());
  Copier copier;
  Operation* copy = copier.copy(loop, fast);
  const std::vector<Operation*> before = operations(loop), after = operations(*copy);
  for (const Operation* guard : guards) {
    Operation* own = after[static_cast<std::size_t>(std::ranges::find(before, guard) - before.begin())];
    Builder at = Builder::before(own);
    at.loc = own->loc;
    own->set_operand(0, at.constant_int(ir::Elem::I1, 1));
  }
  const auto results = [](const Operation& of) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < of.num_results(); ++i) values.push_back(of.result(i));
    return values;
  };
  fast.create(Op::Yield, results(*copy), std::span<const ir::Type>{});
  loop.move_before(slow.create(Op::Yield, results(loop), std::span<const ir::Type>{}));
}

}  // namespace

bool unswitch_loops(ir::Function& f) {
  std::vector<Operation*> loops;
  ir::walk(f.body(), [&](Operation& op) {
    if (can_unswitch(op)) loops.push_back(&op);
  });
  for (std::size_t n = loops.size(); n-- > 0;) unswitch(*loops[n]);  // inner ones first
  return !loops.empty();
}

}  // namespace tessera::passes
