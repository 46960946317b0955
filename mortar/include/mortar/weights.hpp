// The weights of a model on a device, in the layout that the kernels read: projections of one input are one matrix, so
// that a decoding step reads them in one launch. Linear weights are [outputs, inputs], row-major, as in the files.
#pragma once
#include <optional>
#include <vector>

#include "tessera/host/tensor.hpp"

namespace mortar {

/// The weights of y = x w^T. Either bf16, or FP8 with one f32 scale for each block of 128 x 128 elements.
struct Matrix {
  tessera::Tensor<tessera::bf16, 2> values;       ///< [outputs, inputs]; empty if quantized
  tessera::Tensor<tessera::f8e4m3, 2> quantized;  ///< [outputs, inputs]; empty if bf16
  tessera::Tensor<tessera::f32, 2> scales;  ///< [ceil(outputs / 128), ceil(inputs / 128)]: weight = quantized * scale
  bool is_fp8 = false;
};

/// The same for all experts of a layer.
struct ExpertMatrices {
  tessera::Tensor<tessera::bf16, 3> values;       ///< [experts, outputs, inputs]
  tessera::Tensor<tessera::f8e4m3, 3> quantized;  ///< [experts, outputs, inputs]
  tessera::Tensor<tessera::f32, 3> scales;        ///< [experts, ceil(outputs / 128), ceil(inputs / 128)]
  bool is_fp8 = false;
};

/// The MLP of a dense layer.
struct DenseMlp {
  Matrix gate_up;  ///< [2 * intermediate, hidden]: the rows of gate_proj, then those of up_proj
  Matrix down;     ///< [hidden, intermediate]
};

/// The MLP of a layer with a mixture of experts.
struct ExpertMlp {
  tessera::Tensor<tessera::bf16, 2> router;  ///< [experts, hidden]; bf16 in FP8 checkpoints too
  ExpertMatrices gate_up;                    ///< [experts, 2 * moe_intermediate, hidden], as DenseMlp::gate_up
  ExpertMatrices down;                       ///< [experts, hidden, moe_intermediate]
};

struct LayerWeights {
  tessera::Tensor<tessera::bf16, 1> attention_norm;  ///< input_layernorm, [hidden]
  tessera::Tensor<tessera::bf16, 1> mlp_norm;        ///< post_attention_layernorm, [hidden]
  tessera::Tensor<tessera::bf16, 1> query_norm;      ///< [head_dim]; empty if heads have no norms
  tessera::Tensor<tessera::bf16, 1> key_norm;        ///< as query_norm
  Matrix qkv;     ///< [(heads + 2 * kv_heads) * head_dim, hidden]: all query heads, key heads, value heads
  Matrix output;  ///< o_proj, [hidden, heads * head_dim]
  std::optional<DenseMlp> dense;  ///< exactly one of these two
  std::optional<ExpertMlp> experts;
};

struct Weights {
  tessera::Tensor<tessera::bf16, 2> embedding;  ///< [vocabulary, hidden]
  tessera::Tensor<tessera::bf16, 1> final_norm;
  tessera::Tensor<tessera::bf16, 2> lm_head;  ///< [vocabulary, hidden]; empty if tied: then the embedding is used
  bool tied = false;
  std::vector<LayerWeights> layers;

  const tessera::Tensor<tessera::bf16, 2>& head() const { return tied ? embedding : lm_head; }
};

}  // namespace mortar
