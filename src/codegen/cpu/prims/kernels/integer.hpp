// Integer operations: wrapping arithmetic, division through floating point, shifts, bits, comparisons. i1 is computed
// by the loops of i8 (elementwise.cpp says how), and i8 is divided by those of i16.
#pragma once
#include "codegen/cpu/prims/kernels/support.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

__extension__ using u128 = unsigned __int128;

/// An integer element: storage, its signed and unsigned readings, and the way back.
template <Elem e>
struct Int;
#define TESSERA_PRIMS_INT(elem, unsigned_type, signed_type, wide_type, bit_count, float_type) \
  template <>                                                                                 \
  struct Int<Elem::elem> {                                                                    \
    using U = std::unsigned_type;                                                             \
    using S = std::signed_type;                                                               \
    using Wide = wide_type;   /* holds a product */                                           \
    using Float = float_type; /* divides exactly enough */                                    \
    static constexpr int bits = bit_count;                                                    \
    static U mask(U v) { return v; }                                                          \
    static S sign(U v) { return static_cast<S>(v); }                                          \
  };
TESSERA_PRIMS_INT(I8, uint8_t, int8_t, std::uint32_t, 8, float)
TESSERA_PRIMS_INT(I16, uint16_t, int16_t, std::uint32_t, 16, float)
TESSERA_PRIMS_INT(I32, uint32_t, int32_t, std::uint64_t, 32, double)
TESSERA_PRIMS_INT(I64, uint64_t, int64_t, u128, 64, double)
#undef TESSERA_PRIMS_INT

// A quotient of integers of up to 32 bits differs from the next integer by at least 2^-32 of itself, so a correctly
// rounded division in double (16 bits: in float) truncates to the right integer.
template <class I>
struct Divide {
  using U = typename I::U;
  using S = typename I::S;
  using F = typename I::Float;
  static S truncated(S a, S b) {  // b is neither 0 nor -1
    if constexpr (I::bits == 64) {
      return a / b;
    } else {
      return static_cast<S>(static_cast<std::int32_t>(static_cast<F>(a) / static_cast<F>(b)));
    }
  }
  static F as_float(U a) {
    if constexpr (I::bits == 32) return static_cast<F>(static_cast<std::int32_t>(a ^ 0x80000000u)) + F{2147483648.0};
    return static_cast<F>(static_cast<S>(a));  // 8 and 16 bits are widened by the caller
  }
  static U truncated(U a, U b) {  // b is not 0
    if constexpr (I::bits == 64) {
      return a / b;
    } else if constexpr (I::bits == 32) {
      const F q = __builtin_floor(as_float(a) / as_float(b));
      return static_cast<U>(static_cast<std::int32_t>(q - F{2147483648.0})) ^ 0x80000000u;
    } else {
      const F x = static_cast<F>(static_cast<std::int32_t>(a)), y = static_cast<F>(static_cast<std::int32_t>(b));
      return static_cast<U>(static_cast<std::int32_t>(x / y));
    }
  }
};

enum class Toward { Zero, Negative, Positive };

template <class I, bool is_signed, Toward toward>
struct DivIOp {
  using U = typename I::U;
  using S = typename I::S;
  static U apply(U a, U b) {
    if constexpr (is_signed) {
      const S x = I::sign(a), y = I::sign(b);
      const bool special = y == 0 || y == -1;
      const S safe = special ? S{1} : y;
      S q = Divide<I>::truncated(x, safe);
      const bool inexact = static_cast<S>(q * safe) != x, below_zero = (x < 0) != (safe < 0);
      if (toward == Toward::Negative) q = static_cast<S>(q - (inexact && below_zero ? 1 : 0));
      if (toward == Toward::Positive) q = static_cast<S>(q + (inexact && !below_zero ? 1 : 0));
      const U negated = static_cast<U>(U{0} - static_cast<U>(x));
      return (special ? (y == 0 ? U{0} : negated) : static_cast<U>(q));
    } else {
      const U x = (a), y = (b);
      const U safe = y == 0 ? U{1} : y;
      U q = Divide<I>::truncated(x, safe);
      if (toward == Toward::Positive) q = static_cast<U>(q + (static_cast<U>(q * safe) != x ? 1 : 0));
      return y == 0 ? U{0} : q;
    }
  }
};

template <class I, bool is_signed>
struct RemIOp {
  using U = typename I::U;
  static U apply(U a, U b) {
    const U q = DivIOp<I, is_signed, Toward::Zero>::apply(a, b);
    const U product = static_cast<U>(static_cast<typename I::Wide>(q) * static_cast<typename I::Wide>(b));
    return (static_cast<U>(a - product));
  }
};

// Two-operand operations that treat the element as bits modulo 2^n: name, expression in a and b.
#define TESSERA_PRIMS_INT2(Name, expression)                          \
  template <class I>                                                  \
  struct Name {                                                       \
    using U = typename I::U;                                          \
    using S = typename I::S;                                          \
    using W = typename I::Wide;                                       \
    static U apply(U a, U b) { return (static_cast<U>(expression)); } \
  };
