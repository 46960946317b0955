// Chooses warps, CTAs, occupancy and latency from a cost model: registers and shared memory limit them.
// docs/compiler/choose_hints.md has the rules, bench/notes/choose_hints.md the measurements behind the constants.
#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "passes/asks.hpp"
#include "passes/cost_model.hpp"
#include "passes/hints.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/passes.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using machine::kFewestSharingWarps;
using machine::kRegisters;
using machine::kRegistersAThread;
using machine::kReservedShared;
using machine::kTensorCopies;
using machine::kThreadsAWarp;
using machine::kWarpgroupProducts;
using machine::Machine;
using machine::machine_of;

namespace {

// All constants were measured on an H200 or H100 with tileiras 13.5.37; bench/notes/choose_hints.md has the runs.
// Accumulators of a tile up to which one block per SM is best, with as many loads in flight as two blocks would have.
constexpr std::int64_t kSmallTile = 64 * 128, kMediumTile = 128 * 96;
constexpr int kSmallSteps = 4;
// Accumulators of a tile of which three blocks share an SM, in launches that have several for each.
constexpr std::int64_t kTinyTile = 64 * 64;
constexpr int kMaxBlocksOfTinyTiles = 3;
// From this size on one block of a persistent kernel keeps the tensor cores busy by itself, and two blocks on an SM and
// one block alone are compiled differently.
constexpr std::int64_t kLargeTile = 128 * 128;
// Up to this number of pieces, each block of a kernel with products has an SM of its own. Less than the number of SMs
// of the GPUs with warpgroup products that have most of them (132), and a power of two, because grids often are.
constexpr std::int64_t kOneWaveOfPieces = 128;
constexpr int kMaxLatency = 6;
// With more the assembler splits the loop of the loads and gains no further step.
constexpr int kClusterLatency = 4;
constexpr int kStepsAskedBeyond = 2, kDeepestLatency = 10;  // tileiras 13.5.37 gives 4 steps for latency 6, 5 for 7
// Where the loop loads other tiles, too: with fewer it gives the operands one step (bench/notes/serving.md).
constexpr int kStepsAskedBeside = 4;
constexpr std::int64_t kFewestSteps = 3;   // where fewer would fit, the assembler stores tiles in several parts instead
constexpr int kStepsThroughRegisters = 2;  // the one that is multiplied and the next
constexpr int kMaxBlocksWithoutLoop = 4;
constexpr int kThinSteps = 3, kMaxThinBlocks = 4;
// A kernel with products by fused multiply-add has at most so many blocks on an SM, sums in a thread and, where its
// products are smaller than tensor cores multiply, registers of the largest tile in a thread.
constexpr int kMaxBlocksOfFma = 3, kMaxSumsOfFma = 16, kTileRegistersOfFma = 32;
// Elements of a row that a warp takes: where one reduction depends on another, where a thread's accesses are narrow
// (an element or two at a time), and for a single reduction with narrow accesses.
constexpr int kElementsAWarpChained = 2048;
constexpr int kElementsAWarpNarrow = 1024;
constexpr int kElementsAWarpNarrowAlone = 2048;
constexpr int kMaxRowWarps = 8;
constexpr int kManyRowWarps = 4;
// With more elements a thread has too few registers left to compute with them.
constexpr int kMaxElementsAThread = 64, kMaxWideRowWarps = 16;
// Chunks of odd rows: up to the first size one warp, from the second on kMaxWalkWarps.
constexpr int kOneWarpChunk = 1024, kManyWarpsChunk = 4096, kMaxWalkWarps = 16;
constexpr int kRowRegisters = 16;  // of a thread, in addition to the row that it holds
constexpr int kRegisterBytes = 4;
// The same for blocks of one warp. The assembler rounds a block up to four warps when it divides the registers.
constexpr int kLoneWarpRegisters = 32;
constexpr int kBytesAWarp = 32 * analysis::kVectorBytes;
constexpr int kElementsAWarp = 512;  // 16 elements a thread
// Of a kernel with expanded scans: registers of a thread beside twice the tile, those of the tile for which there are
// more warps, and the most warps of an SM. Beside a product fewer than the last change nothing.
constexpr int kScanRegisters = 32, kMaxScannedAThread = 32, kMaxScanWarps = 32, kFewRegisters = 8;
// Where tiles are only moved, a thread has one vector. Where a kernel takes more instructions for each byte than the
// GPU issues while memory moves it, a thread has several: they share its address arithmetic and the rows that are
// repeated. The same in stencils, which read each byte several times through L1.
constexpr int kManyVectors = 4;
/// Where tiles around one place are loaded in whole vectors, a thread computes its vectors one after the other, and
/// holds no more registers for more of them.
constexpr int kMaxVectors = 8;
// Registers of a thread there. Without a limit the assembler takes more than it needs, and too few warps are left to
// issue instructions while others wait for their results. What spills then gets a form without the limit.
constexpr int kRegistersOfMany = 72;
constexpr int kElementsAWarpReduced = 1024;
// Where a loop ends when no element of a tile goes on (bench/notes/learnt_hints.md).
constexpr int kElementsAWarpIterating = 256;
// Of a tile of several rows of which nothing is kept: one warp, which needs no barrier, reduces so many.
constexpr int kElementsOfOneWarpReduced = 2048;
// Of rows in two tiles (split_tiles), where one reduction depends on another: one warp, which needs no barrier, holds
// up to 96 elements a thread (bench/notes/odd_rows.md).
constexpr int kElementsOfOneWarp = 3072;

// Warps of an SM in persistent kernels without products (bench/notes/choose_hints.md).
constexpr int kPersistentWarps = 32;

/// The largest power of two that is at most n; 1 where n is less than 1.
int power_of_two_below(std::int64_t n) {
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

/// How many vectors a thread of a kernel without reductions and loops over loads is to have.
int vectors_of_a_thread(const ir::Function& f, const analysis::KernelFacts& facts, const Machine& m) {
  if (!facts.products.empty() || facts.moved_bytes == 0) return 1;
  const analysis::Neighbours neighbours = analysis::neighbours_of(f);
  if (!is_bound_by_instructions(f, facts, m)) return neighbours == analysis::Neighbours::None ? 1 : kManyVectors;
  return neighbours == analysis::Neighbours::Whole ? kMaxVectors : kManyVectors;
}

/// Warps for rows in tiles of different lengths whose reductions are combined, `elements` for each warp: a power of
/// two. Rounded up where one reduction depends on another (above kElementsOfOneWarp), otherwise to the nearest, but
/// down to one below the elements of two.
std::int64_t warps_of_parts(std::int64_t row, std::int64_t elements, bool chained) {
  if (chained && row <= kElementsOfOneWarp) return 1;
  const std::int64_t below = power_of_two_below(row / elements);
  const bool up = chained ? row > below * elements : below > 1 && 2 * row >= 3 * below * elements;
  return up ? 2 * below : below;
}

/// A loop that ends when no element of a tile goes on: `tile_while (any(...))`.
bool iterates_until_none_is_left(const ir::Function& f) {
  bool found = false;
  ir::walk(f.body(), [&](const Operation& op) {
    if (op.op() != Op::Reduce || op.result(0).type().num_elements() > 1) return;
    const Operation* around = op.parent_op();
    found |= around != nullptr && around->op() == Op::Loop && op.operand(0).type().num_elements() > kThreadsAWarp;
  });
  return found;
}

/// A tile of several rows that is reduced and not needed afterwards, and that one warp takes.
bool keeps_nothing_of_rows(const analysis::KernelFacts& facts) {
  return facts.longest_row < facts.largest_tile && facts.kept_for_later == 0 &&
         facts.largest_tile <= kElementsOfOneWarpReduced;
}

/// Row and elementwise kernels. Where tiles are only moved, each thread gets one vector, so neighbouring threads access
/// neighbouring addresses. Otherwise 16 elements a thread; 64 where one reduction depends on another, because each is a
/// barrier for all warps of the block. Not after a loop over chunks: there the reductions run once a row, and the
/// loop's accumulators have to fit into registers together with what it loads.
Choices choose_for_rows(const ir::Function& f, const analysis::KernelFacts& facts, int vectors) {
  Choices c;
  // Where a tile has several rows of at most one vector per thread of a warp, each row belongs to one warp, and no
  // reduction needs a barrier.
  const bool row_of_a_warp = facts.longest_row < facts.largest_tile &&
                             facts.longest_row * facts.largest_bytes <= kBytesAWarp * facts.largest_tile;
  const bool chained = facts.chained_reductions && !facts.reduces_after_loop && !row_of_a_warp;
  const bool narrow = facts.narrow && !facts.reduces_after_loop;
  const int elements = chained  ? narrow ? kElementsAWarpNarrow : kElementsAWarpChained
                       : narrow ? kElementsAWarpNarrowAlone
                       : facts.reduces_across_rows || facts.reduces_in_loop ? kElementsAWarpChained
                       : facts.longest_row > 0 && !facts.reduces_after_loop ? kElementsAWarpReduced
                                                                            : kElementsAWarp;
  const std::int64_t row = std::max(facts.largest_tile, facts.combined_rows);
  std::int64_t warps = facts.largest_tile / elements;
  if (row > facts.largest_tile) warps = warps_of_parts(row, elements, chained);
  if (facts.moved_bytes > 0) warps = facts.moved_bytes / (vectors * kBytesAWarp);
  c.warps = std::clamp(power_of_two_below(warps), 1, kMaxRowWarps);
  if (elements == kElementsAWarpReduced && keeps_nothing_of_rows(facts)) c.warps = 1;
  // Each iteration waits for the one before, so more threads with fewer elements each help more than any of them that
  // has many.
  if (iterates_until_none_is_left(f)) {
    const std::int64_t waiting = std::max(facts.largest_tile, facts.largest_computed) / kElementsAWarpIterating;
    c.warps = std::max(c.warps, std::min(power_of_two_below(waiting), kMaxRowWarps));
  }
  // What a kernel computes for each pair of elements of two rows is larger than what it loads.
  const std::int64_t fewest =
      std::max(facts.largest_tile, facts.largest_computed) / (kThreadsAWarp * kMaxElementsAThread);
  c.warps = std::max(c.warps, std::min(power_of_two_below(fewest), kMaxWideRowWarps));
  // A row that is multiplied with each row of a tile: with less than one vector per thread its layout differs from the
  // tile's, and every step converts it through shared memory, with four barriers.
  if (facts.repeated_bytes > 0)
    c.warps = std::clamp(power_of_two_below(facts.repeated_bytes / kBytesAWarp), 1, c.warps);
  if (facts.reduces_after_loop && facts.narrow && facts.repeated_bytes == 0) {
    // One warp needs no barrier. If there must be several, many warps have more of the narrow accesses in flight.
    if (facts.largest_tile <= kOneWarpChunk) c.warps = 1;
    if (facts.largest_tile >= kManyWarpsChunk) c.warps = kMaxWalkWarps;
  }
  // While a block waits at the barriers after its loop, a second block has to keep loading.
  if (facts.reduces_after_loop && c.warps >= kMaxRowWarps) c.occupancy = 2;
  const bool waits = facts.longest_row > 0 && !facts.reduces_after_loop;
  if (!facts.narrow && waits && (c.warps == kMaxRowWarps || (chained && (c.warps == 1 || c.warps >= kManyRowWarps)))) {
    // Few blocks share an SM, and while they wait at a barrier they load nothing. One more block is worth more than the
    // registers that the assembler would use without a limit.
    const std::int64_t threads = std::int64_t{c.warps} * 32;
    // A plain sum keeps nothing for later, but holds its row while it adds.
    const std::int64_t held = std::max(c.warps == 1 ? 0 : facts.kept_for_later, row);
    const std::int64_t registers = held / threads + (c.warps == kMaxRowWarps ? kRowRegisters : kLoneWarpRegisters);
    const std::int64_t blocks = kRegisters / (std::max(threads, std::int64_t{kFewestSharingWarps} * 32) * registers);
    if (blocks > 1) c.occupancy = static_cast<int>(blocks);
  }
  if (!facts.narrow && waits && c.warps > kMaxRowWarps) {
    // One block of 32-bit numbers fits on an SM. Of rows that are loaded as 16 bits the assembler keeps what it has
    // loaded, and converts it once more, if two are to fit.
    const std::int64_t threads = std::int64_t{c.warps} * 32;
    const std::int64_t registers = loaded_bytes(f) / (kRegisterBytes * threads) + kRowRegisters;
    if (2 * threads * registers <= kRegisters) c.occupancy = 2;
  }
  return c;
}

/// Steps that fit into the shared memory of a CTA in addition to the tiles that it stores from there.
std::int64_t steps_that_fit(const StepLoad& load, const analysis::KernelFacts& facts, const Choices& c,
                            const Machine& m) {
  const std::int64_t own = std::int64_t{m.shared_kib} * 1024 / c.occupancy - kReservedShared;
  const std::int64_t step = load.bytes - load.left_bytes + load.left_bytes / c.ctas;
  return (own - facts.stored_bytes / c.ctas) / step;
}

/// The same where tensor copies also load tiles for the epilogue; at most the latency chosen so far.
int latency_beside(std::int64_t copied, const analysis::KernelFacts& facts, const Choices& c, const Machine& m) {
  analysis::KernelFacts all = facts;
  all.stored_bytes += copied;
  return static_cast<int>(std::clamp<std::int64_t>(steps_that_fit(step_load(facts), all, c, m), 2, c.latency));
}

/// Registers that hold the largest tile that is loaded or stored.
std::int64_t registers_of_largest(const ir::Function& f) {
  std::int64_t most = 1;
  ir::walk(f.body(), [&](const Operation& op) {
    if (const ir::Type tile = analysis::moved_tile(op); tile)
      most = std::max(most, tile.num_elements() * (ir::info(tile.elem()).bits > 32 ? 2 : 1));
  });
  return most;
}

/// Kernels with products by fused multiply-add. A thread holds its sums and slices of both operands, which cover a part
/// of the tile that is as long as it is wide. Blocks take turns at loading and computing. The results of types that
/// tensor cores multiply are small here, so what a kernel loads decides how many warps hold it.
Choices choose_for_fma(const StepLoad& load, const analysis::KernelFacts& facts, const Machine& m) {
  Choices c;
  c.warps =
      load.accumulators > kMaxSumsOfFma * kWarpsOfProduct * kThreadsAWarp ? 2 * kWarpsOfProduct : warps_for(load, m);
  const bool small = std::ranges::any_of(
      facts.products, [](const analysis::Product& p) { return p.op->operand(0).type().elem() != ir::Elem::F32; });
  const std::int64_t tile = small ? registers_of_largest(*facts.products.front().op->function()) : 0;
  c.warps = std::max(c.warps, std::min(power_of_two_below(tile / (kThreadsAWarp * kTileRegistersOfFma)), kMaxRowWarps));
  const std::int64_t threads = c.warps * kThreadsAWarp, held = std::max<std::int64_t>(load.accumulators / threads, 1);
  const auto edge = static_cast<std::int64_t>(std::sqrt(static_cast<double>(held)));
  const std::int64_t registers = held + 2 * edge * slice_of_product(held) + kOtherRegisters + tile / threads;
  const std::int64_t blocks = kRegisters / (std::min<std::int64_t>(registers, kRegistersAThread) * threads);
  c.occupancy = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, kMaxBlocksOfFma));
  if (load.bytes == 0) return c;
  while (c.occupancy > 1 && steps_that_fit(load, facts, c, m) < 2) --c.occupancy;
  c.latency = static_cast<int>(std::clamp<std::int64_t>(steps_that_fit(load, facts, c, m), 2, kThinSteps));
  return c;
}

