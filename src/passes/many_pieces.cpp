// Whether a launch has so many small pieces that a block takes several: what coarsen_blocks asks of it.
// docs/compiler/coarsen_blocks.md.
#include <algorithm>
#include <unordered_map>

#include "passes/asks.hpp"
#include "passes/row_lengths.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"

namespace tessera::passes {
namespace {

using ir::Op;

/// Kernels whose tiles all have at most this many bytes ask for the number of pieces. (Larger than
/// analysis::kSmallPieceBytes, because a part of a tile may lie outside its tensor.)
constexpr std::int64_t kSmallTileBytes = 2048;
/// The limit where all blocks add to the same places.
constexpr std::int64_t kSharedPlacesTileBytes = 8192;
/// Below this number of pieces coarsening does not pay: starting the blocks takes no longer than the launch itself.
constexpr std::int64_t kManyPieces = 16384;

/// Computed from arguments and constants alone. `known`: what is known of values that were looked at.
bool is_same_in_all_blocks(ir::Value v, std::unordered_map<const ir::ValueImpl*, bool>& known) {
  const ir::Operation* op = v.def();
  if (op == nullptr) return v.argument_block()->parent() == nullptr;
  if (const auto it = known.find(v.impl()); it != known.end()) return it->second;
  const bool pure = op->op() != Op::GetTileBlockId && op->num_regions() == 0 && op->info().has(ir::traits::Pure);
  const bool same = pure && std::ranges::all_of(op->operands(), [&](const ir::OpOperand& o) {
                      return is_same_in_all_blocks(o.value, known);
                    });
  return known[v.impl()] = same;
}

}  // namespace

std::vector<analysis::LaunchQuestion> ask_many_pieces(const analysis::AskedKernel& kernel) {
  if (kernel.has_products) return {};
  std::int64_t most = 0;
  bool shares_places = false;
  std::unordered_map<const ir::ValueImpl*, bool> known;
  ir::walk(kernel.entry.body(), [&](const ir::Operation& op) {
    if (op.op() == Op::AtomicRMWTko) {
      // Sums of f16 and bf16 are added one by one (passes::reduce_atomics).
      const ir::Elem elem = op.operand(1).type().elem();
      const bool one_by_one = ir::info(elem).is_float && ir::info(elem).bits < 32;
      shares_places = shares_places || (!one_by_one && is_same_in_all_blocks(op.operand(0), known));
    } else if (const auto access = analysis::access_of(op)) {
      most = std::max(most, analysis::bytes_of(access->tile));
    }
  });
  // A tile is small as well if split_tiles may make it small.
  const std::int64_t small = ask_row_lengths(kernel).empty() ? kSmallTileBytes : kSmallTileBytes * kTileOverSmallest;
  if (most == 0 || most > (shares_places ? kSharedPlacesTileBytes : small)) return {};
  analysis::LaunchQuestion q{.use = analysis::ObligationUse::Pieces};
  q.bounds.push_back({.of = analysis::LaunchBound::Of::Pieces, .least = kManyPieces});
  return {q};
}

}  // namespace tessera::passes
