// Names and shapes of the tensors of Qwen3 checkpoints, and how they are fused.
#include "files/layout.hpp"

#include "files/json_file.hpp"
#include "tessera/base/format.hpp"

namespace mortar::files {
namespace {

using tessera::concat;

std::int64_t blocks(std::int64_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }

class Builder {
 public:
  explicit Builder(const ModelConfig& model) : m_(model) {}

  std::vector<WeightTensor> build() {
    matrix(Role::Embedding, m_.hidden, {{"model.embed_tokens", m_.vocabulary}}, false);
    for (layer_ = 0; layer_ < m_.layers; ++layer_) add_layer();
    layer_ = 0;
    vector(Role::FinalNorm, "model.norm", m_.hidden);
    if (!m_.tied) matrix(Role::LmHead, m_.hidden, {{"lm_head", m_.vocabulary}}, false);
    return std::move(made_);
  }

 private:
  void add_layer() {
    const std::string prefix = concat("model.layers.", layer_, '.');
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    const std::int64_t queries = m_.heads * m_.head_dim, keys = m_.kv_heads * m_.head_dim;
    vector(Role::AttentionNorm, prefix + "input_layernorm", m_.hidden);
    vector(Role::MlpNorm, prefix + "post_attention_layernorm", m_.hidden);
    vector(Role::QueryNorm, attention + "q_norm", m_.head_dim);
    vector(Role::KeyNorm, attention + "k_norm", m_.head_dim);
    matrix(Role::Qkv, m_.hidden,
           {{attention + "q_proj", queries}, {attention + "k_proj", keys}, {attention + "v_proj", keys}}, true);
    matrix(Role::Output, queries, {{attention + "o_proj", m_.hidden}}, true);
    if (!m_.has_experts(layer_)) {
      matrix(Role::GateUp, m_.hidden, {{mlp + "gate_proj", m_.intermediate}, {mlp + "up_proj", m_.intermediate}}, true);
      matrix(Role::Down, m_.intermediate, {{mlp + "down_proj", m_.hidden}}, true);
      return;
    }
    matrix(Role::Router, m_.hidden, {{mlp + "gate", m_.experts->count}}, false);
    std::vector<Part> gate_up, down;
    for (std::int64_t e = 0; e < m_.experts->count; ++e) {
      const std::string expert = concat(mlp, "experts.", e, '.');
      gate_up.push_back({expert + "gate_proj", m_.experts->intermediate});
      gate_up.push_back({expert + "up_proj", m_.experts->intermediate});
      down.push_back({expert + "down_proj", m_.hidden});
    }
    matrix(Role::ExpertGateUp, m_.hidden, std::move(gate_up), true);
    matrix(Role::ExpertDown, m_.experts->intermediate, std::move(down), true);
  }

  void vector(Role role, const std::string& module, std::int64_t columns) {
    made_.push_back({role, layer_, Stored::Bf16, 1, columns, {{module + ".weight", 1}}});
  }

  /// `parts` have the names of modules. `linear`: FP8 in FP8 checkpoints.
  void matrix(Role role, std::int64_t columns, std::vector<Part> parts, bool linear) {
    const bool fp8 = linear && m_.is_fp8(parts[0].name);
    WeightTensor weight{role, layer_, fp8 ? Stored::Fp8 : Stored::Bf16, 0, columns, {}};
    WeightTensor scales{role, layer_, Stored::Scales, 0, blocks(columns), {}};
    for (const Part& p : parts) {
      if (linear && m_.is_fp8(p.name) != fp8)
        fail("config.json", "quantization_config.modules_to_not_convert",
             concat("both or neither of ", parts[0].name, " and ", p.name), "one of them");
      weight.parts.push_back({p.name + ".weight", p.rows});
      weight.rows += p.rows;
      if (!fp8) continue;
      scales.parts.push_back({p.name + ".weight_scale_inv", blocks(p.rows)});
      scales.rows += blocks(p.rows);
    }
    made_.push_back(std::move(weight));
    if (fp8) made_.push_back(std::move(scales));
  }

  const ModelConfig& m_;
  std::int64_t layer_ = 0;
  std::vector<WeightTensor> made_;
};

}  // namespace

std::vector<WeightTensor> weight_tensors(const ModelConfig& model) { return Builder(model).build(); }

}  // namespace mortar::files
