// The passes one by one; tessera/passes/pipeline.hpp has the order in which they run. Each leaves a module that
// verifies; a page in docs/compiler says why and when each fires. A pass that takes a Certifier (null: none) asks it
// before it removes a guard, a mask or an order between accesses.
#pragma once
#include <vector>

#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/passes/certifier.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::passes {

/// Constants, identities, pairs of conversions, shape operations that cancel, branches and loops whose way is known.
/// True if anything changed.
bool fold(ir::Function&);
/// One value for equal pure operations, and for equal unordered loads, where one dominates the other. True if anything
/// changed.
bool eliminate_common(ir::Function&);
/// Moves pure operations whose operands do not change in a loop before it. True if anything changed.
bool hoist_invariants(ir::Function&);
/// fold, eliminate_common, hoist_invariants and removal of dead code, until nothing changes (at most a few rounds).
void clean_up(ir::Function&);

/// Drops token edges that order nothing: waits for tokens behind which no access stands, and joins of such. True if
/// anything changed.
bool order_tokens(ir::Function&);

/// Lets the iterations of a loop access a tensor without waiting for each other where each touches other elements. True
/// if anything changed.
bool unchain_iterations(ir::Function&, const Certifier* = nullptr);

/// Accesses of a tensor wait only for those before them that may touch the same elements. True if anything changed.
bool unchain_parts(ir::Function&, const Certifier* = nullptr);

/// Loads of a loop in the order in which its products need them. True if anything changed.
bool order_loads(ir::Function&);

/// Issues a product one iteration ahead where it feeds, through other work, a product with a carried accumulator. True
/// if anything changed.
bool pipeline_mma(ir::Function&, const Target&);

/// Gives the iterations in which a branch on the induction variable is decided, or in which accesses stay inside their
/// tensor, a loop of their own; for GPUs with clusters not where shared memory holds one step of what its products
/// load. True if anything changed.
bool split_loops(ir::Function&, const Target&, const Certifier* = nullptr);

/// Issues loads of a loop one iteration ahead: those that move an element or two at a time (rows at odd addresses), or,
/// with `wide`, all. True if anything changed.
bool load_ahead(ir::Function&, bool wide = false);
/// The same for those that Tuning::ahead names, else for those where it pays. True if anything changed.
bool load_ahead_where_it_pays(ir::Function&, const Tuning&);

/// Gives a block several neighbouring pieces where they are small and `many_pieces` says that there are many, or as
/// Tuning::pieces asks; sets Choices::pieces. `contract` null: the grid is not known, and nothing is done. Throws
/// CompileError if what is asked for is out of range.
void coarsen_blocks(ir::Function&, const analysis::LaunchContract* contract, bool many_pieces, const Tuning&, Choices&);

/// Cheaper forms of operations that are marked approximate. True if anything changed.
bool relax_math(ir::Function&);

/// Scans along any axis but the last become loops over slices. True if anything changed.
bool scans_to_loops(ir::Function&);

/// Gives operations the results that docs/semantics.md defines where the assembler leaves them open. True if anything
/// changed.
bool define_results(ir::Function&);

/// Asserts behind each operation of up to 32 bits that an access depends on that its exact result fits: for checked
/// mode on GPUs, before anything else. True if anything changed.
bool check_index_arithmetic(ir::Function&);

/// Chooses how each load and store reaches memory; loads and stores that become pointer tiles are rewritten.
void choose_access_paths(ir::Function&, const Target&, const Tuning& = {});

/// Integers added at many places of which most are the same are counted first, by products. True if anything changed.
bool combine_atomics(ir::Function&);

/// With Tuning::guards: what a block does stands twice, with the masks of its regions and without, behind one
/// comparison that says whether the block lies inside. True if anything changed. CompileError for other values than 0
/// and 1.
bool version_guards(ir::Function&, const Tuning& = {});

/// Loads of regions through pointers, where no element is masked, become loads through views. Follows Tuning::access.
void regions_to_views(ir::Function&, const Target&, const Tuning& = {});

/// Splits comparisons of places in a tile with a number that is known not to be small: where the outcome is sure, it no
/// longer depends on the number. True if anything changed.
bool unmask(ir::Function&, const Certifier* = nullptr);

/// Lets the kernel start before its predecessor in the stream has ended: it waits by itself before its first access of
/// memory that something in flight may write. Needs sm_90 and bytecode 13.4. Follows Tuning::overlap and early_reads;
/// sets Choices::overlaps, launch_word and early_reads.
void overlap_launches(ir::Function&, const Target&, const Tuning&, Choices&);

/// Reverses the numbers of the blocks where their work rises with them. After choose_hints. True if it did.
bool order_blocks(ir::Function&);

/// Protects results of loops that are one value after an iteration and two before the first from the assembler, which
/// takes them for one. After everything that merges equal values. True if anything changed.
bool separate_results(ir::Function&);

/// Starts the sums of a loop that has several from zeros that the assembler cannot know to be zeros. Last, because it
/// asks for the number of blocks. True if anything changed.
bool hide_zeros(ir::Function&, const Target&);

/// Sets the entry's and the accesses' hints from a cost model over what the kernel does. `before`: what passes before
/// it have chosen, which stays.
Choices choose_hints(ir::Function&, const Target&, const Tuning& = {}, const Choices& before = {});

}  // namespace tessera::passes
