// Field names and defaults are those of Hugging Face transformers' configurations.
#include "architectures/decoder_fields.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tessera/base/format.hpp"

namespace mortar::architectures {
namespace {

using files::Fields;
using tessera::concat;

// Bounds of what a file may claim, generous for any published model: products of three of them fit 63 bits.
constexpr std::int64_t kMaxHidden = std::int64_t{1} << 18, kMaxLayers = 512, kMaxHeads = 1024, kMaxExperts = 512,
                       kMaxContext = std::int64_t{1} << 30;  // positions are i32
// Bounds of the kernels: of attention, with its tiles, and of tessera::kernels::moe_route.
constexpr std::int64_t kMaxHeadDim = 128, kMaxGroup = 64, kMaxChosen = 16;

/// Fields with which the model would compute something else than what a spec can say.
void check_fields(const Fields& f) {
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (f.flag_or(bias, false)) f.fail(bias, "false: biases are not supported");
  for (const std::string& type : f.texts("layer_types"))
    if (type != "full_attention")
      f.fail("layer_types", concat("\"full_attention\" for each layer (one is \"", type, "\")"));
  if (f.number_or("partial_rotary_factor", 0, 1, 1) != 1) f.fail("partial_rotary_factor", "1");
  if (f.integer_or("shared_expert_intermediate_size", 0, kMaxHidden, 0) != 0)
    f.fail("shared_expert_intermediate_size", "0: shared experts are not supported");
  for (const char* type : {"torch_dtype", "dtype"}) {  // the files say what is stored, and is rounded to bfloat16
    constexpr std::string_view kTypes[] = {"bfloat16", "float16", "float32"};
    if (std::ranges::find(kTypes, f.text_or(type, "bfloat16")) == std::end(kTypes))
      f.fail(type, "\"bfloat16\", \"float16\" or \"float32\"");
  }
}

/// What a spec can say, but no kernel computes.
void check_kernels(const Fields& f, const ModelSpec& spec) {
  if (spec.mlp.activation != Activation::Silu) f.fail("hidden_act", "\"silu\", the only activation that is supported");
  if (spec.attention.window != 0) f.fail("use_sliding_window", "false: sliding windows are not supported");
}

Activation activation_of(const Fields& f) {
  const std::string name = f.text_or("hidden_act", "silu");
  if (name == "silu") return Activation::Silu;
  if (name == "gelu") return Activation::Gelu;
  f.fail("hidden_act", "\"silu\"");
}

YarnScaling yarn_of(const Fields& f, std::int64_t trained) {
  YarnScaling y;
  y.factor = f.number("factor", 1, 1024);
  y.original_context = f.integer_or("original_max_position_embeddings", 1, kMaxContext, trained);
  y.beta_fast = f.number_or("beta_fast", 1e-3, 1e6, 32);
  y.beta_slow = f.number_or("beta_slow", 1e-3, 1e6, 1);
  y.truncate = f.flag_or("truncate", true);
  for (const char* name : {"mscale", "mscale_all_dim"})
    if (f.has(name)) f.fail(name, "no such field: it is not supported");
  y.attention_factor = f.number_or("attention_factor", 1e-3, 1e3, 0.1 * std::log(y.factor) + 1);
  return y;
}

Llama3Scaling llama3_of(const Fields& f) {
  Llama3Scaling l;
  l.factor = f.number("factor", 1, 1024);
  l.low_rotations = f.number("low_freq_factor", 1e-3, 1e6);
  l.high_rotations = f.number("high_freq_factor", 1e-3, 1e6);
  if (l.high_rotations <= l.low_rotations)
    f.fail("high_freq_factor", concat("more than low_freq_factor, which is ", l.low_rotations));
  l.original_context = f.integer("original_max_position_embeddings", 1, kMaxContext);
  return l;
}

/// rope_theta and rope_scaling, or both in rope_parameters (newer files); some files have rope_theta in rope_scaling.
/// YaRN stretches `context`.
RotarySpec rotary_of(const Fields& f, std::int64_t& context) {
  constexpr double kLowest = 1.5, kHighest = 1e12, kDefault = 1e4;
  RotarySpec rotary;
  const auto parameters = f.object("rope_parameters");
  const auto scaling = f.object("rope_scaling");
  if (parameters && scaling) f.fail("rope_scaling", "no such field beside rope_parameters");
  const auto& rope = parameters ? parameters : scaling;
  const bool inside = rope && rope->has("rope_theta");
  rotary.base = (inside ? *rope : f).number_or("rope_theta", kLowest, kHighest, kDefault);
  if (inside && f.number_or("rope_theta", kLowest, kHighest, rotary.base) != rotary.base)
    f.fail("rope_theta", concat(rotary.base, ", as in ", parameters ? "rope_parameters" : "rope_scaling"));
  if (!rope) return rotary;
  if (rope->number_or("partial_rotary_factor", 0, 1, 1) != 1) rope->fail("partial_rotary_factor", "1");
  const char* name = rope->has("rope_type") ? "rope_type" : "type";
  const std::string type = rope->text_or(name, "default");
  if (type == "linear") {
    rotary.scaling = LinearScaling{rope->number("factor", 1, 1024)};
  } else if (type == "llama3") {
    rotary.scaling = llama3_of(*rope);
  } else if (type == "yarn") {
    const YarnScaling y = yarn_of(*rope, context);
    rotary.scaling = y;
    const auto stretched = static_cast<std::int64_t>(y.factor * static_cast<double>(y.original_context));
    context = std::clamp(stretched, context, kMaxContext);
  } else if (type != "default") {
    rope->fail(name, "\"default\", \"linear\", \"yarn\" or \"llama3\"");
  }
  return rotary;
}

AttentionSpec attention_of(const Fields& f, const Defaults& defaults, ModelSpec& spec) {
  AttentionSpec a;
  a.heads = f.integer("num_attention_heads", 1, kMaxHeads);
  a.kv_heads = defaults.own_keys ? f.integer_or("num_key_value_heads", 1, kMaxHeads, a.heads)
                                 : f.integer("num_key_value_heads", 1, kMaxHeads);
  if (a.heads % a.kv_heads != 0)
    f.fail("num_key_value_heads", concat("a divisor of num_attention_heads, which is ", a.heads));
  if (a.heads / a.kv_heads > kMaxGroup)
    f.fail("num_key_value_heads",
           concat("at least one key head for ", kMaxGroup, " query heads, of which there are ", a.heads));
  if (f.has("head_dim") || defaults.head_dim) {
    a.head_dim = f.integer_or("head_dim", 2, kMaxHeadDim, defaults.head_dim.value_or(0));
    if (a.head_dim % 2 != 0) f.fail("head_dim", "an even number");
  } else {
    a.head_dim = spec.hidden / a.heads;
    if (spec.hidden % a.heads != 0 || a.head_dim % 2 != 0 || a.head_dim < 2 || a.head_dim > kMaxHeadDim)
      f.fail("hidden_size", concat("an even multiple of num_attention_heads, which is ", a.heads, ", up to ",
                                   kMaxHeadDim * a.heads, ", where there is no head_dim"));
  }
  a.scale = 1 / std::sqrt(static_cast<float>(a.head_dim));
  if (f.flag_or("use_sliding_window", false)) a.window = f.integer_or("sliding_window", 1, kMaxContext, 4096);
  a.rotary = rotary_of(f, spec.max_context);
  return a;
}

/// The rows of fused projections must begin with a block of scales.
void check_blocks(const Fields& f, const ModelSpec& spec) {
  const auto expect_multiple = [&](const char* name, std::int64_t rows, const char* what) {
    if (rows % kScaleBlock != 0)
      f.fail(name, concat(what, " that is a multiple of ", kScaleBlock, " for FP8 weights (it is ", rows, ")"));
  };
  const AttentionSpec& a = spec.attention;
  expect_multiple("num_attention_heads", a.heads * a.head_dim, "num_attention_heads * head_dim");
  expect_multiple("num_key_value_heads", a.kv_heads * a.head_dim, "num_key_value_heads * head_dim");
  expect_multiple("intermediate_size", spec.mlp.intermediate, "a size");
  if (spec.mlp.experts) expect_multiple("moe_intermediate_size", spec.mlp.experts->intermediate, "a size");
}

Fp8Spec fp8_of(const Fields& f) {
  if (f.text("quant_method") != "fp8") f.fail("quant_method", "\"fp8\", the only method that is supported");
  if (f.text_or("fmt", "e4m3") != "e4m3") f.fail("fmt", "\"e4m3\"");
  if (f.text_or("activation_scheme", "dynamic") != "dynamic") f.fail("activation_scheme", "\"dynamic\"");
  if (f.integers("weight_block_size", 1, 1 << 20) != std::vector<std::int64_t>{kScaleBlock, kScaleBlock})
    f.fail("weight_block_size", concat("blocks of [", kScaleBlock, ", ", kScaleBlock, "]"));
  Fp8Spec fp8;
  for (const char* name : {"modules_to_not_convert", "ignored_layers"})
    for (std::string& module : f.texts(name)) fp8.excluded.push_back(std::move(module));
  return fp8;
}

}  // namespace

ModelSpec read_decoder(const Fields& f, const Defaults& defaults) {
  ModelSpec spec;
  check_fields(f);
  spec.mlp.activation = activation_of(f);
  spec.vocabulary = f.integer("vocab_size", 1, kMaxVocabulary);
  spec.hidden = f.integer("hidden_size", 1, kMaxHidden);
  spec.mlp.intermediate = f.integer("intermediate_size", 1, kMaxHidden);
  spec.layers = f.integer("num_hidden_layers", 1, kMaxLayers);
  spec.max_context = f.integer_or("max_position_embeddings", 1, kMaxContext, defaults.context);
  spec.norm_epsilon = f.number_or("rms_norm_eps", 0, 1, 1e-6);
  spec.attention = attention_of(f, defaults, spec);
  spec.tied = f.flag_or("tie_word_embeddings", false);
  spec.eos_ids = f.integers("eos_token_id", 0, spec.vocabulary - 1);
  check_kernels(f, spec);
  return spec;
}

ExpertSpec read_experts(const Fields& f, std::int64_t layers) {
  ExpertSpec e;
  e.count = f.integer(f.has("num_local_experts") ? "num_local_experts" : "num_experts", 1, kMaxExperts);
  if (f.integer_or("num_experts", 1, kMaxExperts, e.count) != e.count)
    f.fail("num_experts", concat(e.count, ", as num_local_experts"));
  e.per_token = f.integer("num_experts_per_tok", 1, std::min(e.count, kMaxChosen));
  e.intermediate = f.integer("moe_intermediate_size", 1, kMaxHidden);
  e.normalize = f.flag_or("norm_topk_prob", false);
  e.sparse_step = f.integer_or("decoder_sparse_step", 1, kMaxLayers, 1);
  e.dense_layers = f.integers("mlp_only_layers", 0, layers - 1);
  return e;
}

void read_quantization(const Fields& f, ModelSpec& spec) {
  const auto quantization = f.object("quantization_config");
  if (!quantization) return;
  spec.fp8 = fp8_of(*quantization);
  check_blocks(f, spec);
}

}  // namespace mortar::architectures
