// Which tile a product is computed in: a table, and the choice from shape and target.
#pragma once
#include <iterator>
#include <string>

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

/// What decides the configuration of a product.
struct ProductSize {
  std::int64_t m, n, k;   ///< elements: [m, k] times [k, n]; m is that of all products of a batch together
  int element_bytes = 2;  ///< of an operand's element
  bool aligned = true;    ///< rows of both operands start at multiples of 128 bytes

  /// Along k, of 128 bytes each.
  std::int64_t steps() const { return ceil_div(k * element_bytes, std::int64_t{128}); }
};
/// Of a times b, whose last two axes are those of the matrices; `batch` such products.
template <Operand A, Operand B>
ProductSize product_size(const A& a, const B& b, std::int64_t batch = 1) {
  constexpr int size = static_cast<int>(sizeof(element_of<A>));
  const auto aligned = [](const auto& x) {
    constexpr int r = std::remove_cvref_t<decltype(x)>::rank;
    const std::int64_t row = x.stride(r - 1) == 1 ? x.stride(r - 2) : x.stride(r - 1);
    return row * size % 128 == 0;
  };
  return {a.dim(A::rank - 2) * batch, b.dim(B::rank - 1), a.dim(A::rank - 1), size, aligned(a) && aligned(b)};
}

/// One configuration.
struct GemmTile {
  int m, n;         ///< extents of the output tile, in elements
  int k_bytes;      ///< of a step along k
  bool persistent;  ///< a block takes several tiles
  double step = 0;  ///< nanoseconds of a wave for 128 bytes of k
  double edge = 0;  ///< nanoseconds of a wave that overlap nothing: the first loads, the stores
  int wave = 2;     ///< tiles of a wave for each two processors
};
/// docs/kernels.md says where the times come from.
inline constexpr GemmTile kGemmTiles[] = {
    {64, 64, 256, false},                  // CPU, small
    {256, 256, 1024, true},                // CPU, large
    {64, 128, 128, false, 250, 800},       // 1024 cubed
    {128, 128, 128, true, 345, 500},       // most often the last wave is full
    {256, 128, 128, true, 650, 2500},      // few tiles a block, long k
    {256, 256, 128, true, 640, 2700, 1},   // from 4096: two CTAs a tile
    {128, 192, 128, true, 488, 1800},      // from here: pieces of parts, for the waves that the others leave short
    {128, 160, 128, true, 460, 1100},      // 512 x 5120 x 8192: 128 tiles
    {128, 320, 128, true, 785, 3300},      // 5120 cubed: 640 tiles
    {256, 192, 128, false, 560, 1500, 1},  // ragged columns
    {128, 80, 128, false, 285, 1400},      // 512 x 2560 x 4096: 128 tiles
    {128, 96, 128, false, 290, 1500},      // 256 x 6144 x 2560: 128 tiles
    {256, 288, 128, true, 750, 3500, 1},   // mostly ragged: 4104 x 4088 x 4120 in four waves
};
inline constexpr int kGemmRows = static_cast<int>(std::size(kGemmTiles));
inline constexpr int kPlainGemmRows = 6;  ///< the rows from here on are pieces of parts
inline constexpr int kFirstGpuGemm = 2;   ///< the rows before are for the CPU
/// The rows that operands of so large elements may take: pieces of parts are for 16 bits, others were not measured.
inline constexpr int gemm_rows(int element_bytes) { return element_bytes == 2 ? kGemmRows : kPlainGemmRows; }

/// The number of a row that a caller has set, -1 if none; ShapeError for what is none of the table's first `rows`.
inline int row_of_table(Row row, int rows, const char* kernel, SourceLocation where) {
  if (row.number < -1 || row.number >= rows)
    throw ShapeError(std::string("kernels::") + kernel + ": row " + std::to_string(row.number) +
                         " of the table: rows are 0 to " + std::to_string(rows - 1) +
                         " here; leave it out, or take one of them",
                     where);
  return row.number;
}

/// True if the row's times hold for the target: clusters and pieces of parts were timed where there are clusters.
inline bool suits(int row, const Target& target) {
  return target.clusters || (row < kPlainGemmRows && kGemmTiles[row].wave == 2);
}

// The model's constants, of one H200. They were fitted together with kGemmTiles to the products that
// tests/kernels/programs/matmul_plan_test.cpp lists, which holds the estimate within 12 % of each (bf16, bursts of 12
// ms); kSmall8BitStep to 2048 cubed of f8e4m3.

inline constexpr double kLaunch = 1500;  ///< nanoseconds before the first load and after the last store
/// Of 8-bit elements, whose products take half the time, small tiles load too much (2048 cubed: 128 x 128 takes 375).
inline constexpr double kSmall8BitStep = 1.05;
/// Bytes a nanosecond and processor where rows start between lines of 128 bytes and take two requests each (4104 x 4088
/// x 4120).
inline constexpr double kBetweenLines = 52;
/// Operands come from memory at so many bytes a nanosecond while others are multiplied, and this share of that is seen.
inline constexpr double kMemory = 4200, kMemorySeen = 0.1;

/// Nanoseconds that a product takes in this tile on a GPU: whole waves of tiles, and what overlaps nothing. `parts`: of
/// how many the sum of each tile consists; adding them afterwards is not in it (parts_time()).
inline double gemm_time(const GemmTile& t, const ProductSize& size, const Target& target, std::int64_t parts = 1) {
  const std::int64_t tiles = ceil_div(size.m, std::int64_t{t.m}) * ceil_div(size.n, std::int64_t{t.n}) * parts;
  const std::int64_t waves = ceil_div(2 * tiles, std::int64_t{t.wave} * target.processors);
  const double step = size.element_bytes == 1 && t.m * t.n <= 128 * 128 ? kSmall8BitStep * t.step : t.step;
  const double loads = size.aligned ? 0 : (t.m + t.n) * 128.0 * t.wave / 2 / kBetweenLines;
  const auto steps = static_cast<double>(ceil_div(size.steps(), parts));
  const double memory = static_cast<double>((size.m + size.n) * size.k * size.element_bytes) / kMemory;
  return static_cast<double>(waves) * (steps * std::max(step, loads) + t.edge) + kMemorySeen * memory + kLaunch;
}

/// The row of kGemmTiles, one of its first `rows`: on a GPU the one with the least gemm_time().
inline int gemm_heuristic(const ProductSize& size, const Target& target, int rows) {
  // On the CPU the large tile is padded and no thread shares it (`tessera tune gemm`: 128 cubed takes 5 times as long
  // in it, 192 cubed 1.4 times; 128 x 512 and 192 x 256 are faster in it).
  constexpr std::int64_t kLarge = std::int64_t{192} * 256;
  if (!target.gpu) return size.m >= 128 && size.n >= 128 && size.m * size.n >= kLarge ? 1 : 0;
  // Parts must promise a gain that the estimate can see: in long runs, where power is the limit, large tiles need less.
  constexpr double kWorth = 0.97;
  int best = kFirstGpuGemm;
  double least = gemm_time(kGemmTiles[best], size, target);
  for (int i = kFirstGpuGemm + 1; i < rows; ++i) {
    if (!suits(i, target)) continue;
    const double time = gemm_time(kGemmTiles[i], size, target);
    const double worth = best < kPlainGemmRows && i >= kPlainGemmRows ? kWorth * least : least;
    if (time < worth) best = i, least = time;
  }
  return best;
}
inline int gemm_heuristic(const ProductSize& size, const Target& target) {
  return gemm_heuristic(size, target, gemm_rows(size.element_bytes));
}

}  // namespace tessera::kernels
