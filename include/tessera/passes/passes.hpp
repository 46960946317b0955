// The passes as functions; tessera/passes/pipeline.hpp has the order in which they run. Each leaves a module that
// verifies, and has a page in docs/compiler that says why it exists and when it applies. A pass that takes a Certifier
// has its claims verified before it removes a guard, a mask or an order between accesses; null rejects all claims.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/analysis/facts.hpp"
#include "tessera/analysis/launch_contract.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/passes/certifier.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::passes {

/// Folds constants, identities, inverse conversions, shape operations that cancel, and branches and loops with known
/// conditions. True if anything changed.
bool fold(ir::Function&);
/// Merges equal pure operations, and equal unordered loads, where one dominates the other. True if anything changed.
bool eliminate_common(ir::Function&);
/// Moves pure operations whose operands do not change in a loop before it. True if anything changed.
bool hoist_invariants(ir::Function&);
/// fold, eliminate_common, hoist_invariants and removal of dead code, until nothing changes (at most a few rounds).
void clean_up(ir::Function&);

/// Drops token edges that order nothing: waits for tokens of chains without an access, and joins of such tokens. True
/// if anything changed.
bool drop_empty_tokens(ir::Function&);

/// Drops axes of extent 1 from the tiles of products of three axes, and from all tiles that operations combine with
/// them. True if anything changed.
bool drop_unit_axes(ir::Function&);

/// Repeats rows and columns of products that have fewer than tensor cores multiply, and cuts the results. True if
/// anything changed.
bool widen_products(ir::Function&);

/// Removes the token order between iterations of a loop that access different elements of a tensor. True if anything
/// changed.
bool relax_loop_tokens(ir::Function&, const Certifier*);

/// Makes accesses of a block wait only for earlier accesses that may touch the same elements. True if anything changed.
bool relax_block_tokens(ir::Function&, const Certifier*);

/// Sorts the loads of a loop into the order in which its products need them. True if anything changed.
bool order_loads(ir::Function&);

/// Issues a product one iteration ahead where it feeds, through other work, a product with a carried accumulator. True
/// if anything changed.
bool pipeline_mma(ir::Function&, const Target&);

/// Splits a loop into iterations in which a branch on the induction variable is decided, or in which accesses stay
/// inside their tensor, and the rest; on GPUs with clusters not where shared memory holds only one step of the loop's
/// products. True if anything changed.
bool split_loops(ir::Function&, const Target&, const Certifier*);

/// Prefetches loads of a loop by one iteration: those that move an element or two at a time (rows at odd addresses),
/// or, with `wide`, all. True if anything changed.
bool prefetch_loads(ir::Function&, bool wide = false);
/// The same for the loads that Tuning::ahead names; without it, where it pays. True if anything changed.
bool prefetch_where_it_pays(ir::Function&, const Tuning&);

/// Gives a block several neighbouring pieces where they are small and `many_pieces` says that there are many, or as
/// Tuning::pieces asks; sets KernelAbi::pieces. `contract` null: the grid is not known, and nothing is done. Throws
/// CompileError if Tuning::pieces is out of range.
void coarsen_blocks(ir::Function&, const analysis::LaunchContract* contract, bool many_pieces, const Tuning&, Choices&);

/// Numbers the pieces by a grid of several axes where a block would divide its number by the pieces along an axis; sets
/// KernelAbi::grid. `fits`: Predicate::grid_fits holds; `contract` null: the grid is not known, and nothing is done.
/// Runs after all passes that reason about the block's number. True if anything changed.
bool use_grid_axes(ir::Function&, const analysis::LaunchContract* contract, bool fits, const Certifier*, Choices&);

/// Cheaper forms of operations that are marked approximate. True if anything changed.
bool relax_math(ir::Function&);

/// Sums of exact products of f32 become fma in kernels that are bound by instructions. True if anything changed.
bool contract_products(ir::Function&, const Target& target);

/// Registers of the scans that expand_scans expanded; nothing was expanded where `tile` is 0.
struct ScannedRegisters {
  std::int64_t tile = 0;    ///< of the largest tile that is scanned
  std::int64_t beside = 0;  ///< of the tiles that the loop around a scan carries, if they are as large, and loads
};
/// Scans beside products, along any axis but the last or in a layout by columns become operations on parts of the tile.
/// Returns the 32-bit registers that these take.
ScannedRegisters expand_scans(ir::Function&);

/// Gives operations the results that docs/semantics.md defines where the assembler leaves them open. True if anything
/// changed.
bool define_results(ir::Function&, const analysis::LaunchContract* contract, const Certifier*);

/// Asserts after each operation of up to 32 bits that an access depends on that its exact result fits: for checked
/// mode on GPUs, before anything else. True if anything changed.
bool check_index_arithmetic(ir::Function&);

/// Lowers the known alignment of accesses, so that a thread moves equally many elements at a time of all tiles that
/// elementwise operations combine. True if anything changed.
bool match_widths(ir::Function&);

