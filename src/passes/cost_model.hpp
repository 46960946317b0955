// How many warps, CTAs and registers a kernel with products takes. docs/compiler/choose_hints.md has the measurements.
#pragma once
#include <cstdint>

#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::passes {

/// What a generation offers to one multiprocessor (CUDA C++ Programming Guide, table of technical specifications), and
/// what one thread can hold of an accumulator before another warp is better.
struct Machine {
  int sm;
  int shared_kib;             ///< of a multiprocessor
  int accumulators_a_thread;  ///< elements a thread holds
  bool clusters;
};
const Machine& machine_of(int sm);

/// The only generation whose products are of warpgroups, and leave their sums in registers in flight.
inline constexpr int kWarpgroupProducts = 90;

inline constexpr int kRegisters = 65536;       // of a multiprocessor, every generation since sm_30
inline constexpr int kRegistersAThread = 255;  // the most a thread can have
inline constexpr int kOtherRegisters = 96;     // of a thread beside its accumulators: addresses, fragments

/// Accumulators that are alive at once and bytes that a step loads: summed over the products of one loop (a product in
/// a chain holds its result beside that of the next one; a load that feeds two is one), of the loop that holds most
/// among the deepest.
struct StepLoad {
  std::int64_t accumulators = 0, bytes = 0;
  std::int64_t rows = 0;        ///< of the results
  std::int64_t left_bytes = 0;  ///< of bytes: what left operands are loaded from, which the CTAs of a cluster share out
  int products = 0;
  bool kept_twice = false;  ///< products of 8-bit floats beside their sums: not fast, or scaled before they are added
};
StepLoad step_load(const analysis::KernelFacts&);

/// True if a product waits for its loads whatever else is done: it does so little with each byte that the machine reads
/// slower than it multiplies. (Decoding: 8 to 16 operations a byte; attention over tiles of 64 queries: 64; an H200
/// multiplies 200 in the time of one byte from memory.)
bool waits_for_memory(const analysis::Product&);

/// Warps a CTA: 4, the smallest group that issues a warpgroup's product, or 8.
int warps_for(const StepLoad&, const Machine&);

/// True if the kernel's threads can hold `elements` more accumulators.
bool fits_one_more(const analysis::KernelFacts&, std::int64_t elements, const Target&);

}  // namespace tessera::passes
