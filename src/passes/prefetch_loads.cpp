// Software-pipelines the loads of a loop with a prefetch distance of one iteration. Without it nothing is in flight
// while an iteration computes, and the assembler starts no load before an earlier store. The assembler recognises a
// loop in this form and extends the distance to up to four iterations. docs/compiler/prefetch_loads.md.
//
//   for i in (lo to hi) {                       if lo < hi {
//     x = load i                                  x0 = load lo
//     carried = rest(i, x, carried)      =>       x, c = for i in (lo to hi - 1) with x0, carried {
//   }                                               next = load i + 1; c = rest(i, x, c); x = next }
//                                                 rest(hi - 1, x, c)
//                                               } else carried
//
// i + 1 is an iteration of the original loop, so nothing is read that the original loop would not read.
#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/pointer_tiles.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr std::int64_t kWorthIt = 256;  // elements

/// True for loops with step 1 and no early exit, without loops and products inside.
bool is_simple(const Operation& loop) {
  if (loop.op() != Op::For || loop.has_attr(AttrName::unsignedCmp) || constant_int(loop.operand(2)) != 1) return false;
  const Operation* end = loop.region(0).terminator();
  if (!end || end->op() != Op::Continue || leaves_early(loop)) return false;
  bool simple = true;
  ir::walk(loop.region(0), [&](const Operation& op) {
    simple = simple && op.op() != Op::For && op.op() != Op::Loop && !analysis::is_product(op);
  });
  return simple;
}

/// The loads of a loop that are prefetched, and the operations that compute their indices.
class Ahead {
 public:
  Ahead(Operation& loop, const analysis::Divisibility& known, bool wide) : body_(loop.region(0)) {
    for (Operation& op : body_) {
      if (op.op() != Op::LoadViewTko || !analysis::is_unordered_load(op)) continue;
      if (op.result(0).type().num_elements() < kWorthIt || (!wide && !analysis::is_narrow(op, known))) continue;
      const std::vector<bool> inside = analysis::axes_in_bounds(op);
      if (inside.empty() || std::find(inside.begin(), inside.end(), false) != inside.end()) continue;
      if (computed_from_induction(op)) loads_.push_back(&op);
    }
  }
  const std::vector<Operation*>& loads() const { return loads_; }
  /// The loads for another value of the induction variable.
  std::vector<Value> copy(Value induction, Builder& at) const {
    Copier copier;
    copier.map(body_.arg(0), induction);
    for (const Operation& op : body_)
      if (places_.contains(&op) || std::find(loads_.begin(), loads_.end(), &op) != loads_.end()) copier.copy(op, at);
    std::vector<Value> tiles;
    for (const Operation* load : loads_) tiles.push_back(copier.mapped(load->result(0)));
    return tiles;
  }

 private:
  /// Adds the operations that `op` depends on; false if that includes a carried value or an impure operation.
  bool computed_from_induction(const Operation& op) {
    for (const ir::OpOperand& use : op.operands()) {
      const Value v = use.value;
      if (defined_outside(v, body_)) continue;
      if (!v.def()) {
        if (v.index() != 0) return false;
        continue;
      }
      if (places_.contains(v.def())) continue;
      if (!is_pure(*v.def()) || v.def()->num_regions() != 0 || !computed_from_induction(*v.def())) return false;
      places_.insert(v.def());
    }
    return true;
  }

  Block& body_;
  std::vector<Operation*> loads_;
  std::unordered_set<const Operation*> places_;
};

/// The body of the original loop at iteration `i`, with the prefetched tiles.
std::vector<Value> run_body(const Operation& loop, const Ahead& ahead, Value i, const std::vector<Value>& carried,
                            const std::vector<Value>& loaded, Builder& b) {
  Copier rest;
  const Block& body = loop.region(0);
  rest.map(body.arg(0), i);
  for (std::size_t c = 0; c < carried.size(); ++c) rest.map(body.arg(1 + c), carried[c]);
  for (std::size_t l = 0; l < loaded.size(); ++l) rest.map(ahead.loads()[l]->result(0), loaded[l]);
  for (const Operation& op : body) {
    const bool gone = std::find(ahead.loads().begin(), ahead.loads().end(), &op) != ahead.loads().end();
    if (!gone && !op.info().has(ir::traits::Terminator)) rest.copy(op, b);
  }
  return rest.mapped(body.terminator()->operand_values());
}

