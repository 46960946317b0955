// Arithmetic of f32 whose first operand is a narrow float in memory: it is converted in the register that the
// operation takes it from, so a tile that is only loaded, widened and multiplied is read once.
#include "codegen/cpu/prims/kernels/arithmetic.hpp"
#include "codegen/cpu/prims/kernels/wide_load.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {
namespace {

TESSERA_INLINED Wide apply_wide(FmaOp<false>, Wide a, const float* b, const float* c) {
  return fused_wide(a, load_wide(b), load_wide(c));
}
TESSERA_INLINED Wide apply_wide(MulFOp<false>, Wide a, const float* b, const float*) { return a * load_wide(b); }
TESSERA_INLINED Wide apply_wide(AddFOp<false>, Wide a, const float* b, const float*) { return a + load_wide(b); }

/// out[i] = F(a[i] as f32, b[i], c[i]). A LoopFn.
template <class F, Elem e>
void widening_loop(void* to, const void* x, const void* y, [[maybe_unused]] const void* z, i64 n) {
  constexpr bool three = __is_same(F, FmaOp<false>);
  auto* out = static_cast<float*>(to);
  auto* a = static_cast<const typename Float<e>::U*>(x);
  auto *b = static_cast<const float*>(y), *c = static_cast<const float*>(z);
  const auto element = [&](i64 i) __attribute__((always_inline)) {
    const float wide = Float<e>::load_one(a[i]);
    if constexpr (three)
      out[i] = F::apply(wide, b[i], c[i]);
    else
      out[i] = F::apply(wide, b[i]);
  };
  i64 i = 0;
  if constexpr (WideLoad<e>::exists) {
    constexpr i64 group = kOddLanes;
    for (; i + group <= n; i += group) {
      if (WideLoad<e>::is_odd(a + i)) [[unlikely]] {
        for (i64 k = i; k < i + group; ++k) element(k);
      } else {
        for (i64 k = i; k < i + group; k += kWideLanes)
          store_wide(out + k, apply_wide(F{}, WideLoad<e>::load(a + k), b + k, three ? c + k : nullptr));
      }
    }
  }
  TESSERA_INDEPENDENT
  for (; i < n; ++i) element(i);
}

template <Elem e>
LoopFn widening_of(Op op) {
  switch (op) {
    case Op::Fma: return widening_loop<FmaOp<false>, e>;
    case Op::MulF: return widening_loop<MulFOp<false>, e>;
    case Op::AddF: return widening_loop<AddFOp<false>, e>;
    default: return nullptr;
  }
}

}  // namespace

LoopFn widening(Op op, Elem from) {
  switch (from) {
    case Elem::F16: return widening_of<Elem::F16>(op);
    case Elem::BF16: return widening_of<Elem::BF16>(op);
    case Elem::F8E4M3FN: return widening_of<Elem::F8E4M3FN>(op);
    case Elem::F8E5M2: return widening_of<Elem::F8E5M2>(op);
    default: return nullptr;
  }
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
