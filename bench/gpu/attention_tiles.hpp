// The library's attention by extents of its tiles.
#pragma once
#include <cstdint>
#include <string>

#include "tessera/tessera.hpp"

namespace gpu_bench {

using namespace tessera;

/// Enqueues o = attention(q, k, v) with the given scale.
using AttentionLaunch = void (*)(Tensor<bf16, 4>& o, const Tensor<bf16, 4>& q, const Tensor<bf16, 4>& k,
                                 const Tensor<bf16, 4>& v, float scale, const Stream& on);

/// For a depth and tiles of queries by keys, "64x128". std::runtime_error if there is none.
AttentionLaunch attention_of_tile(std::int64_t d, bool causal, const std::string& tile);

}  // namespace gpu_bench
