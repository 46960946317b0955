// Reports the processors, the driver and the GPUs, the assembler for each GPU generation, and the knobs that are set.
#include "doctor.hpp"

#include <cstdio>
#include <string>
#include <thread>

#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera {

namespace {

/// Naming the compiler links it, and it tells the runtime for which GPUs it can compile (cuda::compiler_probe).
[[gnu::used]] const auto kCompiler = static_cast<decltype(&jit::compile)>(&jit::compile);

void assembler_report() {
  std::string why;
  std::optional<tileiras::Assembler> last;
  for (const char* gpu : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    std::string missing;
    auto found = tileiras::locate_assembler(gpu, &missing);
    if (!found) {
      std::printf("  %-7s no assembler\n", gpu);
      why = missing;
      continue;
    }
    std::printf("  %-7s release %d.%d, bytecode up to 13.%d\n", gpu, found->major, found->minor,
                int{found->newest_bytecode.minor});
    last = found;
  }
  if (last) std::printf("  found as %s\n  in %s\n", last->path.c_str(), last->origin.c_str());
  if (!why.empty()) std::printf("  %s\n", why.c_str());
}

void gpu_report() {
  namespace cuda = runtime::cuda;
  std::string why;
  if (!cuda::available(&why)) {
    std::printf("  %s\n", why.c_str());
    return;
  }
  for (int i = 0; i < cuda::device_count(); ++i) {
    try {
      const cuda::DeviceInfo gpu = cuda::describe_device(i);
      if (i == 0) std::printf("  driver for CUDA %d.%d\n", gpu.driver_version / 1000, gpu.driver_version % 1000 / 10);
      std::printf("  cuda:%d  %s, sm_%d, %d multiprocessors, %zu MiB\n", i, gpu.name.c_str(), gpu.sm(),
                  gpu.multiprocessors, gpu.memory >> 20);
      std::string missing = "this program cannot compile kernels";
      const cuda::CompilerProbe can_compile = cuda::compiler_probe();
      const bool ready = can_compile != nullptr && can_compile(gpu, &missing);
      if (!ready) std::printf("          no kernels: %s\n", missing.c_str());
      Device::cuda(i);  // a context: what a driver that is only half there refuses
    } catch (const Error& error) { std::printf("          %s\n", error.message().c_str()); }
  }
}

void default_report() {
  try {
    std::printf("  %s\n", default_device().name().c_str());
  } catch (const Error& error) { std::printf("  %s\n", error.message().c_str()); }
}

void knob_report() {
  bool any = false;
  const auto table = env_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const char* value = env(static_cast<Env>(i));
    if (!value) continue;
    any = true;
    std::printf("  %s=%s\n      %s\n", table[i].variable, value, table[i].doc);
  }
  if (!any) std::puts("  none is set");
}

}  // namespace

int doctor() {
  std::printf("CPU\n  %u processors; kernels run here without anything else\n", std::thread::hardware_concurrency());
  std::puts("GPUs");
  gpu_report();
  std::puts("Device used where a program names none");
  default_report();
  std::puts("Assembler for GPUs (tileiras)");
  assembler_report();
  std::puts("Knobs");
  knob_report();
  return 0;
}

}  // namespace tessera
