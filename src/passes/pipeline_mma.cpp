// Software pipelining of dependent products: a product is issued one iteration before the work that consumes it, if
// that work feeds another product. While the softmax of one step of attention runs, the tensor cores compute the scores
// of the next.
//
//   for i in (lo to hi) {                       if lo < hi {
//     s = product(i)                              s0 = product(lo)
//     carried = rest(i, s, carried)      =>       s, c = for i in (lo to hi - 1) with s0, carried {
//   }                                               next = product(i + 1); c = rest(i, s, c); s = next }
//                                                 rest(hi - 1, s, c)
//                                               } else carried
//
// The last iteration is peeled, so product(i + 1) is computed only where i + 1 is an iteration of the original loop,
// and nothing is accessed that the original loop would not access. docs/compiler/pipeline_mma.md.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
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

constexpr std::int64_t kWorthIt = 1024;  // elements of a product: below, there is nothing to overlap

/// True if `op` may move to another iteration: no effects, and only loads without token dependences.
bool can_move(const Operation& op) {
  if (analysis::is_load(op)) return analysis::is_unordered_load(op);
  if (op.op() == Op::Yield) return true;
  if (!is_pure(op) && op.op() != Op::If) return false;
  bool ok = true;
  for (std::size_t r = 0; r < op.num_regions(); ++r)
    for (const Operation& inner : op.region(r)) ok = ok && can_move(inner);
  return ok;
}

/// The operations of a loop's body that a value is computed from.
class Slice {
 public:
  Slice(Operation& loop, Operation& product) : body_(loop.region(0)) {
    ok_ = add(product);
    for (Operation* op : found_)
      for (std::size_t i = 0; ok_ && analysis::is_load(*op) && i < op->num_results(); ++i)
        for (ir::OpOperand* use = op->result(i).first_use(); use; use = use->next)
          ok_ = ok_ && set_.contains(in_body(use->owner));  // also used for something else: it would be loaded twice
  }
  bool ok() const { return ok_; }
  bool contains(const Operation& op) const { return set_.contains(&op); }

  /// A copy of the slice for another value of the induction variable.
  Value copy(Value induction, Operation& product, Builder& at) const {
    Copier copier;
    copier.map(body_.arg(0), induction);
    for (const Operation& op : body_)
      if (set_.contains(&op)) copier.copy(op, at);
    return copier.mapped(product.result());
  }

 private:
  /// The operation of the body that is `op` or contains it.
  const Operation* in_body(const Operation* op) const {
    while (op && op->block() != &body_) op = op->parent_op();
    return op;
  }
  bool add(Operation& op) {
    if (!set_.insert(&op).second) return true;
    if (!can_move(op)) return false;
    found_.push_back(&op);
    bool ok = true;
    const auto visit = [&](const Operation& o) {
      for (const ir::OpOperand& use : o.operands()) ok = ok && depend(use.value);
    };
    visit(op);
    for (std::size_t r = 0; r < op.num_regions(); ++r) ir::walk(op.region(r), visit);
    return ok;
  }
  bool depend(Value v) {
    if (!v || defined_outside(v, body_)) return true;
    if (!v.def()) return v.argument_block() != &body_ || v.index() == 0;  // carried values do not exist yet
    return v.def()->block() == &body_ ? add(*v.def()) : true;
  }

  Block& body_;
  std::unordered_set<const Operation*> set_;
  std::vector<Operation*> found_;
  bool ok_ = false;
};

bool is_carried_accumulator(const Operation& product, const Block& body) {
  const Operation* end = body.terminator();
  for (const ir::OpOperand& use : end->operands())
    if (use.value == product.result()) return true;
  return false;
}

/// A product whose result reaches an operand of a product with a carried accumulator, through other work.
Operation* feeding_product(Operation& loop) {
  Block& body = loop.region(0);
  std::vector<Operation*> products;
  for (Operation& op : body)
    if (analysis::is_product(op)) products.push_back(&op);
  std::vector<Value> large;
  for (const Operation* p : products)
    if (p->result().type().num_elements() >= kWorthIt) large.push_back(p->result());
  const analysis::Dependents dependents(body, large);
  for (Operation* consumer : products) {
    const std::vector<Value> factors{consumer->operand(0), consumer->operand(1)};
    const auto depends = [&](Value v) { return dependents.contains(v); };
    if (std::ranges::none_of(factors, depends) || !is_carried_accumulator(*consumer, body)) continue;
    const auto behind = analysis::values_behind(factors, body);
    for (const Value p : large)
      if (behind.contains(p.impl())) return p.def();
  }
  return nullptr;
}

/// The loop's bounds are such that i + 1 is the next iteration, and its only way out is at its end.
bool is_simple(const Operation& loop) {
  if (loop.op() != Op::For || loop.has_attr(AttrName::unsignedCmp) || constant_int(loop.operand(2)) != 1) return false;
  const Operation* end = loop.region(0).terminator();
  return end && end->op() == Op::Continue && !leaves_early(loop);
}

