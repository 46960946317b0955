// Code generation behind the in-memory cache.
#include "jit/generate.hpp"

#include <algorithm>
#include <thread>

#include "jit/code_cache.hpp"
#include "jit/cpu_work.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"

namespace tessera::jit {
namespace {

/// Everything that the code depends on. The bytecode is with locations: errors name them.
std::string key_of(const ir::Module& module, Device device, const CompileOptions& options) {
  const std::vector<std::byte> bytes = ir::write_bytecode(module);
  std::string key = concat(device.name(), options.checked ? "\nchecked\n" : "\n");
  if (options.checked) {
    for (const TensorArgument& t : options.tensors) key += concat(t.slot, " ", t.label, "\n");
  }
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return key;
}

std::shared_ptr<const runtime::Launchable> work_for(const Prepared& prepared, Device device,
                                                    const CompileOptions& options) {
  switch (device.kind()) {
    case DeviceKind::Cpu:
    case DeviceKind::Fake: return make_cpu_work(cpu::Program::compile(*prepared.module), options);
    case DeviceKind::Cuda: break;
  }
  throw CompileError(concat("kernel ", options.label, " cannot be compiled for ", device.name(),
                            ": this build of Tessera has no code generation for GPUs yet. Use Device::cpu()."));
}

}  // namespace

passes::Target target_of(Device) {
  static const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return {0, threads};
}

Code generate(const Prepared& prepared, Device device, const CompileOptions& options) {
  const std::shared_ptr<CodeSlot> slot = code_slot(key_of(*prepared.module, device, options));
  const std::lock_guard lock(slot->mutex);
  if (!slot->work) {
    dump(*prepared.module, options.label);
    slot->work = work_for(prepared, device, options);
  }
  const auto blocks = static_cast<std::uint64_t>(prepared.blocks_per_multiprocessor);
  return {slot->work, blocks * static_cast<std::uint64_t>(target_of(device).multiprocessors)};
}

}  // namespace tessera::jit
