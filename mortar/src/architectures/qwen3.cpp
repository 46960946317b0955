// Qwen3, dense and with a mixture of experts (Yang et al. 2025, "Qwen3 Technical Report"): queries and keys have norms.
#include "architectures/architecture.hpp"
#include "architectures/decoder_fields.hpp"
#include "files/tensor_table.hpp"

namespace mortar::architectures {
namespace {

using enum files::Elements;
using enum files::Extent;
using enum files::Role;
using enum files::Where;
using files::columns_by;
using files::kReplicated;
using files::rows_by;
using files::Unit;

// clang-format off
constexpr files::TensorRow kQwen3Rows[] = {
  // name                                                role           rows                columns             elements where         ranks have
  {"model.embed_tokens",                                  Embedding,     Vocabulary,         Hidden,             Bf16,   Always,       rows_by(Unit::Vocabulary)},
  {"model.layers.{layer}.input_layernorm",                AttentionNorm, One,                Hidden,             Bf16,   Always,       kReplicated},
  {"model.layers.{layer}.post_attention_layernorm",       MlpNorm,       One,                Hidden,             Bf16,   Always,       kReplicated},
  {"model.layers.{layer}.self_attn.q_norm",               QueryNorm,     One,                HeadDim,            Bf16,   Always,       kReplicated},
  {"model.layers.{layer}.self_attn.k_norm",               KeyNorm,       One,                HeadDim,            Bf16,   Always,       kReplicated},
  {"model.layers.{layer}.self_attn.q_proj",               Qkv,           Queries,            Hidden,             Linear, Always,       rows_by(Unit::Head)},
  {"model.layers.{layer}.self_attn.k_proj",               Qkv,           Keys,               Hidden,             Linear, Always,       rows_by(Unit::KvHead)},
  {"model.layers.{layer}.self_attn.v_proj",               Qkv,           Keys,               Hidden,             Linear, Always,       rows_by(Unit::KvHead)},
  {"model.layers.{layer}.self_attn.o_proj",               Output,        Hidden,             Queries,            Linear, Always,       columns_by(Unit::Head)},
  {"model.layers.{layer}.mlp.gate_proj",                  GateUp,        Intermediate,       Hidden,             Linear, DenseLayers,  rows_by(Unit::Column)},
  {"model.layers.{layer}.mlp.up_proj",                    GateUp,        Intermediate,       Hidden,             Linear, DenseLayers,  rows_by(Unit::Column)},
  {"model.layers.{layer}.mlp.down_proj",                  Down,          Hidden,             Intermediate,       Linear, DenseLayers,  columns_by(Unit::Column)},
  {"model.layers.{layer}.mlp.gate",                       Router,        Experts,            Hidden,             Bf16,   ExpertLayers, kReplicated},
  {"model.layers.{layer}.mlp.experts.{expert}.gate_proj", ExpertGateUp,  ExpertIntermediate, Hidden,             Linear, ExpertLayers, rows_by(Unit::Expert)},
  {"model.layers.{layer}.mlp.experts.{expert}.up_proj",   ExpertGateUp,  ExpertIntermediate, Hidden,             Linear, ExpertLayers, rows_by(Unit::Expert)},
  {"model.layers.{layer}.mlp.experts.{expert}.down_proj", ExpertDown,    Hidden,             ExpertIntermediate, Linear, ExpertLayers, columns_by(Unit::Expert)},
  {"model.norm",                                          FinalNorm,     One,                Hidden,             Bf16,   Always,       kReplicated},
  {"lm_head",                                             LmHead,        Vocabulary,         Hidden,             Bf16,   Untied,       rows_by(Unit::Vocabulary)},
};
// clang-format on
constexpr files::TensorTable kQwen3Tensors{kQwen3Rows};

ModelSpec read(const files::Fields& config, bool has_experts) {
  // As in transformers, where only the configuration of the dense models has a head_dim.
  ModelSpec spec = read_decoder(config, {.head_dim = has_experts ? std::nullopt : std::optional<std::int64_t>(128)});
  spec.attention.head_norms = true;
  if (has_experts) spec.mlp.experts = read_experts(config, spec.layers);
  spec.tensors = &kQwen3Tensors;
  read_quantization(config, spec);
  return spec;
}
ModelSpec read_dense(const files::Fields& config) { return read(config, false); }
ModelSpec read_with_experts(const files::Fields& config) { return read(config, true); }

}  // namespace

const Architecture kQwen3{"Qwen3ForCausalLM", "qwen3", read_dense};
const Architecture kQwen3Moe{"Qwen3MoeForCausalLM", "qwen3_moe", read_with_experts};

}  // namespace mortar::architectures
