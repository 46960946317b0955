// Hints from a cost model: registers and shared memory decide how many warps, CTAs and steps in flight a kernel can
// have. docs/compiler/choose_hints.md has the figures that the constants come from.
#include <algorithm>
#include <bit>

#include "passes/cost_model.hpp"
#include "passes/hints.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;

namespace {

// Accumulators. Up to the smaller: 1024 cubed on an H200, 271 beside 236 TFLOP/s. Up to the larger: 128 x 96, which one
// block a multiprocessor computes in a single wave, with as many loads in flight as two blocks have together.
constexpr std::int64_t kSmallTile = 64 * 128, kMediumTile = 128 * 96;
constexpr int kSmallSteps = 4;
// From here a block that takes one tile after the other multiplies without pause: 128x128x64 on an H200, one of them
// with 6 steps in flight beside two with 2: 5120 cubed 747 beside 660 TFLOP/s, 4096 cubed 756 and 711, 2048 cubed 693
// and 669.
constexpr std::int64_t kLargeTile = 128 * 128;
constexpr int kMostLatency = 6;  // 256x128x64 on an H200: 6 beats 4 by 9 %
// Of tiles that two CTAs share: 256x256x64 has four steps in flight with 4 and with 6 asked for; with 6 the loop of the
// loads is taken apart (docs/compiler/choose_hints.md).
constexpr int kClusterLatency = 4;
constexpr int kStepsAskedBeyond = 2, kDeepestLatency = 10;  // tileiras 13.5.37: 4 steps each are given for 6, 5 for 7
constexpr std::int64_t kFewestSteps = 3;   // 128x320: where fewer would be left, the assembler stores tiles in pieces
constexpr int kReservedShared = 1024;      // of each CTA, by CUDA
constexpr int kMostBlocksWithoutLoop = 4;  // products of 64x64x64: 4 and 8 blocks 4.35 TB/s, 2 3.13
constexpr int kThinSteps = 3, kMostThinBlocks = 4;  // 64x8 of k 128: 4 CTAs; k 256: 2; k 512: 1 (tileiras, H200)
// Layer norm, rows of 4096 and 1024: 4.13 and 4.11 TB/s beside 3.10 and 3.76.
constexpr int kElementsAWarpChained = 2048;
constexpr int kElementsAWarpNarrow = 1024;  // softmax of 4097: 148 registers and a detour through shared memory; 77
constexpr int kElementsAWarpNarrowAlone = 2048;  // RMS norm of 4097: 3.05 TB/s beside 2.62
constexpr int kMostRowWarps = 8;
constexpr int kManyRowWarps = 4;  // rows of 5120: layer norm 3.53 TB/s beside 2.71, RMS norm (8 warps) 4.09 beside 3.20
// With more a thread has no registers for what is computed from them: a row of 32768 in 8 warps takes 255, in 16 128.
constexpr int kMostElementsAThread = 64, kMostWideRowWarps = 16;
// Odd rows walked in chunks: of 1024, 4097 elements a row, 1 warp: layer norm 2.41 TB/s, 2 warps: 2.21; of 4096, 50257
// a row, 16 warps: softmax 2.43, RMS norm 2.41, layer norm 2.22 TB/s, 8 warps: 2.28, 2.19, 2.04.
constexpr int kOneWarpChunk = 1024, kManyWarpsChunk = 4096, kMostWalkWarps = 16;
constexpr int kRowRegisters = 16;  // beside what a row kernel keeps: softmax and layer norm of 16384 fit into 64 + 16
// One warp a block, beside a row: layer norm of 1000 takes 95 registers if nobody says anything (3.72 TB/s), 61 with 32
// beside its row (4.13), and spills with 16 (3.96). The assembler shares registers out as to blocks of four warps.
constexpr int kLoneWarpRegisters = 32, kFewestSharingWarps = 4;
constexpr int kVectorBytes = 16;  // of one load of a thread
constexpr int kBytesAWarp = 32 * kVectorBytes;
constexpr int kElementsAWarp = 512;  // 16 elements a thread: docs/compiler/choose_hints.md
// Of reductions, H200: rows of 4096 bf16 that become i8 2.57 TB/s beside 2.25 with 512; several rows of 64 to 256 a
// block, layer norm 4.24 TB/s beside 4.13 with 512 and 3.70 with 2048.
constexpr int kElementsAWarpReduced = 1024;

/// The largest power of two that is at most n; 1 of what is smaller.
int power_of_two_below(std::int64_t n) {
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

/// Row and elementwise kernels. Where tiles are only moved, one vector a thread: neighbours access neighbours at once.
/// Else 16 elements a thread; 64 where reductions wait for each other, because each is a
/// barrier for all warps of the block. Not behind a loop over chunks: there they come once a row, and what the loop
/// gathers has to fit into registers beside what it loads.
Choices choose_for_rows(const analysis::KernelFacts& facts) {
  Choices c;
  // Of several rows, those with at most one vector for each thread of a warp are one warp's: no reduction waits for
  // another warp.
  const bool row_of_a_warp = facts.longest_row < facts.largest_tile &&
                             facts.longest_row * facts.largest_bytes <= kBytesAWarp * facts.largest_tile;
  const bool chained = facts.chained_reductions && !facts.reduces_after_loop && !row_of_a_warp;
  const bool narrow = facts.narrow && !facts.reduces_after_loop;
  const int elements = chained                     ? narrow ? kElementsAWarpNarrow : kElementsAWarpChained
                       : narrow                    ? kElementsAWarpNarrowAlone
                       : facts.reduces_across_rows ? kElementsAWarpChained
                       : facts.longest_row > 0 && !facts.reduces_after_loop ? kElementsAWarpReduced
                                                                            : kElementsAWarp;
  const std::int64_t warps = facts.moved_bytes > 0 ? facts.moved_bytes / kBytesAWarp : facts.largest_tile / elements;
  c.warps = std::clamp(power_of_two_below(warps), 1, kMostRowWarps);
  const std::int64_t fewest = facts.largest_tile / (32 * kMostElementsAThread);
  c.warps = std::max(c.warps, std::min(power_of_two_below(fewest), kMostWideRowWarps));
  // A row that is multiplied with each row of a tile: with fewer than one vector for each thread it is spread otherwise
  // than the tile, and goes through shared memory in every step, with four barriers.
  if (facts.repeated_bytes > 0)
    c.warps = std::clamp(power_of_two_below(facts.repeated_bytes / kBytesAWarp), 1, c.warps);
  if (facts.reduces_after_loop && facts.narrow && facts.repeated_bytes == 0) {
    // One warp needs no barrier; if there have to be several, many have more of the small accesses in flight.
    if (facts.largest_tile <= kOneWarpChunk) c.warps = 1;
    if (facts.largest_tile >= kManyWarpsChunk) c.warps = kMostWalkWarps;
  }
  // A block that has walked its row waits at a barrier: another has to go on loading.
  if (facts.reduces_after_loop && c.warps >= kMostRowWarps) c.occupancy = 2;
  const bool waits = facts.longest_row > 0 && !facts.reduces_after_loop;
  if (!facts.narrow && waits && (c.warps == kMostRowWarps || (chained && (c.warps == 1 || c.warps >= kManyRowWarps)))) {
    // Few blocks share a multiprocessor, and while they wait at a barrier they load nothing: one more is worth the
    // registers that the assembler would take for comfort.
    const std::int64_t threads = std::int64_t{c.warps} * 32;
    // A sum keeps nothing for later, and yet holds its row while it adds.
    const std::int64_t held = std::max(c.warps == 1 ? 0 : facts.kept_for_later, facts.largest_tile);
    const std::int64_t registers = held / threads + (c.warps == kMostRowWarps ? kRowRegisters : kLoneWarpRegisters);
    const std::int64_t blocks = kRegisters / (std::max(threads, std::int64_t{kFewestSharingWarps} * 32) * registers);
    if (blocks > 1) c.occupancy = static_cast<int>(blocks);
  }
  return c;
}

/// Bytes of what tensor copies load for no product: a tile that meets a result.
std::int64_t copied_beside(const ir::Function& f, const analysis::KernelFacts& facts) {
  std::vector<const Operation*> operands;
  for (const analysis::Product& p : facts.products)
    for (std::size_t i = 0; i < 2; ++i)
      for (const Operation* load : analysis::loads_of(p.op->operand(i))) operands.push_back(load);
  std::int64_t bytes = 0;
  ir::walk(f.body(), [&](const Operation& op) {
    const bool copied = op.op() == Op::LoadViewTko && hint(op, "allow_tma") == nullptr && op.result(0).has_uses();
    if (copied && std::find(operands.begin(), operands.end(), &op) == operands.end())
      bytes += analysis::bytes_of(op.result(0).type());
  });
  return bytes;
}

/// Steps that fit into the shared memory of a CTA beside the tiles that it stores from there.
std::int64_t steps_that_fit(const StepLoad& load, const analysis::KernelFacts& facts, const Choices& c,
                            const Machine& m) {
  const std::int64_t own = std::int64_t{m.shared_kib} * 1024 / c.occupancy - kReservedShared;
  const std::int64_t step = load.bytes - load.left_bytes + load.left_bytes / c.ctas;
  return (own - facts.stored_bytes / c.ctas) / step;
}

/// The same where tensor copies also load what meets a result: no more than asked for so far.
int latency_beside(std::int64_t copied, const analysis::KernelFacts& facts, const Choices& c, const Machine& m) {
  analysis::KernelFacts all = facts;
  all.stored_bytes += copied;
  return static_cast<int>(std::clamp<std::int64_t>(steps_that_fit(step_load(facts), all, c, m), 2, c.latency));
}

/// Kernels with products.
Choices choose_for_products(const analysis::KernelFacts& facts, const Machine& m) {
  const StepLoad load = step_load(facts);
  const bool chained = std::any_of(facts.products.begin(), facts.products.end(),
                                   [](const analysis::Product& p) { return p.fed_by_product; });
  Choices c;
  c.warps = warps_for(load, m);
  // CTAs share a tile by rows, and each needs the 128 that its two warpgroups multiply at once.
  if (m.clusters && !chained && load.rows > 128 && load.accumulators > std::int64_t{8} * 32 * m.accumulators_a_thread)
    c.ctas = 2;
  const std::int64_t threads = c.warps * 32;
  const std::int64_t held = load.accumulators / c.ctas / threads;
  const std::int64_t registers = std::min<std::int64_t>(held + kOtherRegisters, kRegistersAThread) * threads;
  // Nothing is in flight ahead of a product that no loop surrounds: other blocks' loads have to be.
  const int most = load.bytes == 0 ? kMostBlocksWithoutLoop : 2;
  c.occupancy = static_cast<int>(std::clamp<std::int64_t>(kRegisters / registers, 1, most));
  if (load.bytes == 0) return c;
  const bool thin = std::all_of(facts.products.begin(), facts.products.end(), waits_for_memory);
  if (!chained && thin) {
    // A few rows times weights: three steps of each CTA in flight, and as many CTAs as that leaves room for.
    const std::int64_t shared = std::int64_t{m.shared_kib} * 1024;
    c.occupancy = static_cast<int>(std::clamp<std::int64_t>(shared / (kThinSteps * load.bytes), 1, kMostThinBlocks));
    c.latency = static_cast<int>(std::clamp<std::int64_t>(shared / c.occupancy / load.bytes, 2, kMostLatency));
    return c;
  }
  // Small tiles are for problems that hardly fill the machine: one block a multiprocessor, with deeper loads. So are
  // products of warpgroups from 128 x 128 on, which keep a multiprocessor busy from one block.
  const bool small = !facts.deals_out_work && !chained && load.accumulators <= kMediumTile;
  const bool alone = m.sm == kWarpgroupProducts && !chained && load.accumulators >= kLargeTile && facts.deals_out_work;
  if (small || alone) c.occupancy = 1;
  if (small) {
    c.latency = load.accumulators <= kSmallTile ? kSmallSteps : kMostLatency;
    // Where so many steps leave no room for a second block anyway, two with half of them each: 128x64 of k 128, few
    // rows times weights, 4.11 beside 3.95 TB/s (H200). Smaller tiles are for fewer weights, and lose by it.
    const std::int64_t all = load.bytes * kSmallSteps, shared = std::int64_t{m.shared_kib} * 1024;
    if (load.accumulators == kSmallTile && 2 * all > shared && all <= shared)
      c.occupancy = 2, c.latency = kSmallSteps / 2;
    return c;
  }
  if (!chained && load.products > 1) {
    // Pieces of parts. The assembler deals shared memory out to the loads; with this many steps asked for each gets as
    // many as the others, so the sums of all parts are one pipeline.
    const std::int64_t steps = std::max(steps_that_fit(load, facts, c, m), kFewestSteps) + kStepsAskedBeyond;
    c.latency = static_cast<int>(std::clamp<std::int64_t>(steps, 2, kDeepestLatency));
    return c;
  }
  // Blocks of one tile load and store while others multiply: two with three steps each, 128x128x64 of k 8192 699 beside
  // 666 TFLOP/s, of k 256 435 beside 314 (H200).
  const bool one_each = m.sm == kWarpgroupProducts && !facts.deals_out_work;
  // Steps that fit into the shared memory of one CTA where several share it; alone, as far ahead as pays.
  const std::int64_t steps = std::int64_t{m.shared_kib} * 1024 / c.occupancy / load.bytes;
  c.latency = chained && thin    ? static_cast<int>(std::clamp<std::int64_t>(steps, 2, kMostLatency))
              : chained          ? 2
              : c.ctas > 1       ? kClusterLatency
              : c.occupancy == 1 ? kMostLatency
              : one_each         ? static_cast<int>(std::clamp<std::int64_t>(steps, 2, kMostLatency))
                                 : static_cast<int>(std::clamp<std::int64_t>(steps / 2 * 2, 2, kMostLatency));
  return c;
}

constexpr int kMostWarps = 32;  // 1024 threads a block, every generation

void require_power_of_two(const char* what, int value, int most) {
  if (value >= 1 && value <= most && (value & (value - 1)) == 0) return;
  throw CompileError(concat("tuning: expected ", what, " as a power of two from 1 to ", most, ", found ", value));
}
void require_range(const char* what, int value, int most) {
  if (value >= 1 && value <= most) return;
  throw CompileError(concat("tuning: expected ", what, " from 1 to ", most, ", found ", value));
}

void override_choices(Choices& c, const Tuning& t, const Machine& m) {
  require_power_of_two("spread", t.spread, 4);
  if (c.warps > 0) c.warps = std::min(c.warps * t.spread, kMostWarps);
  if (t.warps) require_power_of_two("warps", c.warps = *t.warps, kMostWarps);
  if (t.ctas) require_power_of_two("CTAs per cluster", c.ctas = *t.ctas, m.clusters ? 16 : 1);
  if (t.occupancy) require_range("occupancy", c.occupancy = *t.occupancy, 32);
  if (t.latency) require_range("latency", c.latency = *t.latency, 10);
  if (t.ahead && (*t.ahead < 0 || *t.ahead > 2))
    throw CompileError(concat("tuning: expected ahead from 0 to 2, found ", *t.ahead));
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

Choices choose_hints(ir::Function& f, const Target& target, const Tuning& tuning, const Choices& before) {
  const analysis::KernelFacts facts = analysis::kernel_facts(f);
  const Machine& m = machine_of(target.sm);
  Choices c;
  if (tuning.choose_hints) c = facts.products.empty() ? choose_for_rows(facts) : choose_for_products(facts, m);
  if (const std::int64_t copied = c.latency > 2 && c.occupancy > 0 ? copied_beside(f, facts) : 0; copied > 0)
    c.latency = latency_beside(copied, facts, c, m);
  override_choices(c, tuning, m);
  set_entry_hints(f, c);
  if (c.latency > 0)
    for (const analysis::Product& p : facts.products)
      for (Operation* load : p.step_loads)
        // Where a result is corrected, one step in flight is enough: more would take shared memory from what usually
        // runs.
        set_hint(*load, "latency", ir::IntAttr{ir::Elem::I32, analysis::mends_products(*load) ? 1 : c.latency});
  c.pieces = before.pieces;
  c.persistent_blocks = std::max(1, target.multiprocessors * std::max(c.occupancy, 1) / c.ctas);
  return c;
}

}  // namespace tessera::passes
