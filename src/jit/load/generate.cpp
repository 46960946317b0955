// Code generation, with the in-memory cache in front of it.
#include "jit/load/generate.hpp"

#include <algorithm>
#include <functional>
#include <thread>

#include "jit/code/single_flight.hpp"
#include "jit/load/cpu_work.hpp"
#include "jit/store/code_key.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::jit {
namespace {

/// Default devices are GPUs where this says yes.
bool can_compile_for(const runtime::cuda::DeviceInfo& gpu, std::string* why) {
  const std::string name = machine::gpu_name(gpu.sm());
  try {
    return bundles_serve(name) || assembler_for(name, why).has_value();
  } catch (const Error& error) {
    if (why) *why = error.message();
    return false;
  }
}
[[maybe_unused]] const bool probe_is_set = (runtime::cuda::set_compiler_probe(&can_compile_for), true);

struct Generated {
  std::shared_ptr<const runtime::Launchable> work;
  std::shared_ptr<const CodeNotes> notes = nullptr;  ///< null on the CPU
  std::optional<CacheKey> cubin = {};                ///< its name in the disk cache
};

/// The driver loads an image: the cubin and its ABI.
Generated loaded(const CodeShape& shape, const CachedCubin& code, const std::optional<CacheKey>& name, Device device,
                 const CompileOptions& options) {
  runtime::cuda::KernelImage image;
  image.cubin = code.cubin;
  image.label = "kernel " + options.label;
  image.abi = shape.abi;
  image.raw_writes = options.raw_writes;
  return {runtime::cuda::load_kernel(device, image), std::make_shared<const CodeNotes>(notes_of(code)), name};
}

Generated work_for(const Prepared& prepared, const CodeShape& shape, Device device, const CompileOptions& options) {
  switch (device.kind()) {
    case DeviceKind::Cpu:
    case DeviceKind::Fake: return {make_cpu_work(cpu::Program::compile(*prepared.module), options)};
    case DeviceKind::Cuda: {
      const std::string gpu = machine::gpu_name(prepared.target.sm);
      const Cubin made = make_cubin(*prepared.module, gpu, options.label, prepared.bytecode,
                                    effort_of(prepared.form, prepared.patient));
      return loaded(shape, made.code, made.name, device, options);
    }
  }
  throw InternalError("a device of an unknown kind");
}

/// Generates code; concurrent requests for the same key share one attempt. Who has more time for the assembler tries
/// again where it was stopped for one who has less.
Code in_memory(const CodeShape& shape, const passes::Target& target, Device device, const CompileOptions& options,
               bool patient, const std::function<Generated()>& make) {
  // Never destroyed: streams may still run work while the process ends.
  static auto* const code = new SingleFlight<Generated>(Keep::Yes);
  const CacheKey key = name_in_memory(shape.identity, device, options);
  std::shared_ptr<const Generated> made;
  while (!made) {
    try {
      made = code->get(key, [&] { return std::make_shared<const Generated>(make()); });
    } catch (const tileiras::TooSlow& error) {
      if (!patient || !error.by_processor()) throw;
    }
  }
  Code ready{made->work, shape.abi, made->notes, shape.form, made->cubin};
  if (made->notes) ready.abi.persistent_blocks = filling_blocks(shape, made->notes->resources, target);
  return ready;
}

}  // namespace

/// With an occupancy, the grid of a persistent kernel is counted by it (KernelAbi::persistent_blocks); without one,
/// blocks that do not fit wait.
int filling_blocks(const CodeShape& shape, const CubinResources& r, const passes::Target& target) {
  const int fit = machine::resident_blocks(target.sm, r.registers, r.threads, r.shared);
  if (shape.occupancy == 0 || fit >= shape.occupancy) return shape.abi.persistent_blocks;
  const int blocks = target.num_sms * std::max(fit, 1) / std::max(shape.ctas, 1);
  return std::min(shape.abi.persistent_blocks, std::max(blocks, 1));
}

passes::Target target_of(Device device) {
  passes::Target target;
  if (device.kind() != DeviceKind::Cuda) {
    static const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    target.num_sms = threads;
    return target;
  }
  const runtime::cuda::DeviceInfo& info = runtime::cuda::device_info(device);
  target.sm = info.sm();
  target.num_sms = info.num_sms;
  if (const auto assembler = assembler_for(machine::gpu_name(info.sm()))) {
    target.bytecode_minor = assembler->newest_bytecode.minor;
  }
  return target;
}

Code generate(const Prepared& prepared, Device device, const CompileOptions& options) {
  const CodeShape shape = shape_of(prepared);
  return in_memory(shape, prepared.target, device, options, prepared.patient, [&] {
    if (env(Env::DUMP) != nullptr) dump(*prepared.module, options.label);
    return work_for(prepared, shape, device, options);
  });
}

Code generate(const StoredCode& stored, const passes::Target& target, Device device, const CompileOptions& options) {
  return in_memory(stored.shape, target, device, options, false,
                   [&] { return loaded(stored.shape, stored.cubin, stored.name, device, options); });
}

}  // namespace tessera::jit
