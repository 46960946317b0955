// Common subexpression elimination. Blocks are walked in program order with a table of the operations seen so far. The
// entries of a nested region are dropped at its end, so an entry always dominates its uses.
#include <unordered_map>
#include <vector>

#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// True for loads without a token operand whose token is unused. Tile IR's weak accesses may not race with a write, so
/// equal loads give equal values.
bool always_gives_the_same(const Operation& op) {
  return analysis::is_unordered_load(op) &&
         op.enum_attr<ir::MemoryOrdering>(AttrName::memory_ordering_semantics) == ir::MemoryOrdering::Weak;
}

bool can_merge(const Operation& op) { return op.num_results() != 0 && (is_pure(op) || always_gives_the_same(op)); }

/// Equality of two operations; inside regions arguments and results correspond by position.
class Equal {
 public:
  bool operator()(const Operation& a, const Operation& b) {
    if (a.op() != b.op() || a.num_operands() != b.num_operands() || a.num_results() != b.num_results() ||
        a.attrs().size() != b.attrs().size() || a.num_regions() != b.num_regions())
      return false;
    for (std::size_t i = 0; i < a.group_sizes().size(); ++i)
      if (a.group_sizes()[i] != b.group_sizes()[i]) return false;
    for (std::size_t i = 0; i < a.num_operands(); ++i)
      if (!same(a.operand(i), b.operand(i))) return false;
    for (std::size_t i = 0; i < a.num_results(); ++i)
      if (a.result(i).type() != b.result(i).type()) return false;
    for (const ir::NamedAttr& attr : a.attrs()) {
      const ir::Attribute* other = b.attr(attr.name);
      if (!other || !(*other == attr.value)) return false;
    }
    for (std::size_t r = 0; r < a.num_regions(); ++r)
      if (!blocks(a.region(r), b.region(r))) return false;
    return true;
  }

 private:
  bool same(Value a, Value b) const {
    if (a == b) return true;
    const auto it = a ? inner_.find(a.impl()) : inner_.end();
    return it != inner_.end() && it->second == b.impl();
  }
  bool blocks(const ir::Block& a, const ir::Block& b) {
    if (a.num_args() != b.num_args()) return false;
    for (std::size_t i = 0; i < a.num_args(); ++i) inner_[a.arg(i).impl()] = b.arg(i).impl();
    auto other = b.begin();
    for (const Operation& op : a) {
      if (other == b.end() || !(*this)(op, *other)) return false;
      for (std::size_t i = 0; i < op.num_results(); ++i) inner_[op.result(i).impl()] = other->result(i).impl();
      ++other;
    }
    return other == b.end();
  }
  std::unordered_map<const ir::ValueImpl*, const ir::ValueImpl*> inner_;
};

void mix(std::size_t& h, std::size_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15u + (h >> 29); }

std::size_t hash_of(const Operation& op) {
  std::size_t h = static_cast<std::size_t>(op.op());
  for (const ir::OpOperand& use : op.operands()) mix(h, reinterpret_cast<std::size_t>(use.value.impl()));
  for (std::size_t i = 0; i < op.num_results(); ++i) mix(h, reinterpret_cast<std::size_t>(op.result(i).type().data()));
  if (op.op() == Op::Constant) {
    const auto* data = op.attr(AttrName::value)->as<ir::DenseAttr>();
    for (std::size_t i = 0; i < data->bytes.size() && i < 64; ++i) mix(h, static_cast<std::size_t>(data->bytes[i]));
  }
  return h;
}

class Merger {
 public:
  bool run(ir::Block& block) {
    std::vector<std::size_t> added;
    for (Operation* op = block.front(); op;) {
      Operation* next = op->next();
      visit(*op, added);
      op = next;
    }
    for (std::size_t i = added.size(); i-- > 0;) {
      auto& bucket = seen_[added[i]];
      bucket.pop_back();
    }
    return changed_;
  }

 private:
  void visit(Operation& op, std::vector<std::size_t>& added) {
    if (!can_merge(op)) {
      for (std::size_t r = 0; r < op.num_regions(); ++r) run(op.region(r));
      return;
    }
    const std::size_t h = hash_of(op);
    std::vector<Operation*>& bucket = seen_[h];
    for (Operation* earlier : bucket) {
      if (!Equal()(*earlier, op)) continue;
      std::vector<Value> values;
      for (std::size_t i = 0; i < op.num_results(); ++i) values.push_back(earlier->result(i));
      replace(op, values);
      changed_ = true;
      return;
    }
    bucket.push_back(&op);
    added.push_back(h);
  }

  std::unordered_map<std::size_t, std::vector<Operation*>> seen_;
  bool changed_ = false;
};

}  // namespace

bool eliminate_common(ir::Function& f) { return Merger().run(f.body()); }

}  // namespace tessera::passes
