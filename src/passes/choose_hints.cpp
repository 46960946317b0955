// Hints from a cost model: registers and shared memory decide how many warps, CTAs and steps in flight a kernel can
// have. docs/compiler/choose_hints.md has the figures that the constants come from.
#include <algorithm>
#include <array>

#include "passes/hints.hpp"
#include "passes/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;

namespace {

/// What a generation offers to one multiprocessor (CUDA C++ Programming Guide, table of technical specifications), and
/// what one thread can hold of an accumulator before another warp is better.
struct Machine {
  int sm;
  int shared_kib;             ///< of a multiprocessor
  int accumulators_a_thread;  ///< 32-bit registers; where products accumulate in tensor memory, elements a thread moves
  bool clusters;
};
constexpr std::array<Machine, 10> kMachines{{
    {80, 164, 128, false},
    {86, 100, 128, false},
    {87, 164, 128, false},
    {88, 100, 128, false},
    {89, 100, 128, false},
    {90, 228, 128, true},
    {100, 228, 256, true},
    {103, 228, 256, true},
    {110, 228, 256, true},
    {120, 100, 128, false},
}};
constexpr int kRegisters = 65536;       // of a multiprocessor, every generation since sm_30
constexpr int kOtherRegisters = 96;     // of a thread beside its accumulators: addresses, fragments (as assembled)
constexpr int kRegistersAThread = 255;  // the most a thread can have
constexpr int kElementsAWarp = 512;     // 16 elements a thread: docs/compiler/choose_hints.md

const Machine& machine_of(int sm) {
  const Machine* best = &kMachines.front();
  for (const Machine& m : kMachines)
    if (m.sm <= sm) best = &m;
  return *best;
}

int power_of_two_below(std::int64_t n) {
  int p = 1;
  while (std::int64_t{p} * 2 <= n) p *= 2;
  return p;
}

/// Row and elementwise kernels: 16 elements a thread.
Choices choose_for_rows(const KernelFacts& facts) {
  Choices c;
  c.warps = std::clamp(power_of_two_below(facts.largest_tile / kElementsAWarp), 1, 8);
  return c;
}

/// Accumulators that are alive at once, summed over the products of the deepest loop. A product in a chain holds its
/// result beside that of the next one.
struct Load {
  std::int64_t accumulators = 0, bytes_a_step = 0;
};
Load load_of(const KernelFacts& facts) {
  Load l;
  int deepest = 0;
  for (const Product& p : facts.products) deepest = std::max(deepest, p.loops);
  for (const Product& p : facts.products) {
    if (p.loops != deepest) continue;
    l.accumulators += p.accumulators;
    l.bytes_a_step += p.loaded_bytes;
  }
  return l;
}

/// Kernels with products.
Choices choose_for_products(const KernelFacts& facts, const Machine& m) {
  const Load load = load_of(facts);
  const bool chained =
      std::any_of(facts.products.begin(), facts.products.end(), [](const Product& p) { return p.fed_by_product; });
  Choices c;
  c.warps = load.accumulators > std::int64_t{4} * 32 * m.accumulators_a_thread ? 8 : 4;
  if (m.clusters && !chained && load.accumulators > std::int64_t{8} * 32 * m.accumulators_a_thread) c.ctas = 2;
  const std::int64_t threads = c.warps * 32;
  const std::int64_t held = load.accumulators / c.ctas / threads;
  const std::int64_t registers = std::min<std::int64_t>(held + kOtherRegisters, kRegistersAThread) * threads;
  c.occupancy = static_cast<int>(std::clamp<std::int64_t>(kRegisters / registers, 1, 2));
  if (load.bytes_a_step == 0) return c;
  // Steps that fit into the shared memory of one CTA; CTAs of a cluster share the operands of one side.
  const std::int64_t bytes = c.ctas == 1 ? load.bytes_a_step : load.bytes_a_step * 3 / 4;
  const std::int64_t steps = std::int64_t{m.shared_kib} * 1024 / c.occupancy / bytes;
  c.latency = chained ? 2 : static_cast<int>(std::clamp<std::int64_t>(steps / 2 * 2, 2, 6));
  return c;
}

void require_power_of_two(const char* what, int value, int most) {
  if (value >= 1 && value <= most && (value & (value - 1)) == 0) return;
  throw CompileError(concat("tuning: expected ", what, " as a power of two from 1 to ", most, ", found ", value));
}
void require_range(const char* what, int value, int most) {
  if (value >= 1 && value <= most) return;
  throw CompileError(concat("tuning: expected ", what, " from 1 to ", most, ", found ", value));
}

void override_choices(Choices& c, const Tuning& t, const Machine& m) {
  if (t.warps) require_power_of_two("warps", c.warps = *t.warps, 32);
  if (t.ctas) require_power_of_two("CTAs per cluster", c.ctas = *t.ctas, m.clusters ? 16 : 1);
  if (t.occupancy) require_range("occupancy", c.occupancy = *t.occupancy, 32);
  if (t.latency) require_range("latency", c.latency = *t.latency, 10);
}

void set_entry_hints(ir::Function& f, const Choices& c) {
  ir::DictAttr hints;
  if (c.ctas > 1) hints.entries.emplace_back("num_cta_in_cga", ir::IntAttr{ir::Elem::I32, c.ctas});
  if (c.warps > 0) hints.entries.emplace_back("num_worker_warps_per_cta", ir::IntAttr{ir::Elem::I32, c.warps});
  if (c.occupancy > 0) hints.entries.emplace_back("occupancy", ir::IntAttr{ir::Elem::I32, c.occupancy});
  f.hints = {};
  if (!hints.entries.empty()) f.hints.entries.emplace_back("default", std::move(hints));
}

}  // namespace

Choices choose_hints(ir::Function& f, const Target& target, const Tuning& tuning) {
  const KernelFacts facts = kernel_facts(f);
  const Machine& m = machine_of(target.sm);
  Choices c = facts.products.empty() ? choose_for_rows(facts) : choose_for_products(facts, m);
  override_choices(c, tuning, m);
  set_entry_hints(f, c);
  if (c.latency > 0)
    for (const Product& p : facts.products)
      for (Operation* load : p.step_loads) set_hint(*load, "latency", ir::IntAttr{ir::Elem::I32, c.latency});
  c.persistent_blocks = std::max(1, target.multiprocessors * std::max(c.occupancy, 1) / c.ctas);
  return c;
}

}  // namespace tessera::passes
