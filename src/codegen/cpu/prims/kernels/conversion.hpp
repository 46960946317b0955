// Conversions between elements, select, and pointer arithmetic.
#pragma once
#include "codegen/cpu/prims/kernels/float_formats.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

// ---- float to float: by way of f32, which holds every narrow format exactly; from f64 by an odd f32, which rounds
// again without harm.

template <Elem from, Elem to>
struct FToFKernel {
  using Out = typename Float<to>::U;
  using A = typename Float<from>::U;
  using B = None;
  using C = None;

  static constexpr bool any_length = from == Elem::F32 || to == Elem::F32;

  static void widen(float* to_floats, const A* a, i64 n) {
    if constexpr (from == Elem::F64) {
      TESSERA_INDEPENDENT
      for (i64 i = 0; i < n; ++i) {
        const double x = bits_as<double>(a[i]);
        to_floats[i] = to == Elem::F32 ? static_cast<float>(x) : to_odd_float(x);
      }
    } else {
      Float<from>::load(to_floats, a, n);
    }
  }
  static const float* widened(float* buffer, const A* a, i64 n) {
    if constexpr (from == Elem::F32) {
      return reinterpret_cast<const float*>(a);
    } else {
      widen(buffer, a, n);
      return buffer;
    }
  }
  static void chunk(Out* out, const A* a, const B*, const C*, i64 n) {
    if constexpr (to == Elem::F32 && from != Elem::F32) {
      widen(reinterpret_cast<float*>(out), a, n);
    } else {
      alignas(64) float buffer[any_length ? 1 : kChunk];
      const float* x = widened(buffer, a, n);
      if constexpr (to == Elem::F32 || to == Elem::F64) {
        TESSERA_INDEPENDENT
        for (i64 i = 0; i < n; ++i) out[i] = Float<to>::store_one(x[i]);
      } else {
        Float<to>::store(out, x, n);
      }
    }
  }
};

template <Elem from, ir::Rounding rounding>
ElementwiseFn to_e8m0() {
  constexpr ElementOp op{.op = Op::FToF, .source = from, .result = Elem::F8E8M0FNU, .rounding = rounding, .arity = 1};
  return run<ByReference<op, std::uint8_t, StorageOf<from>>>;
}

template <Elem from>
ElementwiseFn float_to_float(const ElementOp& op) {
  using R = ir::Rounding;
  switch (op.result) {
    case Elem::F16: return run<FToFKernel<from, Elem::F16>>;
    case Elem::BF16: return run<FToFKernel<from, Elem::BF16>>;
    case Elem::F32: return run<FToFKernel<from, Elem::F32>>;
    case Elem::TF32: return run<FToFKernel<from, Elem::TF32>>;
    case Elem::F64: return run<FToFKernel<from, Elem::F64>>;
    case Elem::F8E4M3FN: return run<FToFKernel<from, Elem::F8E4M3FN>>;
    case Elem::F8E5M2: return run<FToFKernel<from, Elem::F8E5M2>>;
    case Elem::F4E2M1FN: return run<FToFKernel<from, Elem::F4E2M1FN>>;
    case Elem::F8E5M3FNU: return run<FToFKernel<from, Elem::F8E5M3FNU>>;
    case Elem::F8E8M0FNU:
      if (op.rounding == R::Zero) return to_e8m0<from, R::Zero>();
      return op.rounding == R::PositiveInf ? to_e8m0<from, R::PositiveInf>() : to_e8m0<from, R::NearestEven>();
    default: return nullptr;
  }
}

// ---- float to integer: truncated, saturated, NaN gives 0.

/// 2^n and the largest number below it.
template <class T>
constexpr T power_of_two(int n) {
  T r = 1;
  for (; n > 0; --n) r *= 2;
  return r;
}
template <class T>
constexpr T below(int n) {
  const T top = power_of_two<T>(n);
  return top - top / power_of_two<T>(__is_same(T, float) ? 24 : 53);
}

template <class T, Elem to, bool is_signed>
struct FToIOp {
  using U = StorageOf<to>;
  static constexpr int bits = to == Elem::I1 ? 1 : 8 * static_cast<int>(sizeof(U));
  using Work = std::conditional_t<(bits > 32), std::int64_t, std::int32_t>;
  static constexpr U all = static_cast<U>(bits == 1 ? U{1} : static_cast<U>(~U{0}));

  static U apply(T value) {
    const T x = value == value ? value : T{0};
    if constexpr (is_signed) {
      constexpr T low = -power_of_two<T>(bits - 1), high = below<T>(bits - 1);
      const T raised = x < low ? low : x;
      const T clamped = raised > high ? high : raised;
      const U r = static_cast<U>(static_cast<Work>(clamped));
      return (x >= power_of_two<T>(bits - 1) ? static_cast<U>(all >> 1) : r) & all;
    } else {
      constexpr T half = power_of_two<T>(bits < 32 ? 31 : bits - 1);  // above it the signed conversion does not reach
      const T raised = x < T{0} ? T{0} : x;
      const T clamped = raised > below<T>(bits) ? below<T>(bits) : raised;
      const bool upper = clamped >= half;
      const U r = static_cast<U>(static_cast<Work>(clamped - (upper ? half : T{0})));
      const U top = bits < 32 ? U{0} : static_cast<U>(U{1} << (bits - 1));
      const U moved = static_cast<U>(r + (upper ? top : U{0}));
      return x >= power_of_two<T>(bits) ? all : moved;
    }
  }
};

