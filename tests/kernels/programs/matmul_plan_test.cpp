// The plan of matmul beside what was measured: docs/kernels.md. Changing kGemmTiles without measuring fails here.
#include "tessera/kernels/matmul_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "tessera/base/format.hpp"

namespace tessera::kernels {
namespace {

constexpr auto kAligned = RowStarts::At64, kHalf = RowStarts::At32, kRagged = RowStarts::At16;

/// Microseconds of one product of bf16 on an H200, in bursts of 12 ms over operands beyond L2 (bench/gpu/sweep.py), in
/// tiles that fill the device: of these it changes little whether the launches overlap.
struct Measured {
  std::int64_t m, n, k;
  RowStarts starts;
  int row;  ///< of kGemmTiles
  std::int64_t parts;
  double us;
};
constexpr Measured kMeasured[] = {
    {1024, 1024, 1024, kAligned, 2, 1, 6.3},     {1536, 1536, 1536, kAligned, 6, 1, 14.8},
    {1536, 1536, 1536, kAligned, 7, 1, 14.3},    {2048, 2048, 2048, kAligned, 3, 1, 24.8},
    {2048, 2048, 2048, kAligned, 4, 1, 25.0},    {2048, 2048, 2048, kAligned, 5, 1, 24.9},
    {3072, 3072, 3072, kAligned, 6, 1, 76.1},    {3072, 3072, 3072, kAligned, 7, 1, 92.2},
    {4096, 4096, 4096, kAligned, 3, 1, 181.7},   {4096, 4096, 4096, kAligned, 4, 1, 176.8},
    {4096, 4096, 4096, kAligned, 5, 1, 176.2},   {5120, 5120, 5120, kAligned, 3, 1, 359.2},
    {5120, 5120, 5120, kAligned, 6, 1, 368.9},   {5120, 5120, 5120, kAligned, 7, 1, 386.7},
    {5120, 5120, 5120, kAligned, 8, 1, 335.3},   {8192, 8192, 8192, kAligned, 5, 1, 1379.4},
    {8192, 8192, 8192, kAligned, 6, 1, 1403.4},  {256, 2560, 4096, kAligned, 3, 3, 15.0},
    {256, 2560, 4096, kAligned, 7, 4, 15.6},     {256, 2560, 9728, kAligned, 3, 3, 25.3},
    {256, 2560, 9728, kAligned, 7, 4, 27.5},     {256, 5120, 8192, kAligned, 7, 2, 40.1},
    {256, 5120, 25600, kAligned, 7, 2, 107.4},   {256, 6144, 2560, kAligned, 3, 1, 16.1},
    {256, 6144, 2560, kAligned, 11, 1, 15.5},    {256, 10240, 5120, kAligned, 7, 1, 42.1},
    {256, 19456, 2560, kAligned, 6, 1, 44.9},    {256, 19456, 2560, kAligned, 7, 1, 42.8},
    {256, 51200, 5120, kAligned, 3, 1, 208.1},   {256, 51200, 5120, kAligned, 6, 1, 218.6},
    {256, 51200, 5120, kAligned, 7, 1, 204.8},   {512, 2560, 4096, kAligned, 3, 1, 22.4},
    {512, 2560, 4096, kAligned, 7, 1, 30.7},     {512, 2560, 4096, kAligned, 7, 2, 22.2},
    {512, 2560, 4096, kAligned, 10, 1, 20.9},    {512, 2560, 9728, kAligned, 7, 2, 43.1},
    {512, 5120, 8192, kAligned, 7, 1, 62.4},     {512, 5120, 25600, kAligned, 7, 1, 188.7},
    {512, 6144, 2560, kAligned, 6, 1, 23.4},     {512, 10240, 5120, kAligned, 7, 1, 79.6},
    {512, 10240, 5120, kAligned, 8, 1, 69.6},    {512, 19456, 2560, kAligned, 3, 1, 73.3},
    {512, 19456, 2560, kAligned, 5, 1, 84.0},    {512, 19456, 2560, kAligned, 7, 1, 80.6},
    {512, 51200, 5120, kAligned, 3, 1, 368.0},   {512, 51200, 5120, kAligned, 6, 1, 372.2},
    {512, 51200, 5120, kAligned, 7, 1, 389.7},   {2048, 2560, 4096, kAligned, 3, 1, 65.7},
    {2048, 2560, 4096, kAligned, 6, 1, 65.3},    {2048, 2560, 4096, kAligned, 7, 1, 63.2},
    {2048, 2560, 4096, kAligned, 8, 1, 55.2},    {2048, 2560, 9728, kAligned, 6, 1, 149.5},
    {2048, 2560, 9728, kAligned, 7, 1, 144.9},   {2048, 2560, 9728, kAligned, 8, 1, 125.3},
    {2048, 5120, 8192, kAligned, 3, 1, 223.1},   {2048, 5120, 8192, kAligned, 5, 1, 248.8},
    {2048, 5120, 8192, kAligned, 6, 1, 256.2},   {2048, 5120, 8192, kAligned, 7, 1, 244.2},
    {2048, 5120, 8192, kAligned, 8, 1, 212.2},   {2048, 5120, 25600, kAligned, 3, 1, 689.1},
    {2048, 5120, 25600, kAligned, 5, 1, 765.4},  {2048, 5120, 25600, kAligned, 7, 1, 750.7},
    {2048, 6144, 2560, kAligned, 3, 1, 87.5},    {2048, 6144, 2560, kAligned, 5, 1, 84.9},
    {256, 19456, 2560, kAligned, 8, 1, 39.3},    {512, 19456, 2560, kAligned, 8, 1, 71.5},
    {2048, 10240, 5120, kAligned, 5, 1, 270.1},  {2048, 10240, 5120, kAligned, 8, 1, 268.0},
    {8192, 2560, 4096, kAligned, 5, 1, 220.6},   {8192, 2560, 4096, kAligned, 8, 1, 216.5},
    {8192, 2560, 9728, kAligned, 5, 1, 507.6},   {8192, 2560, 9728, kAligned, 8, 1, 504.3},
    {8192, 6144, 2560, kAligned, 5, 1, 332.7},   {8192, 6144, 2560, kAligned, 8, 1, 348.1},
    {8192, 10240, 5120, kAligned, 5, 1, 1085.4}, {8192, 10240, 5120, kAligned, 8, 1, 1080.4},
    {2048, 6144, 2560, kAligned, 6, 1, 86.5},    {2048, 19456, 2560, kAligned, 3, 1, 271.0},
    {2048, 19456, 2560, kAligned, 5, 1, 273.2},  {1000, 1160, 456, kRagged, 3, 1, 6.5},
    {1000, 1160, 456, kRagged, 10, 1, 7.0},      {2040, 3080, 1528, kRagged, 5, 1, 36.7},
    {4104, 4088, 4120, kRagged, 5, 1, 224.9},    {4104, 4088, 4120, kRagged, 9, 1, 235.3},
    {8184, 1048, 2056, kRagged, 5, 1, 78.9},     {8184, 1048, 2056, kRagged, 9, 1, 61.5},
    {4104, 4088, 4120, kRagged, 12, 1, 215.1},   {8184, 1048, 2056, kRagged, 12, 1, 59.7},
    {2040, 3080, 1528, kRagged, 12, 1, 42.2},    {256, 51200, 5120, kAligned, 12, 1, 209.9},
    {512, 51200, 5120, kAligned, 12, 1, 387.6},  {512, 51200, 5120, kAligned, 8, 1, 342.9},
    {8192, 6144, 2560, kAligned, 12, 1, 356.9},  {2048, 5120, 25600, kAligned, 8, 1, 656.1},
    {256, 5120, 25600, kAligned, 8, 4, 104.6},   {512, 5120, 25600, kAligned, 8, 2, 183.9},
    {512, 2560, 9728, kAligned, 8, 4, 43.5},     {256, 5120, 8192, kAligned, 10, 1, 44.0},
    {1536, 1536, 1536, kAligned, 13, 1, 13.2},
};

double estimate(const Measured& x, const Target& target) {
  const ProductSize size{x.m, x.n, x.k, 2, x.starts, x.starts};
  const double ns = x.parts > 1 ? split_time({x.row, x.parts}, size, target) : gemm_time(x.row, size, target);
  return ns / 1000;
}

TEST(MatmulPlan, EveryRowHasItsTimes) {
  for (const auto& [by, rows] :
       {std::pair(Multiplier::TensorCores, kGemmRows), std::pair(Multiplier::Tf32, gemm_rows(4)),
        std::pair(Multiplier::Fp32, gemm_rows(4)), std::pair(Multiplier::Fp64, gemm_rows(8))}) {
    const auto times = machine::measured().tiles[by];
    ASSERT_EQ(times.size(), static_cast<std::size_t>(rows));
    for (int row = 0; row < rows; ++row) {
      const machine::TileTimes& t = times[static_cast<std::size_t>(row)];
      const GemmTile& tile = gemm_tile(by, row);
      EXPECT_TRUE(t.m == tile.m && t.n == tile.n) << "row " << row;
      for (const machine::WaveTime& wave : {t.plain, t.with_tile})
        EXPECT_EQ(wave.step > 0, row >= kFirstGpuGemm) << "row " << row;
    }
  }
}

TEST(MatmulPlan, EstimatesWhatWasMeasured) {
  const Target h200{true, 132};
  for (const Measured& x : kMeasured)
    EXPECT_LT(std::abs(std::log(estimate(x, h200) / x.us)), std::log(1.12)) << concat(
        x.m, " x ", x.n, " x ", x.k, " row ", x.row, " parts ", x.parts, ": ", estimate(x, h200), " us, ", x.us);
}

TEST(MatmulPlan, ChoosesWhatWasFastest) {
  const Target h200{true, 132};
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, RowStarts>;
  std::map<Shape, double> best;
  for (const Measured& x : kMeasured) {
    const auto at = best.try_emplace({x.m, x.n, x.k, x.starts}, x.us).first;
    at->second = std::min(at->second, x.us);
  }
  int compared = 0;
  std::string unmeasured;
  for (const auto& [shape, fastest] : best) {
    const auto [m, n, k, starts] = shape;
    const MatmulPlan plan = matmul_heuristic({m, n, k, 2, starts, starts}, h200);
    EXPECT_NE(plan.way, MatmulWay::StreamK);
    const auto chosen = std::find_if(std::begin(kMeasured), std::end(kMeasured), [&, key = shape](const Measured& x) {
      return Shape(x.m, x.n, x.k, x.starts) == key && x.row == plan.row && x.parts == plan.parts;
    });
    const std::string what = concat(m, " x ", n, " x ", k, " row ", plan.row, " parts ", plan.parts);
    if (chosen == std::end(kMeasured)) {
      unmeasured += what + "\n";
      continue;
    }
    ++compared;
    EXPECT_LE(chosen->us, 1.03 * fastest) << what;
  }
  EXPECT_EQ(compared, 38) << "whose choice was not measured:\n" << unmeasured;
}

/// The least time of rows that were timed; 0 stands for rows that were not.
double least(std::span<const double> us) {
  double found = 0;
  for (const double t : us)
    if (t > 0 && (found == 0 || t < found)) found = t;
  return found;
}

/// Microseconds of a product with a residual, bf16, on an H200: 30 launches one after the other, in each row of
/// kGemmTiles for GPUs.
struct WithResidual {
  std::int64_t m, n, k;
  double us[kGemmRows - kFirstGpuGemm];
};
constexpr WithResidual kWithResidual[] = {
    {2048, 4096, 4096, {161.8, 104.9, 177.3, 144.3, 137.5, 154.4, 216.4, 129.9, 147.5, 304.5, 185.0, 117.9}},
    {2048, 4096, 12288, {598.4, 271.6, 504.2, 404.6, 394.2, 454.4, 641.4, 353.2, 462.5, 954.6, 528.1, 372.0}},
    {2048, 2560, 4096, {99.8, 73.6, 170.4, 138.6, 92.6, 77.9, 68.9, 81.9, 90.6, 190.5, 174.8, 72.7}},
    {2048, 2560, 9728, {233.3, 156.5, 393.9, 320.9, 199.7, 166.5, 145.7, 175.8, 216.8, 478.3, 423.9, 173.8}},
    {2048, 1024, 3072, {28.6, 19.9, 57.3, 44.8, 33.6, 31.1, 71.0, 24.8, 27.5, 58.9, 44.9, 23.2}},
    {1024, 4096, 4096, {80.5, 50.9, 90.3, 74.4, 89.5, 77.8, 108.8, 64.5, 72.9, 152.3, 93.8, 63.5}},
    {512, 4096, 4096, {41.4, 26.3, 87.8, 71.6, 46.8, 40.4, 106.3, 32.5, 36.4, 77.4, 91.6, 36.3}},
    {512, 4096, 12288, {132.6, 69.7, 253.3, 202.4, 127.3, 109.7, 303.2, 86.6, 112.7, 222.6, 260.1, 111.3}},
    {256, 4096, 4096, {21.5, 24.1, 85.1, 68.4, 44.9, 39.3, 103.7, 16.6, 18.5, 39.4, 89.1, 18.7}},
    {256, 2560, 9728, {29.2, 49.8, 201.7, 157.2, 97.3, 82.9, 136.1, 24.7, 26.2, 57.8, 207.3, 27.4}},
    {128, 4096, 12288, {37.2, 61.0, 252.3, 120.2, 122.4, 105.3, 314.0, 51.2, 27.4, 55.7, 179.7, 28.4}},
};

TEST(MatmulPlan, ChoosesWhatIsFastWithAResidual) {
  const Target h200{true, 132};
  for (const WithResidual& x : kWithResidual) {
    ProductSize size{x.m, x.n, x.k};
    size.epilogue = EpilogueWork::LoadsTile;
    const int row = gemm_heuristic(size, h200);
    const double chosen = x.us[row - kFirstGpuGemm];
    EXPECT_GT(chosen, 0) << "not timed";
    EXPECT_LE(chosen, 1.12 * least(x.us)) << concat(x.m, " x ", x.n, " x ", x.k, " row ", row);
  }
}

/// Microseconds of products of bf16 on an H200 at shapes drawn at random and at those of docs/benchmarks.md: launches
/// that each wait for the one before (TESSERA_TUNING=early=0), in rows of kGemmTiles from kFirstGpuGemm on.
struct AtRandom {
  std::int64_t m, n, k;
  RowStarts a, b;
  double us[kGemmRows - kFirstGpuGemm];
};
constexpr AtRandom kAtRandom[] = {
    {384, 4096, 12288, kAligned, kAligned, {0, 60.9, 115.0, 116.5, 0, 0, 0, 0, 0, 63.2, 136.6, 80.9, 0, 0, 0}},
    {2304, 768, 50304, kAligned, kAligned, {0, 254.4, 455.5, 460.3, 0, 333.7, 0, 0, 434.8, 0, 458.7, 315.9, 0, 0, 0}},
    {11008,
     4096,
     4096,
     kAligned,
     kAligned,
     {0, 475.1, 482.7, 475.8, 498.9, 528.7, 488.4, 526.5, 726.5, 666.7, 509.8, 537.5, 516.8, 539.5, 479.9}},
    {3500,
     5000,
     1800,
     kRagged,
     kRagged,
     {0, 160.8, 134.9, 108.4, 134.5, 152.4, 126.4, 111.0, 220.4, 196.9, 101.1, 142.9, 137.9, 129.8, 133.1}},
    {192,
     12288,
     4096,
     kAligned,
     kAligned,
     {0, 58.1, 43.3, 46.3, 36.8, 0, 0, 36.7, 80.5, 65.6, 50.3, 69.8, 34.6, 34.7, 41.9}},
    {5000,
     5000,
     5000,
     kRagged,
     kRagged,
     {0, 633.6, 499.3, 394.2, 535.9, 609.2, 441.2, 408.3, 942.4, 838.4, 383.1, 589.3, 546.2, 536.4, 477.2}},
    {128, 4096, 4096, kAligned, kAligned, {0, 0, 40.8, 42.3, 0, 0, 0, 0, 20.2, 21.0, 49.0, 28.8, 0, 0, 0}},
    {96,
     151936,
     4096,
     kAligned,
     kAligned,
     {0, 330.4, 757.4, 474.9, 311.6, 0, 0, 0, 470.1, 386.5, 444.9, 378.0, 0, 0, 0}},
    {384, 4096, 12288, kAligned, kAligned, {0, 61.5, 114.9, 117.3, 0, 0, 0, 0, 0, 62.5, 143.1, 81.5, 0, 0, 0}},
    {2304, 768, 50304, kAligned, kAligned, {0, 255.0, 455.4, 460.2, 0, 332.3, 0, 0, 435.8, 0, 458.1, 317.0, 0, 0, 0}},
    {192,
     12288,
     4096,
     kAligned,
     kAligned,
     {0, 58.9, 46.0, 47.4, 37.7, 0, 0, 38.8, 85.1, 69.9, 53.0, 69.0, 35.8, 35.8, 42.3}},
    {128, 4096, 4096, kAligned, kAligned, {0, 0, 41.0, 42.6, 0, 0, 0, 0, 20.5, 20.5, 50.9, 28.9, 0, 0, 0}},
    {770,
     7936,
     5136,
     kHalf,
     kHalf,
     {0, 159.4, 158.5, 113.8, 136.2, 130.6, 0, 154.7, 197.9, 180.5, 127.6, 121.7, 152.3, 103.5, 104.8}},
    {192,
     9088,
     15104,
     kAligned,
     kAligned,
     {0, 0, 141.8, 146.5, 112.0, 108.5, 0, 113.5, 191.5, 188.1, 177.6, 209.9, 108.7, 108.8, 0}},
    {256, 6144, 7936, kAligned, kAligned, {0, 41.2, 75.7, 78.2, 0, 0, 0, 0, 0, 42.4, 90.2, 54.0, 0, 0, 0}},
    {1305,
     3616,
     4776,
     kRagged,
     kRagged,
     {0, 134.0, 132.6, 104.4, 110.8, 106.3, 83.1, 93.6, 163.7, 141.0, 119.2, 110.2, 106.1, 105.6, 0}},
    {3387,
     2808,
     6528,
     kAligned,
     kAligned,
     {0, 174.8, 201.3, 201.8, 204.8, 190.7, 168.0, 211.6, 253.7, 229.8, 237.9, 190.6, 162.7, 185.3, 200.4}},
    {640,
     14336,
     8320,
     kAligned,
     kAligned,
     {0, 220.5, 262.8, 253.1, 201.5, 242.2, 208.5, 288.5, 336.0, 319.0, 298.2, 268.3, 286.3, 0, 254.2}},
    {1384, 856, 6384, kHalf, kHalf, {0, 0, 62.2, 64.2, 0, 0, 0, 0, 31.8, 32.2, 75.9, 43.5, 0, 0, 0}},
    {7104,
     384,
     9088,
     kAligned,
     kAligned,
     {0, 0, 87.3, 92.7, 73.5, 0, 0, 74.3, 127.9, 87.0, 92.6, 128.0, 71.9, 82.1, 0}},
    {976, 3520, 2160, kHalf, kHalf, {0, 31.9, 25.2, 26.7, 0, 34.0, 29.9, 0, 41.4, 38.9, 30.5, 35.4, 0, 0, 24.9}},
    {606,
     11800,
     1264,
     kHalf,
     kRagged,
     {0, 43.5, 54.8, 46.4, 40.5, 40.6, 39.9, 47.1, 63.8, 56.0, 37.1, 40.7, 47.1, 45.3, 36.2}},
    {2176, 896, 14848, kAligned, kAligned, {0, 79.2, 137.4, 140.7, 0, 101.8, 0, 0, 130.9, 0, 139.3, 96.4, 0, 0, 0}},
    {3343,
     9312,
     904,
     kRagged,
     kRagged,
     {0, 145.4, 123.1, 95.2, 124.6, 137.2, 114.6, 120.5, 209.5, 184.0, 97.7, 140.1, 133.5, 132.9, 113.6}},
    {1512,
     5688,
     1840,
     kHalf,
     kHalf,
     {0, 58.6, 62.9, 62.9, 48.7, 57.5, 52.1, 53.7, 83.4, 75.0, 51.2, 64.8, 53.2, 53.7, 62.7}},
    {2284,
     2016,
     4704,
     kAligned,
     kAligned,
     {0, 80.5, 97.5, 99.1, 73.5, 70.6, 63.3, 76.5, 95.3, 82.5, 60.1, 70.1, 74.9, 90.8, 0}},
    {256, 4608, 11264, kAligned, kAligned, {0, 0, 105.5, 108.7, 0, 0, 0, 0, 52.5, 52.6, 132.1, 73.3, 0, 0, 0}},
    {4135,
     4784,
     848,
     kHalf,
     kHalf,
     {0, 59.1, 57.4, 55.2, 55.8, 59.2, 54.3, 71.9, 102.1, 89.6, 64.3, 69.9, 66.2, 66.3, 54.9}},
    {256, 7680, 15104, kAligned, kAligned, {0, 83.7, 141.1, 144.6, 0, 106.0, 0, 0, 140.5, 0, 167.7, 110.4, 0, 0, 0}},
    {3328,
     5688,
     736,
     kAligned,
     kAligned,
     {0, 45.6, 50.2, 50.5, 45.3, 52.0, 50.2, 57.7, 84.2, 74.0, 49.3, 65.1, 61.9, 62.1, 49.7}},
    {7616,
     6976,
     1984,
     kAligned,
     kAligned,
     {0, 281.7, 282.4, 279.4, 282.9, 309.4, 275.5, 315.6, 435.4, 387.3, 303.8, 330.6, 311.2, 338.4, 282.0}},
    {6438,
     1280,
     720,
     kHalf,
     kAligned,
     {0, 21.7, 21.6, 22.1, 23.4, 27.1, 25.7, 28.8, 38.9, 35.7, 21.8, 31.3, 26.9, 30.7, 21.3}},
    {648, 4024, 7216, kHalf, kRagged, {0, 0, 82.4, 73.5, 80.6, 0, 0, 69.1, 144.3, 122.0, 84.1, 116.3, 78.3, 77.6, 0}},
    {2088,
     1896,
     5768,
     kRagged,
     kRagged,
     {0, 115.0, 140.9, 123.2, 0, 127.3, 85.6, 0, 155.2, 149.2, 74.1, 113.8, 0, 0, 0}},
    {3143, 536, 8024, kRagged, kRagged, {0, 82.4, 77.6, 83.7, 0, 81.5, 0, 0, 103.7, 0, 95.2, 76.4, 0, 0, 0}},
    {1536,
     2560,
     12288,
     kAligned,
     kAligned,
     {0, 129.7, 125.8, 125.5, 0, 172.2, 143.9, 0, 172.1, 177.2, 145.9, 168.1, 0, 0, 124.1}},
};

TEST(MatmulPlan, ChoosesWhatIsFastAtRandomShapes) {
  const Target h200{true, 132};
  int timed = 0;
  double regret = 0;
  for (const AtRandom& x : kAtRandom) {
    const int row = gemm_heuristic({x.m, x.n, x.k, 2, x.a, x.b}, h200);
    const double chosen = x.us[row - kFirstGpuGemm], fastest = least(x.us);
    if (chosen == 0) continue;  // only rows that might be fast were timed
    ++timed;
    regret += std::log(chosen / fastest);
    EXPECT_LE(chosen, 1.15 * fastest) << concat(x.m, " x ", x.n, " x ", x.k, " row ", row);
  }
  EXPECT_GE(timed, 30);
  EXPECT_LE(std::exp(regret / timed), 1.03) << "the mean loss";
}

/// Its sums would be transposed, and with them what the epilogue loads.
TEST(MatmulPlan, HasNoTransposedTilesForEpiloguesThatCompute) {
  ProductSize size{7840, 1568, 7008};
  const Target h200{true, 132, true, true};
  EXPECT_EQ(kGemmTiles[gemm_heuristic(size, h200)].order, Operands::Swapped);
  for (const EpilogueWork work : {EpilogueWork::Computes, EpilogueWork::LoadsTile}) {
    size.epilogue = work;
    EXPECT_EQ(kGemmTiles[gemm_heuristic(size, h200)].order, Operands::InOrder);
  }
}

}  // namespace
}  // namespace tessera::kernels
