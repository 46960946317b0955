// Unsafe twins: the measured kernels without bounds checks (unsafe_::assume_inbounds), valid only if the extents
// divide. The difference in time is the price of safety; tests/kernels/programs/unsafe_twins_test.cpp compares the two
// programs without a GPU.
#pragma once
#include "kernels.hpp"

namespace gpu_bench {

using unsafe_::assume_inbounds;

template <int N>
void unsafe_softmax(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  softmax<N>(assume_inbounds(y), assume_inbounds(x));
}

template <class T, int BM, int BN, int BK>
void unsafe_gemm(MutTiles<T, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  gemm<T, T, BM, BN, BK>(assume_inbounds(c), assume_inbounds(a), assume_inbounds(b));
}

template <bool Causal, int BM, int BN, int D>
void unsafe_attention(Mut<bf16, 1, 1, BM, D> o, In<bf16, dyn, dyn, dyn, D> q, In<bf16, dyn, dyn, dyn, D> k,
                      In<bf16, dyn, dyn, dyn, D> v, Scalar<f32> scale) {
  attention<Causal, BM, BN, D>(assume_inbounds(o), assume_inbounds(q), assume_inbounds(k), assume_inbounds(v), scale);
}

}  // namespace gpu_bench
