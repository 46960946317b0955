// Cheaper forms of what the kernel has already declared approximate. On NVIDIA GPUs exp is a multiplication by log2(e)
// and the machine's exp2; without flush_to_zero, which Tile IR's exp cannot say, the assembler adds a comparison and
// two multiplications to each so that denormal results survive. Approximate arithmetic flushes them.
#include <vector>

#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr double kLog2E = 1.44269504088896340736;

bool is_approximate_exp(const Operation& op) {
  return op.op() == Op::Exp && op.result().type().elem() == ir::Elem::F32 &&
         op.enum_attr<ir::Rounding>(AttrName::rounding_mode, ir::Rounding::Full) == ir::Rounding::Approx;
}

}  // namespace

bool relax_math(ir::Function& f) {
  std::vector<Operation*> found;
  ir::walk(f.body(), [&](Operation& op) {
    if (is_approximate_exp(op)) found.push_back(&op);
  });
  for (Operation* op : found) {
    ir::Builder b = ir::Builder::before(op);
    b.loc = op->loc;
    const ir::Type t = op->result().type();
    const Value scaled =
        b.create(Op::MulF, {op->operand(0), b.constant_float(ir::Elem::F32, kLog2E, t.shape())}, {t})->result();
    const Value result = b.create(Op::Exp2, {scaled}, {t}, {{AttrName::flush_to_zero, ir::UnitAttr{}}})->result();
    op->result().replace_all_uses_with(result);
    op->erase();
  }
  return !found.empty();
}

}  // namespace tessera::passes
