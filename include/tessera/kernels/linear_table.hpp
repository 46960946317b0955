// Which tiles a product of a few rows is computed in: tables, and the choice from shape and target.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// Rows of weights of a block, and its step along k. (tileiras, H200, bf16: 2.91 to 4.52 TB/s for one row, where
/// cuBLAS has 2.07 to 4.12; mma with 64 rows of weights and steps of 128 to 512.)
struct LinearTile {
  int n, k;
};
inline constexpr LinearTile kOneRow[] = {{8, 512}, {4, 512}, {2, 512}, {2, 1024}};
/// Where all blocks are on the device at once, a step of 4 KB each is what has to be in flight, in the tile that leaves
/// every processor at least eight blocks; where they come one after the other, many small ones hide each other's ends.
inline int one_row_heuristic(std::int64_t n, std::int64_t k, const Target& target) {
  if (!target.gpu) return 0;
  constexpr std::int64_t kOneWave = 160 * 1024;  // weights for each processor, which holds about 12 blocks of 4 rows
  constexpr std::int64_t kFewBlocks = 8;
  if (n * k >= kOneWave * target.processors) return 2;
  return n >= kOneRow[1].n * kFewBlocks * target.processors ? 1 : 3;
}
inline constexpr LinearTile kFewRows[] = {{64, 256}, {64, 128}, {64, 512}};
/// Fewer blocks than half of the processors: each has to have a processor's share of bytes in flight by itself, in long
/// steps. A few blocks for each processor: several small ones at once. Many: long steps, which need fewer barriers.
/// More than 16 rows of x take the room of long steps (64 rows, n = 151936: 0.80 of cuBLAS with steps of 512).
inline int few_rows_heuristic(std::int64_t m, std::int64_t n, std::int64_t k, const Target& target) {
  if (!target.gpu) return 0;
  const std::int64_t blocks = ceil_div(n, std::int64_t{64}), processors = target.processors;
  const bool long_steps = m <= 16 && k >= 4 * kFewRows[2].k;
  if (2 * blocks < processors || blocks >= 12 * processors) return long_steps ? 2 : blocks < processors ? 0 : 1;
  return blocks < 2 * processors ? 0 : 1;
}

}  // namespace tessera::kernels
