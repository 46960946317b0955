// What a kernel does, in the few numbers that its hints are chosen by. No names, no patterns of whole kernels.
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

class Divisibility;

/// One matrix product of the kernel.
struct Product {
  const ir::Operation* op = nullptr;
  const ir::Operation* loop = nullptr;     ///< the innermost around it, or null
  std::int64_t accumulators = 0;           ///< elements of its result, batch included
  std::vector<ir::Operation*> step_loads;  ///< that give its operands, in the innermost loop around it
  std::int64_t loaded_bytes = 0;           ///< of those
  int loops = 0;                           ///< number of loops around it
  bool fed_by_product = false;             ///< an operand is computed from the result of another product
};

struct KernelFacts {
  std::vector<Product> products;
  std::int64_t largest_tile = 1;  ///< elements of the largest tile that is loaded or stored
  /// Bytes of the smallest of the tiles of so many elements; 0 where large tiles are reduced, scanned, or loaded in a
  /// loop.
  std::int64_t moved_bytes = 0;
  std::int64_t largest_bytes = 0;    ///< bytes of the smallest of the tiles of `largest_tile` elements
  bool reduces_across_rows = false;  ///< a large reduction runs along another axis than the last
  bool chained_reductions = false;   ///< a reduction of a large tile depends on another
  std::int64_t longest_row = 0;      ///< most elements that a large reduction combines
  std::int64_t kept_for_later = 0;   ///< most 32-bit elements that a large reduction's block keeps for what follows it
  bool narrow = false;               ///< large reductions over tiles that are loaded an element or two at a time
  bool reduces_after_loop = false;   ///< large tiles are gathered in a loop and reduced behind it
  std::int64_t repeated_bytes = 0;   ///< smallest large tile that a loop loads and stretches to a larger one; 0: none
  std::int64_t stored_bytes = 0;     ///< of all tiles that are stored through views
  bool deals_out_work = false;       ///< asks for the number of blocks: any grid will do, one full wave is best
};
KernelFacts kernel_facts(const ir::Function&);

/// A GPU starts about one block a clock (an H200: 524288 blocks in 320 us, in which its memory moves 2.6 KiB for each).
/// Blocks that load and store less than so many bytes are over before enough others have been started to keep the
/// memory busy (docs/compiler/coarsen_blocks.md).
inline constexpr std::int64_t kSmallPieceBytes = 3072;
/// Kernels whose tiles all have at most so many bytes are asked whether they have many pieces: a part of a tile may lie
/// outside of its tensor.
inline constexpr std::int64_t kSmallTileBytes = 2048;
/// So many blocks take 10 us to start, about as long as a launch by itself: with fewer, nothing is gained by fewer yet.
inline constexpr std::int64_t kManyPieces = 16384;

bool is_product(const ir::Operation&);
std::int64_t bytes_of(ir::Type tile);
/// The tile that a load gives or a store takes; null for other operations, atomics too.
ir::Type moved_tile(const ir::Operation&);
/// Number of loops that `op` stands in.
int loops_around(const ir::Operation& op);
/// True if a thread moves four bytes or less at a time there; false if that is not known, as of strided views.
bool is_narrow(const ir::Operation& access, const Divisibility&);

/// The loads that give `v`, found back through shape operations, conversions and the branches that guard loads.
std::vector<ir::Operation*> loads_of(ir::Value v);
/// True if something that `v` is computed from was loaded. Places in a tile and numbers of blocks are not.
bool depends_on_memory(ir::Value v);
/// True if `v` is computed, element by element or through loops and branches, from the result of a product.
bool comes_from_product(ir::Value v);
/// True if `op` stands in an arm of a branch on what products gave. Such a branch looks at a result and mends it: the
/// way of the exception. The warps that load wait for the decision, so nothing can be issued ahead of it either.
bool mends_products(const ir::Operation& op);
/// True if `v` is computed from `from`, within one iteration of the loops around it.
bool depends_on(ir::Value v, ir::Value from);

}  // namespace tessera::analysis