bool is_branch(const Operation& op) { return op.op() == Op::If || op.op() == Op::For || op.op() == Op::Loop; }

/// Where in an iteration the next product is issued: after this operation, or first (null). The assembler moves no work
/// across a branch, so work that should overlap with the product must be in the same block: the product goes after the
/// last branch that has at most half of the work before it.
const Operation* issue_point(Operation& loop, const Operation& product, const Slice& slice) {
  std::vector<const Operation*> rest;
  for (const Operation& op : loop.region(0))
    if (&op != &product && !slice.contains(op)) rest.push_back(&op);
  const auto is_work = [](const Operation* op) {
    return is_pure(*op) && !analysis::is_product(*op) && op->num_results() > 0 &&
           op->result(0).type().num_elements() >= kWorthIt;
  };
  const auto total = std::count_if(rest.begin(), rest.end(), is_work);
  const Operation* point = nullptr;
  std::ptrdiff_t before = 0;
  for (const Operation* op : rest) {
    if (is_branch(*op) && before * 2 <= total) point = op;
    before += is_work(op) ? 1 : 0;
  }
  return point;
}

void rotate(Operation& loop, Operation& product, const Slice& slice) {
  Builder b = Builder::before(&loop);
  b.loc = loop.loc;
  const Value low = loop.operand(0), high = loop.operand(1), one = loop.operand(2);
  const std::vector<Value> inits = loop.group("initValues");
  std::vector<ir::Type> types;
  for (const Value v : inits) types.push_back(v.type());
  Operation* branch =
      b.create(Op::If, std::vector<Value>{compared(b, ir::ComparisonPredicate::Less, low, high)}, types);
  Block& run = branch->add_region();
  Block& skip = branch->add_region();
  b.set_to_end(skip);
  b.create(Op::Yield, inits, {});
  b.set_to_end(run);
  const Value ahead = slice.copy(low, product, b);
  const Value last = b.create(Op::SubI, {high, one}, {high.type()})->result();

  // The loop over all iterations but the last.
  std::vector<Value> operands{low, last, one};
  operands.insert(operands.end(), inits.begin(), inits.end());
  operands.push_back(ahead);
  types.push_back(ahead.type());
  Operation* main = b.create(Op::For, operands, types);
  Block& body = main->add_region();
  const Value i = body.add_arg(low.type());
  Copier rest;
  rest.map(loop.region(0).arg(0), i);
  for (std::size_t c = 0; c < inits.size(); ++c) rest.map(loop.region(0).arg(1 + c), body.add_arg(types[c]));
  const Value now = body.add_arg(ahead.type());
  b.set_to_end(body);
  const Value following = b.create(Op::AddI, {i, one}, {i.type()})->result();
  const Operation* point = issue_point(loop, product, slice);
  Value next = point ? Value() : slice.copy(following, product, b);
  rest.map(product.result(), now);
  const auto copy_rest = [&](bool issue) {
    for (const Operation& op : loop.region(0)) {
      if (&op != &product && !op.info().has(ir::traits::Terminator)) rest.copy(op, b);
      if (issue && &op == point) next = slice.copy(following, product, b);
    }
    return rest.mapped(loop.region(0).terminator()->operand_values());
  };
  std::vector<Value> carried = copy_rest(true);
  carried.push_back(next);
  b.create(Op::Continue, carried, {});

  // The last iteration.
  b.set_to_end(run);
  rest.map(loop.region(0).arg(0), last);
  for (std::size_t c = 0; c < inits.size(); ++c) rest.map(loop.region(0).arg(1 + c), main->result(c));
  rest.map(product.result(), main->result(inits.size()));
  b.create(Op::Yield, copy_rest(false), {});
  std::vector<Value> results;
  for (std::size_t c = 0; c < inits.size(); ++c) results.push_back(branch->result(c));
  replace(loop, results);
}

/// Then the loop is bound by memory, and the operands of the peeled iteration would take shared memory from the loads
/// in flight.
bool reads_more_than_it_multiplies(const analysis::KernelFacts& facts, const Operation& product) {
  return std::any_of(facts.products.begin(), facts.products.end(),
                     [&](const analysis::Product& p) { return p.op == &product && waits_for_memory(p); });
}

}  // namespace

bool pipeline_mma(ir::Function& f, const Target& target) {
  std::vector<Operation*> loops;
  const auto corrections = analysis::corrections_of_products(f);
  ir::walk(f.body(), [&](Operation& op) {
    if (is_simple(op) && !analysis::corrects_products(op, corrections)) loops.push_back(&op);
  });
  bool changed = false;
  for (Operation* loop : loops) {
    Operation* product = feeding_product(*loop);
    if (!product) continue;
    const Slice slice(*loop, *product);
    if (!slice.ok()) continue;
    const analysis::KernelFacts facts = analysis::kernel_facts(f);
    if (reads_more_than_it_multiplies(facts, *product)) continue;
    if (!fits_one_more(facts, product->result().type().num_elements(), target)) continue;
    rotate(*loop, *product, slice);
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
