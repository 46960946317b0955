// Entry of the reductions of rows of one instruction set.
#include "codegen/cpu/prims/kernels/reduction.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

RowFn reduce_row(const ElementOp& op) {
  if (op.flush_to_zero) return nullptr;
  switch (op.source) {
    case Elem::I8: return integer_row<Int<Elem::I8>>(op);
    case Elem::I16: return integer_row<Int<Elem::I16>>(op);
    case Elem::I32: return integer_row<Int<Elem::I32>>(op);
    case Elem::I64: return integer_row<Int<Elem::I64>>(op);
    case Elem::F16: return float_row<Elem::F16>(op);
    case Elem::BF16: return float_row<Elem::BF16>(op);
    case Elem::F32: return extremum_row_of<Elem::F32>(op);
    case Elem::F64: return extremum_row_of<Elem::F64>(op);
    default: return nullptr;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
