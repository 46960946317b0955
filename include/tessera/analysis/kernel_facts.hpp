// A summary of a kernel in numbers, from which its hints are chosen. It recognises no kernels by name or pattern.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/analysis/dependents.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

class Divisibility;

/// One matrix product of the kernel.
struct Product {
  const ir::Operation* op = nullptr;
  const ir::Operation* loop = nullptr;     ///< the innermost around it, or null
  std::int64_t accumulators = 0;           ///< elements of its result, batch included
  std::vector<ir::Operation*> step_loads;  ///< the loads of its operands, in the innermost loop around it
  std::int64_t loaded_bytes = 0;           ///< by step_loads
  int loops = 0;                           ///< number of loops around it
  bool fed_by_product = false;             ///< an operand is computed from the result of another product
};

struct KernelFacts {
  std::vector<Product> products;
  std::int64_t largest_tile = 1;  ///< elements of the largest tile that is loaded or stored
  /// Bytes of the smallest tile with largest_tile elements; 0 where large tiles are reduced, scanned, or loaded in a
  /// loop.
  std::int64_t moved_bytes = 0;
  /// Elements of the largest tile of numbers that an elementwise operation computes.
  std::int64_t largest_computed = 1;
  std::int64_t largest_bytes = 0;  ///< bytes of the smallest of the tiles of `largest_tile` elements
  int large_reductions = 0;
  bool reduces_across_rows = false;  ///< a large reduction runs along another axis than the last
  bool chained_reductions = false;   ///< a reduction of a large tile depends on another
  std::int64_t longest_row = 0;      ///< most elements that a large reduction combines
  std::int64_t combined_rows = 0;    ///< most elements of tiles of different sizes whose reductions are combined, or 0
  std::int64_t kept_for_later = 0;   ///< most 32-bit elements that are live across a large reduction
  bool narrow = false;               ///< large reductions over tiles that are loaded an element or two at a time
  bool reduces_in_loop = false;      ///< all reductions of large tiles are in loops that load
  bool reduces_after_loop = false;   ///< large tiles are accumulated in a loop and reduced after it
  std::int64_t repeated_bytes = 0;   ///< smallest large tile that a loop loads and broadcasts to a larger one; 0: none
  std::int64_t stored_bytes = 0;     ///< of all tiles that are stored through views
  bool is_persistent = false;        ///< uses the number of blocks: any grid works, one full wave is best
};
KernelFacts kernel_facts(const ir::Function&);
/// How often a loop's body is assumed to run, where what it contains is compared with what does not repeat: trip counts
/// are mostly unknown.
inline constexpr double kAssumedTrips = 8;
/// What a block does, estimated: instructions for each element of its tiles, those of divisions and functions among
/// them, and bytes of the tensors that it moves.
struct BlockWork {
  double instructions = 0, functions = 0;
  std::int64_t bytes = 0;
};
BlockWork work_of(const ir::Function&);
/// Instructions for each byte; 0 where nothing is moved.
double instructions_per_byte(const ir::Function&);
/// 32-bit registers of the tiles of a block that are live at once, at most: of the whole kernel, and inside of the
/// innermost loops that load tiles (0: there are none). Constants, indices, masks and what repeats a smaller tile are
/// computed again where they are used, and do not count.
struct LiveRegisters {
  std::int64_t most = 0, in_loop = 0;
};
LiveRegisters live_registers(const ir::Function&);
/// True if a result may depend on how a block divides its tiles among threads: on the order in which numbers are
/// combined by reductions, scans, products or atomic operations. False where it combines only integers, by operations
/// that may be done in any order.
bool order_matters(const ir::Function&);
/// At least three loads around one place of a tensor.
enum class Neighbours : std::uint8_t {
  None,
  Whole,  ///< all of whole vectors: neighbours along other axes than the last
  Mixed,  ///< some of whole vectors, some of single elements, as in most stencils
};
Neighbours neighbours_of(const ir::Function&);

/// A GPU starts about one block per clock. Blocks that load and store fewer bytes than this end before enough others
/// have started to saturate the memory (docs/compiler/coarsen_blocks.md).
inline constexpr std::int64_t kSmallPieceBytes = 3072;

/// Elements from which on a tensor copy pays; below, its descriptor costs more than it saves.
inline constexpr std::int64_t kSmallestTensorCopy = 1024;

bool is_product(const ir::Operation&);
/// What tensor cores multiply at least: 16x8 (PTX ISA, mma), of f64 8x8.
inline constexpr std::int64_t kRowsOfMma = 16, kColumnsOfMma = 8, kRowsOfMmaF64 = 8;
/// False for products that are computed by fused multiply-add: of f32 by f32, because no tensor core multiplies f32
/// (PTX ISA, mma: tf32 is its nearest type), and those with fewer rows or columns than tensor cores multiply.
bool uses_tensor_cores(const ir::Operation& product);
std::int64_t bytes_of(ir::Type tile);
/// The tile that a load gives or a store takes; null for other operations, atomics too.
ir::Type moved_tile(const ir::Operation&);
/// Number of loops around `op`.
int loops_around(const ir::Operation& op);
/// True if a thread moves four bytes or less at a time there; false if that is not known, as of strided views.
bool is_narrow(const ir::Operation& access, const Divisibility&);

/// The loads that `v` comes from, through shape operations, conversions and the branches that guard loads.
std::vector<ir::Operation*> loads_of(ir::Value v);
/// True for a load of a tile of several rows, at least kBoxBytes, in a loop that reduces a tile of that size, and whose
/// variables are all smaller by a factor of kLeastReduction: what is loaded is reduced in the same iteration.
/// `known`: what has been found of loops, which a caller keeps while it asks for many loads.
using LargestReductions = std::unordered_map<const ir::Operation*, std::int64_t>;
bool reduces_in_loop(const ir::Operation& load, LargestReductions& known);
inline constexpr std::int64_t kBoxBytes = 4096, kLeastReduction = 16;
/// What depends on a loaded value.
ComputedFrom computed_from_memory(const ir::Function& f);
/// What is computed, element by element or through loops and branches, from the result of a product.
ComputedFrom computed_from_products(const ir::Function& f);
/// The branches whose condition depends on a product's result. Such a branch corrects rare results. The loading warps
/// wait for the decision, so nothing can be issued before it.
std::unordered_set<const ir::Operation*> corrections_of_products(const ir::Function& f);
/// True if `op` is in an arm of one of these branches.
bool corrects_products(const ir::Operation& op, const std::unordered_set<const ir::Operation*>& branches);
/// True if `v` is computed from `from`, within one iteration of the loops around it.
bool depends_on(ir::Value v, ir::Value from);

}  // namespace tessera::analysis