/// Chooses how each load and store reaches memory; loads and stores that become pointer tiles are rewritten.
void choose_access_paths(ir::Function&, const Target&, const Tuning& = {}, bool few_pieces = false);

/// Combines atomic additions of an integer, or of values of f32, to equal indices of a tile. True if anything changed.
bool combine_atomics(ir::Function&);
/// The pieces of a block whose elements of an atomic operation, one tile for each piece, combine_atomics combines: the
/// fewest, and those that are enough. Zeros if it combines none, whatever their number.
struct CombinedPieces {
  std::int64_t fewest = 0, enough = 0;
};
CombinedPieces pieces_combined(const ir::Operation& atomic);

/// Reduces the elements of atomic operations along axes along which they access one place. True if anything changed.
bool reduce_atomics(ir::Function&);
/// True if elements of this atomic operation that access one place can be reduced.
bool is_reduced(const ir::Operation& atomic);

/// Emits the block's code twice, with and without the masks of its regions, and selects by one comparison whether the
/// block lies inside: where several masks are of loads around one place that move whole vectors, or as Tuning::guards
/// asks. True if anything changed. Throws CompileError for other values of it than 0 and 1.
bool version_guards(ir::Function&, const Tuning& = {});

/// Loads of regions through pointers that `claims` (about the function's operations; those that hold with `predicates`
/// are used) show to be whole tiles of their tensor become loads through partition views, where a product multiplies
/// them. Runs before apply_claims, which removes the masks that the claims are about. Returns where these loads were
/// recorded. Nothing is changed for the CPU, and without `contract`.
std::vector<SourceLocation> regions_to_tiles(ir::Function&, const Target&, std::span<const analysis::Claim> claims,
                                             std::uint64_t predicates, const analysis::LaunchContract* contract,
                                             const Certifier* certifier);

/// Loads of regions through pointers, where no element is masked, become loads through views. Follows Tuning::access.
void regions_to_views(ir::Function&, const Target&, const Tuning& = {});

/// Narrows masks: comparisons of tile indices with a scalar of known range become constant where the range decides
/// them. True if anything changed.
bool unmask(ir::Function&, const Certifier*);

/// Where rows are known to end within five or six eighths of their tile, all tiles with that axis become two, whose
/// extents are powers of two. True if anything changed.
bool split_tiles(ir::Function&, const Certifier*);

/// Loads tiles with fewer elements than the block has threads element by element, in kernels that reshape a tile whose
/// elements may be in another order than in memory: the assembler loads wrong elements there. Runs after choose_hints,
/// which sets the number of threads. True if anything changed.
bool narrow_small_loads(ir::Function&, const Choices&);

/// Permutes gathers, of whose addresses nothing is known, so that neighbouring threads load along the last axis. Runs
/// after choose_hints, which counts on the tiles as they were. True if anything changed.
bool order_gathers(ir::Function&);

/// Prepares the kernel for programmatic dependent launch: it waits itself before its first access of memory that may
/// have an in-flight writer. Needs sm_90 and bytecode 13.4. Follows Tuning::overlap and early_reads; sets
/// KernelAbi::programmatic_launch, launch_flags, early_reads and early_alone, and Choices::early_tiles.
void overlap_launches(ir::Function&, const Target&, const Tuning&, Choices&);

/// Takes guards of loads that do not change in a loop with products out of it. Runs after hoist_invariants (a part of
/// clean_up), and leaves conditions that clean_up folds. True if it did.
bool unswitch_loops(ir::Function&);

/// Reverses the order of blocks if their work rises with their number. Runs after choose_hints. True if it did.
bool order_blocks(ir::Function&);

/// Keeps the assembler from merging loop results that are equal after an iteration but not before the first. Runs after
/// all passes that merge equal values. True if anything changed.
bool separate_results(ir::Function&);
/// Products that are computed by fused multiply-add become chains of products over slices of k. Runs after
/// choose_hints, which counts on the products as they were. True if anything changed.
bool slice_products(ir::Function&, const Choices&, const Tuning& = {});

/// Prevents the assembler from peeling loops with several sums: they start from zeros that it cannot recognise. Runs
/// last, because it uses the number of blocks. True if anything changed.
bool prevent_peeling(ir::Function&, const Target&);

/// What is known of the number of a launch's pieces: Few if each has an SM of its own (Predicate::few_pieces or
/// one_wave), Several if there are about two for each SM, or more (several_waves).
enum class Pieces : std::uint8_t { Unknown, Few, Several };

/// Sets the hints of the entry and of accesses from a cost model. `before`: choices of earlier passes, which are kept.
/// `scanned`: what expand_scans returned.
Choices choose_hints(ir::Function&, const Target&, const Tuning& = {}, const Choices& before = {},
                     Pieces pieces = Pieces::Unknown, const ScannedRegisters& scanned = {});

}  // namespace tessera::passes
