// Atomic updates of one element, for every mode and element type of Tile IR.
#include <bit>

#include "codegen/cpu/memory_instr.hpp"
#include "tessera/base/float_types.hpp"

namespace tessera::cpu {
namespace {

/// A compare-and-swap loop, for operations that the machine has no instruction for.
template <class T, class F>
T update(T* address, F&& next) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &old, next(old), true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
  return old;
}

template <class T>
T update_integer(T* p, ir::AtomicMode mode, T v) {
  using S = std::make_signed_t<T>;
  const auto smaller = [](T a, T b) { return static_cast<S>(a) < static_cast<S>(b); };
  switch (mode) {
    case ir::AtomicMode::And: return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);
    case ir::AtomicMode::Or: return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);
    case ir::AtomicMode::Xor: return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);
    case ir::AtomicMode::Max: return update(p, [&](T old) { return smaller(old, v) ? v : old; });
    case ir::AtomicMode::Min: return update(p, [&](T old) { return smaller(v, old) ? v : old; });
    case ir::AtomicMode::UMax: return update(p, [&](T old) { return old < v ? v : old; });
    case ir::AtomicMode::UMin: return update(p, [&](T old) { return v < old ? v : old; });
    case ir::AtomicMode::Xchg: return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
    default: return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
  }
}

std::uint64_t add_float(void* p, ir::Elem elem, std::uint64_t bits) {
  switch (elem) {
    case ir::Elem::F64:
      return update(static_cast<std::uint64_t*>(p), [&](std::uint64_t old) {
        return std::bit_cast<std::uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(bits));
      });
    case ir::Elem::F16:
      return update(static_cast<std::uint16_t*>(p), [&](std::uint16_t old) {
        return f16(f16::from_bits(old) + f16::from_bits(static_cast<std::uint16_t>(bits))).bits;
      });
    case ir::Elem::BF16:
      return update(static_cast<std::uint16_t*>(p), [&](std::uint16_t old) {
        return bf16(bf16::from_bits(old) + bf16::from_bits(static_cast<std::uint16_t>(bits))).bits;
      });
    default:
      return update(static_cast<std::uint32_t*>(p), [&](std::uint32_t old) {
        return std::bit_cast<std::uint32_t>(std::bit_cast<float>(old) +
                                            std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
      });
  }
}

}  // namespace

std::uint64_t atomic_update(void* address, ir::AtomicMode mode, ir::Elem elem, std::uint64_t bits) {
  if (mode == ir::AtomicMode::AddF) return add_float(address, elem, bits);
  switch (ir::info(elem).bytes) {
    case 1: return update_integer(static_cast<std::uint8_t*>(address), mode, static_cast<std::uint8_t>(bits));
    case 2: return update_integer(static_cast<std::uint16_t*>(address), mode, static_cast<std::uint16_t>(bits));
    case 4: return update_integer(static_cast<std::uint32_t*>(address), mode, static_cast<std::uint32_t>(bits));
    default: return update_integer(static_cast<std::uint64_t*>(address), mode, bits);
  }
}

std::uint64_t atomic_compare_and_swap(void* address, std::int64_t elem_bytes, std::uint64_t expected,
                                      std::uint64_t desired) {
  const auto swap = [&]<class T>(T* p) -> std::uint64_t {
    T old = static_cast<T>(expected);
    __atomic_compare_exchange_n(p, &old, static_cast<T>(desired), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return old;
  };
  switch (elem_bytes) {
    case 1: return swap(static_cast<std::uint8_t*>(address));
    case 2: return swap(static_cast<std::uint16_t*>(address));
    case 4: return swap(static_cast<std::uint32_t*>(address));
    default: return swap(static_cast<std::uint64_t*>(address));
  }
}

}  // namespace tessera::cpu