void rotate(Operation& loop, const Ahead& ahead) {
  Builder b = Builder::before(&loop);
  b.loc = loop.loc;
  const Value low = loop.operand(0), high = loop.operand(1), one = loop.operand(2);
  const std::vector<Value> inits = loop.group("initValues");
  std::vector<ir::Type> types;
  for (const Value v : inits) types.push_back(v.type());
  const Value any = compared(b, ir::ComparisonPredicate::Less, low, high);
  Operation* branch = b.create(Op::If, std::vector<Value>{any}, types);
  Block& run = branch->add_region();
  Block& skip = branch->add_region();
  b.set_to_end(skip);
  b.create(Op::Yield, inits, {});

  b.set_to_end(run);
  const Value last = b.create(Op::SubI, {high, one}, {high.type()})->result();
  std::vector<Value> operands{low, last, one};
  operands.insert(operands.end(), inits.begin(), inits.end());
  for (const Value v : ahead.copy(low, b)) operands.push_back(v);
  for (std::size_t i = 3 + inits.size(); i < operands.size(); ++i) types.push_back(operands[i].type());
  Operation* main = b.create(Op::For, operands, types);
  Block& body = main->add_region();
  const Value i = body.add_arg(low.type());
  std::vector<Value> carried, now;
  for (std::size_t c = 0; c < types.size(); ++c) (c < inits.size() ? carried : now).push_back(body.add_arg(types[c]));
  b.set_to_end(body);
  const Value following = b.create(Op::AddI, {i, one}, {i.type()})->result();
  const std::vector<Value> next = ahead.copy(following, b);
  std::vector<Value> out = run_body(loop, ahead, i, carried, now, b);
  out.insert(out.end(), next.begin(), next.end());
  b.create(Op::Continue, out, {});

  b.set_to_end(run);
  for (std::size_t c = 0; c < types.size(); ++c)
    (c < inits.size() ? carried[c] : now[c - inits.size()]) = main->result(c);
  b.create(Op::Yield, run_body(loop, ahead, last, carried, now, b), {});
  std::vector<Value> results;
  for (std::size_t c = 0; c < inits.size(); ++c) results.push_back(branch->result(c));
  replace(loop, results);
}

}  // namespace

bool prefetch_loads(ir::Function& f, bool wide) {
  std::vector<std::pair<Operation*, Ahead>>
      loops;  // found before any is changed: the analysis is about these operations
  const analysis::Divisibility known(f);
  ir::walk(f.body(), [&](Operation& op) {
    if (is_simple(op)) loops.emplace_back(&op, Ahead(op, known, wide));
  });
  bool changed = false;
  for (const auto& [loop, ahead] : loops) {
    if (ahead.loads().empty()) continue;
    rotate(*loop, ahead);
    changed = true;
  }
  return changed;
}

/// All loads are prefetched where long chunks are walked, of which few fit on an SM (bench/notes/prefetch_loads.md);
/// not if every step also reads the same row, which comes from the caches.
bool prefetch_where_it_pays(ir::Function& f, const Tuning& tuning) {
  constexpr std::int64_t kLongChunk = 4096;
  if (tuning.ahead) return *tuning.ahead > 0 && prefetch_loads(f, *tuning.ahead > 1);
  const analysis::KernelFacts facts = analysis::kernel_facts(f);
  const bool walks = facts.products.empty() && facts.reduces_after_loop && facts.repeated_bytes == 0;
  return prefetch_loads(f, walks && facts.largest_tile >= kLongChunk);
}

}  // namespace tessera::passes
