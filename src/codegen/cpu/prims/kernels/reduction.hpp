// Reductions of contiguous rows. Every combination is the operation itself, rounded to the element each time; what is
// free is the association, which depends on n only: kLanes interleaved partial results are combined by halves.
// reduce.cpp has everything else about reductions, and this for the operations that have no loop of their own here.
#pragma once
#include "codegen/cpu/prims/kernels/arithmetic.hpp"
#include "codegen/cpu/prims/kernels/integer.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

/// A combining operation on integers as stored: no conversion.
template <class F, class U>
struct DirectCombine {
  using Element = U;
  using Work = U;
  static constexpr bool direct = true;
  static TESSERA_OUTLINED void combine(Work* acc, const Work* x, i64 n) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) acc[i] = F::apply(acc[i], x[i]);
  }
  template <i64 n>
  static TESSERA_INLINED void combine_fixed(Work* acc, const Work* x) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) acc[i] = F::apply(acc[i], x[i]);
  }
  static Work one(Work acc, Work x) { return F::apply(acc, x); }
  static const Work* load(Work*, const Element* from, i64) { return from; }
  static void store(Element* to, const Work* from, i64 n) {
    for (i64 i = 0; i < n; ++i) to[i] = from[i];
  }
};

/// f32 and f64, computed as stored; f16 and bf16, computed in f32 and rounded each time.
template <class F, Elem e>
struct FloatCombine {
  using Fmt = Float<e>;
  using Work = typename Fmt::Compute;
  static constexpr bool direct = Fmt::direct;
  using Element = std::conditional_t<direct, Work, typename Fmt::U>;

  static Work rounded(Work v) {
    if constexpr (direct)
      return v;
    else
      return Fmt::load_one(Fmt::store_one(v));
  }
  static TESSERA_OUTLINED void combine(Work* acc, const Work* x, i64 n) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) acc[i] = rounded(F::apply(acc[i], x[i]));
  }
  template <i64 n>
  static TESSERA_INLINED void combine_fixed(Work* acc, const Work* x) {
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < n; ++i) acc[i] = rounded(F::apply(acc[i], x[i]));
  }
  static Work one(Work acc, Work x) { return rounded(F::apply(acc, x)); }
  static const Work* load(Work* buffer, const Element* from, i64 n) {
    if constexpr (direct) {
      return from;
    } else {
      Fmt::load(buffer, from, n);
      return buffer;
    }
  }
  static void store(Element* to, const Work* from, i64 n) {
    if constexpr (direct) {
      for (i64 i = 0; i < n; ++i) to[i] = from[i];
    } else {
      Fmt::store(to, from, n);
    }
  }
};

/// Combines `count` partial results by halves into the first.
template <class Op>
TESSERA_OUTLINED void combine_halves(typename Op::Work* lanes, i64 count) {
  while (count > 1) {
    const i64 half = (count + 1) / 2;
    Op::combine(lanes, lanes + half, count - half);
    count = half;
  }
}

/// What a combining operation is, if it is an extremum: the larger or smaller of two numbers as one instruction has it.
template <class Op>
struct Extremum {
  static constexpr bool is = false;
};
template <bool maximum, Elem e>
struct Extremum<FloatCombine<ExtremumOp<maximum, false, false>, e>> {
  static constexpr bool is = true;
  using W = typename FloatCombine<ExtremumOp<maximum, false, false>, e>::Work;
  static constexpr W identity = maximum ? -__builtin_huge_val() : __builtin_huge_val();
  /// acc where x is NaN, and where both are zeros.
  static TESSERA_INLINED W pick(W acc, W x) { return (maximum ? x > acc : x < acc) ? x : acc; }
};

