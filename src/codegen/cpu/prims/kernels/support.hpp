// What every kernel source needs: the storage of element types, and how a loop over a stretch of contiguous elements
// becomes an elementwise primitive over strided, splatted operands.
//
// Included with TESSERA_PRIMS_ISA set to the namespace of the instruction set. Nothing here may be an inline function
// that another instruction set could share (the linker would keep one of them): no standard-library function templates
// in the kernels.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "codegen/cpu/prims/isa.hpp"
#include "codegen/cpu/prims/walk.hpp"

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
template <class T>
inline constexpr int bytes_of = sizeof(T);
template <>
inline constexpr int bytes_of<None> = 0;

/// Whether K::chunk takes stretches of any length, because it keeps nothing in buffers of kChunk elements.
template <class K>
inline constexpr bool any_length_of = requires { requires K::any_length; };

/// An elementwise primitive. K has types Out, A, B, C (None where absent) and `static void chunk(Out*, const A*, const
/// B*, const C*, i64 n)` for n contiguous elements, at most kChunk unless K::any_length is true.
template <class K>
TESSERA_OUTLINED void run_chunk(void* out, const void* a, const void* b, const void* c, i64 n) {
  K::chunk(static_cast<typename K::Out*>(out), static_cast<const typename K::A*>(a),
           static_cast<const typename K::B*>(b), static_cast<const typename K::C*>(c), n);
}

/// The same where K has a form for one value in place of an operand: K::chunk_with_one.
template <class K>
inline constexpr bool takes_one_of = requires { requires K::takes_one; };
template <class K, int one>
TESSERA_OUTLINED void run_with_one(void* out, const void* a, const void* b, i64 n) {
  K::template chunk_with_one<one>(static_cast<typename K::Out*>(out), static_cast<const typename K::A*>(a),
                                  static_cast<const typename K::B*>(b), n);
}
/// Whether the operand is one value for the whole matrix.
TESSERA_INLINED bool is_one(const Operand& o) { return o.uniform || (o.splat && o.row_stride == 0); }
/// Whether the elements are stored row after row.
TESSERA_INLINED bool is_stored(const Operand& o, i64 bytes, i64 rows, i64 cols) {
  return !o.splat && !o.uniform && (rows == 1 || o.row_stride == cols * bytes);
}

template <class K>
void run(void* dst, const Operand* s, i64 rows, i64 cols) {
  constexpr int a = bytes_of<typename K::A>, b = bytes_of<typename K::B>, c = bytes_of<typename K::C>;
  const bool whole = any_length_of<K> && is_stored(s[0], a, rows, cols) && (b == 0 || is_stored(s[1], b, rows, cols)) &&
                     (c == 0 || is_stored(s[2], c, rows, cols));
  if (whole || (rows == 1 && cols == 1)) {
    run_chunk<K>(dst, s[0].data, b ? s[1].data : nullptr, c ? s[2].data : nullptr, rows * cols);
    return;
  }
  if constexpr (takes_one_of<K>) {
    if (is_one(s[1]) && is_stored(s[0], a, rows, cols))
      return run_with_one<K, 1>(dst, s[0].data, s[1].data, rows * cols);
    if (is_one(s[0]) && is_stored(s[1], b, rows, cols))
      return run_with_one<K, 0>(dst, s[0].data, s[1].data, rows * cols);
  }
  static constexpr Layout layout{1 + (b != 0) + (c != 0), bytes_of<typename K::Out>, {a, b, c}};
  walk(run_chunk<K>, layout, dst, s, rows, cols);
}

/// Kernels whose loop body is F::apply on storage types as they are.
template <class F, class OutT, class AT, class BT = None, class CT = None>
struct Plain {
  using Out = OutT;
  using A = AT;
  using B = BT;
  using C = CT;
  static constexpr bool any_length = true;
  static void chunk(Out* out, const A* a, [[maybe_unused]] const B* b, [[maybe_unused]] const C* c, i64 n) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) {
      if constexpr (!__is_same(C, None)) {
        out[i] = F::apply(a[i], b[i], c[i]);
      } else if constexpr (!__is_same(B, None)) {
        out[i] = F::apply(a[i], b[i]);
      } else {
        out[i] = F::apply(a[i]);
      }
    }
  }
};

/// Operations that are rare and of no interest to speed: the reference, one element at a time.
template <ElementOp op, class OutT, class AT, class BT = None, class CT = None>
struct ByReference {
  using Out = OutT;
  using A = AT;
  using B = BT;
  using C = CT;
  static void chunk(Out* out, const A* a, [[maybe_unused]] const B* b, [[maybe_unused]] const C* c, i64 n) {
    for (i64 i = 0; i < n; ++i) {
      std::uint64_t operands[3] = {a[i], 0, 0};
      if constexpr (!__is_same(B, None)) operands[1] = b[i];
      if constexpr (!__is_same(C, None)) operands[2] = c[i];
      out[i] = static_cast<Out>(ir::evaluate_element(op, {operands, op.arity}));
    }
  }
};

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
