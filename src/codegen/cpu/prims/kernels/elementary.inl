// Entry of the elementary functions of one instruction set.
#include "codegen/cpu/prims/kernels/elementary.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

ElementwiseFn elementary(const ElementOp& op) {
  switch (op.source) {
    case Elem::F16: return elementary_single<Elem::F16>(op);
    case Elem::BF16: return elementary_single<Elem::BF16>(op);
    case Elem::F32: return elementary_single<Elem::F32>(op);
    case Elem::F64: return elementary_double(op);
    default: return nullptr;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
