// a * b + c becomes one fma: the product of two numbers that were widened from at most 16 bits is exact in f32, except
// for products of bf16 beyond its normal numbers (docs/semantics.md). Only in kernels that are bound by instructions:
// in the others it gains nothing, and the assembler needs more registers for it (bench/notes/choose_hints.md).
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr int kBits = 24;  // of the significand of f32

/// Significant bits of the format.
int significant_bits(Elem e) {
  switch (e) {
    case Elem::F16: return 11;
    case Elem::BF16: return 8;
    case Elem::F8E4M3FN: return 4;
    case Elem::F8E5M2: return 3;
    default: return kBits;
  }
}

/// The most significant bits that an element of `v` has.
int significant_bits(Value v) {
  for (const Operation* op = v.def(); op != nullptr; op = v.def()) {
    switch (op->op()) {
      case Op::Broadcast:
      case Op::Reshape:
      case Op::Permute: v = op->operand(0); break;
      case Op::FToF: return significant_bits(op->operand(0).type().elem());
      default: return kBits;
    }
  }
  return kBits;
}

/// The exact product that an operand of a sum is, if the sum is all that it is used for.
Operation* exact_product(Value term) {
  Operation* op = term.def();
  if (op == nullptr || op->op() != Op::MulF || !rounds_plainly(*op) || !term.has_one_use()) return nullptr;
  return significant_bits(op->operand(0)) + significant_bits(op->operand(1)) <= kBits ? op : nullptr;
}

/// True if `sum` was a sum of an exact product, and has been replaced. The later of two products becomes the fma, so
/// that acc + w0 * x0 + w1 * x1 becomes a chain of them.
bool contract(Operation& sum) {
  Operation* product = exact_product(sum.operand(1));
  const Value rest = sum.operand(product ? 0 : 1);
  if (!product) product = exact_product(sum.operand(0));
  if (!product) return false;
  ir::Builder b = ir::Builder::before(&sum);
  b.loc = sum.loc;
  const Value fused =
      b.create(Op::Fma, {product->operand(0), product->operand(1), rest}, {sum.result().type()})->result();
  sum.result().replace_all_uses_with(fused);
  sum.erase();
  product->erase();
  return true;
}

}  // namespace

bool contract_products(ir::Function& f, const Target& target) {
  if (!is_bound_by_instructions(f, analysis::kernel_facts(f), machine::machine_of(target.sm))) return false;
  std::vector<Operation*> sums;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::AddF && rounds_plainly(op) && op.result().type().elem() == Elem::F32) sums.push_back(&op);
  });
  bool changed = false;
  for (Operation* sum : sums) changed |= contract(*sum);
  return changed;
}

}  // namespace tessera::passes
