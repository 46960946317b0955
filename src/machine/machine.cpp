// The table of GPUs, and what follows from a row.
#include "tessera/machine/machine.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/format.hpp"

namespace tessera::machine {
namespace {

constexpr auto kMachines = std::to_array<Machine>({
#define TESSERA_MACHINE(sm, gpu, num_sms, shared_kib, warps, accumulators, clusters, instructions, ...) \
  {sm, gpu, num_sms, shared_kib, warps, accumulators, clusters, instructions, {__VA_ARGS__}},
#include "machine/machines.def"
});
static_assert(std::is_sorted(kMachines.begin(), kMachines.end(),
                             [](const Machine& a, const Machine& b) { return a.sm < b.sm; }));
static_assert(std::max_element(kMachines.begin(), kMachines.end(), [](const Machine& a, const Machine& b) {
                return a.warps < b.warps;
              })->warps == kMaxWarps);

}  // namespace

std::span<const Machine> machines() noexcept { return kMachines; }

const Machine* find_machine(int sm) noexcept {
  const auto* found = std::find_if(kMachines.begin(), kMachines.end(), [&](const Machine& m) { return m.sm == sm; });
  return found == kMachines.end() ? nullptr : found;
}

const Machine& machine_of(int sm) noexcept {
  const Machine* best = &kMachines.front();
  for (const Machine& m : kMachines)
    if (m.sm <= sm) best = &m;
  return *best;
}

double rate_of(const Machine& machine, std::string_view element) noexcept {
  struct Named {
    std::string_view element;
    double Rates::*rate;
  };
  constexpr Named kNames[] = {{"f64", &Rates::f64},  {"f32", &Rates::f32}, {"tf32", &Rates::tf32}, {"f16", &Rates::f16},
                              {"bf16", &Rates::f16}, {"f8", &Rates::f8},   {"i8", &Rates::i8}};
  for (const Named& n : kNames)
    if (n.element == element) return machine.rates.*n.rate;
  return 0;
}

std::string gpu_name(int sm) { return concat("sm_", sm); }

int resident_blocks(int sm, unsigned registers, unsigned threads, std::uint64_t shared) noexcept {
  constexpr std::uint64_t kGranule = kRegisterGranule, kWarp = kThreadsAWarp;  // a cubin may state any number
  const Machine& m = machine_of(sm);
  const std::uint64_t warps = std::max<std::uint64_t>((threads + kWarp - 1) / kWarp, 1);
  std::uint64_t blocks = static_cast<std::uint64_t>(m.warps) / warps;
  if (registers > 0 && threads > 0) {
    // An SM has four partitions, each with a quarter of the registers; registers are allocated eight at a time.
    const std::uint64_t of_a_warp = (registers + kGranule - 1) / kGranule * kGranule * kWarp;
    blocks = std::min(blocks, kRegisters / kPartitions / of_a_warp * kPartitions / warps);
  }
  // CUDA reserves a KiB of each block. From sm_90 on, the section of a cubin begins with it: a kernel with 64 KiB of
  // tiles has 65 KiB there, for sm_80 it has 64.
  constexpr int kFirstThatCounts = 90;
  const std::uint64_t used = sm < kFirstThatCounts ? shared + kReservedShared : shared;
  if (shared > 0) blocks = std::min(blocks, static_cast<std::uint64_t>(m.shared_kib) * 1024 / used);
  return static_cast<int>(blocks);
}

}  // namespace tessera::machine
