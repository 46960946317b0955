// What a model is, as config.json says it: a ModelSpec of validated values, which an architecture's file reads
// (src/architectures, docs/mortar/architectures.md). And generation_config.json. What cannot be computed (sliding
// windows, biases, other architectures) is an error when the file is read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mortar {

namespace files {
struct TensorTable;  // files/tensor_table.hpp
}

/// The largest vocabulary of a supported model.
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 18;

/// All frequencies of RoPE are divided by the factor.
struct LinearScaling {
  double factor = 1;
};

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

/// Llama 3.1: pairs that turn at least `high_rotations` times within the original context keep their frequency, those
/// that turn less than `low_rotations` times are divided by `factor`, and between both it is interpolated.
struct Llama3Scaling {
  double factor = 1;
  double low_rotations = 1, high_rotations = 4;
  std::int64_t original_context = 0;
};

/// Rotary position embedding of all features of a head.
struct RotarySpec {
  double base = 0;  ///< rope_theta
  std::variant<std::monostate, LinearScaling, YarnScaling, Llama3Scaling> scaling;
};

/// Causal attention of grouped query heads. heads is a multiple of kv_heads, head_dim is even.
struct AttentionSpec {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool head_norms = false;  ///< each head of queries and keys has an RMS norm before it is rotated
  float scale = 0;          ///< of the products of queries and keys
  std::int64_t window = 0;  ///< tokens that a query sees; 0: all before it
  RotarySpec rotary;
};

/// The mixture of experts of a layer.
struct ExpertSpec {
  std::int64_t count = 0;                  ///< experts of a layer
  std::int64_t per_token = 0;              ///< of these, chosen for each token
  std::int64_t intermediate = 0;           ///< size of one expert
  bool normalize = false;                  ///< the weights of the chosen experts are divided by their sum
  std::int64_t sparse_step = 1;            ///< layer i has experts if (i + 1) % sparse_step == 0 ...
  std::vector<std::int64_t> dense_layers;  ///< ... and it is not one of these
};

/// down(activation(gate(x)) * up(x))
enum class Activation : std::uint8_t { Silu, Gelu };
struct MlpSpec {
  std::int64_t intermediate = 0;  ///< of dense layers
  Activation activation = Activation::Silu;
  std::optional<ExpertSpec> experts;
};

/// FP8 weights with a scale for each block of 128 x 128 elements.
struct Fp8Spec {
  std::vector<std::string> excluded;  ///< modules whose weights are bf16, as in the file
};

/// Rows and columns of a block of FP8 weights.
inline constexpr std::int64_t kScaleBlock = 128;

/// A decoder: embedding, layers of RMS norm, attention, RMS norm and MLP, with residuals, and an RMS norm before the
/// head. All sizes are positive and within bounds, so that products of them do not overflow.
struct ModelSpec {
  std::string architecture;  ///< as in config.json: "Qwen3ForCausalLM"
  std::int64_t vocabulary = 0, hidden = 0, layers = 0;
  AttentionSpec attention;  ///< of each layer
  MlpSpec mlp;
  double norm_epsilon = 0;       ///< of all RMS norms
  std::int64_t max_context = 0;  ///< tokens; with YaRN the stretched length
  bool tied = false;             ///< lm_head is the embedding
  std::optional<Fp8Spec> fp8;
  std::vector<std::int64_t> eos_ids;            ///< may be empty
  const files::TensorTable* tensors = nullptr;  ///< of the architecture, which lives as long as the program

  bool has_experts(std::int64_t layer) const;
  /// True if the weights of `module`, a linear layer ("model.layers.0.mlp.up_proj"), are FP8.
  bool is_fp8(std::string_view module) const;
};

/// `text` is the contents of a config.json; `file` stands in messages. Throws ModelError with the field, what was
/// expected and what was found.
ModelSpec parse_config(std::string_view text, const std::string& file);
/// `folder`/config.json. Throws ModelError.
ModelSpec read_config(const std::filesystem::path& folder);

/// The angles of RoPE: pair i at position p is turned by p * inverse_frequencies[i]; cos and sin are multiplied by
/// attention_factor, which is 1 without YaRN.
struct RopeAngles {
  std::vector<float> inverse_frequencies;  ///< head_dim / 2
  float attention_factor = 1;
};
RopeAngles rope_angles(const ModelSpec&);

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
GenerationConfig parse_generation_config(std::string_view text, const std::string& file, const ModelSpec& model);
/// `folder`/generation_config.json; a folder without the file has the defaults. Throws ModelError.
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelSpec& model);
/// The text of eos_token in `folder`/tokenizer_config.json; nothing if there is none. load() takes its id where neither
/// generation_config.json nor config.json has one. Throws ModelError.
std::optional<std::string> read_eos_token(const std::filesystem::path& folder);

}  // namespace mortar
