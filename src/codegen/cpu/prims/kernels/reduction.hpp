// Reductions and scans of [outer, n, inner] along n. Every combination is the operation itself, rounded to the element
// each time; what is free is the association, which depends on n and inner only: along the last axis, kLanes
// interleaved partial results are combined by halves; along any other axis, left to right.
#pragma once
#include "codegen/cpu/prims/kernels/arithmetic.hpp"
#include "codegen/cpu/prims/kernels/integer.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

inline constexpr i64 kLanes = 64;

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

/// dst[0..inner) combined with n rows of `inner` elements, a chunk of columns at a time.
template <class Op>
void reduce_rows(typename Op::Element* dst, const typename Op::Element* src, i64 n, i64 inner) {
  using W = typename Op::Work;
  for (i64 at = 0; at < inner; at += kChunk) {
    const i64 width = inner - at < kChunk ? inner - at : kChunk;
    alignas(64) W acc[kChunk], buffer[Op::direct ? 1 : kChunk];
    const W* initial = Op::load(acc, dst + at, width);
    if (initial != acc)
      for (i64 i = 0; i < width; ++i) acc[i] = initial[i];
    for (i64 r = 0; r < n; ++r) Op::combine(acc, Op::load(buffer, src + r * inner + at, width), width);
    Op::store(dst + at, acc, width);
  }
}

template <class Op>
void reduce_all(void* dst, const void* src, i64 outer, i64 n, i64 inner) {
  using E = typename Op::Element;
  auto* to = static_cast<E*>(dst);
  auto* from = static_cast<const E*>(src);
  if (n == 0) return;
  for (i64 o = 0; o < outer; ++o) {
    if (inner == 1)
      reduce_row<Op>(to + o, from + o * n, n);
    else
      reduce_rows<Op>(to + o * inner, from + o * n * inner, n, inner);
  }
}

/// A contiguous row: one serial chain.
template <class Op>
void scan_row(typename Op::Element* dst, const typename Op::Element* src, typename Op::Work acc, i64 n, bool reverse) {
  using W = typename Op::Work;
  for (i64 done = 0; done < n;) {
    const i64 width = n - done < kChunk ? n - done : kChunk, at = reverse ? n - done - width : done;
    alignas(64) W buffer[kChunk];
    const W* x = Op::load(buffer, src + at, width);
    for (i64 k = 0; k < width; ++k) {
      const i64 i = reverse ? width - 1 - k : k;
      buffer[i] = acc = Op::one(acc, x[i]);
    }
    Op::store(dst + at, buffer, width);
    done += width;
  }
}

/// n rows of `inner` elements, a chunk of columns at a time.
template <class Op>
void scan_rows(typename Op::Element* dst, const typename Op::Element* src, typename Op::Work start, i64 n, i64 inner,
               bool reverse) {
  using W = typename Op::Work;
  for (i64 at = 0; at < inner; at += kChunk) {
    const i64 width = inner - at < kChunk ? inner - at : kChunk;
    alignas(64) W acc[kChunk], buffer[Op::direct ? 1 : kChunk];
    for (i64 i = 0; i < width; ++i) acc[i] = start;
    for (i64 k = 0; k < n; ++k) {
      const i64 row = (reverse ? n - 1 - k : k) * inner + at;
      Op::combine(acc, Op::load(buffer, src + row, width), width);
      Op::store(dst + row, acc, width);
    }
  }
}

template <class Op>
void scan_all(void* dst, const void* src, const void* identity, i64 outer, i64 n, i64 inner, bool reverse) {
  using E = typename Op::Element;
  typename Op::Work start;
  start = *Op::load(&start, static_cast<const E*>(identity), 1);
  auto* to = static_cast<E*>(dst);
  auto* from = static_cast<const E*>(src);
  for (i64 o = 0; o < outer; ++o, to += n * inner, from += n * inner) {
    if (inner == 1)
      scan_row<Op>(to, from, start, n, reverse);
    else
      scan_rows<Op>(to, from, start, n, inner, reverse);
  }
}

/// What an operation is given as: a reduction or a scan.
struct Primitives {
  ReduceFn reduce;
  ScanFn scan;
};
template <class Op>
Primitives both() {
  return {reduce_all<Op>, scan_all<Op>};
}

template <class I>
Primitives combine_integers(const ElementOp& op) {
  using U = typename I::U;
  const bool s = op.is_signed;
  switch (op.op) {
    case Op::AddI: return both<DirectCombine<AddIOp<I>, U>>();
    case Op::MulI: return both<DirectCombine<MulIOp<I>, U>>();
    case Op::AndI: return both<DirectCombine<AndIOp<I>, U>>();
    case Op::OrI: return both<DirectCombine<OrIOp<I>, U>>();
    case Op::XOrI: return both<DirectCombine<XOrIOp<I>, U>>();
    case Op::MaxI: return s ? both<DirectCombine<MaxSOp<I>, U>>() : both<DirectCombine<MaxUOp<I>, U>>();
    case Op::MinI: return s ? both<DirectCombine<MinSOp<I>, U>>() : both<DirectCombine<MinUOp<I>, U>>();
    default: return {};
  }
}

template <Elem e, bool ftz>
Primitives combine_floats_with(const ElementOp& op) {
  switch (op.op) {
    case Op::AddF: return both<FloatCombine<AddFOp<ftz>, e>>();
    case Op::MulF: return both<FloatCombine<MulFOp<ftz>, e>>();
    case Op::MaxF:
      return op.propagate_nan ? both<FloatCombine<ExtremumOp<true, true, ftz>, e>>()
                              : both<FloatCombine<ExtremumOp<true, false, ftz>, e>>();
    case Op::MinF:
      return op.propagate_nan ? both<FloatCombine<ExtremumOp<false, true, ftz>, e>>()
                              : both<FloatCombine<ExtremumOp<false, false, ftz>, e>>();
    default: return {};
  }
}
template <Elem e>
Primitives combine_floats(const ElementOp& op) {
  if (is_directed(op.rounding)) return {};
  if constexpr (e == Elem::F32)
    if (op.flush_to_zero) return combine_floats_with<e, true>(op);
  return combine_floats_with<e, false>(op);
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