/// Where operands pass through registers, those of more than one step would not fit beside the sums, and neither would
/// those of one step in few warps.
void leave_room_for_elements(Choices& c, std::int64_t elements, const analysis::KernelFacts& facts) {
  if (elements == 0 || c.latency == 0) return;
  const StepLoad load = step_load(facts);
  const auto needed = [&](int warps) {
    return (load.accumulators / c.ctas + elements) / (std::int64_t{warps} * kThreadsAWarp) + kOtherRegisters;
  };
  if (needed(c.warps) > kRegistersAThread && c.warps < 2 * kWarpsOfProduct && 2 * c.warps <= tiles_of_mma(load))
    c.warps *= 2;
  const std::int64_t registers = std::min<std::int64_t>(needed(c.warps), kRegistersAThread);
  const std::int64_t blocks = kRegisters / (registers * c.warps * kThreadsAWarp);
  c.occupancy = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, std::max(c.occupancy, 1)));
  c.latency = std::min(c.latency, kStepsThroughRegisters);
}

/// Kernels with products.
Choices choose_for_products(const analysis::KernelFacts& facts, const Machine& m, Pieces pieces) {
  const StepLoad load = step_load(facts);
  const bool chained = std::any_of(facts.products.begin(), facts.products.end(),
                                   [](const analysis::Product& p) { return p.fed_by_product; });
  if (std::none_of(facts.products.begin(), facts.products.end(),
                   [](const analysis::Product& p) { return analysis::uses_tensor_cores(*p.op); }))
    return choose_for_fma(load, facts, m);
  Choices c;
  c.warps = warps_for(load, m);
  // CTAs split a tile by rows, and each needs the 128 rows that its two warpgroups multiply at once.
  if (m.clusters && !chained && load.rows > 128 && load.accumulators > std::int64_t{8} * 32 * m.accumulators)
    c.ctas = 2;
  const std::int64_t threads = c.warps * 32;
  const std::int64_t held = load.accumulators / c.ctas / threads;
  const std::int64_t registers = std::min<std::int64_t>(held + kOtherRegisters, kRegistersAThread) * threads;
  // A product outside of loops has no loads in flight while it computes; those of other blocks have to be.
  const bool tiny = !chained && load.accumulators <= kTinyTile && pieces == Pieces::Several;
  const int most = load.bytes == 0 ? kMaxBlocksWithoutLoop : tiny ? kMaxBlocksOfTinyTiles : 2;
  c.occupancy = static_cast<int>(std::clamp<std::int64_t>(kRegisters / registers, 1, most));
  if (load.bytes == 0) return c;
  const bool thin = std::all_of(facts.products.begin(), facts.products.end(), waits_for_memory);
  if (!chained && thin) {
    // A few rows times weights: three steps of each CTA in flight, and as many CTAs as shared memory then allows.
    const std::int64_t shared = std::int64_t{m.shared_kib} * 1024;
    c.occupancy = static_cast<int>(std::clamp<std::int64_t>(shared / (kThinSteps * load.bytes), 1, kMaxThinBlocks));
    // Shared memory has to hold two steps of each CTA beside the tiles that it stores.
    while (c.occupancy > 1 && steps_that_fit(load, facts, c, m) < 2) --c.occupancy;
    c.latency = static_cast<int>(std::clamp<std::int64_t>(shared / c.occupancy / load.bytes, 2, kMaxLatency));
    return c;
  }
  // Small tiles mean that the problem hardly fills the device, unless the launch is known to have several for each SM:
  // one block per SM, with a larger prefetch distance. So it is for warpgroup products from 128 x 128 on, where one
  // block keeps an SM busy.
  const bool small = !facts.is_persistent && !chained && load.accumulators <= kMediumTile && pieces != Pieces::Several;
  // In a launch of one wave a block is alone on its SM anyway, so all loads in flight have to be its own.
  const bool alone = m.sm == kWarpgroupProducts && !chained && load.accumulators >= kLargeTile &&
                     (facts.is_persistent || pieces == Pieces::Few);
  if (small || alone) c.occupancy = 1;
  if (small) {
    c.latency = load.accumulators <= kSmallTile ? kSmallSteps : kMaxLatency;
    // Where that many steps leave no room for a second block, two blocks with half the steps each are faster. Smaller
    // tiles (smaller weights) do not gain from it.
    const std::int64_t all = load.bytes * kSmallSteps, shared = std::int64_t{m.shared_kib} * 1024;
    if (load.accumulators == kSmallTile && 2 * all > shared && all <= shared)
      c.occupancy = 2, c.latency = kSmallSteps / 2;
    return c;
  }
  if (!chained && load.products > 1) {
    // Pieces made of sub-tiles. With this latency the assembler gives every load the same number of steps in shared
    // memory, so the sums of all sub-tiles form one pipeline.
    const std::int64_t steps = std::max(steps_that_fit(load, facts, c, m), kFewestSteps) + kStepsAskedBeyond;
    c.latency = static_cast<int>(std::clamp<std::int64_t>(steps, 2, kDeepestLatency));
    return c;
  }
  // With one tile per block, one block loads and stores while another multiplies: two blocks with three steps each.
  const bool one_each = m.sm == kWarpgroupProducts && !facts.is_persistent;
  // Steps that fit into a CTA's share of shared memory; for a CTA alone on its SM the largest latency that pays.
  const std::int64_t steps = std::int64_t{m.shared_kib} * 1024 / c.occupancy / load.bytes;
  if (!chained && c.occupancy > 1 && load.kept_twice && load.loads_others && steps >= kFewestSteps &&
      steps < kMaxLatency) {
    c.latency = static_cast<int>(std::clamp<std::int64_t>(steps + kStepsAskedBeside, 2, kDeepestLatency));
    return c;
  }
  c.latency = chained && thin    ? static_cast<int>(std::clamp<std::int64_t>(steps, 2, kMaxLatency))
              : chained          ? 2
              : c.ctas > 1       ? kClusterLatency
              : c.occupancy == 1 ? kMaxLatency
              : one_each         ? static_cast<int>(std::clamp<std::int64_t>(steps, 2, kMaxLatency))
                                 : static_cast<int>(std::clamp<std::int64_t>(steps / 2 * 2, 2, kMaxLatency));
  return c;
}

