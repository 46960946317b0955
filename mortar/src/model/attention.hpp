// Attention over the paged cache: the launches of Mortar's kernels and of the library's paged attention.
#pragma once
#include "model/qwen3.hpp"

namespace mortar {

/// Normalises and rotates the queries and keys of qkv, writes keys and values into their slots: the queries
/// [tokens, heads, head_dim].
tessera::Flow<tessera::Tensor<tessera::bf16, 3>> place(const Network& net, const LayerWeights& w,
                                                       tessera::Tensor<tessera::bf16, 4>& keys,
                                                       tessera::Tensor<tessera::bf16, 4>& values, const Step& step,
                                                       const tessera::Tensor<tessera::bf16, 2>& qkv);
/// The attention of the queries over their sequences, [tokens, heads * head_dim].
tessera::Op<tessera::Tensor<tessera::bf16, 2>> attention(const Network& net,
                                                         const tessera::Tensor<tessera::bf16, 4>& keys,
                                                         const tessera::Tensor<tessera::bf16, 4>& values,
                                                         const Step& step, bool decode,
                                                         const tessera::Tensor<tessera::bf16, 3>& q);

}  // namespace mortar
