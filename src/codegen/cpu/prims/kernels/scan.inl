// Scans of rows: serial chains, compiled for one instruction set.
#include "codegen/cpu/prims/kernels/arithmetic.hpp"
#include "codegen/cpu/prims/kernels/integer.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {
namespace {

template <class F, class T>
struct Direct {
  using Element = T;
  using Work = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
  static T apply(T a, T b) { return F::apply(a, b); }
};
/// f16 and bf16: computed in f32 and rounded each time.
template <class F, Elem e>
struct Rounded {
  using Fmt = Float<e>;
  using Element = typename Fmt::U;
  using Work = float;
  static float load(Element v) { return Fmt::load_one(v); }
  static Element store(float v) { return Fmt::store_one(v); }
  static float apply(float a, float b) { return load(store(F::apply(a, b))); }
};

template <class C>
void chain(void* to, const void* from, const void* start, i64 n, bool reverse) {
  using E = typename C::Element;
  auto* dst = static_cast<E*>(to);
  auto* src = static_cast<const E*>(from);
  typename C::Work acc = C::load(*static_cast<const E*>(start));
  const i64 step = reverse ? -1 : 1;
  i64 i = reverse ? n - 1 : 0;
  for (i64 k = 0; k < n; ++k, i += step) {
    acc = C::apply(acc, C::load(src[i]));
    dst[i] = C::store(acc);
  }
}

template <class I>
ScanRowFn integer_chain(const ElementOp& op) {
  using U = typename I::U;
  const bool s = op.is_signed;
  switch (op.op) {
    case Op::AddI: return chain<Direct<AddIOp<I>, U>>;
    case Op::MulI: return chain<Direct<MulIOp<I>, U>>;
    case Op::AndI: return chain<Direct<AndIOp<I>, U>>;
    case Op::OrI: return chain<Direct<OrIOp<I>, U>>;
    case Op::XOrI: return chain<Direct<XOrIOp<I>, U>>;
    case Op::MaxI: return s ? chain<Direct<MaxSOp<I>, U>> : chain<Direct<MaxUOp<I>, U>>;
    case Op::MinI: return s ? chain<Direct<MinSOp<I>, U>> : chain<Direct<MinUOp<I>, U>>;
    default: return nullptr;
  }
}

template <template <class> class As, bool ftz>
ScanRowFn float_chain(const ElementOp& op) {
  switch (op.op) {
    case Op::AddF: return chain<As<AddFOp<ftz>>>;
    case Op::MulF: return chain<As<MulFOp<ftz>>>;
    case Op::MaxF:
      return op.propagate_nan ? chain<As<ExtremumOp<true, true, ftz>>> : chain<As<ExtremumOp<true, false, ftz>>>;
    case Op::MinF:
      return op.propagate_nan ? chain<As<ExtremumOp<false, true, ftz>>> : chain<As<ExtremumOp<false, false, ftz>>>;
    default: return nullptr;
  }
}
template <class F>
using AsF16 = Rounded<F, Elem::F16>;
template <class F>
using AsBF16 = Rounded<F, Elem::BF16>;
template <class F>
using AsF32 = Direct<F, float>;
template <class F>
using AsF64 = Direct<F, double>;

}  // namespace

ScanRowFn scan_row(const ElementOp& op) {
  switch (op.source) {
    case Elem::I1:
    case Elem::I8: return integer_chain<Int<Elem::I8>>(op);
    case Elem::I16: return integer_chain<Int<Elem::I16>>(op);
    case Elem::I32: return integer_chain<Int<Elem::I32>>(op);
    case Elem::I64: return integer_chain<Int<Elem::I64>>(op);
    case Elem::F16: return float_chain<AsF16, false>(op);
    case Elem::BF16: return float_chain<AsBF16, false>(op);
    case Elem::F32: return op.flush_to_zero ? float_chain<AsF32, true>(op) : float_chain<AsF32, false>(op);
    case Elem::F64: return float_chain<AsF64, false>(op);
    default: return nullptr;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
