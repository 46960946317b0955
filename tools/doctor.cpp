// Reports the CPU, the driver and the GPUs, the assembler for each GPU generation, the cache of compiled kernels, the
// profiler and the environment variables that are set; at the end, what works, and for each problem the command that
// fixes it.
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

/// The problems, in order: the first line of each says what is missing, the others how to fix it.
std::vector<std::string> problems;
bool gpu_ready = false;

/// Referring to the compiler links it; it then registers with the runtime (cuda::compiler_probe).
[[gnu::used]] const auto kCompiler = static_cast<decltype(&jit::compile)>(&jit::compile);

/// The fix in a message: the command in it, or the sentence on its own line at the end.
std::string fix_of(const std::string& message) {
  if (message.find(tileiras::kHowToGet) != std::string::npos) return tileiras::kHowToGet;
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
  problems.push_back(
      concat("there is no assembler for some GPUs, so kernels cannot be compiled for them.\n    ", fix_of(why)));
}

void gpu_report() {
  namespace cuda = runtime::cuda;
  std::string why;
  if (!cuda::available(&why)) {
    std::printf("  %s\n", why.c_str());
    problems.push_back(concat("no GPU can be used.\n    ", fix_of(why)));
    return;
  }
  for (int i = 0; i < cuda::device_count(); ++i) {
    try {
      const cuda::DeviceInfo gpu = cuda::describe_device(i);
      if (i == 0) std::printf("  driver for CUDA %d.%d\n", gpu.driver_version / 1000, gpu.driver_version % 1000 / 10);
      std::printf("  cuda:%d  %s, sm_%d, %d SMs, %zu MiB\n", i, gpu.name.c_str(), gpu.sm(), gpu.num_sms,
                  gpu.memory >> 20);
      std::string missing = "this program cannot compile kernels";
      const cuda::CompilerProbe can_compile = cuda::compiler_probe();
      const bool ready = can_compile != nullptr && can_compile(gpu, &missing);
      gpu_ready |= ready;
      if (!ready) std::printf("          no kernels: %s\n", missing.c_str());
      Device::cuda(i);  // creates a context, which fails if the driver is incomplete
    } catch (const Error& error) {
      std::printf("          %s\n", error.message().c_str());
      problems.push_back(concat("cuda:", i, " does not work.\n    ", fix_of(error.message())));
      gpu_ready = false;
    }
  }
}

void default_report() { std::printf("  %s\n", default_device().name().c_str()); }

/// The kernels that took the assembler longest, of those that took it more than a second.
void slowest_report(const std::vector<jit::CacheEntry>& entries) {
  constexpr std::size_t kShown = 3;
  std::vector<const jit::CacheEntry*> slow;
  for (const jit::CacheEntry& e : entries)
    if (e.valid && e.code.seconds >= 1) slow.push_back(&e);
  std::sort(slow.begin(), slow.end(), [](auto* a, auto* b) { return a->code.seconds > b->code.seconds; });
  if (slow.size() > kShown) slow.resize(kShown);
  for (const jit::CacheEntry* e : slow)
    std::printf("  %s for %s took the assembler %.1f s\n", e->code.label.c_str(), e->code.gpu.c_str(), e->code.seconds);
}

void cache_report() {
  const auto cache = jit::DiskCache::of_user();
  if (!cache) {
    std::puts("  none: TESSERA_CACHE=0, or there is no home folder; every process compiles its kernels again");
    return;
  }
  const auto entries = cache->list();
  std::uint64_t bytes = 0;
  for (const jit::CacheEntry& e : entries) bytes += e.bytes;
  std::printf("  %zu kernels, %.1f of at most %.0f MiB, in %s\n", entries.size(),
              static_cast<double>(bytes) / (1 << 20), static_cast<double>(cache->limit()) / (1 << 20),
              cache->folder().c_str());
  slowest_report(entries);
  // The folder is created at the first use: tests the nearest parent folder that exists.
  std::filesystem::path place = cache->folder();
  std::error_code ignored;
  while (!std::filesystem::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  if (access(place.c_str(), W_OK) == 0) return;
  std::printf("  %s: %s\n", place.c_str(), std::strerror(errno));
  problems.push_back(
      concat("compiled kernels cannot be cached: every process compiles them again.\n    set TESSERA_CACHE_DIR to "
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
    std::puts(profiling() ? "  attached: it shows ranges of Tessera"
                          : "  none (TESSERA_NVTX=1 under nsys or ncu shows ranges)");
  } catch (const Error& error) {
    std::printf("  %s\n", error.message().c_str());
    problems.push_back(concat("an environment variable has an invalid value.\n    ", error.message()));
  }
}

/// Reports environment variables of the library, and unknown ones that begin with TESSERA_: a misspelt name would have
/// no effect, silently.
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
    std::printf("  %s\n      unknown: the library reads no variable of this name\n", name.c_str());
  }
  if (!any) std::puts("  none is set");
}

void verdict() {
  std::puts(gpu_ready ? "Kernels run on the GPU and on the CPU." : "Kernels run on the CPU.");
  for (std::size_t i = 0; i < problems.size(); ++i) std::printf("%zu. %s\n", i + 1, problems[i].c_str());
}

/// Prints a heading and the report below it. An error (an environment variable with an invalid value) is one of the
/// findings: the other reports are still printed.
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
  std::printf("CPU\n  %u processors; kernels run here without further requirements\n",
              std::thread::hardware_concurrency());
  section("GPUs", gpu_report);
  section("Default device", default_report);
  section("Assembler for GPUs (tileiras)", assembler_report);
  section("Compiled kernels on disk", cache_report);
  bundle_report();
  section("Profiler", profiler_report);
  section("Environment variables", knob_report);
  std::puts("Result");
  verdict();
  return 0;
}

}  // namespace tessera