/// The extremum of a row with one instruction per vector. It is right unless all elements are NaN or the identity, or
/// it is a zero, of which the sign is then unknown: false, and nothing is written.
template <class Op>
bool extremum_row(typename Op::Element* dst, const typename Op::Element* src, i64 n) {
  using X = Extremum<Op>;
  using W = typename Op::Work;
  alignas(64) W lanes[kLanes], buffer[Op::direct ? 1 : kLanes];
  for (i64 i = 0; i < kLanes; ++i) lanes[i] = X::identity;
  i64 at = 0;
  for (; at + kLanes <= n; at += kLanes) {
    const W* x = Op::load(buffer, src + at, kLanes);
    TESSERA_INDEPENDENT
    for (i64 i = 0; i < kLanes; ++i) lanes[i] = X::pick(lanes[i], x[i]);
  }
  if (at < n) {
    const W* x = Op::load(buffer, src + at, n - at);
    for (i64 i = 0; i < n - at; ++i) lanes[i] = X::pick(lanes[i], x[i]);
  }
  for (i64 half = kLanes / 2; half > 0; half /= 2)
    for (i64 i = 0; i < half; ++i) lanes[i] = X::pick(lanes[i], lanes[i + half]);
  if (lanes[0] == W{0} || lanes[0] == X::identity) return false;
  W initial;
  initial = *Op::load(&initial, dst, 1);
  const W result = Op::one(initial, lanes[0]);
  Op::store(dst, &result, 1);
  return true;
}

/// One row of n contiguous elements; `dst` is one element.
template <class Op>
void reduce_row(typename Op::Element* dst, const typename Op::Element* src, i64 n) {
  using W = typename Op::Work;
  if constexpr (Extremum<Op>::is)
    if (n >= kLanes && extremum_row<Op>(dst, src, n)) return;
  alignas(64) W lanes[kLanes], buffer[Op::direct ? 1 : kLanes];
  const i64 count = n < kLanes ? n : kLanes;
  const W* first = Op::load(buffer, src, count);
  for (i64 i = 0; i < count; ++i) lanes[i] = first[i];
  i64 at = count;
  for (; at + kLanes <= n; at += kLanes) Op::template combine_fixed<kLanes>(lanes, Op::load(buffer, src + at, kLanes));
  if (at < n) Op::combine(lanes, Op::load(buffer, src + at, n - at), n - at);
  if (count == kLanes) {
    Op::template combine_fixed<32>(lanes, lanes + 32);
    Op::template combine_fixed<16>(lanes, lanes + 16);
    Op::template combine_fixed<8>(lanes, lanes + 8);
    Op::template combine_fixed<4>(lanes, lanes + 4);
    Op::template combine_fixed<2>(lanes, lanes + 2);
    lanes[0] = Op::one(lanes[0], lanes[1]);
  } else {
    combine_halves<Op>(lanes, count);
  }
  W initial;
  initial = *Op::load(&initial, dst, 1);
  const W result = Op::one(initial, lanes[0]);
  Op::store(dst, &result, 1);
}

template <class Op>
void row(void* acc, const void* src, i64 n) {
  using E = typename Op::Element;
  reduce_row<Op>(static_cast<E*>(acc), static_cast<const E*>(src), n);
}

template <class I>
RowFn integer_row(const ElementOp& op) {
  using U = typename I::U;
  const bool s = op.is_signed;
  switch (op.op) {
    case Op::AddI: return row<DirectCombine<AddIOp<I>, U>>;
    case Op::AndI: return row<DirectCombine<AndIOp<I>, U>>;
    case Op::OrI: return row<DirectCombine<OrIOp<I>, U>>;
    case Op::MaxI: return s ? row<DirectCombine<MaxSOp<I>, U>> : row<DirectCombine<MaxUOp<I>, U>>;
    case Op::MinI: return s ? row<DirectCombine<MinSOp<I>, U>> : row<DirectCombine<MinUOp<I>, U>>;
    default: return nullptr;
  }
}

template <Elem e>
RowFn float_row(const ElementOp& op) {
  switch (op.op) {
    case Op::AddF: return row<FloatCombine<AddFOp<false>, e>>;
    case Op::MulF: return row<FloatCombine<MulFOp<false>, e>>;
    default: return nullptr;
  }
}
template <Elem e>
RowFn extremum_row_of(const ElementOp& op) {
  switch (op.op) {
    case Op::MaxF:
      return op.propagate_nan ? row<FloatCombine<ExtremumOp<true, true, false>, e>>
                              : row<FloatCombine<ExtremumOp<true, false, false>, e>>;
    case Op::MinF:
      return op.propagate_nan ? row<FloatCombine<ExtremumOp<false, true, false>, e>>
                              : row<FloatCombine<ExtremumOp<false, false, false>, e>>;
    default: return float_row<e>(op);
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
