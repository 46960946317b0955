// How many warps, CTAs and registers a kernel with products takes. docs/compiler/choose_hints.md.
#pragma once
#include <cstdint>

#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/features.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::passes {

inline constexpr int kOtherRegisters = 96;  // of a thread in addition to its accumulators: addresses, fragments

/// Live accumulators, and bytes that a step loads: summed over the products of one loop (in a chain of products several
/// results are live; of the arms of a branch, those of one; a load that feeds two products counts once). Of the
/// innermost loops, the one with most accumulators.
struct StepLoad {
  std::int64_t accumulators = 0, bytes = 0;
  std::int64_t largest = 0;     ///< accumulators of the largest product
  std::int64_t rows = 0;        ///< of the results
  std::int64_t left_bytes = 0;  ///< of `bytes`: the left operands, which the CTAs of a cluster divide
  int products = 0;
  /// 8-bit float products need a second copy: not fast accumulation, or scaled before they are added
  bool kept_twice = false;
  bool loads_others = false;  ///< the loop also loads tiles that no product takes: scales, tables
};
StepLoad step_load(const analysis::KernelFacts&);

/// True if a product is memory-bound: its arithmetic intensity is far below the ridge of the roofline (decoding: 8 to
/// 16 operations a byte; attention over tiles of 64 queries: 64; the ridge of an H200: about 200).
bool waits_for_memory(const analysis::Product&);

/// True if a kernel that only moves tiles and computes with their elements takes more instructions for each byte than
/// the GPU issues while memory moves it.
bool is_bound_by_instructions(const ir::Function&, const analysis::KernelFacts&, const machine::Machine&);

/// Bytes of all tiles that the kernel loads; elements of 8 bits count as 16, which is what was measured.
std::int64_t loaded_bytes(const ir::Function& f);
/// Bytes loaded by tensor copies that are not operands of products: tiles combined with a result in the epilogue.
std::int64_t copied_beside(const ir::Function& f, const analysis::KernelFacts& facts);
/// Elements of operands that a step loads in pieces of less than 4 bytes, the least that is copied to shared memory
/// without a register (cp.async, PTX ISA). Until it is stored there, each is in a register of its own. Where tensor
/// copies load the operand, the end of its rows does not matter.
std::int64_t elements_through_registers(const ir::Function& f, const analysis::KernelFacts& facts, int sm);

/// What choose_hints knows of the kernel before it chooses. `few_pieces`: each block has an SM of its own. `scanned`:
/// as expand_scans left it.
Features features_of(const ir::Function&, const analysis::KernelFacts&, const Target&, bool few_pieces,
                     std::int64_t scanned);

/// Tiles of 16x8, which mma.sync computes at once, in the largest product. (A power of two, as extents of tiles are.)
std::int64_t tiles_of_mma(const StepLoad&);
/// Warps a CTA: 4, the smallest group that issues a warpgroup's product, or 8.
int warps_for(const StepLoad&, const machine::Machine&);

/// Warps of a block with products: the smallest number with all of an SM's schedulers, and what the assembler takes if
/// nothing is chosen.
inline constexpr int kWarpsOfProduct = 4;
/// How much of k a thread holds of both operands of a product by fused multiply-add, of which it holds `sums` results
/// (bench/notes/matrix_products.md).
inline std::int64_t slice_of_product(std::int64_t sums) { return sums < 64 ? 8 : 4; }

/// True if the kernel's threads can hold `elements` more accumulators.
bool fits_one_more(const analysis::KernelFacts&, std::int64_t elements, const Target&);

}  // namespace tessera::passes