/// The limit of a thread's registers, where there is one.
int registers_of(const Tuning& t) {
  require_range("registers", t.registers.value_or(kRegistersOfMany), kRegistersAThread);
  return t.registers.value_or(kRegistersOfMany);
}

int most_vectors(const Tuning& t) {
  const int most = t.vectors.value_or(kMaxVectors);
  require_power_of_two("vectors", most, kMaxVectors);
  return most;
}

/// Blocks of an SM whose threads have no fewer registers than the limit; of eight warps, without a limit by tuning, as
/// many as come nearest to it: three blocks would leave a sixth of the registers unused.
int blocks_within_limit(const Tuning& tuning, int warps) {
  const int of_block = std::max(warps, kFewestSharingWarps) * kThreadsAWarp * registers_of(tuning);
  const int more = warps == kMaxRowWarps && !tuning.registers ? of_block / 2 : 0;
  return std::max(1, static_cast<int>((kRegisters + more) / of_block));
}

/// Blocks of an SM whose threads have this many registers.
int blocks_with(int registers, int warps) {
  return std::clamp(kRegisters / (std::max(warps, kFewestSharingWarps) * kThreadsAWarp * registers), 1,
                    machine::kMaxBlocks);
}

/// Blocks of a persistent kernel for each SM. Without products nothing is in flight while a block computes and stores,
/// so there are several: kPersistentWarps in all, and more blocks than fit do no harm.
int persistent_blocks_of_sm(const analysis::KernelFacts& facts, const Choices& c) {
  const int least = std::max(c.occupancy, 1);
  return facts.products.empty() && c.warps > 0 && c.occupancy == 0 ? std::max(least, kPersistentWarps / c.warps)
                                                                   : least;
}