template <Elem from, Elem to, bool is_signed>
struct FToIKernel {
  using Fmt = Float<from>;
  using Out = StorageOf<to>;
  using A = typename Fmt::U;
  using B = None;
  using C = None;
  static void chunk(Out* out, const A* a, const B*, const C*, i64 n) {
    using F = FToIOp<typename Fmt::Compute, to, is_signed>;
    if constexpr (Fmt::direct) {
      TESSERA_INDEPENDENT
      for (i64 i = 0; i < n; ++i) out[i] = F::apply(Fmt::load_one(a[i]));
    } else {
      alignas(64) float x[kChunk];
      Fmt::load(x, a, n);
      TESSERA_INDEPENDENT
      for (i64 i = 0; i < n; ++i) out[i] = F::apply(x[i]);
    }
  }
};

template <Elem from, bool is_signed>
ElementwiseFn float_to_integer(Elem to) {
  switch (to) {
    case Elem::I1: return run<FToIKernel<from, Elem::I1, is_signed>>;
    case Elem::I8: return run<FToIKernel<from, Elem::I8, is_signed>>;
    case Elem::I16: return run<FToIKernel<from, Elem::I16, is_signed>>;
    case Elem::I32: return run<FToIKernel<from, Elem::I32, is_signed>>;
    case Elem::I64: return run<FToIKernel<from, Elem::I64, is_signed>>;
    default: return nullptr;
  }
}

/// Calls f.template operator()<E>() for a floating element.
template <class F>
ElementwiseFn for_float(Elem e, F f) {
  switch (e) {
    case Elem::F16: return f.template operator()<Elem::F16>();
    case Elem::BF16: return f.template operator()<Elem::BF16>();
    case Elem::F32: return f.template operator()<Elem::F32>();
    case Elem::TF32: return f.template operator()<Elem::TF32>();
    case Elem::F64: return f.template operator()<Elem::F64>();
    case Elem::F8E4M3FN: return f.template operator()<Elem::F8E4M3FN>();
    case Elem::F8E5M2: return f.template operator()<Elem::F8E5M2>();
    case Elem::F8E8M0FNU: return f.template operator()<Elem::F8E8M0FNU>();
    case Elem::F4E2M1FN: return f.template operator()<Elem::F4E2M1FN>();
    case Elem::F8E5M3FNU: return f.template operator()<Elem::F8E5M3FNU>();
    default: return nullptr;
  }
}

// ---- integer to float

/// An integer element as a C++ integer.
template <Elem e, bool is_signed>
struct Reading {
  using U = StorageOf<e>;
  static constexpr int bits = e == Elem::I1 ? 1 : e == Elem::I4 ? 4 : 8 * static_cast<int>(sizeof(U));
  using S = std::make_signed_t<U>;
  using Value = std::conditional_t<is_signed, S, U>;
  static Value of(U v) {
    if constexpr (bits == 8 * sizeof(U)) return static_cast<Value>(v);
    constexpr int unused = 8 * static_cast<int>(sizeof(U)) - bits;
    return static_cast<Value>(static_cast<Value>(static_cast<U>(v << unused)) >> unused);
  }
};

template <Elem from, bool is_signed, Elem to>
struct IToFKernel {
  using Out = typename Float<to>::U;
  using A = StorageOf<from>;
  using B = None;
  using C = None;
  using R = Reading<from, is_signed>;

  static float narrow(A a) {  // rounds again without harm
    const auto v = R::of(a);
    if constexpr (R::bits <= 16) {
      return static_cast<float>(v);
    } else if constexpr (R::bits == 32) {
      return to_odd_float(static_cast<double>(v));
    } else {
      using V = typename R::Value;
      constexpr V limit = V{1} << 53;
      const bool large = v >= limit || (is_signed && v <= static_cast<V>(V{0} - limit));
      const V odd = static_cast<V>((v >> 11) | ((v & 2047) != 0 ? 1 : 0));
      const double scaled = static_cast<double>(large ? odd : v) * (large ? 2048.0 : 1.0);
      return to_odd_float(scaled);
    }
  }
  static void chunk(Out* out, const A* a, const B*, const C*, i64 n) {
    if constexpr (Float<to>::direct) {
      TESSERA_INDEPENDENT
      for (i64 i = 0; i < n; ++i) out[i] = bits_as<Out>(static_cast<typename Float<to>::Compute>(R::of(a[i])));
    } else {
      alignas(64) float x[kChunk];
      TESSERA_INDEPENDENT
      for (i64 i = 0; i < n; ++i) x[i] = narrow(a[i]);
      Float<to>::store(out, x, n);
    }
  }
};

