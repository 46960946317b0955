// Further tiles of bf16 products, for sweeps: persistent, one tile per block, swapped operands, and split-K.
#include "gemm.hpp"

namespace gpu_bench {
namespace {

using Operands = std::shared_ptr<GemmOperands<bf16, bf16>>;
using kernels::epilogues::Plain;

template <int BM, int BN>
Launch launch_of(const MoreTiles& how, const Operands& g) {
  constexpr int BK = 64;
  if (how.parts > 1)
    return [g, parts = how.parts](int s, const Stream& on) {
      auto sums = kernel<kernels::partial_products<bf16, BK, f32, bf16, BM, BN>>(empty<f32>(Dims<3>(parts, g->m, g->n)),
                                                                                 g->left(s), g->right(s));
      const kernels::Fused<Plain> plain;
      const Dims<2> dims(g->m, g->n);
      g->c[s] = kernels::sum_parts_of<bf16>(std::move(sums), dims, parts, plain, SourceLocation::current()).on(on);
    };
  if (how.blocks)
    return [g](int s, const Stream& on) {
      kernel<kernels::gemm_tile<Plain, bf16, BK, bf16, bf16, BM, BN>>(mut(g->c[s]), g->left(s), g->right(s)).on(on);
    };
  return [g](int s, const Stream& on) {
    kernel<kernels::gemm_tiles<Plain, bf16, BK, bf16, bf16, BM, BN>>(mut(g->c[s]), g->left(s), g->right(s)).on(on);
  };
}

/// Rows of the piece are made of sub-tiles, and columns of b are on the left of the instruction (Operands::Swapped).
template <int BM, int BN>
Launch swapped_launch_of(const Operands& g) {
  return [g](int s, const Stream& on) {
    kernel<kernels::gemm_tile_swapped<Plain, bf16, 64, bf16, bf16, BM, BN>>(mut(g->c[s]), g->left(s), g->right(s))
        .on(on);
  };
}
template <int BN, int... BM>
void add_swapped(Launch& launch, const MoreTiles& how, const Operands& g) {
  const auto take = [&]<int M>(std::integral_constant<int, M>) {
    if (how.tile == std::to_string(M) + "x" + std::to_string(BN) + "x64") launch = swapped_launch_of<M, BN>(g);
  };
  (take(std::integral_constant<int, BM>{}), ...);
}

template <int BM, int... BN>
void add(Launch& launch, const MoreTiles& how, const Operands& g) {
  const auto take = [&]<int N>(std::integral_constant<int, N>) {
    if (how.tile == std::to_string(BM) + "x" + std::to_string(N) + "x64") launch = launch_of<BM, N>(how, g);
  };
  (take(std::integral_constant<int, BN>{}), ...);
}

}  // namespace

Launch more_tiles(const MoreTiles& how, Operands g) {
  Launch launch;
  if (how.swapped) {
    add_swapped<128, 96, 144, 176, 192, 208, 224, 256>(launch, how, g);
    add_swapped<256, 96, 128, 160, 192, 208>(launch, how, g);
    return launch;
  }
  add<64, 64, 80, 96, 128, 160, 192, 256>(launch, how, g);
  add<128, 64, 80, 96, 128, 144, 160, 192, 224, 256, 288, 320>(launch, how, g);
  add<256, 80, 96, 128, 160, 192, 224, 256, 272, 288, 320>(launch, how, g);
  return launch;
}

}  // namespace gpu_bench
