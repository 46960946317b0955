// A kernel in numbers (features.def): what choose_hints knows of it.
#include "tessera/passes/features.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/hints.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;

namespace {

constexpr FeatureInfo kTable[] = {
#define TESSERA_FEATURE(name, doc) {#name, doc},
#include "tessera/passes/features.def"
};
constexpr double kHundred = 100;

std::int64_t hundredths(double part, double whole) {
  return whole > 0 ? static_cast<std::int64_t>(std::llround(kHundred * part / whole)) : 0;
}

void count_accesses(const ir::Function& f, Features& to) {
  using enum Feature;
  const analysis::Divisibility known(f);
  std::int64_t least = analysis::kVectorBytes;
  ir::walk(f.body(), [&](const Operation& op) {
    to[loops] = std::max<std::int64_t>(to[loops], analysis::loops_around(op));
    const auto access = analysis::access_of(op);
    if (!access || access->tile.num_elements() == 1) return;
    if (access->kind == analysis::AccessKind::Atomic) ++to[atomics];
    if (access->stores()) ++to[stores];
    if (!access->loads()) return;
    ++to[loads];
    if (analysis::loops_around(op) > 0) ++to[loop_loads];
    if (access->pointers) ++to[gathers];
    if (const std::int64_t bytes = analysis::vector_bytes(op, known); bytes > 0) least = std::min(least, bytes);
  });
  to[narrowest] = to[loads] > 0 ? least : 0;
}

std::int64_t widest_element(const ir::Function& f) {
  std::int64_t most = 1;
  ir::walk(f.body(), [&](const Operation& op) {
    for (std::size_t r = 0; r < op.num_results(); ++r)
      if (const ir::Type t = op.result(r).type(); t.is_tile() && !t.is_pointer() && t.num_elements() > 1)
        most = std::max<std::int64_t>(most, ir::info(t.elem()).bytes);
  });
  return most;
}

void note_products(const ir::Function& f, const analysis::KernelFacts& facts, const Target& target, Features& to) {
  using enum Feature;
  if (facts.products.empty()) return;
  const StepLoad load = step_load(facts);
  const auto any = [&](auto of) { return std::ranges::any_of(facts.products, of) ? 1 : 0; };
  to[products] = static_cast<std::int64_t>(facts.products.size());
  to[tensor_cores] = any([](const analysis::Product& p) { return analysis::uses_tensor_cores(*p.op); });
  to[accumulators] = load.accumulators;
  to[rows] = load.rows;
  to[step_bytes] = load.bytes;
  to[left_bytes] = load.left_bytes;
  to[chain] = any([](const analysis::Product& p) { return p.fed_by_product; });
  to[thin] = std::ranges::all_of(facts.products, waits_for_memory) ? 1 : 0;
  to[kept_twice] = load.kept_twice ? 1 : 0;
  to[loads_others] = load.loads_others ? 1 : 0;
  to[beside_bytes] = copied_beside(f, facts);
  to[through_registers] = elements_through_registers(f, facts, target.sm);
}

}  // namespace

std::span<const FeatureInfo> feature_table() noexcept { return kTable; }

Features features_of(const ir::Function& f, const analysis::KernelFacts& facts, const Target& target, bool few_pieces,
                     std::int64_t scanned_registers) {
  using enum Feature;
  Features to;
  to[tile] = facts.largest_tile;
  to[tile_bytes] = facts.largest_bytes;
  to[computed] = facts.largest_computed;
  to[loaded_bytes] = passes::loaded_bytes(f);
  to[stored_bytes] = facts.stored_bytes;
  to[widest_bytes] = widest_element(f);
  const analysis::LiveRegisters registers = analysis::live_registers(f);
  to[live] = registers.most;
  to[live_in_loop] = registers.in_loop;
  const analysis::BlockWork work = analysis::work_of(f);
  to[instructions] = hundredths(work.instructions, static_cast<double>(facts.largest_tile));
  to[instructions_a_byte] = hundredths(work.instructions, static_cast<double>(work.bytes));
  to[functions] = hundredths(work.functions, work.instructions);
  count_accesses(f, to);
  to[neighbours] = static_cast<std::int64_t>(analysis::neighbours_of(f));
  to[reductions] = facts.large_reductions;
  to[row] = facts.longest_row;
  to[combined] = facts.combined_rows;
  to[kept] = facts.kept_for_later;
  to[chained] = facts.chained_reductions ? 1 : 0;
  to[across] = facts.reduces_across_rows ? 1 : 0;
  to[in_loop] = facts.reduces_in_loop ? 1 : 0;
  to[after_loop] = facts.reduces_after_loop ? 1 : 0;
  to[narrow_rows] = facts.narrow ? 1 : 0;
  to[repeated_bytes] = facts.repeated_bytes;
  to[scanned] = scanned_registers;
  to[persistent] = facts.is_persistent ? 1 : 0;
  to[one_wave] = few_pieces ? 1 : 0;
  note_products(f, facts, target, to);
  return to;
}

}  // namespace tessera::passes
