// What every kernel source needs: the storage of element types, and loops over stretches of contiguous elements.
//
// Included with TESSERA_PRIMS_ISA set to the namespace of the instruction set. Nothing here may be an inline function
// that another instruction set could share (the linker would keep one of them): no standard-library function templates
// in the kernels.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "codegen/cpu/prims/isa.hpp"

#ifndef TESSERA_PRIMS_ISA
#error "kernels are compiled by way of cmake/TesseraLayerExtras/codegen_cpu.cmake"
#endif

// The iterations of an elementwise loop are independent although destination and source may be the same array.
#if defined(__clang__)
#define TESSERA_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TESSERA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TESSERA_INDEPENDENT
#endif

// Kept as one function: neither inlined nor copied for special arguments (code size, compile time).
#if defined(__clang__)
#define TESSERA_OUTLINED __attribute__((noinline))
#else
#define TESSERA_OUTLINED __attribute__((noinline, noclone))
#endif
#define TESSERA_INLINED inline __attribute__((always_inline))

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

using i64 = std::int64_t;
using ir::Elem;
using ir::ElementOp;
using ir::Op;

template <class To, class From>
TESSERA_INLINED To bits_as(From v) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, v);
}

struct None {};

/// out[i] = F::apply(a[i], b[i], c[i]); the element types of absent operands are None. A LoopFn.
template <class F, class Out, class A, class B = None, class C = None>
void loop(void* to, const void* x, [[maybe_unused]] const void* y, [[maybe_unused]] const void* z, i64 n) {
  auto* out = static_cast<Out*>(to);
  auto* a = static_cast<const A*>(x);
  TESSERA_INDEPENDENT
  for (i64 i = 0; i < n; ++i) {
    if constexpr (!__is_same(C, None)) {
      out[i] = F::apply(a[i], static_cast<const B*>(y)[i], static_cast<const C*>(z)[i]);
    } else if constexpr (!__is_same(B, None)) {
      out[i] = F::apply(a[i], static_cast<const B*>(y)[i]);
    } else {
      out[i] = F::apply(a[i]);
    }
  }
}

/// As above, with one value as operand `one`, which is kept in a register.
template <class F, class T, int one>
void loop_with_one(void* to, const void* x, const void* y, const void*, i64 n) {
  auto* out = static_cast<T*>(to);
  auto* a = static_cast<const T*>(x);
  auto* b = static_cast<const T*>(y);
  const T value = one == 0 ? *a : *b;
  TESSERA_INDEPENDENT
  for (i64 i = 0; i < n; ++i) out[i] = one == 0 ? F::apply(value, b[i]) : F::apply(a[i], value);
}

/// Unsigned storage of an element, by its IR name.
template <Elem>
struct Storage;
#define TESSERA_PRIMS_STORAGE(elem, type) \
  template <>                             \
  struct Storage<Elem::elem> {            \
    using type_ = std::type;              \
  };
TESSERA_PRIMS_STORAGE(I1, uint8_t)
TESSERA_PRIMS_STORAGE(I4, uint8_t)
TESSERA_PRIMS_STORAGE(I8, uint8_t)
TESSERA_PRIMS_STORAGE(I16, uint16_t)
TESSERA_PRIMS_STORAGE(I32, uint32_t)
TESSERA_PRIMS_STORAGE(I64, uint64_t)
TESSERA_PRIMS_STORAGE(F16, uint16_t)
TESSERA_PRIMS_STORAGE(BF16, uint16_t)
TESSERA_PRIMS_STORAGE(F32, uint32_t)
TESSERA_PRIMS_STORAGE(TF32, uint32_t)
TESSERA_PRIMS_STORAGE(F64, uint64_t)
TESSERA_PRIMS_STORAGE(F8E4M3FN, uint8_t)
TESSERA_PRIMS_STORAGE(F8E5M2, uint8_t)
TESSERA_PRIMS_STORAGE(F8E8M0FNU, uint8_t)
TESSERA_PRIMS_STORAGE(F4E2M1FN, uint8_t)
TESSERA_PRIMS_STORAGE(F8E5M3FNU, uint8_t)
#undef TESSERA_PRIMS_STORAGE
template <Elem e>
using StorageOf = typename Storage<e>::type_;

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
