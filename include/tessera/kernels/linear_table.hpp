// The tiles that a product of a few rows is computed in: tables, and the choice by shape and device. How they were
// measured: bench/notes/linear.md.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// A block of `linear`.
struct LinearTile {
  int n;  ///< rows of weights
  int k;  ///< elements of a step along k
};
/// For one row of x: products and sums, no mma.
inline constexpr LinearTile kOneRow[] = {{8, 512}, {4, 512}, {2, 512}, {2, 1024}, {4, 1024}, {32, 256}};
inline constexpr int kOneRowOnCpu = 5;  ///< its sums stay in the first-level cache (bench/notes/cpu.md)
/// If blocks run one after the other, many small ones hide each other's ends. If all run at once, steps of 4 KB are
/// needed in flight: in the tile that leaves every SM at least eight blocks, or, where a row has two or three of them,
/// in one step of a long tile (a step that does not divide k is clipped).
inline int one_row_heuristic(std::int64_t n, std::int64_t k, const Target& target) {
  if (!target.gpu) return kOneRowOnCpu;
  constexpr std::int64_t kFewBlocks = 8, kManyBlocks = 32;  // an SM holds about 12 blocks of 4 rows
  if (n >= kOneRow[2].n * kManyBlocks * target.num_sms) return 2;
  if (n >= kOneRow[1].n * kFewBlocks * target.num_sms) return 1;
  const std::int64_t long_steps = k / kOneRow[3].k;
  return k % kOneRow[3].k == 0 && (long_steps == 2 || long_steps == 3) ? 3 : 2;
}
inline constexpr std::int64_t kMaxUnrolled = 24;  ///< steps of a loop of a known length that are to be unrolled
/// The length k of one row of x, if it is to be a constant of the code in row `row` of kOneRow, else 0. The assembler
/// unrolls a short loop of a known length, so that more loads are in flight; an SM then holds 12 blocks of two rows
/// instead of 16. That pays if they all run at once, or many one after the other. Only whole steps: a program whose
/// rows grow by one element at a time would compile the kernel for each length.
inline std::int32_t constant_length(std::int64_t n, std::int64_t k, int row, const Target& target) {
  constexpr std::int64_t kBlocks = 12, kManyWaves = 5;
  const std::int64_t blocks = ceil_div(n, std::int64_t{kOneRow[row].n}), wave = kBlocks * target.num_sms;
  const bool pays = row == 2 && (blocks <= wave || blocks >= kManyWaves * wave);
  const std::int64_t step = kOneRow[row].k;
  const bool is_short = k % step == 0 && k / step <= kMaxUnrolled;
  return target.gpu && pays && is_short ? static_cast<std::int32_t>(k) : 0;
}
/// For two rows of x on a GPU, a sum for each of them and each row of weights: mma has fewer loads in flight. With four
/// rows mma is faster (bench/notes/linear.md).
inline constexpr LinearTile kSummedRows = {2, 512};
inline constexpr int kMaxSummed = 2;
inline bool are_summed(std::int64_t m, const Target& target) { return target.gpu && m >= 1 && m <= kMaxSummed; }
/// For 2 to kFewRowsLimit rows of x: mma. Reading the weights is the bound.
inline constexpr int kFewRowsLimit = 64;
inline constexpr LinearTile kFewRows[] = {{64, 256}, {64, 128}, {64, 512}, {32, 256}, {128, 128}};
/// With few blocks, the loads that one block has in flight decide. Up to 8 rows of x, three steps of 256 are enough if
/// half of the SMs have a block, and three of 512 are needed if fewer have. With 16 rows only two steps of 512 fit, and
/// five of 256 do. Where blocks share SMs, two of them with steps of 256 are fastest, or four with steps of 128 if all
/// of those run at once. Above 32 rows the activations are as large as the weights, and steps are of 128.
inline int few_rows_heuristic(std::int64_t m, std::int64_t n, const Target& target) {
  if (!target.gpu) return 0;
  if (m > 32) {
    // Rows of w and of x that pass from L2 to the busiest SM.
    const auto passed = [&](int row) {
      return ceil_div(ceil_div(n, std::int64_t{kFewRows[row].n}), std::int64_t{target.num_sms}) *
             (kFewRows[row].n + 64);
    };
    // Measured for n = 2560 (row 3), 51200 and 151936 (row 4).
    for (const int row : {3, 4})
      if (9 * passed(row) < 8 * passed(1)) return row;
    return 1;
  }
  if (m > 8) return 0;
  const std::int64_t blocks = ceil_div(n, std::int64_t{64}), num_sms = target.num_sms;
  if (2 * blocks < num_sms) return 2;
  return blocks > 2 * num_sms && blocks <= 4 * num_sms ? 1 : 0;
}

}  // namespace tessera::kernels
