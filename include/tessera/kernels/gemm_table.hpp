// The tile that a product is computed in: a table, and the choice by shape and device.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "tessera/kernels/common.hpp"
#include "tessera/machine/measured.hpp"

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
/// U, or the default result type of a product of T if U is void.
template <class U, Element T>
using product_t = typename std::conditional_t<std::is_void_v<U>, ProductOf<T>, std::type_identity<U>>::type;

/// acc + a * b with the operands rounded to M; fp8 uses fast accumulation (without it, Hopper reaches 0.4 of the
/// speed).
template <class M, class T, int... A, int... B, class C, int... D>
auto multiply(const Tile<T, A...>& a, const Tile<T, B...>& b, const Tile<C, D...>& acc) {
  if constexpr (std::is_same_v<M, f8e4m3> || std::is_same_v<M, f8e5m2>)
    return mma(narrow<M>(a), narrow<M>(b), acc, fast_acc);
  else
    return mma(narrow<M>(a), narrow<M>(b), acc);
}

/// Where the rows of an operand start in memory: at multiples of that many bytes. Tensor copies need 16.
enum class RowStarts : std::uint8_t { Anywhere, At16, At32, At64 };

/// What the epilogue does for each tile: nothing but the conversion, it computes or loads a row or a column, or it
/// loads a tile of the result's extents, such as a residual.
enum class EpilogueWork : std::uint8_t { None, Computes, LoadsTile };

/// What multiplies, which decides the table of tiles. TensorCores: elements of 8 and 16 bits. Tf32: tensor cores as
/// well, but every element is rounded in registers before it is multiplied. Fp32: f32 by f32, which has no tensor core.
/// Fp64: f64.
using machine::Multiplier;
template <class M>
consteval Multiplier multiplier_of() {
  if (std::is_same_v<M, tf32>) return Multiplier::Tf32;
  if (std::is_same_v<M, f32>) return Multiplier::Fp32;
  return std::is_same_v<M, f64> ? Multiplier::Fp64 : Multiplier::TensorCores;
}

/// The properties of a product that decide its configuration.
struct ProductSize {
  std::int64_t m, n, k;   ///< elements: [m, k] times [k, n]
  int element_bytes = 2;  ///< of an operand's element
  RowStarts a = RowStarts::At64, b = RowStarts::At64;
  EpilogueWork epilogue = EpilogueWork::None;
  std::int64_t batch = 1;  ///< products of that size
  bool whole_rows = true;  ///< rows of both operands are multiples of 16 bytes long
  bool along_k = true;     ///< neighbours in memory are neighbours along k, in both operands
  Multiplier by = Multiplier::TensorCores;

  /// Both operands can be loaded by tensor copies.
  bool copied() const { return a != RowStarts::Anywhere && b != RowStarts::Anywhere; }

  /// The product of copies of the operands whose rows start anywhere (aligned_rows.hpp).
  ProductSize of_copies() const {
    ProductSize size = *this;
    for (RowStarts* starts : {&size.a, &size.b})
      if (*starts == RowStarts::Anywhere) *starts = RowStarts::At64;
    return size;
  }

