// Entry of the floating-point kernels of one instruction set.
#include "codegen/cpu/prims/kernels/arithmetic.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

Loop arithmetic(const ElementOp& op) {
  if (op.op == Op::AbsF) return {change_sign<false>(ir::info(op.source).bytes)};
  if (op.op == Op::NegF) return {change_sign<true>(ir::info(op.source).bytes)};
  if (op.source == Elem::F64) return arithmetic_of<double>(op);
  if (op.flush_to_zero)
    if (const Loop l = flushed_arithmetic(op); l.loop != nullptr) return l;
  return arithmetic_of<float>(op);
}

LoopFn narrow_fma() { return loop<NarrowFmaOp, float, float, float, float>; }

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
