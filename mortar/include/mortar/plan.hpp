// What a model needs of a device's memory: weights, KV cache, activations; and the largest context and batch that fit.
// Computed before anything is allocated.
#pragma once
#include <cstdint>
#include <string>

#include "mortar/config.hpp"

namespace mortar {

/// Which part of a model a device has, if several share it (docs/mortar/parallel.md).
struct Ranks {
  std::int64_t rank = 0, ranks = 1;
  /// Every result is computed by one rank as one device computes it, so that no bit depends on the number of ranks;
  /// else the sums of the ranks are added.
  bool exact = false;

  bool several() const { return ranks > 1; }
};
/// The sizes of what the rank computes: heads, key heads, columns of the MLPs. The number of experts is the model's.
ModelSpec local_spec(const ModelSpec& model, const Ranks& ranks);

/// Bytes of the weights on the device, by kind; FP8 with its scales.
struct WeightBytes {
  std::int64_t embedding = 0, attention = 0, mlp = 0, experts = 0, norms = 0, lm_head = 0;  ///< lm_head: 0 if tied
  std::int64_t total() const { return embedding + attention + mlp + experts + norms + lm_head; }
};

struct ModelSize {
  std::int64_t parameters = 0;         ///< without scales
  std::int64_t active_parameters = 0;  ///< that one token uses: of the experts those chosen, no embedding if untied
  WeightBytes bytes;
  std::int64_t bytes_per_step = 0;  ///< of weights that a decoding step of one sequence reads
};
/// Bytes of weights that a decoding step of `batch` sequences reads: of experts the number that is expected if each
/// token chooses any of them equally often.
std::int64_t bytes_per_step(const ModelSpec& model, std::int64_t batch);
/// What one rank has.
ModelSize model_size(const ModelSpec& model, const Ranks& ranks = {});

enum class KvType : std::uint8_t { Bf16, Fp8 };
/// Keys and values of all layers.
std::int64_t kv_bytes_per_token(const ModelSpec& model, KvType type);

/// The elements that a token has in the MLP of a layer at a time: gates, up and their product, of the experts that it
/// chooses if there are any.
std::int64_t mlp_elements_per_token(const ModelSpec& model);
/// An upper bound of the bytes that steps of an engine need beside weights and KV cache: with at most `prefill_tokens`
/// tokens of prompts in a step, beside a token each of `batch` sequences.
/// Ranks are given as much as one device has, and what they gather.
std::int64_t activation_bytes(const ModelSpec& model, std::int64_t prefill_tokens, std::int64_t batch,
                              const Ranks& ranks = {});

/// Sequences take the KV cache in pages of so many tokens.
inline constexpr int kPage = 64;
/// Tokens of a step over prompts, if nothing else is chosen.
inline constexpr std::int64_t kDefaultPrefill = 512;
/// Tokens of prompts that a step computes beside few answers, if nothing else is chosen.
inline constexpr std::int64_t kDefaultMixed = 128;

/// Device memory in bytes, without what this process uses.
struct DeviceMemory {
  std::int64_t available = 0, total = 0;
};

struct PlanRequest {
  std::string device = "cpu";  ///< for messages
  DeviceMemory memory;
  std::int64_t max_context = 0;                   ///< tokens of a sequence; 0: what the model and the memory allow
  std::int64_t batch = 1;                         ///< sequences at a time
  std::int64_t prefill_tokens = kDefaultPrefill;  ///< tokens of a step over prompts
  std::int64_t page_tokens = kPage;
  KvType kv_type = KvType::Bf16;
  Ranks ranks = {};  ///< the plan is that of one rank
};

/// All in bytes but the last four.
struct MemoryPlan {
  WeightBytes weights;
  std::int64_t kv_per_token = 0;
  std::int64_t kv_cache = 0;     ///< of `batch` sequences of `max_context` tokens
  std::int64_t activations = 0;  ///< activation_bytes()
  std::int64_t reserve = 0;      ///< left to the driver, compiled kernels and graphs
  std::int64_t available = 0;    ///< on the device, before anything is allocated
  std::int64_t max_context = 0;  ///< tokens, as requested or the largest
  std::int64_t batch = 0;
  std::int64_t largest_context = 0;  ///< that fits with `batch` sequences, at most the model's
  std::int64_t largest_batch = 0;    ///< that fits with `max_context` tokens
  std::int64_t total() const { return weights.total() + kv_cache + activations + reserve; }
  bool fits() const { return total() <= available; }
};

/// The plan of what was requested, whether or not it fits. Throws RequestError for a context beyond the model's.
MemoryPlan estimate_memory(const ModelSpec& model, const PlanRequest& request);
/// The plan of what was requested. Throws CapacityError if it does not fit, with the bytes that are needed and
/// available and the largest context and batch that fit; RequestError for a context beyond the model's.
MemoryPlan plan_memory(const ModelSpec& model, const PlanRequest& request);

/// "1.19 GB"
std::string bytes_text(std::int64_t bytes);
/// The plan as lines, for people.
std::string plan_text(const MemoryPlan& plan);

}  // namespace mortar