  /// Steps along k, of 128 bytes each.
  std::int64_t steps() const { return ceil_div(k * element_bytes, std::int64_t{128}); }
};
/// The axis of a matrix (the last two axes) along which its elements lie side by side, if there is one.
template <Operand X>
int contiguous_axis(const X& x) {
  return x.stride(X::rank - 1) == 1 ? X::rank - 1 : X::rank - 2;
}
/// Where the rows of matrices start (the last two axes), from the distances between them.
template <Operand X>
RowStarts row_starts(const X& x) {
  constexpr int r = X::rank;
  const int contiguous = contiguous_axis(x);
  if (x.stride(contiguous) != 1) return RowStarts::Anywhere;
  std::int64_t bits = 0;
  for (int axis = 0; axis < r; ++axis)
    if (axis != contiguous && x.dim(axis) > 1)
      bits |= x.stride(axis) * static_cast<std::int64_t>(sizeof(element_of<X>));
  return bits % 64 == 0   ? RowStarts::At64
         : bits % 32 == 0 ? RowStarts::At32
         : bits % 16 == 0 ? RowStarts::At16
                          : RowStarts::Anywhere;
}
/// The size of a times b (the last two axes are the matrices), `batch` times. M: the element type that is multiplied
/// (void: a's).
template <class M = void, Operand A, Operand B>
ProductSize product_size(const A& a, const B& b, std::int64_t batch = 1, EpilogueWork epilogue = EpilogueWork::None) {
  constexpr int size = static_cast<int>(sizeof(element_of<A>));
  const int of_a = contiguous_axis(a), of_b = contiguous_axis(b);
  const bool whole = a.dim(of_a) * size % 16 == 0 && b.dim(of_b) * size % 16 == 0;
  return {a.dim(A::rank - 2),
          b.dim(B::rank - 1),
          a.dim(A::rank - 1),
          size,
          row_starts(a),
          row_starts(b),
          epilogue,
          batch,
          whole,
          of_a == A::rank - 1 && of_b == B::rank - 2,
          multiplier_of<std::conditional_t<std::is_void_v<M>, element_of<A>, M>>()};
}

/// The operand on the left of the instruction, which takes multiples of 64 rows of it and of 8 columns of the other. In
/// order: rows of a, times the columns of b of each part of the output. Swapped: columns of b, times the rows of a of
/// each part, so that sums are transposed; then rows may be divided finely.
enum class Operands { InOrder, Swapped };

