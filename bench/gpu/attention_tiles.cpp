// The library's attention with other tiles than its host function chooses, for sweeps (sweep.py).
#include "attention_tiles.hpp"

#include <stdexcept>

#include "tessera/kernels/attention.hpp"

namespace gpu_bench {
namespace {

using kernels::AttentionMask;

template <AttentionMask Mask, int BM, int BN, int D, bool Running, bool Straight>
void launch(Tensor<bf16, 4>& o, const Tensor<bf16, 4>& q, const Tensor<bf16, 4>& k, const Tensor<bf16, 4>& v,
            float scale, const Stream& on) {
  kernel<kernels::attention_forward<Mask, bf16, BM, BN, D, Running, Straight>>(mut(o), q, k, v, scale, 0).on(on);
}

struct Row {
  std::int64_t d;
  const char* tile;
  AttentionLaunch full, causal;
};
template <int D, int BM, int BN, bool Running = false, bool Straight = false>
constexpr Row row(const char* tile) {
  return {D, tile, launch<AttentionMask::Full, BM, BN, D, Running, Straight>,
          launch<AttentionMask::Causal, BM, BN, D, Running, Straight>};
}
constexpr Row kRows[] = {row<64, 64, 128>("64x128"),
                         row<64, 128, 128>("128x128"),
                         row<64, 64, 64>("64x64"),
                         row<128, 64, 128>("64x128"),
                         row<128, 128, 128>("128x128"),
                         row<128, 64, 64>("64x64"),
                         row<256, 128, 128>("128x128"),
                         row<256, 128, 64>("128x64"),
                         row<256, 64, 128>("64x128"),
                         row<64, 64, 128, true>("64x128max"),
                         row<128, 64, 128, true>("64x128max"),
                         row<256, 128, 128, true>("128x128max"),
                         row<64, 64, 128, false, true>("64x128straight"),
                         row<64, 64, 64, false, true>("64x64straight"),
                         row<128, 64, 128, false, true>("64x128straight"),
                         row<128, 64, 64, false, true>("64x64straight")};

}  // namespace

AttentionLaunch attention_of_tile(std::int64_t d, bool causal, const std::string& tile) {
  for (const Row& r : kRows)
    if (r.d == d && tile == r.tile) return causal ? r.causal : r.full;
  throw std::runtime_error(
      "no such tile for this d: 64x64, 64x128, 128x64, 128x128; 64x128max, 128x128max; 64x64straight, 64x128straight");
}

}  // namespace gpu_bench
