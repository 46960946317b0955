// Conversions between elements, select, and pointer arithmetic.
#pragma once
#include "codegen/cpu/prims/kernels/float_formats.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

// ---- float to float: by way of f32, which holds every narrow format exactly; from f64 by an odd f32, which rounds
// again without harm.

template <Elem e>
void widen_loop(void* to, const void* from, const void*, const void*, i64 n) {
  Float<e>::load(static_cast<float*>(to), static_cast<const typename Float<e>::U*>(from), n);
}
template <Elem e>
void narrow_loop(void* to, const void* from, const void*, const void*, i64 n) {
  Float<e>::store(static_cast<typename Float<e>::U*>(to), static_cast<const float*>(from), n);
}
struct OddFloat {
  static float apply(double x) { return to_odd_float(x); }
};
/// Also from integers: rounded to nearest.
template <class To>
struct CastOp {
  template <class From>
  static To apply(From x) {
    return static_cast<To>(x);
  }
};

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

template <class T, bool is_signed>
LoopFn float_to_integer_of(Elem to) {
  switch (to) {
    case Elem::I1: return loop<FToIOp<T, Elem::I1, is_signed>, std::uint8_t, T>;
    case Elem::I8: return loop<FToIOp<T, Elem::I8, is_signed>, std::uint8_t, T>;
    case Elem::I16: return loop<FToIOp<T, Elem::I16, is_signed>, std::uint16_t, T>;
    case Elem::I32: return loop<FToIOp<T, Elem::I32, is_signed>, std::uint32_t, T>;
    case Elem::I64: return loop<FToIOp<T, Elem::I64, is_signed>, std::uint64_t, T>;
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

/// An f32 that rounds again without harm.
template <Elem from, bool is_signed>
struct IntegerToOddFloat {
  using R = Reading<from, is_signed>;
  static float apply(StorageOf<from> a) {
    const auto v = R::of(a);
    if constexpr (R::bits == 32) {
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
};
template <Elem from, bool is_signed, class To>
struct IntegerToFloat {
  static To apply(StorageOf<from> a) { return static_cast<To>(Reading<from, is_signed>::of(a)); }
};

template <bool is_signed>
LoopFn integer_to_float_of(Elem from, FromInteger how) {
  using F = FromInteger;
  const auto small = []<Elem e>() -> LoopFn { return loop<IntegerToFloat<e, is_signed, float>, float, StorageOf<e>>; };
  const auto large = [how]<Elem e>() -> LoopFn {
    using U = StorageOf<e>;
    return how == F::F32   ? loop<IntegerToFloat<e, is_signed, float>, float, U>
           : how == F::F64 ? loop<IntegerToFloat<e, is_signed, double>, double, U>
                           : loop<IntegerToOddFloat<e, is_signed>, float, U>;
  };
  switch (from) {
    case Elem::I1: return small.template operator()<Elem::I1>();
    case Elem::I4: return small.template operator()<Elem::I4>();
    case Elem::I8: return small.template operator()<Elem::I8>();
    case Elem::I16: return small.template operator()<Elem::I16>();
    case Elem::I32: return large.template operator()<Elem::I32>();
    case Elem::I64: return large.template operator()<Elem::I64>();
    default: return nullptr;
  }
}

// ---- integer to integer

/// From a narrower type (of the wanted signedness) to a wider one, or cut off.
template <class To, class U8, class U16, class U32, class U64>
LoopFn resize_from(int from_bytes) {
  switch (from_bytes) {
    case 1: return loop<CastOp<To>, To, U8>;
    case 2: return loop<CastOp<To>, To, U16>;
    case 4: return loop<CastOp<To>, To, U32>;
    default: return loop<CastOp<To>, To, U64>;
  }
}

/// i1 and i4 to a whole byte, and back.
template <Elem from, bool is_signed>
struct ExtendBits {
  static std::uint8_t apply(std::uint8_t a) { return static_cast<std::uint8_t>(Reading<from, is_signed>::of(a)); }
};
template <int mask>
struct KeepBits {
  static std::uint8_t apply(std::uint8_t a) { return a & mask; }
};

// ---- select, copies, pointers

template <class T>
struct SelectOp {
  static T apply(std::uint8_t condition, T a, T b) { return condition & 1 ? a : b; }
};
template <class T>
LoopFn select_of() {
  return loop<SelectOp<T>, T, std::uint8_t, T, T>;
}

template <class I, int bytes>
struct OffsetOp {
  static std::uint64_t apply(std::uint64_t pointer, I steps) {
    return pointer + static_cast<std::uint64_t>(static_cast<std::int64_t>(steps)) * static_cast<std::uint64_t>(bytes);
  }
};
template <class I>
LoopFn offset_by(int bytes) {
  using P = std::uint64_t;
  switch (bytes) {
    case 1: return loop<OffsetOp<I, 1>, P, P, I>;
    case 2: return loop<OffsetOp<I, 2>, P, P, I>;
    case 4: return loop<OffsetOp<I, 4>, P, P, I>;
    default: return loop<OffsetOp<I, 8>, P, P, I>;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
