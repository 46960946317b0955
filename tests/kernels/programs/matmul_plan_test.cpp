// The plan of matmul beside what was measured: docs/kernels.md. Changing kGemmTiles without measuring fails here.
#include "tessera/kernels/matmul_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
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
  const double ns =
      x.parts > 1 ? split_time({x.row, x.parts}, size, target) : gemm_time(kGemmTiles[x.row], size, target);
  return ns / 1000;
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
    size.loads_tile = true;
    const int row = gemm_heuristic(size, h200);
    const double fastest = *std::min_element(std::begin(x.us), std::end(x.us));
    EXPECT_LE(x.us[row - kFirstGpuGemm], 1.12 * fastest) << concat(x.m, " x ", x.n, " x ", x.k, " row ", row);
  }
}

}  // namespace
}  // namespace tessera::kernels
