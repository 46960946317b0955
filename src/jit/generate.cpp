// Code generation behind the in-memory cache.
#include "jit/generate.hpp"

#include <algorithm>
#include <thread>

#include "jit/cpu_work.hpp"
#include "jit/cuda_work.hpp"
#include "jit/sha256.hpp"
#include "jit/single_flight.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::jit {
namespace {

/// Everything that the code depends on. The bytecode is with locations, which errors name; what lowered checks say is
/// not in it.
Digest key_of(const Prepared& prepared, Device device, const CompileOptions& options) {
  Sha256 hash;
  hash.add_field(device.name()).add_number(options.checked).add_number(options.tensors.size());
  for (const TensorArgument& t : options.tensors)
    hash.add_number(static_cast<std::uint64_t>(t.slot)).add_field(t.label);
  for (const passes::LoweredCheck& check : prepared.checks) hash.add_field(check.message);
  hash.add_field(prepared.bytecode);
  return hash.finish();
}

std::shared_ptr<const runtime::Launchable> work_for(const Prepared& prepared, Device device,
                                                    const CompileOptions& options, const CachedCubin* ready) {
  switch (device.kind()) {
    case DeviceKind::Cpu:
    case DeviceKind::Fake: return make_cpu_work(cpu::Program::compile(*prepared.module), options);
    case DeviceKind::Cuda: return make_cuda_work(prepared, device, options, ready);
  }
  throw InternalError("a device of an unknown kind");
}

}  // namespace

passes::Target target_of(Device device) {
  passes::Target target;
  if (device.kind() != DeviceKind::Cuda) {
    static const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    target.multiprocessors = threads;
    return target;
  }
  const runtime::cuda::DeviceInfo& info = runtime::cuda::device_info(device);
  target.sm = info.sm();
  target.multiprocessors = info.multiprocessors;
  if (const auto assembler = assembler_for(gpu_name(info.sm()))) {
    target.bytecode_minor = assembler->newest_bytecode.minor;
  }
  return target;
}

Code generate(const Prepared& prepared, Device device, const CompileOptions& options, const CachedCubin* ready) {
  // Never destroyed: streams may still run work while the process ends.
  static auto* const code = new SingleFlight<runtime::Launchable>(Keep::Yes);
  auto work = code->get(key_of(prepared, device, options), [&] {
    dump(*prepared.module, options.label);
    return work_for(prepared, device, options, ready);
  });
  return {std::move(work), prepared.persistent_blocks};
}

}  // namespace tessera::jit
