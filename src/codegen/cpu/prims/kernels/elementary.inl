// Entry of the elementary functions of one instruction set.
#include "codegen/cpu/prims/kernels/elementary.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

Loop elementary(const ElementOp& op) {
  if (op.source == Elem::F32) return elementary_of(op);
  if (op.source == Elem::F64 && op.op == Op::Rsqrt) return {loop<RsqrtD, double, double>};
  return {};
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
