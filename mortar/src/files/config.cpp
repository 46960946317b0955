// Reading config.json. Field names and defaults are those of Hugging Face's Qwen3Config and Qwen3MoeConfig.
#include "mortar/config.hpp"

#include <algorithm>
#include <cmath>

#include "files/json_file.hpp"
#include "tessera/base/format.hpp"
#include "text/read_text.hpp"

namespace mortar {
namespace {

using files::Fields;
using tessera::concat;

// Bounds of what a file may claim, generous for any published model: products of three of them fit 63 bits.
constexpr std::int64_t kMostHidden = std::int64_t{1} << 18, kMostLayers = 512, kMostHeads = 1024, kMostExperts = 512,
                       kMostContext = std::int64_t{1} << 30;  // positions are i32
// Bounds of the kernels: of attention, with its tiles, and of tessera::kernels::moe_route.
constexpr std::int64_t kMostHeadDim = 128, kMostGroup = 64, kMostChosen = 16;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 24;  // of a file

struct Architecture {
  const char* name;
  const char* model_type;
  bool experts;
};
constexpr Architecture kArchitectures[] = {{"Qwen3ForCausalLM", "qwen3", false},
                                           {"Qwen3MoeForCausalLM", "qwen3_moe", true}};

const Architecture& architecture_of(const Fields& f) {
  const std::string expected = concat(kArchitectures[0].name, " or ", kArchitectures[1].name);
  const auto names = f.texts("architectures");
  if (names.size() > 1) f.fail("architectures", concat("one of ", expected));
  for (const Architecture& a : kArchitectures) {
    const bool by_type = f.text_or("model_type", a.model_type) == a.model_type;
    if (names.empty() ? f.has("model_type") && by_type : names[0] == a.name) {
      if (!by_type) f.fail("model_type", concat('"', a.model_type, "\" (architectures has ", a.name, ")"));
      return a;
    }
  }
  if (names.empty())
    f.fail("model_type", concat('"', kArchitectures[0].model_type, "\" or \"", kArchitectures[1].model_type, '"'));
  files::fail(f.file(), "architectures", expected, names[0]);
}

/// Fields with which the model would compute something else than what is implemented.
void check_supported(const Fields& f) {
  if (f.text_or("hidden_act", "silu") != "silu")
    f.fail("hidden_act", "\"silu\", the only activation that is supported");
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (f.flag_or(bias, false)) f.fail(bias, "false: biases are not supported");
  if (f.flag_or("use_sliding_window", false)) f.fail("use_sliding_window", "false: sliding windows are not supported");
  for (const std::string& type : f.texts("layer_types"))
    if (type != "full_attention")
      f.fail("layer_types", concat("\"full_attention\" for each layer (one is \"", type, "\")"));
  if (f.number_or("partial_rotary_factor", 0, 1, 1) != 1) f.fail("partial_rotary_factor", "1");
  if (f.integer_or("shared_expert_intermediate_size", 0, kMostHidden, 0) != 0)
    f.fail("shared_expert_intermediate_size", "0: shared experts are not supported");
  for (const char* type : {"torch_dtype", "dtype"})
    if (f.text_or(type, "bfloat16") != "bfloat16") f.fail(type, "\"bfloat16\"");
}

YarnScaling yarn_of(const Fields& f, std::int64_t trained) {
  YarnScaling y;
  y.factor = f.number("factor", 1, 1024);
  y.original_context = f.integer_or("original_max_position_embeddings", 1, kMostContext, trained);
  y.beta_fast = f.number_or("beta_fast", 1e-3, 1e6, 32);
  y.beta_slow = f.number_or("beta_slow", 1e-3, 1e6, 1);
  y.truncate = f.flag_or("truncate", true);
  for (const char* name : {"mscale", "mscale_all_dim"})
    if (f.has(name)) f.fail(name, "no such field: it is not supported");
  y.attention_factor = f.number_or("attention_factor", 1e-3, 1e3, 0.1 * std::log(y.factor) + 1);
  return y;
}

/// rope_theta and rope_scaling, or both in rope_parameters (newer files).
void read_rope(const Fields& f, ModelConfig& c) {
  constexpr double kLowest = 1.5, kHighest = 1e12;
  const auto parameters = f.object("rope_parameters");
  const auto scaling = f.object("rope_scaling");
  if (parameters && scaling) f.fail("rope_scaling", "no such field beside rope_parameters");
  const bool inside = parameters && parameters->has("rope_theta");
  c.rope_theta = (inside ? *parameters : f).number("rope_theta", kLowest, kHighest);
  if (inside && f.number_or("rope_theta", kLowest, kHighest, c.rope_theta) != c.rope_theta)
    f.fail("rope_theta", concat(c.rope_theta, ", as in rope_parameters"));
  const auto& rope = parameters ? parameters : scaling;
  if (!rope) return;
  if (rope->number_or("partial_rotary_factor", 0, 1, 1) != 1) rope->fail("partial_rotary_factor", "1");
  const char* name = rope->has("rope_type") ? "rope_type" : "type";
  const std::string type = rope->text_or(name, "default");
  if (type == "default") return;
  if (type != "yarn") rope->fail(name, "\"default\" or \"yarn\"");
  c.yarn = yarn_of(*rope, c.max_context);
  const auto stretched = static_cast<std::int64_t>(c.yarn->factor * static_cast<double>(c.yarn->original_context));
  c.max_context = std::clamp(stretched, c.max_context, kMostContext);
}

ExpertConfig experts_of(const Fields& f, std::int64_t layers) {
  ExpertConfig e;
  e.count = f.integer(f.has("num_local_experts") ? "num_local_experts" : "num_experts", 1, kMostExperts);
  if (f.integer_or("num_experts", 1, kMostExperts, e.count) != e.count)
    f.fail("num_experts", concat(e.count, ", as num_local_experts"));
  e.per_token = f.integer("num_experts_per_tok", 1, std::min(e.count, kMostChosen));
  e.intermediate = f.integer("moe_intermediate_size", 1, kMostHidden);
  e.normalize = f.flag_or("norm_topk_prob", false);
  e.sparse_step = f.integer_or("decoder_sparse_step", 1, kMostLayers, 1);
  e.dense_layers = f.integers("mlp_only_layers", 0, layers - 1);
  return e;
}

/// The rows of fused projections must begin with a block of scales.
void check_blocks(const Fields& f, const ModelConfig& c) {
  const auto expect_multiple = [&](const char* name, std::int64_t rows, const char* what) {
    if (rows % kScaleBlock != 0)
      f.fail(name, concat(what, " that is a multiple of ", kScaleBlock, " for FP8 weights (it is ", rows, ")"));
  };
  expect_multiple("num_attention_heads", c.heads * c.head_dim, "num_attention_heads * head_dim");
  expect_multiple("num_key_value_heads", c.kv_heads * c.head_dim, "num_key_value_heads * head_dim");
  expect_multiple("intermediate_size", c.intermediate, "a size");
  if (c.experts) expect_multiple("moe_intermediate_size", c.experts->intermediate, "a size");
}

Fp8Config fp8_of(const Fields& f) {
  if (f.text("quant_method") != "fp8") f.fail("quant_method", "\"fp8\", the only method that is supported");
  if (f.text_or("fmt", "e4m3") != "e4m3") f.fail("fmt", "\"e4m3\"");
  if (f.text_or("activation_scheme", "dynamic") != "dynamic") f.fail("activation_scheme", "\"dynamic\"");
  if (f.integers("weight_block_size", 1, 1 << 20) != std::vector<std::int64_t>{kScaleBlock, kScaleBlock})
    f.fail("weight_block_size", concat("blocks of [", kScaleBlock, ", ", kScaleBlock, "]"));
  Fp8Config fp8;
  for (const char* name : {"modules_to_not_convert", "ignored_layers"})
    for (std::string& module : f.texts(name)) fp8.excluded.push_back(std::move(module));
  return fp8;
}

}  // namespace

bool ModelConfig::has_experts(std::int64_t layer) const {
  if (!experts || (layer + 1) % experts->sparse_step != 0) return false;
  return std::find(experts->dense_layers.begin(), experts->dense_layers.end(), layer) == experts->dense_layers.end();
}

bool ModelConfig::is_fp8(std::string_view module) const {
  if (!fp8 || module == "lm_head") return false;
  // As in Hugging Face's FP8 quantizer: a name excludes the module, what it contains, and modules that end with it.
  return std::none_of(fp8->excluded.begin(), fp8->excluded.end(), [&](const std::string& name) {
    if (name.empty() || name.size() > module.size()) return false;
    const std::size_t rest = module.size() - name.size();
    if (rest == 0) return module == name;
    return (module.starts_with(name) && module[name.size()] == '.') ||
           (module.ends_with(name) && module[rest - 1] == '.');
  });
}

ModelConfig parse_config(std::string_view text, const std::string& file) {
  const auto json = files::parse_object(text, file);
  const Fields f(json, file);
  ModelConfig c;
  const Architecture& architecture = architecture_of(f);
  c.architecture = architecture.name;
  check_supported(f);
  c.vocabulary = f.integer("vocab_size", 1, kMostVocabulary);
  c.hidden = f.integer("hidden_size", 1, kMostHidden);
  c.intermediate = f.integer("intermediate_size", 1, kMostHidden);
  c.layers = f.integer("num_hidden_layers", 1, kMostLayers);
  c.heads = f.integer("num_attention_heads", 1, kMostHeads);
  c.kv_heads = f.integer("num_key_value_heads", 1, kMostHeads);
  if (c.heads % c.kv_heads != 0)
    f.fail("num_key_value_heads", concat("a divisor of num_attention_heads, which is ", c.heads));
  if (c.heads / c.kv_heads > kMostGroup)
    f.fail("num_key_value_heads",
           concat("at least one key head for ", kMostGroup, " query heads, of which there are ", c.heads));
  c.head_dim = f.integer("head_dim", 2, kMostHeadDim);
  if (c.head_dim % 2 != 0) f.fail("head_dim", "an even number");
  c.max_context = f.integer("max_position_embeddings", 1, kMostContext);
  c.norm_epsilon = f.number("rms_norm_eps", 0, 1);
  read_rope(f, c);
  c.tied = f.flag_or("tie_word_embeddings", false);
  if (architecture.experts) c.experts = experts_of(f, c.layers);
  if (const auto quantization = f.object("quantization_config")) {
    c.fp8 = fp8_of(*quantization);
    check_blocks(f, c);
  }
  c.eos_ids = f.integers("eos_token_id", 0, c.vocabulary - 1);
  return c;
}

ModelConfig read_config(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  return parse_config(text::read_text(file.string(), kMostBytes), file.string());
}

GenerationConfig parse_generation_config(std::string_view text, const std::string& file, const ModelConfig& model) {
  const auto json = files::parse_object(text, file);
  const Fields f(json, file);
  GenerationConfig g;
  g.sample = f.flag_or("do_sample", false);
  g.temperature = f.number_or("temperature", 0, 100, 1);
  g.top_k = f.integer_or("top_k", 0, INT32_MAX, 0);
  g.top_p = f.number_or("top_p", 0, 1, 1);
  g.min_p = f.number_or("min_p", 0, 1, 0);
  g.repetition_penalty = f.number_or("repetition_penalty", 0.01, 100, 1);
  g.presence_penalty = f.number_or("presence_penalty", -100, 100, 0);
  g.eos_ids = f.integers("eos_token_id", 0, model.vocabulary - 1);
  if (g.eos_ids.empty()) g.eos_ids = model.eos_ids;
  return g;
}

GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& model) {
  const auto file = folder / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {.eos_ids = model.eos_ids};
  return parse_generation_config(text::read_text(file.string(), kMostBytes), file.string(), model);
}

}  // namespace mortar