/// One configuration.
struct GemmTile {
  int m, n;         ///< extents of the output tile, in elements
  int k_bytes;      ///< bytes of a step along k
  bool persistent;  ///< persistent tile scheduling: a block computes several tiles
  int wave = 2;     ///< tiles of a wave per two SMs
  Operands order = Operands::InOrder;
};
/// machine/h200.def has the times of each, in the same order.
inline constexpr GemmTile kGemmTiles[] = {
    {64, 64, 256, false},      // CPU, small
    {256, 256, 1024, true},    // CPU, large
    {64, 128, 128, false},     // 1024 cubed
    {128, 128, 128, true},     // the usual choice if the last wave is full
    {256, 128, 128, true},     // few tiles per block, long k
    {256, 256, 128, true, 1},  // from 4096: two CTAs per tile
    // From here: pieces made of sub-tiles, for shapes that leave the last wave empty.
    {128, 192, 128, true},
    {128, 160, 128, true},                         // 512 x 5120 x 8192: 128 tiles
    {128, 320, 128, true},                         // 5120 cubed: 640 tiles
    {256, 192, 128, false, 1},                     // ragged columns
    {128, 80, 128, false},                         // 512 x 2560 x 4096: 128 tiles
    {128, 96, 128, false},                         // 256 x 6144 x 2560: 128 tiles
    {256, 288, 128, true, 1},                      // mostly ragged: 4104 x 4088 x 4120 in four waves
    {160, 128, 128, false, 2, Operands::Swapped},  // 1536 cubed: 120 tiles
    {192, 128, 128, false, 2, Operands::Swapped},  // 192 x 12288 x 4096: 96 tiles
    {208, 128, 128, false, 2, Operands::Swapped},  // 770 x 7936 x 5136: 248 tiles
    {128, 256, 128, true},                         // 976 x 3520 x 2160: 112 tiles
    {64, 64, 128, false},                          // 432 x 264 x 2856: 35 tiles
};
/// tf32. None is persistent: 256 x 128 and batches of 256 x 256 spill then.
inline constexpr GemmTile kTf32Tiles[] = {
    {64, 64, 256, false},       // CPU, small
    {256, 256, 1024, true},     // CPU, large
    {64, 128, 128, false},      // between a few tiles and a wave
    {128, 128, 128, false},     // about one wave
    {64, 64, 128, false},       // few tiles
    {256, 256, 128, false, 1},  // many
};
/// f32 by f32. Every product of a slice of k is added to the sums by instructions of its own, so that 20 to 30 TFLOP/s
/// are reached in any tile that does not spill (bench/notes/matrix_products.md).
inline constexpr GemmTile kFp32Tiles[] = {
    {64, 64, 256, false},    // CPU, small
    {256, 256, 1024, true},  // CPU, large
    {64, 128, 64, false},    // less than a wave of the next
    {128, 128, 32, false},   // from one wave on
    {128, 64, 128, false},   // as 64 x 128, for more rows than columns
    {64, 32, 128, false},    // where few tiles are needed
};
/// f64: 27 to 30 TFLOP/s in any of these tiles, by the instruction of 8 x 8 x 4 that the assembler makes, which has
/// half the rate of the larger ones.
inline constexpr GemmTile kFp64Tiles[] = {
    {64, 64, 256, false},    // CPU, small
    {256, 256, 1024, true},  // CPU, large
    {64, 64, 128, false},    // nearly everywhere
    {128, 128, 64, false},   // full waves of large products
    {64, 128, 128, false},   // waves that 128 x 128 would leave half empty
    {64, 32, 128, false},    // where few tiles are needed
};
/// The table for what multiplies.
constexpr std::span<const GemmTile> tile_table(Multiplier by) {
  switch (by) {
    case Multiplier::Tf32: return kTf32Tiles;
    case Multiplier::Fp32: return kFp32Tiles;
    case Multiplier::Fp64: return kFp64Tiles;
    case Multiplier::TensorCores: break;
  }
  return kGemmTiles;
}
constexpr const GemmTile& gemm_tile(Multiplier by, int row) { return tile_table(by)[static_cast<std::size_t>(row)]; }
inline constexpr int kGemmRows = static_cast<int>(std::size(kGemmTiles));
inline constexpr int kPlainGemmRows = 6;  ///< the rows from here on are pieces made of sub-tiles
inline constexpr int kFirstGpuGemm = 2;   ///< the rows before are for the CPU
/// The number of rows for operands of this element size: pieces made of sub-tiles are for 16 bits; others were not
/// measured.
inline constexpr int gemm_rows(int element_bytes) { return element_bytes == 2 ? kGemmRows : kPlainGemmRows; }
static_assert(std::size(kTf32Tiles) == kPlainGemmRows && std::size(kFp32Tiles) == kPlainGemmRows &&
              std::size(kFp64Tiles) == kPlainGemmRows);

/// The number of the row that a caller has set, -1 if none. Throws ShapeError unless it is one of the first `rows`.
inline int row_of_table(Row row, int rows, const char* kernel, SourceLocation where) {
  if (row.number < -1 || row.number >= rows)
    throw ShapeError(std::string("kernels::") + kernel + ": row " + std::to_string(row.number) +
                         " of the table: rows are 0 to " + std::to_string(rows - 1) +
                         " here; leave it out, or take one of them",
                     where);
  return row.number;
}

/// True if the row's times are valid for the target: clusters and pieces made of sub-tiles were only timed on GPUs
/// with clusters.
inline bool suits(Multiplier by, int row, const Target& target) {
  return target.clusters || (row < kPlainGemmRows && gemm_tile(by, row).wave == 2);
}

/// The largest tile, in elements, for operands that are loaded element by element: they pass through registers, beside
/// the sums, and larger tiles spill.
inline constexpr int kLargestTileWithoutCopies = 64 * 128;
/// The largest tile where elements of 8 bits pass through registers to become neighbours along k, and where sums have
/// 64 bits.
inline constexpr int kLargestTileOfFewRegisters = 128 * 128;
/// True if the operands are loaded whole vectors at a time. Tensor copies do that wherever rows end; where there are
/// none, a row that ends within a vector is loaded element by element.
inline bool loads_vectors(const ProductSize& size, const Target& target) {
  return size.copied() && (target.overlaps || size.whole_rows);
}
/// True if a block of this tile keeps its sums in registers.
inline bool fits(const GemmTile& t, const ProductSize& size, const Target& target) {
  // Warpgroups multiply 8-bit operands in shared memory whose neighbours are neighbours along k.
  const bool moves_bytes = size.element_bytes == 1 && !(target.clusters && size.along_k);
  const int most = !loads_vectors(size, target)            ? kLargestTileWithoutCopies
                   : moves_bytes || size.element_bytes > 4 ? kLargestTileOfFewRegisters
                                                           : t.m * t.n;
  return t.m * t.n <= most;
}

