// config.json and generation_config.json of a Qwen3 checkpoint, in their older and newer spellings, as validated
// values. What is not supported (sliding windows, biases, other architectures) is an error when the file is read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mortar {

/// The largest vocabulary of a supported model.
inline constexpr std::int64_t kMostVocabulary = std::int64_t{1} << 18;

/// YaRN (Peng et al. 2023): how RoPE is stretched to contexts longer than the model was trained with.
struct YarnScaling {
  double factor = 1;
  std::int64_t original_context = 0;
  double attention_factor = 1;          ///< cos and sin are multiplied by it
  double beta_fast = 32, beta_slow = 1; /**< rotations within the original context: pairs that turn more often than
                                             `beta_fast` keep their frequency, those below `beta_slow` are divided by
                                             `factor` */
  bool truncate = true;                 ///< the bounds of the ramp between both are whole numbers
};

/// The mixture of experts of a layer.
struct ExpertConfig {
  std::int64_t count = 0;                  ///< experts of a layer
  std::int64_t per_token = 0;              ///< of these, chosen for each token
  std::int64_t intermediate = 0;           ///< size of one expert
  bool normalize = false;                  ///< the weights of the chosen experts are divided by their sum
  std::int64_t sparse_step = 1;            ///< layer i has experts if (i + 1) % sparse_step == 0 ...
  std::vector<std::int64_t> dense_layers;  ///< ... and it is not one of these
};

/// FP8 weights with a scale for each block of 128 x 128 elements.
struct Fp8Config {
  std::vector<std::string> excluded;  ///< modules whose weights are bf16, as in the file
};

/// Rows and columns of a block of FP8 weights.
inline constexpr std::int64_t kScaleBlock = 128;

/// A model, as config.json describes it. All sizes are positive and within bounds, so that products of them do not
/// overflow; heads is a multiple of kv_heads, head_dim is even.
struct ModelConfig {
  std::string architecture;  ///< "Qwen3ForCausalLM" or "Qwen3MoeForCausalLM"
  std::int64_t vocabulary = 0, hidden = 0, layers = 0;
  std::int64_t intermediate = 0;  ///< of dense layers
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t max_context = 0;  ///< tokens; with YaRN the stretched length
  double norm_epsilon = 0;
  double rope_theta = 0;
  std::optional<YarnScaling> yarn;
  bool tied = false;  ///< lm_head is the embedding
  std::optional<ExpertConfig> experts;
  std::optional<Fp8Config> fp8;
  std::vector<std::int64_t> eos_ids;  ///< may be empty

  bool has_experts(std::int64_t layer) const;
  /// True if the weights of `module` ("model.layers.0.mlp.up_proj") are FP8.
  bool is_fp8(std::string_view module) const;
};

/// `text` is the contents of a config.json; `file` stands in messages. Throws ModelError with the field, what was
/// expected and what was found.
ModelConfig parse_config(std::string_view text, const std::string& file);
/// `folder`/config.json. Throws ModelError.
ModelConfig read_config(const std::filesystem::path& folder);

/// The angles of RoPE: pair i at position p is turned by p * inverse_frequencies[i]; cos and sin are multiplied by
/// attention_factor, which is 1 without YaRN.
struct RopeAngles {
  std::vector<float> inverse_frequencies;  ///< head_dim / 2
  float attention_factor = 1;
};
RopeAngles rope_angles(const ModelConfig&);

/// The defaults for sampling. What the file does not have is off: temperature 1, all tokens.
struct GenerationConfig {
  bool sample = false;  ///< false: greedy
  double temperature = 1;
  std::int64_t top_k = 0;  ///< 0: off
  double top_p = 1, min_p = 0, repetition_penalty = 1, presence_penalty = 0;
  std::vector<std::int64_t> eos_ids;  ///< ids that end an answer
};

/// `text` is the contents of a generation_config.json. End-of-sequence ids that it does not have are those of `model`.
/// Throws ModelError.
GenerationConfig parse_generation_config(std::string_view text, const std::string& file, const ModelConfig& model);
/// `folder`/generation_config.json; a folder without the file has the defaults. Throws ModelError.
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace mortar
