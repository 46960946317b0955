// Entry of the conversion kernels of one instruction set.
#include "codegen/cpu/prims/kernels/conversion.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

LoopFn widen(Elem e) {
  switch (e) {
    case Elem::F16: return widen_loop<Elem::F16>;
    case Elem::BF16: return widen_loop<Elem::BF16>;
    case Elem::TF32: return widen_loop<Elem::TF32>;
    case Elem::F64: return loop<OddFloat, float, double>;
    case Elem::F8E4M3FN: return widen_loop<Elem::F8E4M3FN>;
    case Elem::F8E5M2: return widen_loop<Elem::F8E5M2>;
    case Elem::F8E8M0FNU: return widen_loop<Elem::F8E8M0FNU>;
    case Elem::F4E2M1FN: return widen_loop<Elem::F4E2M1FN>;
    case Elem::F8E5M3FNU: return widen_loop<Elem::F8E5M3FNU>;
    default: return nullptr;
  }
}

LoopFn narrow(Elem e) {
  switch (e) {
    case Elem::F16: return narrow_loop<Elem::F16>;
    case Elem::BF16: return narrow_loop<Elem::BF16>;
    case Elem::TF32: return narrow_loop<Elem::TF32>;
    case Elem::F64: return loop<CastOp<double>, double, float>;
    case Elem::F8E4M3FN: return narrow_loop<Elem::F8E4M3FN>;
    case Elem::F8E5M2: return narrow_loop<Elem::F8E5M2>;
    case Elem::F4E2M1FN: return narrow_loop<Elem::F4E2M1FN>;
    case Elem::F8E5M3FNU: return narrow_loop<Elem::F8E5M3FNU>;
    default: return nullptr;
  }
}

LoopFn double_to_float() { return loop<CastOp<float>, float, double>; }

LoopFn float_to_integer(bool from_f64, Elem to, bool is_signed) {
  if (from_f64) return is_signed ? float_to_integer_of<double, true>(to) : float_to_integer_of<double, false>(to);
  return is_signed ? float_to_integer_of<float, true>(to) : float_to_integer_of<float, false>(to);
}

LoopFn integer_to_float(Elem from, bool is_signed, FromInteger how) {
  return is_signed ? integer_to_float_of<true>(from, how) : integer_to_float_of<false>(from, how);
}

LoopFn resize(int from_bytes, int to_bytes, bool is_signed) {
  using std::int16_t, std::int32_t, std::int8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;
  if (to_bytes == from_bytes) return copy(to_bytes);
  switch (to_bytes) {
    case 1: return resize_from<uint8_t, uint8_t, uint16_t, uint32_t, uint64_t>(from_bytes);
    case 2:
      return is_signed ? resize_from<uint16_t, int8_t, uint16_t, uint32_t, uint64_t>(from_bytes)
                       : resize_from<uint16_t, uint8_t, uint16_t, uint32_t, uint64_t>(from_bytes);
    case 4:
      return is_signed ? resize_from<uint32_t, int8_t, int16_t, uint32_t, uint64_t>(from_bytes)
                       : resize_from<uint32_t, uint8_t, uint16_t, uint32_t, uint64_t>(from_bytes);
    default:
      return is_signed ? resize_from<uint64_t, int8_t, int16_t, int32_t, uint64_t>(from_bytes)
                       : resize_from<uint64_t, uint8_t, uint16_t, uint32_t, uint64_t>(from_bytes);
  }
}

LoopFn extend_bits(Elem from, bool is_signed) {
  using U = std::uint8_t;
  if (from == Elem::I1)
    return is_signed ? loop<ExtendBits<Elem::I1, true>, U, U> : loop<ExtendBits<Elem::I1, false>, U, U>;
  return is_signed ? loop<ExtendBits<Elem::I4, true>, U, U> : loop<ExtendBits<Elem::I4, false>, U, U>;
}
LoopFn keep_bits(Elem to) {
  using U = std::uint8_t;
  return to == Elem::I1 ? loop<KeepBits<1>, U, U> : loop<KeepBits<15>, U, U>;
}

LoopFn select(int bytes) {
  switch (bytes) {
    case 1: return select_of<std::uint8_t>();
    case 2: return select_of<std::uint16_t>();
    case 4: return select_of<std::uint32_t>();
    default: return select_of<std::uint64_t>();
  }
}

LoopFn copy(int bytes) {
  switch (bytes) {
    case 1: return loop<CastOp<std::uint8_t>, std::uint8_t, std::uint8_t>;
    case 2: return loop<CastOp<std::uint16_t>, std::uint16_t, std::uint16_t>;
    case 4: return loop<CastOp<std::uint32_t>, std::uint32_t, std::uint32_t>;
    default: return loop<CastOp<std::uint64_t>, std::uint64_t, std::uint64_t>;
  }
}

LoopFn offset(int index_bytes, int pointee_bytes) {
  return index_bytes == 4 ? offset_by<std::int32_t>(pointee_bytes) : offset_by<std::int64_t>(pointee_bytes);
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
