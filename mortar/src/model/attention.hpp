// Attention over the paged cache: the launches of Mortar's kernels and of the library's paged attention.
#pragma once
#include "model/decoder.hpp"

namespace mortar {

/// Cosine and sine of the rotation of each of the step's tokens, [tokens, 2, head_dim / 2].
tessera::Op<tessera::Tensor<tessera::f32, 3>> rotation_of(const Network& net, const Step& step);

/// What is between the projections of layer number `layer`: normalises and rotates the queries and keys of qkv,
/// [tokens, (heads + 2 kv_heads) * head_dim], writes keys and values into their slots, and gives the attention of the
/// queries over their sequences, [tokens, heads * head_dim]. `rotation`: from rotation_of.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> attention(const Network& net, std::size_t layer, KvCache& cache,
                                                           const Step& step,
                                                           const tessera::Tensor<tessera::f32, 3>& rotation,
                                                           const tessera::Tensor<tessera::bf16, 2>& qkv);

}  // namespace mortar
