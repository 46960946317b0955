// Llama 3, 3.1, 3.2 and 3.3 (Grattafiori et al. 2024, "The Llama 3 Herd of Models"): heads without norms, their own
// RoPE scaling. Their tokenizer differs too (text/split.hpp, text/tokenizer_json.cpp).
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
constexpr files::TensorRow kLlamaRows[] = {
  // name                                          role           rows          columns       elements where   ranks have
  {"model.embed_tokens",                            Embedding,     Vocabulary,   Hidden,       Bf16,   Always, rows_by(Unit::Vocabulary)},
  {"model.layers.{layer}.input_layernorm",          AttentionNorm, One,          Hidden,       Bf16,   Always, kReplicated},
  {"model.layers.{layer}.post_attention_layernorm", MlpNorm,       One,          Hidden,       Bf16,   Always, kReplicated},
  {"model.layers.{layer}.self_attn.q_proj",         Qkv,           Queries,      Hidden,       Linear, Always, rows_by(Unit::Head)},
  {"model.layers.{layer}.self_attn.k_proj",         Qkv,           Keys,         Hidden,       Linear, Always, rows_by(Unit::KvHead)},
  {"model.layers.{layer}.self_attn.v_proj",         Qkv,           Keys,         Hidden,       Linear, Always, rows_by(Unit::KvHead)},
  {"model.layers.{layer}.self_attn.o_proj",         Output,        Hidden,       Queries,      Linear, Always, columns_by(Unit::Head)},
  {"model.layers.{layer}.mlp.gate_proj",            GateUp,        Intermediate, Hidden,       Linear, Always, rows_by(Unit::Column)},
  {"model.layers.{layer}.mlp.up_proj",              GateUp,        Intermediate, Hidden,       Linear, Always, rows_by(Unit::Column)},
  {"model.layers.{layer}.mlp.down_proj",            Down,          Hidden,       Intermediate, Linear, Always, columns_by(Unit::Column)},
  {"model.norm",                                    FinalNorm,     One,          Hidden,       Bf16,   Always, kReplicated},
  {"lm_head",                                       LmHead,        Vocabulary,   Hidden,       Bf16,   Untied, rows_by(Unit::Vocabulary)},
};
// clang-format on
constexpr files::TensorTable kLlamaTensors{kLlamaRows};

ModelSpec read(const files::Fields& config) {
  ModelSpec spec = read_decoder(config, {.own_keys = true, .head_dim = {}, .context = 2048});
  spec.tensors = &kLlamaTensors;
  read_quantization(config, spec);
  return spec;
}

}  // namespace

const Architecture kLlama{"LlamaForCausalLM", "llama", read};

}  // namespace mortar::architectures
