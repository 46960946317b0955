// How matmul computes a product: whole tiles, split-K partials of every tile, or partials of the tiles of the last wave
// (stream-K). The time of each is estimated from kGemmTiles, and the fastest is chosen (docs/kernels.md).
#pragma once
#include "tessera/kernels/gemm_table.hpp"

namespace tessera::kernels {

/// The rows of kGemmTiles that split-K uses on a GPU, and the row of stream-K.
inline constexpr int kSplitRows[] = {3, 7, 8, 6}, kStreamRow = 3;
inline constexpr int kMaxSplits = 8;  ///< split-K partials of a tile

/// A split-K configuration: the row of kGemmTiles, and the number of partials.
struct SplitPlan {
  int row;
  std::int64_t parts;
};
/// Estimated nanoseconds for adding the partials: one more launch, and `parts` f32 values per element of the result
/// that are written and read, in L2 while they take half of it, else in memory.
inline double parts_time(std::int64_t parts, std::int64_t elements) {
  const machine::Measured& m = machine::measured();
  const double bytes = 4 * static_cast<double>(parts) * static_cast<double>(elements);
  return m.next_launch + 2 * bytes / (bytes <= m.l2_bytes ? m.l2_rate : m.operand_rate);
}
/// Partials of 128 x 128 have one tile per block. In launches of more than one wave two blocks share an SM, each with
/// half of the loads in flight (docs/compiler/choose_hints.md): a step takes longer by this factor.
inline constexpr double kSharedStep = 1.12;
/// Estimated nanoseconds of a split-K product, adding the partials included.
inline double split_time(SplitPlan p, const ProductSize& size, const Target& target) {
  const GemmTile& tile = gemm_tile(size.by, p.row);
  const std::int64_t tiles = ceil_div(size.m, std::int64_t{tile.m}) * ceil_div(size.n, std::int64_t{tile.n}) * p.parts;
  const double slower = p.row == kSplitRows[0] && tiles > target.num_sms ? kSharedStep : 1;
  return gemm_time(p.row, size, target, p.parts, slower) + parts_time(p.parts, size.m * size.n);
}
/// The fastest split, with partials of at least 8 steps along k. On a GPU, parts is 1 if there is none.
inline SplitPlan split_heuristic(const ProductSize& size, const Target& target) {
  if (!target.gpu) return {0, 2};
  SplitPlan best{kSplitRows[0], 1};
  for (const int row : kSplitRows) {
    if (row >= gemm_rows(size.element_bytes) || !suits(size.by, row, target) ||
        !fits(gemm_tile(size.by, row), size, target))
      continue;
    for (std::int64_t parts = 2; parts <= kMaxSplits && size.steps() >= 8 * parts; ++parts)
      if (best.parts == 1 || split_time({row, parts}, size, target) < split_time(best, size, target))
        best = {row, parts};
  }
  return best;
}

/// How stream-K divides tiles: those of full waves are computed whole, each of the rest in as many partials as fill a
/// wave.
struct StreamShare {
  int whole;  ///< tiles of the full waves
  int rest;   ///< tiles of the last wave
  int share;  ///< partials of each of the rest, at least 1
};
/// `slots`: tiles per wave.
inline StreamShare stream_share(std::int64_t tiles, int slots) {
  const auto rest = static_cast<int>(tiles % slots);
  return {static_cast<int>(tiles) - rest, rest, rest > 0 ? std::max(1, slots / rest) : 1};
}
/// Nanoseconds of stream-K's three kernels.
inline double stream_time(const ProductSize& size, const Target& target) {
  const GemmTile& t = gemm_tile(size.by, kStreamRow);
  const std::int64_t tiles = ceil_div(size.m, std::int64_t{t.m}) * ceil_div(size.n, std::int64_t{t.n});
  const StreamShare s = stream_share(tiles, target.num_sms);
  // Estimated as a product of a row of tiles: first the whole ones, then the others in partials.
  ProductSize part = size;
  part.m = t.m;
  part.n = std::int64_t{t.n} * s.whole;
  const double whole = gemm_time(kStreamRow, part, target);
  part.n = std::int64_t{t.n} * s.rest;
  return whole + gemm_time(kStreamRow, part, target, s.share) + parts_time(s.share, part.m * part.n);
}

/// Whole: each tile at once (gemm). SplitK: each tile in partials. StreamK: tiles of the last wave in partials.
enum class MatmulWay { Whole, SplitK, StreamK };
struct MatmulPlan {
  MatmulWay way = MatmulWay::Whole;
  int row = -1;            ///< of kGemmTiles
  std::int64_t parts = 1;  ///< split-K partials
  double time = 0;         ///< nanoseconds, estimated; 0 on the CPU
};
/// The way with the least estimated time; on the CPU always Whole.
inline MatmulPlan matmul_heuristic(const ProductSize& size, const Target& target) {
  const int row = gemm_heuristic(size, target);
  if (!target.gpu) return {MatmulWay::Whole, row};
  MatmulPlan plan{MatmulWay::Whole, row, 1, gemm_time(row, size, target)};
  // Other ways than Whole must promise a gain above the error of the estimate, which is larger for stream-K's three
  // kernels.
  const SplitPlan split = split_heuristic(size, target);
  const double in_parts = split_time(split, size, target), in_streams = stream_time(size, target);
  if (split.parts > 1 && in_parts < 0.97 * plan.time) plan = {MatmulWay::SplitK, split.row, split.parts, in_parts};
  if (fits(gemm_tile(size.by, kStreamRow), size, target) && in_streams < 0.94 * plan.time)
    plan = {MatmulWay::StreamK, kStreamRow, 1, in_streams};
  return plan;
}

}  // namespace tessera::kernels
