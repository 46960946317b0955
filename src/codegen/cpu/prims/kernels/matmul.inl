// Entry of the matrix multiplications of one instruction set.
#include "codegen/cpu/prims/kernels/matmul.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {
namespace {

template <Elem e>
MmaFn float_product(Elem acc) {
  if (acc == Elem::F32) return multiply_floats<e, Elem::F32>;
  return acc == Elem::F16 ? multiply_floats<e, Elem::F16> : nullptr;
}

MmaFn integer_product(const MmaOp& op) {
  if (op.lhs_signed)
    return op.rhs_signed ? multiply_integers<std::int8_t, std::int8_t> : multiply_integers<std::int8_t, std::uint8_t>;
  return op.rhs_signed ? multiply_integers<std::uint8_t, std::int8_t> : multiply_integers<std::uint8_t, std::uint8_t>;
}

/// f8 operands: blocks of 32 with E8M0 scales.
template <Elem e>
MmaFn scaled_f8(const MmaOp& op) {
  return op.scale == Elem::F8E8M0FNU && op.scale_block == 32 ? multiply_scaled<e, e, Elem::F8E8M0FNU, 32> : nullptr;
}
/// f4 operands: blocks of 16 with E4M3 or E8M0 scales, blocks of 32 with E8M0 scales.
MmaFn scaled_f4(const MmaOp& op) {
  constexpr Elem e = Elem::F4E2M1FN;
  if (op.scale == Elem::F8E4M3FN) return op.scale_block == 16 ? multiply_scaled<e, e, Elem::F8E4M3FN, 16> : nullptr;
  if (op.scale != Elem::F8E8M0FNU) return nullptr;
  if (op.scale_block == 16) return multiply_scaled<e, e, Elem::F8E8M0FNU, 16>;
  return op.scale_block == 32 ? multiply_scaled<e, e, Elem::F8E8M0FNU, 32> : nullptr;
}

MmaFn scaled_product(const MmaOp& op) {
  if (op.lhs != op.rhs || op.acc != Elem::F32) return nullptr;
  switch (op.lhs) {
    case Elem::F8E4M3FN: return scaled_f8<Elem::F8E4M3FN>(op);
    case Elem::F8E5M2: return scaled_f8<Elem::F8E5M2>(op);
    case Elem::F4E2M1FN: return scaled_f4(op);
    default: return nullptr;
  }
}

}  // namespace

MmaFn matmul(const MmaOp& op) {
  if (op.scale_block != 0) return scaled_product(op);
  if (op.lhs != op.rhs) return nullptr;
  switch (op.lhs) {
    case Elem::F16: return float_product<Elem::F16>(op.acc);
    case Elem::BF16: return float_product<Elem::BF16>(op.acc);
    case Elem::F32: return float_product<Elem::F32>(op.acc);
    case Elem::TF32: return float_product<Elem::TF32>(op.acc);
    case Elem::F8E4M3FN: return float_product<Elem::F8E4M3FN>(op.acc);
    case Elem::F8E5M2: return float_product<Elem::F8E5M2>(op.acc);
    case Elem::F4E2M1FN: return float_product<Elem::F4E2M1FN>(op.acc);
    case Elem::F64: return op.acc == Elem::F64 ? multiply_doubles : nullptr;
    case Elem::I8: return op.acc == Elem::I32 ? integer_product(op) : nullptr;
    default: return nullptr;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
