// A model on a device: what load() makes and an Engine takes.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "mortar/checkpoint.hpp"
#include "mortar/config.hpp"
#include "mortar/load.hpp"
#include "mortar/plan.hpp"
#include "mortar/tokenizer.hpp"
#include "mortar/weights.hpp"
#include "tessera/runtime/device.hpp"

namespace mortar {

struct Model {
  std::string folder;
  ModelSpec config;  ///< as the files have the model (Checkpoint::verify)
  GenerationConfig generation;
  std::optional<Tokenizer> tokenizer;  ///< none with random weights in a folder without tokenizer.json
  Weights weights;
  tessera::Device device = tessera::Device::cpu();
  MemoryPlan plan;  ///< the context and batch that were planned for
  KvType kv_type = KvType::Bf16;
};

struct ModelOptions {
  std::optional<tessera::Device> device = std::nullopt;  ///< none: the default device
  std::int64_t max_context = 0;                          ///< 0: what the model and the memory allow
  std::int64_t max_batch = 1;                            ///< sequences at a time that the memory must suffice for
  std::int64_t prefill_tokens = kDefaultPrefill;         ///< of EngineOptions, which the memory must suffice for
  KvType kv_type = KvType::Bf16;
  std::optional<std::uint64_t> random_weights =
      std::nullopt;  ///< the seed of weights that are made on the device instead of read
  std::function<void(const LoadProgress&)> progress = {};  ///< called while weights are loaded
  OnWarning warning = {};  ///< called before weights are loaded, for each warning of Checkpoint::verify
};

/// Reads the model in `folder`. Throws ModelError for files that are not as they should be, CapacityError if the model
/// does not fit the device, RequestError for options that it cannot have (a context beyond the model's, an FP8 cache);
/// all before anything is allocated on it.
Model load(const std::string& folder, const ModelOptions& options = {});

}  // namespace mortar
