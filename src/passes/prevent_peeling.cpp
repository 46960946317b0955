// Prevents the assembler from peeling the first iteration of a product loop with several sums. For sums that start as
// constant zeros it makes code of its own for that iteration, whose products take no accumulator. The copies of several
// sums that this needs touch registers which a product in flight still writes, and then every product of the kernel is
// waited for individually. So the sums start from a zero that the assembler cannot recognise. The zero is needed again
// after the loop, or its register would become one of the sums' registers:
//
//                                    zero = block < blocks ? 0 : 1
//   for k with 0, 0 {                for once in (block to blocks, step blocks) {
//     a = product(.., a)       =>      for k with zero, zero {
//     b = product(.., b) }               a = product(.., a); b = product(.., b) }
//   store a, b                         store a, b }
//
// docs/compiler/prevent_peeling.md.
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/opaque.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// True if carried value `c` accumulates products, starts as zeros and has no other use in the loop.
bool sums_from_zero(const Operation& loop, std::size_t c) {
  const auto start = splat_bits(loop.operand(first_carried_operand(loop) + c));
  if (!start || *start != 0) return false;
  const ir::Block& body = loop.region(0);
  const Value carried = body.arg(first_carried_arg(loop) + c);
  const Operation* end = body.terminator();
  Value sum = end->operand(c);
  while (sum != carried) {
    const Operation* product = sum.def();
    if (!product || product->block() != &body || !analysis::is_product(*product)) return false;
    sum = product->operand(2);
  }
  return end->operand(c) != carried;
}

/// Wraps `loop` and everything after it in a loop that runs once: as in a persistent kernel with as many tiles as
/// blocks. (From 2^30 blocks on, block + blocks may overflow. From bounds that cannot overflow the assembler would
/// deduce that the loop runs once: docs/compiler/prevent_peeling.md.)
void run_once(Operation& loop, Opaque& opaque) {
  ir::Builder b = ir::Builder::before(&loop);
  b.loc = loop.loc;
  Operation* once = b.create(Op::For, {opaque.block(), opaque.blocks(), opaque.blocks()}, {});
  ir::Block& body = once->add_region();
  body.add_arg(opaque.block().type());
  const Operation* end = once->block()->terminator();
  while (once->next() != end) once->next()->move_to_end(body);
  b.set_to_end(body);
  b.create(Op::Continue, {}, {});
}

}  // namespace

bool prevent_peeling(ir::Function& f, const Target& target) {
  if (target.sm != machine::kWarpgroupProducts) return false;
  std::vector<Operation*> loops;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::For && op.num_results() > 1) loops.push_back(&op);
  });
  Opaque opaque(f);
  bool changed = false;
  for (Operation* loop : loops) {
    std::vector<std::size_t> sums;
    for (std::size_t c = 0; c < loop->num_results(); ++c)
      if (sums_from_zero(*loop, c)) sums.push_back(c);
    if (sums.size() < 2) continue;
    if (!loop->parent_op()) run_once(*loop, opaque);
    ir::Builder b = ir::Builder::before(loop);
    b.loc = loop->loc;
    for (const std::size_t c : sums) {
      const ir::Type type = loop->result(c).type();
      loop->set_operand(first_carried_operand(*loop) + c, splat(b, opaque.zero(type.elem()), type.shape()));
    }
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
