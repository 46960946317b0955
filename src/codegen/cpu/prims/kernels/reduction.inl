// Entry of the reductions and scans of one instruction set.
#include "codegen/cpu/prims/kernels/reduction.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {
namespace {

Primitives combining(const ElementOp& op) {
  switch (op.source) {
    case Elem::I1: return combine_integers<Int<Elem::I1>>(op);
    case Elem::I8: return combine_integers<Int<Elem::I8>>(op);
    case Elem::I16: return combine_integers<Int<Elem::I16>>(op);
    case Elem::I32: return combine_integers<Int<Elem::I32>>(op);
    case Elem::I64: return combine_integers<Int<Elem::I64>>(op);
    case Elem::F16: return combine_floats<Elem::F16>(op);
    case Elem::BF16: return combine_floats<Elem::BF16>(op);
    case Elem::F32: return combine_floats<Elem::F32>(op);
    case Elem::F64: return combine_floats<Elem::F64>(op);
    default: return {};
  }
}

}  // namespace

ReduceFn reduction(const ElementOp& op) { return combining(op).reduce; }
ScanFn inclusive_scan(const ElementOp& op) { return combining(op).scan; }

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