/// The most warps that have tiles of their own of the largest product on tensor cores; with more, the assembler
/// computes it without them.
int most_warps(const analysis::KernelFacts& facts) {
  const bool by_tensor_cores =
      std::any_of(facts.products.begin(), facts.products.end(),
                  [](const analysis::Product& p) { return analysis::uses_tensor_cores(*p.op); });
  const std::int64_t most = by_tensor_cores ? tiles_of_mma(step_load(facts)) : kMaxWarps;
  return static_cast<int>(std::min<std::int64_t>(most, kMaxWarps));
}

/// Warps and blocks of an SM for a kernel with expanded scans. A thread holds two or
/// three times its part of the tile. There are as many blocks as have registers, so that some load while others wait at
/// the barriers of their scans. Of the shared memory through which a scan moves its tile the assembler gives a block
/// all that the occupancy leaves it, for buffers that it could as well use again.
void choose_for_scans(const ScannedRegisters& of_scans, const analysis::KernelFacts& facts, Choices& c) {
  const std::int64_t scanned = of_scans.tile;
  const int fewest = power_of_two_below(scanned / (kThreadsAWarp * kMaxScannedAThread));
  const int before = std::max(c.warps, 1);
  c.warps = std::max(c.warps, std::min({fewest, kMaxRowWarps, most_warps(facts)}));
  if (!facts.products.empty()) {  // its registers come on top of those that the products leave a thread
    const std::int64_t own = std::int64_t{kRegisters} * c.warps / before / std::max(c.occupancy, 1);
    if (scanned >= kFewRegisters * c.warps * kThreadsAWarp)
      c.occupancy = static_cast<int>(std::max<std::int64_t>(kRegisters / (own + scanned), 1));
    return;
  }
  const std::int64_t registers = (2 * scanned + of_scans.beside) / (c.warps * kThreadsAWarp) + kScanRegisters;
  const std::int64_t blocks = kRegisters / (std::max(c.warps, kFewestSharingWarps) * kThreadsAWarp * registers);
  c.occupancy = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, std::max(1, kMaxScanWarps / c.warps)));
}

