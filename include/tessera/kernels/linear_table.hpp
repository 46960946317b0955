// Which tiles a product of a few rows is computed in: tables, and the choice from shape and target.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// Rows of weights of a block, and its step along k. (tileiras, H200, bf16: 2.91 to 4.52 TB/s for one row, where
/// cuBLAS has 2.07 to 4.12; mma with 64 rows of weights and steps of 128 to 512.)
struct LinearTile {
  int n, k;
};
inline constexpr LinearTile kOneRow[] = {{8, 512}, {4, 512}, {2, 512}, {2, 1024}, {4, 1024}};
/// Where all blocks are on the device at once, a step of 4 KB each is what has to be in flight, in the tile that leaves
/// every processor at least eight blocks; where they come one after the other, many small ones hide each other's ends.
/// (GB/s of rows 1, 2, 3: n = 2560, k = 4096: 2264, 2293, 2850; k = 9728: 2736, 2661, 2931; n = 6144: 3197, 3130, 2237;
/// n = 19456: 3781, 3965, 2497.)
inline int one_row_heuristic(std::int64_t n, std::int64_t, const Target& target) {
  if (!target.gpu) return 0;
  constexpr std::int64_t kFewBlocks = 8, kManyBlocks = 32;  // a processor holds about 12 of 4 rows
  if (n >= kOneRow[2].n * kManyBlocks * target.processors) return 2;
  return n >= kOneRow[1].n * kFewBlocks * target.processors ? 1 : 3;
}
inline constexpr LinearTile kFewRows[] = {{64, 256}, {64, 128}, {64, 512}, {32, 256}, {128, 128}};
/// What a block has in flight decides, about 200 KB where it is alone on a processor. Up to 8 rows of x that are three
/// steps of 512; with 16, only two fit, and five of 256 do. Where blocks share a processor, two with steps of 256 are
/// best, and above 32 rows steps of 128. (GB/s of rows 0, 1, 2 with n = 2560, k = 9728: 8 rows 2556, 1839, 3086;
/// 16 rows 3100, 1843, 2210; 64 rows 2267, 2348. With n = 19456, k = 2560: 3783, 2759, 3765; 3688, 3347, 3288; 3325,
/// 3433.)
inline int few_rows_heuristic(std::int64_t m, std::int64_t n, std::int64_t, const Target& target) {
  if (!target.gpu) return 0;
  if (m > 32) {
    // Rows of w and of x that pass from L2 to the busiest processor: the activations weigh as much as the weights.
    const auto passed = [&](int row) {
      return ceil_div(ceil_div(n, std::int64_t{kFewRows[row].n}), std::int64_t{target.processors}) *
             (kFewRows[row].n + 64);
    };
    for (const int row : {3, 4})
      if (5 * passed(row) < 4 * passed(1)) return row;  // TB/s, row 1 and this: 2.41, 2.56; 4.10, 4.20
    return 1;
  }
  return m <= 8 && ceil_div(n, std::int64_t{64}) < target.processors ? 2 : 0;
}

}  // namespace tessera::kernels
