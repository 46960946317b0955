// Entry of the integer kernels of one instruction set.
#include "codegen/cpu/prims/kernels/integer.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

Loop integer(const ElementOp& op) {
  switch (op.source) {
    case Elem::I1:
    case Elem::I8: return integer_of<Int<Elem::I8>>(op);
    case Elem::I16: return integer_of<Int<Elem::I16>>(op);
    case Elem::I32: return integer_of<Int<Elem::I32>>(op);
    case Elem::I64: return integer_of<Int<Elem::I64>>(op);
    default: return {};
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
