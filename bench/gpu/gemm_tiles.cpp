// Further tiles of bf16 products, for sweeps.
#include "gemm.hpp"

namespace gpu_bench {
namespace {

template <int BM, int BN>
void add(Launch& launch, const std::string& tile, const std::shared_ptr<GemmOperands<bf16, bf16>>& g) {
  if (tile != std::to_string(BM) + "x" + std::to_string(BN) + "x64") return;
  launch = [g](int s, const Stream& on) {
    kernel<kernels::gemm_tiles<kernels::epilogues::Plain, bf16, 64, bf16, bf16, BM, BN>>(mut(g->c[s]), g->left(s),
                                                                                         g->right(s))
        .on(on);
  };
}

}  // namespace

Launch more_tiles(const std::string& tile, std::shared_ptr<GemmOperands<bf16, bf16>> g) {
  Launch launch;
  add<64, 64>(launch, tile, g);
  add<64, 160>(launch, tile, g);
  add<64, 192>(launch, tile, g);
  add<128, 64>(launch, tile, g);
  add<128, 80>(launch, tile, g);
  add<128, 96>(launch, tile, g);
  add<128, 160>(launch, tile, g);
  add<128, 192>(launch, tile, g);
  add<128, 256>(launch, tile, g);
  add<256, 80>(launch, tile, g);
  add<256, 96>(launch, tile, g);
  add<256, 160>(launch, tile, g);
  add<256, 192>(launch, tile, g);
  return launch;
}

}  // namespace gpu_bench
