// Entry of the floating-point kernels of one instruction set.
#include "codegen/cpu/prims/kernels/arithmetic.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

ElementwiseFn arithmetic(const ElementOp& op) {
  switch (op.source) {
    case Elem::F16: return arithmetic_of<Elem::F16>(op);
    case Elem::BF16: return arithmetic_of<Elem::BF16>(op);
    case Elem::F32: return arithmetic_of<Elem::F32>(op);
    case Elem::F64: return arithmetic_of<Elem::F64>(op);
    default: return nullptr;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
