// Which tiles a product of a few rows is computed in: tables, and the choice from shape and target.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// A block of `linear`.
struct LinearTile {
  int n;  ///< rows of weights
  int k;  ///< of its step along k, in elements
};
/// For one row of x: products and sums, no mma. (H200, bf16, bench/RESULTS.md: 3.66 to 4.52 TB/s, where cuBLAS has 1.96
/// to 4.15; in a chain 2.83 to 4.44.)
inline constexpr LinearTile kOneRow[] = {{8, 512}, {4, 512}, {2, 512}, {2, 1024}, {4, 1024}};
/// Where all blocks are on the device at once, a step of 4 KB each is what has to be in flight, in the tile that leaves
/// every processor at least eight blocks, if it divides k (a last step in part makes all of them clip); where they come
/// one after the other, many small ones hide each other's ends. (GB/s of rows 1, 2, 3: n = 2560, k = 4096: 2264, 2293,
/// 2869; k = 9728: 3001, 3585, 2907; n = 6144: 3324, 3130, 2237; n = 19456: 3781, 3965, 2497.)
inline int one_row_heuristic(std::int64_t n, std::int64_t k, const Target& target) {
  if (!target.gpu) return 0;
  constexpr std::int64_t kFewBlocks = 8, kManyBlocks = 32;  // a processor holds about 12 of 4 rows
  if (n >= kOneRow[2].n * kManyBlocks * target.processors) return 2;
  if (n >= kOneRow[1].n * kFewBlocks * target.processors) return 1;
  return k % kOneRow[3].k == 0 ? 3 : 2;
}
/// For 2 to 64 rows of x: mma.
inline constexpr LinearTile kFewRows[] = {{64, 256}, {64, 128}, {64, 512}, {32, 256}, {128, 128}};
/// What a block has in flight decides where few have work. Up to 8 rows of x, three steps of 256 are enough if half of
/// the processors have a block, and three of 512 are needed if fewer have; with 16 rows only two of 512 fit, and five
/// of 256 do. Where blocks share processors, two of them with steps of 256 are best, or four with steps of 128 if those
/// are all there at once. Above 32 rows the activations weigh as much as the weights, and steps are of 128. (GB/s of
/// rows 0, 1, 2 with n = 2560, k = 9728: 8 rows 2556, 1839, 3086; 16 rows 3120, 1843, 2210; with n = 6144, k = 2560: 8
/// rows 3248, 2488, 3010; with n = 19456, k = 2560: 8 rows 3673 to 3783, 3822, 3735; 16 rows 3688, 3347, 3288.)
inline int few_rows_heuristic(std::int64_t m, std::int64_t n, const Target& target) {
  if (!target.gpu) return 0;
  if (m > 32) {
    // Rows of w and of x that pass from L2 to the busiest processor.
    const auto passed = [&](int row) {
      return ceil_div(ceil_div(n, std::int64_t{kFewRows[row].n}), std::int64_t{target.processors}) *
             (kFewRows[row].n + 64);
    };
    // TB/s, row 1 and this: n = 2560 2.34, 3.09 (row 3); n = 151936 4.06, 4.12 and n = 51200 4.01, 4.11 (row 4).
    for (const int row : {3, 4})
      if (9 * passed(row) < 8 * passed(1)) return row;
    return 1;
  }
  if (m > 8) return 0;
  const std::int64_t blocks = ceil_div(n, std::int64_t{64}), processors = target.processors;
  if (2 * blocks < processors) return 2;
  return blocks > 2 * processors && blocks <= 4 * processors ? 1 : 0;
}

}  // namespace tessera::kernels