void override_choices(Choices& c, const Tuning& t, const Machine& m, int most) {
  check_numbers(t);
  if (c.warps > 0) c.warps = std::max(c.warps, std::min(c.warps * t.spread, most));
  c.warps = t.warps.value_or(c.warps);
  if (t.ctas) require_power_of_two("CTAs per cluster", c.ctas = *t.ctas, m.clusters ? kMaxCtas : 1);
  c.occupancy = t.occupancy.value_or(c.occupancy);
  c.latency = t.latency.value_or(c.latency);
}

}  // namespace

Choices choose_hints(ir::Function& f, const Target& target, const Tuning& tuning, const Choices& before, Pieces pieces,
                     const ScannedRegisters& scanned) {
  const analysis::KernelFacts facts = analysis::kernel_facts(f);
  const Machine& m = machine_of(target.sm);
  const int wanted = tuning.choose_hints ? vectors_of_a_thread(f, facts, m) : 1;
  const int vectors = std::min(wanted, most_vectors(tuning));
  const bool limited = wanted > 1 && tuning.limit_registers && !tuning.occupancy && scanned.tile == 0;
  Choices c;
  const Features features = features_of(f, facts, target, pieces == Pieces::Few, scanned.tile);
  if (tuning.choose_hints)
    c = facts.products.empty()
            ? choose_for_rows(f, facts, vectors)
            : choose_for_products(facts, m, target.num_sms >= kOneWaveOfPieces ? pieces : Pieces::Unknown);
  if (const std::int64_t copied = c.latency > 2 && c.occupancy > 0 ? copied_beside(f, facts) : 0; copied > 0)
    c.latency = latency_beside(copied, facts, c, m);
  if (tuning.choose_hints && scanned.tile > 0) choose_for_scans(scanned, facts, c);
  if (tuning.choose_hints && !facts.products.empty())
    leave_room_for_elements(c, elements_through_registers(f, facts, target.sm), facts);
  override_choices(c, tuning, m, tuning.spread > 1 ? most_warps(facts) : kMaxWarps);
  if (limited) c.occupancy = blocks_within_limit(tuning, c.warps);
  if (tuning.crowd && c.occupancy == 0 && c.warps > 0) c.occupancy = blocks_with(*tuning.crowd, c.warps);
  if (!facts.products.empty() && c.occupancy > 0)
    c.occupancy = std::max(c.occupancy, tuning.min_occupancy.value_or(c.occupancy));
  c.occupancy = std::min(c.occupancy, tuning.max_occupancy.value_or(c.occupancy));
  c.latency = std::min(c.latency, tuning.max_latency.value_or(c.latency));
  c.limits_registers = limited;
  c.features = features;
  set_entry_hints(f, c);
  const auto corrections = analysis::corrections_of_products(f);
  if (c.latency > 0)
    for (const analysis::Product& p : facts.products)
      for (Operation* load : p.step_loads)
        // Loads in a branch that corrects results get one step: more would take shared memory from the main loop.
        set_hint(*load, "latency",
                 ir::IntAttr{ir::Elem::I32, analysis::corrects_products(*load, corrections) ? 1 : c.latency});
  c.abi.watched = before.abi.watched;
  c.abi.checks = before.abi.checks;
  c.abi.pieces = before.abi.pieces;
  c.abi.grid = before.abi.grid;
  c.abi.persistent_blocks = std::max(1, target.num_sms * persistent_blocks_of_sm(facts, c) / c.ctas);
  return c;
}

