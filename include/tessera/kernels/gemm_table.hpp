// Which tile a product is computed in: a table, and the choice from shape and target.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// The element type of a product of T unless the caller says otherwise.
template <Element T>
struct ProductOf {
  using type = T;
};
template <Element T>
  requires(std::is_same_v<T, i8> || std::is_same_v<T, u8>)
struct ProductOf<T> {
  using type = i32;
};
template <Element T>
  requires(std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>)
struct ProductOf<T> {
  using type = bf16;
};
/// U, or what a product of T gives if U is void.
template <class U, Element T>
using product_t = typename std::conditional_t<std::is_void_v<U>, ProductOf<T>, std::type_identity<U>>::type;

/// acc + a * b with the operands rounded to M; fp8 accumulates fast (without, Hopper has 0.4 of the speed).
template <class M, class T, int... A, int... B, class C, int... D>
auto multiply(const Tile<T, A...>& a, const Tile<T, B...>& b, const Tile<C, D...>& acc) {
  if constexpr (std::is_same_v<M, f8e4m3> || std::is_same_v<M, f8e5m2>)
    return mma(narrow<M>(a), narrow<M>(b), acc, fast_acc);
  else
    return mma(narrow<M>(a), narrow<M>(b), acc);
}

/// One configuration: the extents of the output tile, the bytes of a step along k, whether blocks take several tiles.
struct GemmTile {
  int m, n, k_bytes;
  bool persistent;
  double rate;  ///< of the peak, with all processors busy (tileiras, H200, bf16)
  int slots;    ///< tiles in flight for each two processors
};
inline constexpr GemmTile kGemmTiles[] = {
    {64, 64, 256, false, 0, 0},      // CPU, small
    {256, 256, 1024, true, 0, 0},    // CPU, large
    {64, 128, 128, false, 0.45, 2},  // 1024 cubed
    {128, 128, 128, true, 1.00, 4},  // 2048 cubed
    {256, 128, 128, true, 1.07, 2},  // few tiles a block, long k
    {256, 256, 128, true, 1.17, 1},  // from 4096 (two CTAs a tile)
};
inline constexpr int kGemmRows = 6, kFirstGpuGemm = 2;

/// The row of the table: on a GPU the tile that keeps most of the processors at work at its rate.
inline int gemm_heuristic(std::int64_t m, std::int64_t n, const Target& target) {
  if (!target.gpu) return m >= 128 && n >= 128 ? 1 : 0;
  int best = kFirstGpuGemm;
  double best_rate = 0;
  for (int i = kFirstGpuGemm; i < kGemmRows; ++i) {
    const GemmTile& t = kGemmTiles[i];
    const std::int64_t tiles = ceil_div(m, std::int64_t{t.m}) * ceil_div(n, std::int64_t{t.n});
    const std::int64_t slots = ceil_div(std::int64_t{t.slots} * target.processors, std::int64_t{2});
    const auto whole = static_cast<double>(ceil_div(tiles, slots));
    const double busy = static_cast<double>(tiles) / (whole * static_cast<double>(slots));
    // The first loads and the last stores of a wave overlap nothing; their time grows with the tile. The weight and the
    // rates of the large tiles are fitted to 2048 and 4096 cubed on an H200 (756, 777, 785 TFLOP/s by tile at 4096).
    const double startup = whole / (whole + 0.18 * t.m * t.n / (128 * 128));
    if (const double rate = t.rate * busy * startup; rate > best_rate) best_rate = rate, best = i;
  }
  return best;
}

}  // namespace tessera::kernels
