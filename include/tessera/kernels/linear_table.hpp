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
inline int one_row_heuristic(std::int64_t n, std::int64_t k, const Target& target) {
  if (!target.gpu) return 0;
  if (n <= 4096 && k <= 4096) return 3;
  return n <= 8192 && k <= 4096 ? 1 : 2;
}
inline constexpr LinearTile kFewRows[] = {{64, 256}, {64, 128}, {64, 512}};
inline int few_rows_heuristic(std::int64_t n, std::int64_t, const Target& target) {
  if (!target.gpu) return 0;
  return n >= 100000 ? 2 : n >= 16384 ? 1 : 0;
}

}  // namespace tessera::kernels
