// How much of its tile a row fills: what split_tiles and unmask ask of a launch. docs/compiler/split_tiles.md,
// unmask.md.
#include "passes/row_lengths.hpp"

#include <algorithm>
#include <vector>

#include "passes/asks.hpp"
#include "tessera/analysis/divisibility.hpp"

namespace tessera::passes {
namespace {

using analysis::AskedKernel;
using analysis::LaunchBound;
using analysis::LaunchQuestion;
using analysis::TakenAxis;

/// Two vectors for each thread of a warp: the masks of shorter rows cost little.
constexpr std::uint64_t kManyVectors = 2 * 32 * analysis::kVectorBytes;

struct Length {
  std::int64_t least, most;
};

/// A row that is shorter than its tile fills more than half, or more than three quarters of it (unmask); it ends within
/// half or a quarter of it, or within five or six eighths of the tile, its half or its quarter (split_tiles).
std::vector<Length> lengths_of(std::int64_t tile) {
  std::vector<Length> lengths{{tile / 2 + 1, tile - 1}, {tile / 4 * 3 + 1, tile - 1}};
  const std::int64_t smallest = tile / kTileOverSmallest;
  for (std::int64_t part = tile; part >= smallest; part /= 2) {
    const std::int64_t half = part / 2;
    for (const std::int64_t more : {part / 8, part / 4})
      if (more >= kLeastPartOfRow) lengths.push_back({half + 1, half + more});
    if (part < tile) lengths.push_back({part > smallest ? half + 1 : 1, part});
  }
  return lengths;
}

void add(std::vector<LaunchQuestion>& questions, const TakenAxis& axis, std::vector<std::pair<int, int>> equal) {
  for (const auto [least, most] : lengths_of(axis.tile)) {
    LaunchQuestion q{.use = analysis::ObligationUse::Mask};
    q.bounds.push_back({LaunchBound::Of::Argument, axis.argument, least, most});
    q.equal = equal;
    questions.push_back(std::move(q));
  }
}

}  // namespace

/// Tensors of rows ask, and vectors that are as long as a row. Products load tiles by tensor copies, which have no
/// masks.
std::vector<LaunchQuestion> ask_row_lengths(const AskedKernel& kernel) {
  std::vector<LaunchQuestion> questions;
  if (kernel.has_products) return questions;
  const auto is_row = [](const TakenAxis& a) { return a.is_of_rows && a.bytes >= kManyVectors; };
  for (const TakenAxis& axis : kernel.taken)
    if (is_row(axis)) add(questions, axis, {});
  for (const TakenAxis& axis : kernel.taken) {
    if (axis.is_of_rows || axis.bytes < kManyVectors) continue;
    const auto row =
        std::ranges::find_if(kernel.taken, [&](const TakenAxis& r) { return is_row(r) && r.tile == axis.tile; });
    if (row != kernel.taken.end()) add(questions, axis, {{axis.argument, row->argument}});
  }
  return questions;
}

}  // namespace tessera::passes
