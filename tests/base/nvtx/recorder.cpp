// A profiler for tests: what NVTX_INJECTION64_PATH may name. Appends a line per event to the file NVTX_RECORD:
//   domain <name> | category <number> <name> | push <thread> <category> <message> | pop <thread>
// NVTX_REFUSE=1: declines to attach.
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "base/nvtx.hpp"

namespace {

using namespace tessera;

std::FILE* out() {
  static std::FILE* file = std::fopen(std::getenv("NVTX_RECORD"), "a");
  return file;
}
std::mutex mutex;

template <class... A>
void line(const char* format, A... a) {
  const std::lock_guard lock(mutex);
  std::fprintf(out(), format, a...);
  std::fflush(out());
}

/// A number per thread, from 1.
int thread_number() {
  static int threads = 0;
  thread_local int mine = 0;
  const std::lock_guard lock(mutex);
  if (mine == 0) mine = ++threads;
  return mine;
}

int domain_of_tessera;

nvtx::Domain create_domain(const char* name) {
  line("domain %s\n", name);
  return &domain_of_tessera;
}
void name_category(nvtx::Domain domain, std::uint32_t category, const char* name) {
  if (domain == &domain_of_tessera) line("category %u %s\n", category, name);
}
int push(nvtx::Domain domain, const nvtx::EventAttributes* event) {
  const bool whole = domain == &domain_of_tessera && event->version == 3 && event->size == 48 &&
                     event->message_type == 1 && event->color_type == 1;
  line("push %d %u %s\n", thread_number(), event->category, whole ? event->message : "MALFORMED");
  return 0;
}
int pop(nvtx::Domain domain) {
  line("pop %d%s\n", thread_number(), domain == &domain_of_tessera ? "" : " MALFORMED");
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx::GetExportTable get_table) {
  if (std::getenv("NVTX_REFUSE")) return 0;
  const auto* callbacks = static_cast<const nvtx::CallbacksTable*>(get_table(nvtx::kCallbacksTable));
  const auto* version = static_cast<const nvtx::VersionTable*>(get_table(nvtx::kVersionTable));
  if (!out() || !callbacks || callbacks->struct_size < sizeof *callbacks || !version || version->version != 3) return 0;
  nvtx::Function** slots = nullptr;
  unsigned count = 0;
  for (int module = 1; module < nvtx::kModules; ++module) {  // profilers fill whatever they know
    if (!callbacks->get_module_functions(module, &slots, &count) || count != nvtx::kSlots[module]) return 0;
  }
  if (!callbacks->get_module_functions(nvtx::kCore2, &slots, &count)) return 0;
  *slots[nvtx::kCreateDomain] = reinterpret_cast<nvtx::Function>(&create_domain);
  *slots[nvtx::kNameCategory] = reinterpret_cast<nvtx::Function>(&name_category);
  *slots[nvtx::kRangePush] = reinterpret_cast<nvtx::Function>(&push);
  *slots[nvtx::kRangePop] = reinterpret_cast<nvtx::Function>(&pop);
  return 1;
}