namespace {

/// The results of the kernel's only product, if tensor cores compute it in a loop; otherwise 0.
std::int64_t results_of_product(const analysis::AskedKernel& kernel) {
  int products = 0;
  std::int64_t results = 0;
  ir::walk(kernel.entry.body(), [&](const Operation& op) {
    if (!analysis::is_product(op)) return;
    ++products;
    if (analysis::uses_tensor_cores(op) && analysis::loops_around(op) > 0) results = op.result().type().num_elements();
  });
  return products == 1 ? results : 0;
}

}  // namespace

/// A block with products has an SM alone where there are few.
std::vector<analysis::LaunchQuestion> ask_one_wave(const analysis::AskedKernel& kernel) {
  if (results_of_product(kernel) < kLargeTile) return {};
  analysis::LaunchQuestion q{.use = analysis::ObligationUse::Waves};
  q.bounds.push_back({.of = analysis::LaunchBound::Of::Pieces, .most = kOneWaveOfPieces});
  return {q};
}

/// Blocks of small tiles share an SM where there are about two for each SM, or more.
std::vector<analysis::LaunchQuestion> ask_several_waves(const analysis::AskedKernel& kernel) {
  const std::int64_t results = results_of_product(kernel);
  if (results == 0 || results > kMediumTile) return {};
  analysis::LaunchQuestion q{.use = analysis::ObligationUse::Waves};
  q.bounds.push_back({.of = analysis::LaunchBound::Of::Pieces, .least = 2 * kOneWaveOfPieces});
  return {q};
}

}  // namespace tessera::passes
