// A random topological order of each block.
#include "generate/reorder.hpp"

#include <algorithm>
#include <unordered_map>

namespace tessera::generate {
namespace {

bool is_memory(ir::Op op) {
  using enum ir::Op;
  return op == LoadViewTko || op == StoreViewTko || op == LoadPtrTko || op == StorePtrTko || op == AtomicRMWTko;
}
/// Neither pure nor ordered by tokens alone.
bool is_barrier(const ir::Operation& op) {
  bool found = !is_memory(op.op()) &&
               (op.op() == ir::Op::Assert || op.info().mnemonic.starts_with("gdc") ||
                op.info().mnemonic.starts_with("print") || op.op() == ir::Op::Break || op.op() == ir::Op::Continue);
  for (std::size_t i = 0; i < op.num_regions() && !found; ++i) {
    for (const ir::Operation& inner : op.region(i)) found = found || is_barrier(inner);
  }
  return found;
}
bool touches_memory(const ir::Operation& op) {
  bool found = is_memory(op.op());
  for (std::size_t i = 0; i < op.num_regions() && !found; ++i) {
    for (const ir::Operation& inner : op.region(i)) found = found || touches_memory(inner);
  }
  return found;
}

class Block {
 public:
  Block(ir::Block& block, Random& random) : random_(random) {
    for (ir::Operation& op : block) {
      number_[&op] = ops_.size();
      ops_.push_back(&op);
    }
    before_.assign(ops_.size(), 0);
    after_.resize(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) uses(*ops_[i], i);
    barriers();
  }
  void order() {
    if (ops_.size() < 3) return;
    ir::Operation* const last = ops_.back();
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i + 1 < ops_.size(); ++i) {
      if (before_[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
      // The next one at random; sometimes in order, so that neighbours stay together and chains are fused.
      auto at = random_.chance(40) ? std::min_element(ready.begin(), ready.end())
                                   : ready.begin() + random_.below(static_cast<int>(ready.size()));
      const std::size_t i = *at;
      ready.erase(at);
      ops_[i]->move_before(last);
      for (const std::size_t j : after_[i]) {
        if (--before_[j] == 0 && j + 1 < ops_.size()) ready.push_back(j);
      }
    }
  }

 private:
  void edge(std::size_t from, std::size_t to) {
    after_[from].push_back(to);
    ++before_[to];
  }
  void uses(const ir::Operation& op, std::size_t user) {
    for (const ir::OpOperand& operand : op.operands()) {
      if (const auto found = number_.find(operand.value.def()); found != number_.end() && found->second != user)
        edge(found->second, user);
    }
    for (std::size_t i = 0; i < op.num_regions(); ++i) {
      for (const ir::Operation& inner : op.region(i)) uses(inner, user);
    }
  }
  void barriers() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!is_barrier(*ops_[i])) continue;
      for (std::size_t j = 0; j < ops_.size(); ++j) {
        if (j == i || !(touches_memory(*ops_[j]) || is_barrier(*ops_[j]))) continue;
        if (j < i) edge(j, i);
        if (j > i && !is_barrier(*ops_[j])) edge(i, j);
      }
    }
  }

  Random& random_;
  std::vector<ir::Operation*> ops_;
  std::unordered_map<const ir::Operation*, std::size_t> number_;
  std::vector<int> before_;
  std::vector<std::vector<std::size_t>> after_;
};

void reorder_block(ir::Block& block, Random& random) {
  for (ir::Operation& op : block) {
    const bool combiner = op.op() == ir::Op::Reduce || op.op() == ir::Op::Scan;
    for (std::size_t i = 0; i < op.num_regions() && !combiner; ++i) reorder_block(op.region(i), random);
  }
  Block(block, random).order();
}

}  // namespace

void reorder(ir::Module& module, Random& random) {
  for (const auto& function : module.functions) reorder_block(function->body(), random);
}

}  // namespace tessera::generate
