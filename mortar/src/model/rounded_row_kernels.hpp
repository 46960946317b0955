// Rows that become inputs of products of FP8 by FP8: what computes them also rounds them, with a scale for each 128
// elements of a row, so that they are not written and read in bf16 between. Each rounds to bf16 first: the results are
// those of the separate kernels.
#pragma once
#include "model/kernels.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"

namespace mortar {

/// RMS norm of a row. The row is in one tile of N elements.
template <int N>
void rounded_norm(Mut<f8e4m3, 1, N> y, Mut<f32, 1, N / kernels::kScaleBlock> scale, In<bf16, dyn, dyn> x,
                  In<bf16, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  constexpr int blocks = N / kernels::kScaleBlock;
  auto t = cast<f32>(x.load_like(y));
  auto inverse = rsqrt(sum(t * t, axis<1>) / cast<f32>(x.dim(1)) + eps);
  auto normed = rounded(t * inverse * cast<f32>(weight.load_like(y, axes<1>)));
  auto parts = reshape(normed, shape<blocks, kernels::kScaleBlock>);
  auto s = kernels::scale_of<f8e4m3>(max(abs(parts), axis<1>));
  y.store(reshape(cast<f8e4m3>(parts / s), shape<1, N>));
  scale.store(reshape(s, shape<1, blocks>));
}

/// silu(gate) * up of R rows and 128 columns.
template <int R>
void rounded_gates(Mut<f8e4m3, R, kernels::kScaleBlock> y, Mut<f32, R, 1> scale, In<bf16, dyn, dyn> gate,
                   In<bf16, dyn, dyn> up) {
  auto t = rounded(kernels::functions::Silu{}(cast<f32>(gate.load_like(y))) * cast<f32>(up.load_like(y)));
  auto s = kernels::scale_of<f8e4m3>(max(abs(t), axis<1>));
  y.store(cast<f8e4m3>(t / s));
  scale.store(s);
}

}  // namespace mortar
