// load(): a folder becomes a Model. Everything is verified, and the memory planned, before anything is allocated.
#include <filesystem>

#include "model/decoder.hpp"
#include "mortar/checkpoint.hpp"
#include "mortar/errors.hpp"
#include "mortar/model.hpp"

namespace mortar {

Model load(const std::string& folder, const ModelOptions& options) {
  Model model;
  model.folder = folder;
  model.device = options.device ? *options.device : tessera::default_device();
  model.config = read_config(folder);
  model.generation = read_generation_config(folder, model.config);
  model.kv_type = options.kv_type;
  if (options.kv_type != KvType::Bf16)
    throw RequestError("the KV cache: expected bf16, found f8, which is not supported yet");
  std::optional<Checkpoint> files;
  if (!options.random_weights) {
    files.emplace(folder);
    model.config = files->verify(model.config, options.warning);
  }
  if (!options.random_weights || std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json"))
    model.tokenizer = Tokenizer::load(folder);
  PlanRequest request;
  request.device = model.device.name();
  request.memory = device_memory(model.device);
  request.max_context = options.max_context;
  request.batch = options.max_batch;
  request.prefill_tokens = options.prefill_tokens;
  request.page_tokens = kPage;
  request.kv_type = options.kv_type;
  model.plan = plan_memory(model.config, request);
  LoadOptions how;
  how.progress = options.progress;
  model.weights = files ? load_weights(model.config, *files, model.device, how)
                        : random_weights(model.config, *options.random_weights, model.device, how);
  return model;
}

}  // namespace mortar