/// Narrow targets overflow to infinity or NaN here (they saturate from floats): the reference.
template <Elem from, bool is_signed, Elem to>
ElementwiseFn integer_to_small() {
  constexpr ElementOp op{.op = Op::IToF, .source = from, .result = to, .is_signed = is_signed, .arity = 1};
  return run<ByReference<op, StorageOf<to>, StorageOf<from>>>;
}

template <Elem from, bool is_signed>
ElementwiseFn integer_to_float(Elem to) {
  switch (to) {
    case Elem::F16: return run<IToFKernel<from, is_signed, Elem::F16>>;
    case Elem::BF16: return run<IToFKernel<from, is_signed, Elem::BF16>>;
    case Elem::F32: return run<IToFKernel<from, is_signed, Elem::F32>>;
    case Elem::TF32: return run<IToFKernel<from, is_signed, Elem::TF32>>;
    case Elem::F64: return run<IToFKernel<from, is_signed, Elem::F64>>;
    case Elem::F8E4M3FN: return integer_to_small<from, is_signed, Elem::F8E4M3FN>();
    case Elem::F8E5M2: return integer_to_small<from, is_signed, Elem::F8E5M2>();
    case Elem::F4E2M1FN: return integer_to_small<from, is_signed, Elem::F4E2M1FN>();
    case Elem::F8E5M3FNU: return integer_to_small<from, is_signed, Elem::F8E5M3FNU>();
    default: return nullptr;
  }
}

// ---- integer to integer

template <Elem from, bool is_signed, Elem to>
struct ResizeOp {
  using Out = StorageOf<to>;
  static Out apply(StorageOf<from> a) {
    const Out v = static_cast<Out>(Reading<from, is_signed>::of(a));
    return to == Elem::I1 ? v & 1 : to == Elem::I4 ? v & 15 : v;
  }
};
template <Elem from, bool is_signed>
ElementwiseFn resize_integer(Elem to) {
  using A = StorageOf<from>;
  switch (to) {
    case Elem::I1: return run<Plain<ResizeOp<from, is_signed, Elem::I1>, std::uint8_t, A>>;
    case Elem::I4: return run<Plain<ResizeOp<from, is_signed, Elem::I4>, std::uint8_t, A>>;
    case Elem::I8: return run<Plain<ResizeOp<from, is_signed, Elem::I8>, std::uint8_t, A>>;
    case Elem::I16: return run<Plain<ResizeOp<from, is_signed, Elem::I16>, std::uint16_t, A>>;
    case Elem::I32: return run<Plain<ResizeOp<from, is_signed, Elem::I32>, std::uint32_t, A>>;
    case Elem::I64: return run<Plain<ResizeOp<from, is_signed, Elem::I64>, std::uint64_t, A>>;
    default: return nullptr;
  }
}

template <bool is_signed, class F>
ElementwiseFn for_integer(Elem e, F f) {
  switch (e) {
    case Elem::I1: return f.template operator()<Elem::I1, is_signed>();
    case Elem::I4: return f.template operator()<Elem::I4, is_signed>();
    case Elem::I8: return f.template operator()<Elem::I8, is_signed>();
    case Elem::I16: return f.template operator()<Elem::I16, is_signed>();
    case Elem::I32: return f.template operator()<Elem::I32, is_signed>();
    case Elem::I64: return f.template operator()<Elem::I64, is_signed>();
    default: return nullptr;
  }
}

// ---- select, copies, pointers

template <class T>
struct SelectOp {
  static T apply(std::uint8_t condition, T a, T b) { return condition & 1 ? a : b; }
};
template <class T>
ElementwiseFn select_of() {
  return run<Plain<SelectOp<T>, T, std::uint8_t, T, T>>;
}

template <class T>
struct CopyOp {
  static T apply(T a) { return a; }
};

template <Elem index, int bytes>
struct OffsetOp {
  static std::uint64_t apply(std::uint64_t pointer, StorageOf<index> offset) {
    const auto steps = static_cast<std::int64_t>(Reading<index, true>::of(offset));
    return pointer + static_cast<std::uint64_t>(steps) * static_cast<std::uint64_t>(bytes);
  }
};
template <Elem index>
ElementwiseFn offset_by(int bytes) {
  using I = StorageOf<index>;
  switch (bytes) {
    case 1: return run<Plain<OffsetOp<index, 1>, std::uint64_t, std::uint64_t, I>>;
    case 2: return run<Plain<OffsetOp<index, 2>, std::uint64_t, std::uint64_t, I>>;
    case 4: return run<Plain<OffsetOp<index, 4>, std::uint64_t, std::uint64_t, I>>;
    default: return run<Plain<OffsetOp<index, 8>, std::uint64_t, std::uint64_t, I>>;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
