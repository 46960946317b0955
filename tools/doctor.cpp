// Reports the processors, the assembler for each GPU generation, and the knobs that are set.
#include "doctor.hpp"

#include <cstdio>
#include <string>
#include <thread>

#include "tessera/base/env.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera {

namespace {

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
  std::puts("Assembler for GPUs (tileiras)");
  assembler_report();
  std::puts("Knobs");
  knob_report();
  return 0;
}

}  // namespace tessera
