// Entry of the conversion kernels of one instruction set.
#include "codegen/cpu/prims/kernels/conversion.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {
namespace {

ElementwiseFn copy_of(Elem e) {
  switch (ir::info(e).bytes) {
    case 1: return run<Plain<CopyOp<std::uint8_t>, std::uint8_t, std::uint8_t>>;
    case 2: return run<Plain<CopyOp<std::uint16_t>, std::uint16_t, std::uint16_t>>;
    case 4: return run<Plain<CopyOp<std::uint32_t>, std::uint32_t, std::uint32_t>>;
    default: return run<Plain<CopyOp<std::uint64_t>, std::uint64_t, std::uint64_t>>;
  }
}

ElementwiseFn select_for(Elem e) {
  switch (ir::info(e).bytes) {
    case 1: return select_of<std::uint8_t>();
    case 2: return select_of<std::uint16_t>();
    case 4: return select_of<std::uint32_t>();
    default: return select_of<std::uint64_t>();
  }
}

ElementwiseFn offset_for(const ElementOp& op) {
  switch (op.source) {
    case Elem::I8: return offset_by<Elem::I8>(op.pointee_bytes);
    case Elem::I16: return offset_by<Elem::I16>(op.pointee_bytes);
    case Elem::I32: return offset_by<Elem::I32>(op.pointee_bytes);
    case Elem::I64: return offset_by<Elem::I64>(op.pointee_bytes);
    default: return nullptr;
  }
}

}  // namespace

ElementwiseFn conversion(const ElementOp& op) {
  const auto resize = [&]<Elem e, bool is_signed>() { return resize_integer<e, is_signed>(op.result); };
  switch (op.op) {
    case Op::FToF: return for_float(op.source, [&]<Elem e>() { return float_to_float<e>(op); });
    case Op::FToI:
      return for_float(op.source, [&]<Elem e>() {
        return op.is_signed ? float_to_integer<e, true>(op.result) : float_to_integer<e, false>(op.result);
      });
    case Op::IToF: {
      const auto convert = [&]<Elem e, bool is_signed>() { return integer_to_float<e, is_signed>(op.result); };
      return op.is_signed ? for_integer<true>(op.source, convert) : for_integer<false>(op.source, convert);
    }
    case Op::ExtI: return op.is_signed ? for_integer<true>(op.source, resize) : for_integer<false>(op.source, resize);
    case Op::TruncI: return for_integer<false>(op.source, resize);
    case Op::Select: return select_for(op.source);
    case Op::Offset: return offset_for(op);
    case Op::Bitcast:
    case Op::Assume:
    case Op::IntToPtr:
    case Op::PtrToInt:
    case Op::PtrToPtr: return copy_of(op.result);
    default: return nullptr;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
