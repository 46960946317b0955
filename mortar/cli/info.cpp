// mortar info: what a model is, how large it is, and what fits into the memory of the device.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "json_text.hpp"
#include "model_session.hpp"
#include "mortar/load.hpp"
#include "tessera/base/format.hpp"

namespace mortar::cli {
namespace THIS_FILE {

using nlohmann::ordered_json;
using tessera::concat;

constexpr Option kOptions[] = {
    {"--json", nullptr, "the answer as one JSON object"},
    {"--memory", "BYTES", "plans for a device with so much memory, as 79G, instead of one of this machine"},
};

struct Info {
  std::string name;
  ModelSpec config;
  ModelSize size;
  std::size_t files = 0;
  std::int64_t file_bytes = 0;
  std::string device;
  DeviceMemory memory;
  KvType kv_type = KvType::Bf16;
  MemoryPlan plan;
  std::int64_t cache_tokens = 0;  ///< of the KV cache of an engine with this batch: what all else leaves, whole pages
};

Info gather(const Arguments& arguments) {
  const ModelOptions options = model_options(arguments, 1);
  Info info;
  const std::filesystem::path folder = arguments.positional(0);
  info.name = std::filesystem::weakly_canonical(folder).filename().string();
  info.config = read_config(folder);
  read_generation_config(folder, info.config);  // an error in it is one of the model
  if (!options.random_weights) {
    const Checkpoint checkpoint(folder);
    info.config = checkpoint.verify(info.config, options.warning);
    info.files = checkpoint.files().size();
    for (const auto& file : checkpoint.files()) info.file_bytes += static_cast<std::int64_t>(file->size());
  }
  info.size = model_size(info.config);
  PlanRequest request;
  if (arguments.has("--memory")) {
    info.device = "a device";
    info.memory.available = info.memory.total = arguments.bytes("--memory");
  } else {
    const tessera::Device device = options.device ? *options.device : tessera::default_device();
    info.device = device.name();
    info.memory = device_memory(device);
  }
  request.device = info.device;
  request.memory = info.memory;
  request.ranks = {0, options.tensor_parallel, options.exact};
  request.kv_type = info.kv_type = options.kv_type;
  request.max_context = options.max_context;
  request.batch = options.max_batch;
  info.plan = estimate_memory(info.config, request);
  const MemoryPlan& p = info.plan;
  const std::int64_t left = p.available - p.weights.total() - p.activations - p.reserve;
  info.cache_tokens = std::max<std::int64_t>(0, left / p.kv_per_token / kPage * kPage);
  return info;
}

/// Name and bytes of each kind of weights.
std::vector<std::pair<const char*, std::int64_t>> kinds(const WeightBytes& b) {
  return {{"embedding", b.embedding}, {"attention", b.attention}, {"mlp", b.mlp},
          {"experts", b.experts},     {"norms", b.norms},         {"lm_head", b.lm_head}};
}

ordered_json json_of(const Info& i) {
  const ModelSpec& c = i.config;
  ordered_json j = {{"model", i.name}, {"architecture", c.architecture}};
  j["layers"] = c.layers, j["hidden"] = c.hidden, j["heads"] = c.attention.heads, j["kv_heads"] = c.attention.kv_heads;
  j["head_dim"] = c.attention.head_dim, j["intermediate"] = c.mlp.intermediate, j["vocabulary"] = c.vocabulary;
  if (c.mlp.experts)
    j["experts"] = {{"count", c.mlp.experts->count},
                    {"per_token", c.mlp.experts->per_token},
                    {"intermediate", c.mlp.experts->intermediate}};
  j["max_context"] = c.max_context, j["tied"] = c.tied, j["weights"] = c.fp8 ? "fp8" : "bf16";
  j["parameters"] = i.size.parameters, j["active_parameters"] = i.size.active_parameters;
  for (const auto& [name, bytes] : kinds(i.size.bytes)) j["bytes"][name] = bytes;
  j["bytes"]["total"] = i.size.bytes.total();
  j["bytes_per_step"] = i.size.bytes_per_step;
  j["files"] = {{"count", i.files}, {"bytes", i.file_bytes}};
  j["kv_bytes_per_token"] = i.plan.kv_per_token;
  j["device"] = {{"name", i.device}, {"memory", i.memory.total}, {"available", i.memory.available}};
  const MemoryPlan& p = i.plan;
  j["plan"] = {{"fits", p.fits()},       {"max_context", p.max_context}, {"batch", p.batch},
               {"kv_cache", p.kv_cache}, {"activations", p.activations}, {"reserve", p.reserve},
               {"total", p.total()}};
  j["largest_context"] = p.largest_context;
  j["largest_batch"] = p.largest_batch;
  j["cache_tokens"] = i.cache_tokens;
  return j;
}

void print(const Info& i) {
  const ModelSpec& c = i.config;
  std::printf("%s: %s, %s weights\n", i.name.c_str(), c.architecture.c_str(), c.fp8 ? "FP8" : "bf16");
  std::printf("  %lld layers of %lld, %lld query and %lld key heads of %lld, MLP %lld, vocabulary %lld, context %lld\n",
              static_cast<long long>(c.layers), static_cast<long long>(c.hidden),
              static_cast<long long>(c.attention.heads), static_cast<long long>(c.attention.kv_heads),
              static_cast<long long>(c.attention.head_dim), static_cast<long long>(c.mlp.intermediate),
              static_cast<long long>(c.vocabulary), static_cast<long long>(c.max_context));
  if (c.mlp.experts)
    std::printf("  %lld experts of %lld, %lld for each token\n", static_cast<long long>(c.mlp.experts->count),
                static_cast<long long>(c.mlp.experts->intermediate), static_cast<long long>(c.mlp.experts->per_token));
  std::printf("  %lld parameters, %lld for each token\n", static_cast<long long>(i.size.parameters),
              static_cast<long long>(i.size.active_parameters));
  if (i.files != 0)
    std::printf("  %zu %s, %s\n", i.files, i.files == 1 ? "file" : "files", bytes_text(i.file_bytes).c_str());
  std::printf("weights: %s, of which a step reads %s\n", bytes_text(i.size.bytes.total()).c_str(),
              bytes_text(i.size.bytes_per_step).c_str());
  for (const auto& [name, bytes] : kinds(i.size.bytes))
    if (bytes != 0) std::printf("  %-12s %10s\n", name, bytes_text(bytes).c_str());
  std::printf("KV cache: %lld bytes for each token (%s)\n", static_cast<long long>(i.plan.kv_per_token),
              i.kv_type == KvType::Fp8 ? "f8" : "bf16");
  std::printf("%s: %s available of %s\n%s", i.device.c_str(), bytes_text(i.memory.available).c_str(),
              bytes_text(i.memory.total).c_str(), plan_text(i.plan).c_str());
  std::printf("largest context: %lld tokens with a batch of %lld\nlargest batch: %lld with %lld tokens\n",
              static_cast<long long>(i.plan.largest_context), static_cast<long long>(i.plan.batch),
              static_cast<long long>(i.plan.largest_batch), static_cast<long long>(i.plan.max_context));
  std::printf("KV cache that sequences share: up to %lld tokens with a batch of %lld\n",
              static_cast<long long>(i.cache_tokens), static_cast<long long>(i.plan.batch));
  if (!i.plan.fits()) std::printf("this does not fit the device\n");
}

int run(const Arguments& arguments) {
  const Info info = gather(arguments);
  if (arguments.flag("--json"))
    std::printf("%s\n", json_text(json_of(info), 2).c_str());
  else
    print(info);
  return kDone;
}

const Registration kRegistration({"info", "MODEL", "architecture, sizes, and what fits into the device's memory",
                                  kOptions, OptionSet::Model, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli
