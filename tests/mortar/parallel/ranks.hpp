// Models that several ranks of this process share: on as many GPUs where there are, else on the CPU.
#pragma once
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "mortar/engine/test_engine.hpp"
#include "tessera/mesh/thread_meshes.hpp"
#include "tessera/runtime/cuda.hpp"

namespace mortar::test {

/// The devices of that many ranks: different GPUs if the default device is one and there are as many, else the CPU.
inline std::vector<tessera::Device> devices_of(int ranks) {
  std::vector<tessera::Device> all;
  const bool gpus = tessera::default_device().kind() == tessera::DeviceKind::Cuda && ranks > 1 &&
                    tessera::runtime::cuda::device_count() >= ranks;
  for (int i = 0; i < ranks; ++i) all.push_back(gpus ? tessera::Device::cuda(i) : tessera::Device::cpu());
  return all;
}

/// A model of tests/mortar/data, or random weights for a configuration.
struct SharedModel {
  std::string name;
  nlohmann::json config = nullptr;

  bool has_files() const { return config.is_null(); }

  Model load(const std::vector<tessera::Mesh>& meshes, bool exact, std::int64_t max_batch = 1,
             KvType kv_type = KvType::Bf16, tessera::Device alone = tessera::Device::cpu()) const {
    ModelOptions options;
    options.device = meshes.empty() ? alone : meshes.front().device(meshes.front().first_rank());
    options.max_context = 256, options.max_batch = max_batch;
    options.meshes = meshes, options.exact = exact;
    options.kv_type = kv_type;
    if (has_files()) return mortar::load(test_model(name).string(), options);
    const Folder folder;
    folder.write("config.json", config.dump());
    options.random_weights = 3;
    return mortar::load(folder.path().string(), options);
  }
  Model on_the_cpu() const { return load({}, false); }
  /// On the first of the devices that `ranks` ranks have.
  Model on_one_device(bool exact, int ranks = 1) const {
    return load({}, exact, 1, KvType::Bf16, devices_of(ranks).front());
  }
  Model on_ranks(int ranks, bool exact) const { return load(tessera::mesh::thread_meshes(devices_of(ranks)), exact); }
};

/// Sizes that two and four ranks, with eight heads eight, can share, also where FP8 has blocks: a vocabulary that does
/// not divide, experts whose columns do.
inline nlohmann::json small_config(bool experts, bool fp8, int heads = 4) {
  nlohmann::json c = nlohmann::json::parse(read_file(test_model(experts ? "moe" : "dense-untied") / "config.json"));
  c["hidden_size"] = 256, c["num_hidden_layers"] = 2, c["vocab_size"] = 381, c["tie_word_embeddings"] = experts;
  c["num_attention_heads"] = heads, c["num_key_value_heads"] = 2, c["head_dim"] = 128, c["intermediate_size"] = 512;
  c["bos_token_id"] = c["eos_token_id"] = 0;
  if (experts) c["moe_intermediate_size"] = 256;
  if (fp8)
    c["quantization_config"] =
        nlohmann::json::parse(read_file(test_model("fp8") / "config.json")).at("quantization_config");
  return c;
}

/// The shared models, and by how many ranks.
inline std::vector<std::pair<SharedModel, int>> shared_models() {
  return {{{"dense-tied"}, 2},
          {{"dense-tied"}, 4},
          {{"dense-untied"}, 2},
          {{"moe"}, 2},
          {{"moe"}, 4},
          {{"moe-fp8"}, 2},
          {{"llama-tied"}, 2},
          {{"llama-untied"}, 2},
          {{"random dense", small_config(false, false)}, 4},
          {{"random dense of 8 heads", small_config(false, false, 8)}, 8},
          {{"random FP8", small_config(false, true)}, 2},
          {{"random FP8", small_config(false, true)}, 4},
          {{"random experts by columns", small_config(true, false)}, 2},
          {{"random FP8 experts by columns", small_config(true, true)}, 2},
          {{"random FP8 experts, whole", small_config(true, true)}, 4}};
}

}  // namespace mortar::test
