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
//
// Where the loop also stores, the assembler starts no load before the last store, so the distance stays one. Small
// tiles are then loaded for several iterations at once, and the loop is unrolled by as many:
//
//   end = hi - (hi - lo) % 4
//   x0, x1, x2, x3, c = for i in (lo to end, step 4) with load lo .. load lo + 3, carried {
//     next k = load min(i + 4 + k, hi - 1); c = rest(i + k, xk, c), for k = 0 to 3; x = next
//   }
//   for i in (end to hi) { ... }
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

constexpr std::int64_t kWorthPrefetching = 256;  // elements
/// Limits of loads of several iterations at once (bench/notes/prefetch_loads.md). Of an iteration: the bytes that it
/// loads, and the elements that it computes (128 for each thread of a warp: with more it does not wait for memory).
constexpr std::int64_t kSmallStep = 1024, kMaxComputed = 4096;
/// Of the unrolled body: the bytes that it loads, its iterations and its operations.
constexpr std::int64_t kBytesAhead = 4096, kMaxIterations = 8, kMaxUnrolled = 400;

/// True for loops with step 1 and no early exit, without loops and products inside.
bool is_simple_walk(const Operation& loop) {
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
  Ahead(Operation& loop, const analysis::Divisibility& known, bool wide, bool every) : body_(loop.region(0)) {
    for (Operation& op : body_) {
      if (!analysis::is_unordered_load(op) || (op.op() == Op::LoadViewTko && !lies_inside(op))) continue;
      if (every || is_worth_it(op, known, wide))
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
  static bool is_worth_it(const Operation& load, const analysis::Divisibility& known, bool wide) {
    return load.op() == Op::LoadViewTko && load.result(0).type().num_elements() >= kWorthPrefetching &&
           (wide || analysis::is_narrow(load, known));
  }
  static bool lies_inside(const Operation& load) {
    const std::vector<bool> inside = analysis::axes_in_bounds(load);
    return !inside.empty() && std::find(inside.begin(), inside.end(), false) == inside.end();
  }
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

/// Iterations whose tiles a loop that stores is to load at once; 1 where it does not store, or loads much.
std::int64_t iterations_at_once(const Operation& loop) {
  bool stores = false;
  std::int64_t bytes = 0, operations = 0, computed = 0;
  ir::walk(loop.region(0), [&](const Operation& op) {
    const auto access = analysis::access_of(op);
    stores = stores || (access && access->stores());
    if (access && access->loads()) bytes += analysis::bytes_of(access->tile);
    if (!access && op.num_results() > 0 && op.result(0).type().is_tile() && !op.result(0).type().is_pointer())
      computed += op.result(0).type().num_elements();
    ++operations;
  });
  const auto low = constant_int(loop.operand(0));
  if (!stores || bytes == 0 || bytes > kSmallStep || computed > kMaxComputed || !low || *low < 0) return 1;
  std::int64_t n = kMaxIterations;
  while (n > 1 && (n * bytes > kBytesAhead || n * operations > kMaxUnrolled)) n /= 2;
  return n;
}

/// Unrolls the loop by `n`, a power of two, with the loads of the next n iterations before those n. What is left of the
/// iterations stays in the loop. `low` is not negative, and `top` not below it, so nothing here wraps.
void unroll(Operation& loop, const Ahead& ahead, std::int64_t n) {
  Builder b = Builder::before(&loop);
  b.loc = loop.loc;
  const Value low = loop.operand(0), high = loop.operand(1);
  const ir::Elem elem = low.type().elem();
  const auto number = [&](std::int64_t v) { return b.constant_int(elem, v); };
  const auto made = [&](Op op, Value x, Value y) { return b.create(op, {x, y}, {x.type()})->result(); };
  const std::vector<Value> inits = loop.group("initValues");
  std::vector<ir::Type> types;
  for (const Value v : inits) types.push_back(v.type());

  Operation* top = b.create(Op::MaxI, {low, high}, {low.type()}, {{AttrName::signedness, ir::Signedness::Signed}});
  const Value mask = number(n - 1);
  const Value left = made(Op::AndI, made(Op::SubI, top->result(), low), mask);
  const Value end = made(Op::SubI, top->result(), left);
  const Value any = compared(b, ir::ComparisonPredicate::Less, low, end);
  Operation* branch = b.create(Op::If, std::vector<Value>{any}, types);
  loop.set_operand(0, b.create(Op::Select, {any, end, low}, {low.type()})->result());
  for (std::size_t c = 0; c < inits.size(); ++c) loop.set_operand(3 + c, branch->result(c));
  Block& run = branch->add_region();
  b.set_to_end(branch->add_region());
  b.create(Op::Yield, inits, {});

  b.set_to_end(run);
  std::vector<Value> operands{low, end, number(n)};
  operands.insert(operands.end(), inits.begin(), inits.end());
  for (std::int64_t k = 0; k < n; ++k)
    for (const Value v : ahead.copy(made(Op::AddI, low, number(k)), b)) operands.push_back(v);
  const Value last = made(Op::SubI, high, number(n + 1));
  for (std::size_t o = 3 + inits.size(); o < operands.size(); ++o) types.push_back(operands[o].type());
  Operation* main = b.create(Op::For, operands, types);
  Block& body = main->add_region();
  const Value i = body.add_arg(low.type());
  std::vector<Value> carried, now, next;
  for (std::size_t c = 0; c < types.size(); ++c) (c < inits.size() ? carried : now).push_back(body.add_arg(types[c]));
  b.set_to_end(body);
  std::vector<Value> places;
  for (std::int64_t k = 0; k < n; ++k) places.push_back(made(Op::AddI, i, number(k)));
  for (const Value place : places) {
    Operation* least = b.create(Op::MinI, {place, last}, {place.type()});
    least->set_attr(AttrName::signedness, ir::Signedness::Signed);
    for (const Value v : ahead.copy(made(Op::AddI, least->result(), number(n)), b)) next.push_back(v);
  }
  const std::size_t loads = ahead.loads().size();
  for (std::size_t k = 0; k < places.size(); ++k) {
    const auto first = now.begin() + static_cast<std::ptrdiff_t>(k * loads);
    carried = run_body(loop, ahead, places[k], carried, {first, first + static_cast<std::ptrdiff_t>(loads)}, b);
  }
  carried.insert(carried.end(), next.begin(), next.end());
  b.create(Op::Continue, carried, {});

  b.set_to_end(run);
  std::vector<Value> results;
  for (std::size_t c = 0; c < inits.size(); ++c) results.push_back(main->result(c));
  b.create(Op::Yield, results, {});
}

}  // namespace

bool prefetch_loads(ir::Function& f, bool wide) {
  struct Found {
    Operation* loop;
    Ahead ahead;
    std::int64_t iterations;  ///< whose tiles are loaded at once
  };
  std::vector<Found> loops;  // found before any is changed: the analysis is about these operations
  const analysis::Divisibility known(f);
  ir::walk(f.body(), [&](Operation& op) {
    if (!is_simple_walk(op)) return;
    const std::int64_t several = iterations_at_once(op);
    loops.push_back({&op, Ahead(op, known, wide, several > 1), several});
  });
  bool changed = false;
  for (const auto& [loop, ahead, iterations] : loops) {
    if (ahead.loads().empty()) continue;
    if (iterations > 1)
      unroll(*loop, ahead, iterations);
    else
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