/// False for tiles whose sums are transposed where the epilogue computes: what it loads is transposed, too. They were
/// timed without (7840 x 1568 x 7008 with a bias and SiLU is 1.3 times slower in 208 x 128 than in 256 x 288).
inline bool is_timed(const GemmTile& t, const ProductSize& size) {
  return t.order == Operands::InOrder || size.epilogue == EpilogueWork::None;
}

// What the model takes from measurements is in machine/h200.def (machine::Measured). These were fitted together with it
// to the products in tests/kernels/programs/matmul_plan_test.cpp, which checks that the estimate is within 12 % of each
// (bf16, bursts of 12 ms); kSmall8BitStep to 2048 cubed of f8e4m3.

/// The factor of a step for 8-bit elements in small tiles: their products take half the time, but loads become the
/// bound.
inline constexpr double kSmall8BitStep = 1.05;
/// Requests for each 128 bytes of a row. L2 is read in sectors of 32 bytes, and halves of lines cost no more than
/// lines; rows that start within a sector need one more sector of another line. Fitted to the 36 products of
/// 2026-11-28 in bench/notes/matrix_products.md.
inline double requests_of(RowStarts starts) {
  return starts == RowStarts::At64 ? 1 : starts == RowStarts::At32 ? 1.4 : 2;
}
/// The share of the time of reading operands from memory that computing does not hide.
inline constexpr double kMemorySeen = 0.1;
/// Where memory is the bound: the share of the time of all requests to L2 that reading does not hide. Every tile reads
/// its rows of a again (96 x 151936 x 4096).
inline constexpr double kRequestsSeen = 0.2;

/// Estimated nanoseconds of a product in the tile of this row of its table on a GPU: whole waves of tiles, and the
/// parts that do not overlap. `parts`: split-K partials per tile; adding them is not included (parts_time()). `slower`:
/// the factor of a step where blocks share an SM.
inline double gemm_time(int row, const ProductSize& size, const Target& target, std::int64_t parts = 1,
                        double slower = 1) {
  const GemmTile& t = gemm_tile(size.by, row);
  const machine::Measured& m = machine::measured();
  const machine::TileTimes& times = m.tiles[size.by][static_cast<std::size_t>(row)];
  const std::int64_t tiles =
      ceil_div(size.m, std::int64_t{t.m}) * ceil_div(size.n, std::int64_t{t.n}) * parts * size.batch;
  const std::int64_t waves = ceil_div(2 * tiles, std::int64_t{t.wave} * target.num_sms);
  const machine::WaveTime& time =  // partials have no epilogue
      size.epilogue == EpilogueWork::LoadsTile && parts == 1 ? times.with_tile : times.plain;
  const double of_step = time.step * slower;
  const double step = size.element_bytes == 1 && t.m * t.n <= 128 * 128 ? kSmall8BitStep * of_step : of_step;
  const double requests = t.m * requests_of(size.a) + t.n * requests_of(size.b);
  const std::int64_t in_place = (size.a == RowStarts::Anywhere ? std::min<std::int64_t>(t.m, size.m) : 0) +
                                (size.b == RowStarts::Anywhere ? std::min<std::int64_t>(t.n, size.n) : 0);
  const double elements = static_cast<double>(in_place) * 128 / size.element_bytes;
  const double loads = (requests * m.request + elements * m.element_load) * t.wave / 2;
  const auto steps = static_cast<double>(ceil_div(size.steps(), parts));
  const double memory =
      static_cast<double>(size.batch * (size.m + size.n) * size.k * size.element_bytes) / m.operand_rate;
  const double computing = static_cast<double>(waves) * steps * std::max(step, loads) + time.edges(waves);
  const double requesting = static_cast<double>(tiles) * static_cast<double>(size.steps()) /
                            static_cast<double>(parts) * requests * m.request / target.num_sms;
  return std::max(computing + kMemorySeen * memory, memory + kRequestsSeen * requesting) + m.launch;
}

