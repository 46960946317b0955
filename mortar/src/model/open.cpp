// load(): a folder becomes a Model. Everything is verified, and the memory planned, before anything is allocated.
#include "model/open.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "files/shard.hpp"
#include "model/agreement.hpp"
#include "model/decoder.hpp"
#include "model/messages.hpp"
#include "mortar/checkpoint.hpp"
#include "mortar/errors.hpp"
#include "mortar/model.hpp"
#include "tessera/base/format.hpp"
#include "tessera/mesh/processes.hpp"
#include "tessera/mesh/thread_meshes.hpp"
#include "tessera/runtime/cuda.hpp"

namespace mortar {
namespace {

/// This is one rank of several processes.
bool of_processes(const std::vector<tessera::Mesh>& meshes) {
  return meshes.size() == 1 && meshes[0].local_ranks() == 1 && meshes[0].size() > 1;
}

/// The ranks that were requested; none: one device. Throws RequestError, MeshError, DeviceError.
std::vector<tessera::Mesh> meshes_of(const ModelOptions& options, tessera::Device first) {
  constexpr std::int64_t kMost = 64;
  if (options.tensor_parallel < 1 || options.tensor_parallel > kMost)
    throw RequestError(tessera::concat("tensor_parallel: expected 1 to ", kMost, ", found ", options.tensor_parallel));
  if (of_processes(options.meshes)) return options.meshes;
  for (std::size_t i = 0; i < options.meshes.size(); ++i) {
    const tessera::Mesh& mesh = options.meshes[i];
    if (mesh.size() != std::ssize(options.meshes) || mesh.local_ranks() != 1 ||
        mesh.first_rank() != static_cast<int>(i))
      throw RequestError("meshes: expected all ranks of one mesh in order, each with one local rank (Mesh::threads)");
  }
  if (!options.meshes.empty() || options.tensor_parallel == 1) return options.meshes;
  std::vector<tessera::Device> devices(static_cast<std::size_t>(options.tensor_parallel), first);
  if (first.kind() == tessera::DeviceKind::Cuda)
    for (std::size_t i = 1; i < devices.size(); ++i)
      devices[i] = tessera::Device::cuda(first.ordinal() + static_cast<int>(i));
  return tessera::mesh::thread_meshes(devices);
}

/// Mesh::check_links of all ranks, each on a thread of its own. The first error is thrown.
void check_links(const std::vector<tessera::Mesh>& meshes) {
  std::vector<std::exception_ptr> errors(meshes.size());
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 0; i < meshes.size(); ++i)
        threads.emplace_back([&, i] {
          try {
            meshes[i].check_links();
          } catch (...) { errors[i] = std::current_exception(); }
        });
    } catch (...) {  // the ranks before this one do not wait for it
      for (const tessera::Mesh& mesh : meshes) mesh.abort("no thread can be started");
      throw;
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// The loading of a process as steps of its mesh, as many on all: a process that hangs within one is found by the
/// watch.
class LoadingSteps {
 public:
  explicit LoadingSteps(const tessera::Mesh& mesh) : mesh_(mesh) { step_.emplace(mesh_); }
  void reach(const LoadProgress& progress) {
    if (progress.total > 0) go_to(static_cast<double>(progress.bytes) / static_cast<double>(progress.total) * kSteps);
  }
  /// All of them, whatever was reported.
  void end() {
    go_to(kSteps);
    step_.reset();
  }

 private:
  static constexpr int kSteps = 64;
  void go_to(double last) {
    for (; number_ + 1 < std::min<double>(last, kSteps); ++number_) {
      step_.reset();
      step_.emplace(mesh_);
    }
  }
  tessera::Mesh mesh_;
  std::optional<tessera::mesh::Step> step_;
  int number_ = 0;
};

/// Loads the weights of all ranks at once, each on a thread of its own; the first rank's, with its progress, on this
/// one. The first error ends the loading of all, and is thrown.
std::vector<ModelPart> load_parts(const std::vector<tessera::Mesh>& meshes, bool exact, const LoadOptions& options,
                                  const std::function<Weights(tessera::Device, const LoadOptions&)>& weights_of) {
  struct Ended {};
  std::vector<ModelPart> parts;
  for (std::size_t i = 0; i < meshes.size(); ++i)
    parts.push_back({meshes[i], meshes[i].device(meshes[i].first_rank()), {}});
  std::atomic<bool> ended{false};
  std::mutex mutex;
  std::exception_ptr error;
  const auto load_one = [&](std::size_t i) noexcept {
    try {
      LoadingSteps steps(meshes[i]);
      LoadOptions own = options;
      own.ranks = {meshes[i].first_rank(), meshes[i].size(), exact};
      own.progress = [&, i](const LoadProgress& progress) {
        if (ended) throw Ended();
        if (const auto failure = meshes[i].failure()) throw RanksError(*failure);
        steps.reach(progress);
        if (i == 0 && options.progress) options.progress(progress);
      };
      parts[i].weights = weights_of(parts[i].device, own);
      steps.end();
    } catch (const Ended&) {  // another rank has failed
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      ended = true;
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < meshes.size(); ++i) threads.emplace_back([&load_one, i] { load_one(i); });
    } catch (...) {
      ended = true;
      throw;
    }
    load_one(0);
  }
  if (error) std::rethrow_exception(error);
  return parts;
}

/// The token that tokenizer_config.json names, where no file has its id.
void find_end_of_answers(Model& model, const OnWarning& warn) {
  const auto token = read_eos_token(model.folder);
  if (const auto id = token ? model.tokenizer->find(*token) : std::nullopt) {
    model.generation.eos_ids = {*id};
    return;
  }
  if (!warn) return;
  const std::string why =
      token ? tessera::concat("the eos_token of tokenizer_config.json, \"", *token, "\", is no token of tokenizer.json")
            : "no file names an eos_token_id or an eos_token";
  warn(tessera::concat(model.folder, ": nothing ends an answer but its length: ", why, '.'));
}

Model load_ranks(const std::string& folder, const ModelOptions& options, Model model) {
  model.folder = folder;
  model.device = !options.meshes.empty() ? options.meshes[0].device(options.meshes[0].first_rank())
                 : options.device        ? *options.device
                                         : tessera::default_device();
  model.config = read_config(folder);
  model.generation = read_generation_config(folder, model.config);
  model.kv_type = options.kv_type;
  std::optional<Checkpoint> files;
  if (!options.random_weights) {
    files.emplace(folder);
    model.config = files->verify(model.config, options.warning);
  }
  const bool needed = options.tokenizer == TokenizerFile::Needed && !options.random_weights;
  if (options.tokenizer != TokenizerFile::Unread &&
      (needed || std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json")))
    model.tokenizer = Tokenizer::load(folder);
  if (model.generation.eos_ids.empty() && model.tokenizer) find_end_of_answers(model, options.warning);
  if (model.device.kind() == tessera::DeviceKind::Cuda)
    check_8_bit_floats(tessera::runtime::cuda::describe_device(model.device.ordinal()).sm(), model.config,
                       options.kv_type);
  const std::vector<tessera::Mesh> meshes = meshes_of(options, model.device);
  if (options.meshes.empty() && model.device.kind() == tessera::DeviceKind::Cuda) check_links(meshes);
  model.exact = options.exact;
  Ranks ranks{0, 1, options.exact};
  if (!meshes.empty()) ranks.rank = meshes[0].first_rank(), ranks.ranks = meshes[0].size();
  files::check_ranks(model.config, ranks.ranks);
  PlanRequest request;
  request.device = model.device.name();
  request.memory = device_memory(model.device);
  if (model.device.kind() == tessera::DeviceKind::Cpu) {  // the ranks share it
    request.memory.available /= ranks.ranks;
    request.memory.total /= ranks.ranks;
  }
  request.max_context = options.max_context;
  request.batch = options.max_batch;
  request.prefill_tokens = options.prefill_tokens;
  request.page_tokens = kPage;
  request.kv_type = options.kv_type;
  request.ranks = ranks;
  model.plan = plan_memory(model.config, request);
  if (model.messages != nullptr) {
    const tessera::mesh::Step step(model.messages->mesh());  // all have read what they need in the limit of time
    check_agreement(*model.messages, properties_of(folder, options, files ? &*files : nullptr));
  }
  if (options.before_weights) options.before_weights(model);
  const auto weights_of = [&](tessera::Device device, const LoadOptions& how) {
    return files ? load_weights(model.config, *files, device, how)
                 : random_weights(model.config, *options.random_weights, device, how);
  };
  LoadOptions how;
  how.progress = options.progress;
  if (meshes.empty())
    model.weights = weights_of(model.device, how);
  else
    model.parts = load_parts(meshes, options.exact, how, weights_of);
  return model;
}

}  // namespace

void check_8_bit_floats(int sm, const ModelSpec& model, KvType kv_type) {
  constexpr int kFirst = 89;  // PTX ISA, cvt with e4m3x2: requires sm_89
  if (sm >= kFirst || (kv_type != KvType::Fp8 && !model.fp8)) return;
  throw RequestError(
      tessera::concat(kv_type == KvType::Fp8 ? "the KV cache: f8" : "a model with FP8 weights",
                      " needs a GPU with 8-bit floats, sm_", kFirst, " or later; found sm_", sm,
                      kv_type == KvType::Fp8 ? ". Take bf16 (--kv-dtype bf16)" : ". Take the model with bf16 weights"));
}

Model load(const std::string& folder, const ModelOptions& options) {
  if (!of_processes(options.meshes)) return load_ranks(folder, options, {});
  const tessera::Mesh& mesh = options.meshes[0];
  mesh.check_links();
  Model model;
  model.messages = std::make_shared<Messages>(tessera::mesh::companion(mesh));
  const std::shared_ptr<Messages> messages = model.messages;  // until the error has been told
  const auto end_group = [&](const std::string& reason) {
    mesh.abort(reason);
    messages->abort(reason);
  };
  try {
    return load_ranks(folder, options, std::move(model));
  } catch (const tessera::MeshError& error) {  // most often, another process has ended the group, and said why
    end_group(error.message());
    throw RanksError(mesh.failure().value_or(error.message()));
  } catch (const tessera::Error& error) {
    end_group(error.message());
    throw;
  } catch (const std::exception& error) {
    end_group(error.what());
    throw;
  }
}

}  // namespace mortar
