// Sorts the loads of a loop into the order in which its products need them. The assembler allocates shared-memory
// buffers in the order of the loads. If attention loads values before keys, the next keys wait for a buffer whose
// values have not been multiplied yet.
//
//   v = load V[j]; k = load K[j]                k = load K[j]; v = load V[j]
//   s = product(q, k)                     =>    s = product(q, k)
//   o = product(weights(s), v)                  o = product(weights(s), v)
//
// In C++ the compiler chooses the evaluation order of a call's arguments, and with it the order of such loads.
// docs/compiler/order_loads.md.
#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Block;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// A load without token operand and with an unused token.

using Places = std::unordered_map<const Operation*, std::size_t>;

/// The first product of the load's block that needs it for a factor, or null. `place`: of the block's operations. What
/// depends on the load is visited in the order of the block, so nothing behind that product is.
const Operation* needed_by(const Operation& load, const Places& place) {
  using Next = std::pair<std::size_t, const Operation*>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  std::unordered_set<const Operation*> factors, seen;  // products that have such a factor; what is or was in `next`
  const auto push_users = [&](Value v) {
    for (const ir::OpOperand* use = v.first_use(); use != nullptr; use = use->next) {
      const Operation* user = use->owner;
      while (user != nullptr && user->block() != load.block()) user = user->parent_op();
      if (user == nullptr) continue;
      if (user == use->owner && analysis::is_product(*user) && use->number() < 2) factors.insert(user);
      if (seen.insert(user).second) next.emplace(place.at(user), user);
    }
  };
  push_users(load.result());
  while (!next.empty()) {
    const Operation* op = next.top().second;
    next.pop();
    if (factors.contains(op)) return op;
    for (std::size_t i = 0; i < op->num_results(); ++i) push_users(op->result(i));
  }
  return nullptr;
}

/// `load` and the operations it depends on that come after `from`, in program order. Empty if one of them may not be
/// moved before `from`.
std::vector<Operation*> needed_behind(Operation& from, Operation& load) {
  std::vector<Operation*> some;
  std::unordered_set<const Operation*> wanted{&load};
  for (Operation* op = &load; op != &from; op = op->prev()) {
    if (!is_pure(*op) && !analysis::is_load(*op)) return {};  // the load may rely on a check or an early exit
    if (!wanted.contains(op)) continue;
    if (op != &load && (!is_pure(*op) || analysis::is_product(*op))) return {};
    some.push_back(op);
    for (const ir::OpOperand& use : op->operands())
      if (use.value && use.value.def()) wanted.insert(use.value.def());
  }
  if (wanted.contains(&from)) return {};
  std::reverse(some.begin(), some.end());
  return some;
}

bool order(Block& body) {
  std::size_t products = 0;
  std::vector<Operation*> loads;
  Places place;
  for (Operation& op : body) {
    place.emplace(&op, place.size());
    products += analysis::is_product(op) ? 1 : 0;
    if (analysis::is_unordered_load(op)) loads.push_back(&op);
  }
  if (products < 2) return false;
  bool changed = false;
  std::vector<std::pair<Operation*, std::size_t>> before;  // loads that products need, in their order now
  for (Operation* load : loads) {
    const Operation* product = needed_by(*load, place);
    if (!product) continue;
    const std::size_t at = place[product];
    const auto later = std::find_if(before.begin(), before.end(), [&](const auto& l) { return l.second > at; });
    const std::vector<Operation*> some =
        later == before.end() ? std::vector<Operation*>{} : needed_behind(*later->first, *load);
    for (Operation* op : some) op->move_before(later->first);
    changed = changed || !some.empty();
    before.insert(some.empty() ? before.end() : later, {load, at});
  }
  return changed;
}

}  // namespace

bool order_loads(ir::Function& f) {
  bool changed = false;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::For || op.op() == Op::Loop) changed = order(op.region(0)) || changed;
  });
  return changed;
}

}  // namespace tessera::passes
