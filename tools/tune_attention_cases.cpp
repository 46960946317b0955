// Attention forward: tiles of queries and keys.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tessera/base/format.hpp"
#include "tessera/kernels/attention.hpp"
#include "tune_cases.hpp"

namespace tessera {
namespace {

using kernels::AttentionMask;

constexpr const char* kAttentionHints = "warps=4,8 occupancy=1,2 pipeline=0,1";

template <AttentionMask Mask, int D>
TuningReport tune_with(const measure::Args& args, const TuneOptions& o) {
  using kernels::attention_forward;
  const std::int64_t length = args.number("length", 8192),
                     batch = args.number("batch", std::max<std::int64_t>(1, 16384 / length)),
                     heads = args.number("heads", 2048 / D);
  const auto tiles = space("attention", kAttentionHints, candidate<attention_forward<Mask, bf16, 64, 128, D>>("64x128"),
                           candidate<attention_forward<Mask, bf16, 128, 128, D>>("128x128"),
                           candidate<attention_forward<Mask, bf16, 64, 64, D>>("64x64"),
                           candidate<attention_forward<Mask, bf16, 128, 64, D>>("128x64"));
  const Dims<4> dims(batch, heads, length, std::int64_t{D});
  const auto q = tune_input<bf16>(o, dims, 1), k = tune_input<bf16>(o, dims, 2), v = tune_input<bf16>(o, dims, 3);
  auto out = empty<bf16>(dims).sync();
  const float scale = 1.0f / std::sqrt(static_cast<float>(D));
  return tune(tiles, o, mut(out), q, k, v, scale, 0);
}

TuningReport tune_attention(const measure::Args& args, TuneOptions o) {
  const bool causal = args.number("causal", 1) != 0;
  const std::int64_t d = args.number("d", 128);
  if (o.first.empty()) o.first = d >= 256 ? "128x128" : "64x128";  // as kernels::attention chooses
  switch (d) {
    case 64:
      return causal ? tune_with<AttentionMask::Causal, 64>(args, o) : tune_with<AttentionMask::Full, 64>(args, o);
    case 128:
      return causal ? tune_with<AttentionMask::Causal, 128>(args, o) : tune_with<AttentionMask::Full, 128>(args, o);
    case 256:
      return causal ? tune_with<AttentionMask::Causal, 256>(args, o) : tune_with<AttentionMask::Full, 256>(args, o);
    default: throw std::runtime_error(concat("d must be 64, 128 or 256, found ", d));
  }
}

}  // namespace

std::vector<TuneCase> tune_attention_cases() {
  return {{"attention", "length=8192 d=128 causal=1 batch=16384/length heads=2048/d (bf16)", kAttentionHints,
           tune_attention}};
}

}  // namespace tessera
