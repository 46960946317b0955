// A model on a device: what load() makes and an Engine takes.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mortar/checkpoint.hpp"
#include "mortar/config.hpp"
#include "mortar/load.hpp"
#include "mortar/plan.hpp"
#include "mortar/tokenizer.hpp"
#include "mortar/weights.hpp"
#include "tessera/mesh/mesh.hpp"
#include "tessera/runtime/device.hpp"

namespace mortar {

/// What the processes of a group say to each other (model/messages.hpp).
class Messages;

/// What a rank of tensor parallelism has: one thread of this process drives it.
struct ModelPart {
  tessera::Mesh mesh;  ///< this rank is the only local one
  tessera::Device device;
  Weights weights;
};

struct Model {
  std::string folder;
  ModelSpec config;  ///< as the files have the model (Checkpoint::verify)
  GenerationConfig generation;
  std::optional<Tokenizer> tokenizer;               ///< none where ModelOptions::tokenizer and the folder say so
  Weights weights;                                  ///< empty if there are parts
  tessera::Device device = tessera::Device::cpu();  ///< of this process's first rank
  std::vector<ModelPart> parts;                     ///< of this process's ranks, in order; none: one device has all
  /// Where ranks are in several processes: an Engine of rank 0 drives the others, which follow() it.
  std::shared_ptr<Messages> messages;
  bool exact = false;  ///< ModelOptions::exact
  MemoryPlan plan;     ///< of each rank: the context and batch that were planned for
  KvType kv_type = KvType::Bf16;
};

/// Whether load() reads tokenizer.json.
enum class TokenizerFile : std::uint8_t {
  Needed,   ///< a folder without it is a ModelError, unless the weights are random
  IfThere,  ///< a model without it has ids and no text
  Unread,
};

struct ModelOptions {
  std::optional<tessera::Device> device = std::nullopt;  ///< none: the default device
  std::int64_t max_context = 0;                          ///< 0: what the model and the memory allow
  std::int64_t max_batch = 1;                            ///< sequences at a time that the memory must suffice for
  std::int64_t prefill_tokens = kDefaultPrefill;         ///< of EngineOptions, which the memory must suffice for
  KvType kv_type = KvType::Bf16;                         ///< of keys and values (docs/mortar/design.md)
  std::optional<std::uint64_t> random_weights =
      std::nullopt;  ///< the seed of weights that are made on the device instead of read
  std::function<void(const LoadProgress&)> progress = {};  ///< called while weights are loaded, those of the first rank
  /// Devices that compute the model together: GPUs from `device` on, or so many ranks on the CPU.
  std::int64_t tensor_parallel = 1;
  /// Tokens and logits do not depend on what else is computed, nor on the number of devices: bit for bit. Slower.
  bool exact = false;
  /// The ranks, one local rank each, instead of tensor_parallel: all of them in this process (Mesh::threads()), or this
  /// process's one of a mesh of several processes (Mesh::from_environment()), which all load the same model.
  std::vector<tessera::Mesh> meshes = {};
  TokenizerFile tokenizer = TokenizerFile::Needed;
  /// Called before weights are loaded, with a model that has all but them: what its files and the memory plan rule out
  /// is found at once instead of minutes later. What it throws ends load().
  std::function<void(const Model&)> before_weights = {};
  OnWarning warning = {};  ///< called before weights are loaded, for each warning of Checkpoint::verify
};

/// Reads the model in `folder`. Throws ModelError for files that are not as they should be, CapacityError if the model
/// does not fit the device, RequestError for options that it cannot have (a context beyond the model's, a number of
/// devices that cannot share it); all before anything is allocated on it. Of several processes, an error in
/// one ends the group with its text; the others throw RanksError or MeshError.
Model load(const std::string& folder, const ModelOptions& options = {});

}  // namespace mortar