TESSERA_PRIMS_INT2(AddIOp, a + b)
TESSERA_PRIMS_INT2(SubIOp, a - b)
TESSERA_PRIMS_INT2(MulIOp, static_cast<U>(a) * static_cast<W>(b))
TESSERA_PRIMS_INT2(AndIOp, a& b)
TESSERA_PRIMS_INT2(OrIOp, a | b)
TESSERA_PRIMS_INT2(XOrIOp, a ^ b)
TESSERA_PRIMS_INT2(MulhiIOp, (static_cast<W>((a)) * static_cast<W>((b))) >> I::bits)
TESSERA_PRIMS_INT2(MaxSOp, I::sign(a) > I::sign(b) ? a : b)
TESSERA_PRIMS_INT2(MinSOp, I::sign(a) < I::sign(b) ? a : b)
TESSERA_PRIMS_INT2(MaxUOp, a > b ? a : b)
TESSERA_PRIMS_INT2(MinUOp, a < b ? a : b)
TESSERA_PRIMS_INT2(ShLIOp, b >= U{I::bits} ? U{0} : static_cast<U>(static_cast<U>(a) << (b & (8 * sizeof(U) - 1))))
TESSERA_PRIMS_INT2(ShRUOp, b >= U{I::bits} ? U{0} : static_cast<U>(a >> (b & (8 * sizeof(U) - 1))))
TESSERA_PRIMS_INT2(ShRSOp, I::sign(a) >> (b >= U{I::bits} ? U{I::bits - 1} : b))
#undef TESSERA_PRIMS_INT2

template <class I>
struct AbsIOp {
  using U = typename I::U;
  static U apply(U a) { return (I::sign(a) < 0 ? static_cast<U>(U{0} - a) : a); }
};
template <class I>
struct NegIOp {
  using U = typename I::U;
  static U apply(U a) { return (static_cast<U>(U{0} - a)); }
};

/// Equal, NotEqual, Less and LessEqual; the other two exchange their operands.
template <ir::ComparisonPredicate predicate, class T>
struct CmpIOp {
  static std::uint8_t apply(T a, T b) {
    using P = ir::ComparisonPredicate;
    return predicate == P::Equal ? a == b : predicate == P::NotEqual ? a != b : predicate == P::Less ? a < b : a <= b;
  }
};

template <class F, class U>
Loop binary_integer() {
  return {loop<F, U, U, U>};
}

template <class I>
Loop compare_integers(ir::ComparisonPredicate p, bool is_signed) {
  using P = ir::ComparisonPredicate;
  using U = typename I::U;
  using S = typename I::S;
  using Bool = std::uint8_t;
  const bool swapped = p == P::Greater || p == P::GreaterEqual;
  switch (p) {
    case P::Equal: return {loop<CmpIOp<P::Equal, U>, Bool, U, U>};
    case P::NotEqual: return {loop<CmpIOp<P::NotEqual, U>, Bool, U, U>};
    case P::Less:
    case P::Greater:
      return {.loop = is_signed ? loop<CmpIOp<P::Less, S>, Bool, S, S> : loop<CmpIOp<P::Less, U>, Bool, U, U>,
              .swapped = swapped};
    case P::LessEqual:
    case P::GreaterEqual:
      return {.loop = is_signed ? loop<CmpIOp<P::LessEqual, S>, Bool, S, S> : loop<CmpIOp<P::LessEqual, U>, Bool, U, U>,
              .swapped = swapped};
  }
  return {};
}

template <class I>
Loop divide_integers(const ElementOp& op) {
  using U = typename I::U;
  const bool up = op.rounding == ir::Rounding::PositiveInf, down = op.rounding == ir::Rounding::NegativeInf;
  if (op.op == Op::RemI)
    return op.is_signed ? binary_integer<RemIOp<I, true>, U>() : binary_integer<RemIOp<I, false>, U>();
  if (!op.is_signed)
    return up ? binary_integer<DivIOp<I, false, Toward::Positive>, U>()
              : binary_integer<DivIOp<I, false, Toward::Zero>, U>();
  if (up) return binary_integer<DivIOp<I, true, Toward::Positive>, U>();
  return down ? binary_integer<DivIOp<I, true, Toward::Negative>, U>()
              : binary_integer<DivIOp<I, true, Toward::Zero>, U>();
}

template <class I>
Loop integer_of(const ElementOp& op) {
  using U = typename I::U;
  const bool s = op.is_signed;
  switch (op.op) {
    case Op::AbsI: return {loop<AbsIOp<I>, U, U>};
    case Op::NegI: return {loop<NegIOp<I>, U, U>};
    case Op::AddI: return binary_integer<AddIOp<I>, U>();
    case Op::SubI: return binary_integer<SubIOp<I>, U>();
    case Op::MulI: return binary_integer<MulIOp<I>, U>();
    case Op::MulhiI: return binary_integer<MulhiIOp<I>, U>();
    case Op::AndI: return binary_integer<AndIOp<I>, U>();
    case Op::OrI: return binary_integer<OrIOp<I>, U>();
    case Op::XOrI: return binary_integer<XOrIOp<I>, U>();
    case Op::MaxI: return s ? binary_integer<MaxSOp<I>, U>() : binary_integer<MaxUOp<I>, U>();
    case Op::MinI: return s ? binary_integer<MinSOp<I>, U>() : binary_integer<MinUOp<I>, U>();
    case Op::ShLI: return binary_integer<ShLIOp<I>, U>();
    case Op::ShRI: return s ? binary_integer<ShRSOp<I>, U>() : binary_integer<ShRUOp<I>, U>();
    case Op::DivI:
    case Op::RemI:
      if constexpr (I::bits > 8) return divide_integers<I>(op);
      return {};
    case Op::CmpI: return compare_integers<I>(op.predicate, s);
    default: return {};
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
