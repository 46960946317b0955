// What the decoders of Hugging Face transformers have in common in their config.json: names, bounds, spellings.
#pragma once
#include <optional>

#include "files/json_file.hpp"
#include "mortar/config.hpp"

namespace mortar::architectures {

/// What a config.json of an architecture may leave out.
struct Defaults {
  bool own_keys = false;                ///< without num_key_value_heads, every head has its own key
  std::optional<std::int64_t> head_dim; /**< none: hidden_size / num_attention_heads */
  std::int64_t context = 32768;         ///< max_position_embeddings
};

/// Sizes, attention with its rotation, dense MLP, norms and ids; RoPE scaling of each supported kind. The scale of
/// attention is 1 / sqrt(head_dim). Throws ModelError for fields that are missing, out of bounds or not supported.
ModelSpec read_decoder(const files::Fields& config, const Defaults& defaults);
/// The mixture of experts of Qwen3 and its like.
ExpertSpec read_experts(const files::Fields& config, std::int64_t layers);
/// quantization_config: FP8, if there is one. To be called last, because it depends on all sizes.
void read_quantization(const files::Fields& config, ModelSpec& spec);

}  // namespace mortar::architectures
