// Code generation, with the in-memory cache in front of it.
#include "jit/load/generate.hpp"

#include <algorithm>
#include <functional>
#include <thread>

#include "jit/code/single_flight.hpp"
#include "jit/load/cpu_work.hpp"
#include "jit/load/cuda_work.hpp"
#include "jit/store/code_key.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::jit {
namespace {

struct Generated {
  std::shared_ptr<const runtime::Launchable> work;
  std::shared_ptr<const CodeNotes> notes;  ///< null on the CPU
};

Generated loaded(const CodeShape& shape, const CachedCubin& code, Device device, const CompileOptions& options) {
  CodeNotes notes;
  auto work = make_cuda_work(shape, code, device, options, notes);
  return {std::move(work), std::make_shared<const CodeNotes>(std::move(notes))};
}

Generated work_for(const Prepared& prepared, const CodeShape& shape, Device device, const CompileOptions& options) {
  switch (device.kind()) {
    case DeviceKind::Cpu:
    case DeviceKind::Fake: return {make_cpu_work(cpu::Program::compile(*prepared.module), options), nullptr};
    case DeviceKind::Cuda: {
      const std::string gpu = machine::gpu_name(prepared.target.sm);
      return loaded(shape,
                    make_cubin(*prepared.module, gpu, options.label, prepared.bytecode,
                               effort_of(prepared.form, prepared.patient))
                        .code,
                    device, options);
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
  Code ready{made->work, shape.abi, made->notes, shape.form};
  if (made->notes) ready.abi.persistent_blocks = filling_blocks(shape, made->notes->resources, target);
  return ready;
}

}  // namespace

CodeNotes notes_of_code(const Code& code) { return code.notes ? *code.notes : CodeNotes{}; }

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
    dump(*prepared.module, options.label);
    return work_for(prepared, shape, device, options);
  });
}

Code generate(const CodeShape& shape, const CachedCubin& code, const passes::Target& target, Device device,
              const CompileOptions& options) {
  return in_memory(shape, target, device, options, false, [&] { return loaded(shape, code, device, options); });
}

}  // namespace tessera::jit