/// The number of a row of kGemmTiles, one of the first `rows`: on a GPU the one with the least gemm_time(), but for the
/// preferences below.
inline int gemm_heuristic(const ProductSize& size, const Target& target, int rows) {
  // On the CPU a small product pads the large tile and uses one thread. The bound is from `tessera tune gemm`: 128
  // cubed takes 5 times as long in the large tile, 192 cubed 1.4 times; 128 x 512 and 192 x 256 are faster in it.
  constexpr std::int64_t kLarge = std::int64_t{192} * 256;
  if (!target.gpu) return size.m >= 128 && size.n >= 128 && size.m * size.n >= kLarge ? 1 : 0;
  // Pieces made of sub-tiles must have an estimated gain above the error of the estimate: in long runs, where power is
  // the limit, large tiles need less power.
  constexpr double kWorth = 0.97;
  // Of those, where a block has one tile the next launch begins on SMs that are left without one, if it needs no
  // result.
  constexpr double kOverlaps = 0.97;
  const auto time = [&](int row) {
    const GemmTile& t = gemm_tile(size.by, row);
    return fits(t, size, target) && is_timed(t, size) ? gemm_time(row, size, target)
                                                      : std::numeric_limits<double>::infinity();
  };
  const auto cost = [&](int row) {
    return time(row) * (row >= kPlainGemmRows && !kGemmTiles[row].persistent ? kOverlaps : 1);
  };
  const auto cheapest = [&](int first, int end) {
    int best = first;
    for (int i = first + 1; i < end; ++i)
      if (suits(size.by, i, target) && cost(i) < cost(best)) best = i;
    return best;
  };
  const int plain = cheapest(kFirstGpuGemm, std::min(rows, kPlainGemmRows));
  if (rows <= kPlainGemmRows || !suits(size.by, kPlainGemmRows, target)) return plain;
  const int parts = cheapest(kPlainGemmRows, rows);
  return time(parts) < kWorth * time(plain) ? parts : plain;
}
inline int gemm_heuristic(const ProductSize& size, const Target& target) {
  return gemm_heuristic(size, target, gemm_rows(size.element_bytes));
}

/// Estimated nanoseconds of copying the operands whose rows start anywhere.
inline double copy_time(const ProductSize& size) {
  const machine::Measured& m = machine::measured();
  double time = 0;
  for (const auto& [starts, rows] : {std::pair(size.a, size.m), std::pair(size.b, size.n)})
    if (starts == RowStarts::Anywhere)
      time += m.copy_launch + 2 * static_cast<double>(size.batch * rows * size.k * size.element_bytes) / m.copy_rate;
  return time;
}
/// True if the product is faster with copies of the operands whose rows start anywhere.
inline bool copies_pay(const ProductSize& size, const Target& target) {
  if (!target.gpu || size.copied()) return false;
  const auto time = [&](const ProductSize& s) { return gemm_time(gemm_heuristic(s, target), s, target); };
  return time(size.of_copies()) + copy_time(size) < time(size);
}
/// True if a product needs such copies in this row of the table, because its tile would spill, or if they pay.
inline bool copies_rows(int row, const ProductSize& size, const Target& target) {
  return target.gpu && !size.copied() &&
         (row >= 0 ? !fits(gemm_tile(size.by, row), size, target) : copies_pay(size, target));
}

}  // namespace tessera::kernels
