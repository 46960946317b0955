// Reports the processors, the driver and the GPUs, the assembler for each GPU generation, where compiled kernels are
// kept, the profiler and the knobs that are set; and at the end, in one sentence each, what works and what to do about
// what does not.
#include "doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/device.hpp"

extern char** environ;

namespace tessera {

namespace {

/// What is to be done, in order: the first line of each says what is missing, the others how to mend it.
std::vector<std::string> problems;
bool gpu_ready = false;

/// Naming the compiler links it, and it tells the runtime for which GPUs it can compile (cuda::compiler_probe).
[[gnu::used]] const auto kCompiler = static_cast<decltype(&jit::compile)>(&jit::compile);

/// What a message says to do: the command in it, or the sentence on its own line at the end.
std::string mend_of(const std::string& message) {
  const std::size_t run = message.find("run scripts/");
  if (run != std::string::npos) return message.substr(run, message.find_first_of(",;\n", run) - run);
  const std::size_t line = message.rfind("\n  ");
  return line != std::string::npos ? message.substr(line + 3) : message;
}

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
  if (why.empty()) return;
  std::printf("  %s\n", why.c_str());
  // Without a GPU here it is needed for `tessera build` only.
  problems.push_back(concat("kernels cannot be compiled for every GPU: no assembler that can.\n    ", mend_of(why)));
}

void gpu_report() {
  namespace cuda = runtime::cuda;
  std::string why;
  if (!cuda::available(&why)) {
    std::printf("  %s\n", why.c_str());
    problems.push_back(concat("no GPU can be used.\n    ", mend_of(why)));
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
      gpu_ready |= ready;
      if (!ready) std::printf("          no kernels: %s\n", missing.c_str());
      Device::cuda(i);  // a context: what a driver that is only half there refuses
    } catch (const Error& error) {
      std::printf("          %s\n", error.message().c_str());
      problems.push_back(concat("cuda:", i, " does not work.\n    ", mend_of(error.message())));
      gpu_ready = false;
    }
  }
}

void default_report() { std::printf("  %s\n", default_device().name().c_str()); }

void cache_report() {
  const auto cache = jit::DiskCache::of_user();
  if (!cache) {
    std::puts("  none: TESSERA_CACHE=0, or there is no home folder; every process compiles anew");
    return;
  }
  const auto entries = cache->list();
  std::uint64_t bytes = 0;
  for (const jit::CacheEntry& e : entries) bytes += e.bytes;
  std::printf("  %zu kernels, %.1f of at most %.0f MiB, in %s\n", entries.size(),
              static_cast<double>(bytes) / (1 << 20), static_cast<double>(cache->limit()) / (1 << 20),
              cache->folder().c_str());
  // The folder is made at the first use: what counts is the nearest one that exists.
  std::filesystem::path place = cache->folder();
  std::error_code ignored;
  while (!std::filesystem::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  if (access(place.c_str(), W_OK) == 0) return;
  std::printf("  %s: %s\n", place.c_str(), std::strerror(errno));
  problems.push_back(
      concat("compiled kernels cannot be kept: every process compiles anew.\n    set TESSERA_CACHE_DIR to "
             "a folder that you can write to"));
}

void bundle_report() {
  try {
    for (const jit::Bundle& b : jit::bundles())
      std::printf("  %zu kernels in the bundle %s\n", b.size(), b.path().c_str());
  } catch (const Error& error) {
    std::printf("  %s\n", error.message().c_str());
    problems.push_back(concat("a bundle cannot be used.\n    ", error.message()));
  }
}

void profiler_report() {
  try {
    std::puts(profiling() ? "  attached: it sees ranges of Tessera"
                          : "  none (TESSERA_NVTX=1 under nsys or ncu shows ranges)");
  } catch (const Error& error) {
    std::printf("  %s\n", error.message().c_str());
    problems.push_back(concat("a knob has a wrong value.\n    ", error.message()));
  }
}

/// Knobs, and variables that look like one: a misspelt knob does nothing, silently.
void knob_report() {
  bool any = false;
  const auto table = env_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const char* value = env(static_cast<Env>(i));
    if (!value) continue;
    any = true;
    std::printf("  %s=%s\n      %s\n", table[i].variable, value, table[i].doc);
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("TESSERA_")) continue;
    bool known = false;
    for (const EnvInfo& knob : table) known |= name == knob.variable;
    if (known) continue;
    any = true;
    std::printf("  %s\n      no knob of the library has this name\n", name.c_str());
  }
  if (!any) std::puts("  none is set");
}

void verdict() {
  std::puts(gpu_ready ? "Kernels run on the GPU and on the CPU." : "Kernels run on the CPU.");
  for (std::size_t i = 0; i < problems.size(); ++i) std::printf("%zu. %s\n", i + 1, problems[i].c_str());
}

/// A heading and what is below it. An error (a knob with a value that makes no sense) is one of the findings: the other
/// parts are still of use.
void section(const char* heading, void (*report)()) {
  std::puts(heading);
  try {
    report();
  } catch (const Error& error) {
    std::printf("  %s\n", error.message().c_str());
    const std::string problem = concat(error.message(), "\n    correct it, or unset it");
    if (std::find(problems.begin(), problems.end(), problem) == problems.end()) problems.push_back(problem);
  }
}

}  // namespace

int doctor() {
  std::printf("CPU\n  %u processors; kernels run here without anything else\n", std::thread::hardware_concurrency());
  section("GPUs", gpu_report);
  section("Device used where a program names none", default_report);
  section("Assembler for GPUs (tileiras)", assembler_report);
  section("Compiled kernels on disk", cache_report);
  bundle_report();
  section("Profiler", profiler_report);
  section("Knobs", knob_report);
  std::puts("Result");
  verdict();
  return 0;
}

}  // namespace tessera
