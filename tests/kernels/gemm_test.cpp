// The matrix product against f64: transposes, every tile of the table, ragged and empty sizes, epilogues.
#include "tessera/kernels/gemm.hpp"

#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/base/format.hpp"
#include "tessera/kernels/batched_gemm.hpp"

namespace tessera::kernels {
namespace {

TEST(Gemm, TransposedOperandsAreViews) {
  for (const auto& [m, n, k] : {std::tuple{65, 33, 70}, {1, 1, 1}, {130, 200, 300}}) {
    const auto a = random_tensor<f32>({m, k}, 1), b = random_tensor<f32>({k, n}, 2);
    const auto at = random_tensor<f32>({k, m}, 3), bt = random_tensor<f32>({n, k}, 4);
    const auto ha = doubles(a), hb = doubles(b), hat = turned(doubles(at), m), hbt = turned(doubles(bt), k);
    const auto x = at.permute<1, 0>();
    const auto y = bt.permute<1, 0>();
    expect_close(gemm(a, b).sync(), product(ha, hb, m, n), 1e-5, "NN");
    expect_close(gemm(a, y).sync(), product(ha, hbt, m, n), 1e-5, "NT");
    expect_close(gemm(x, b).sync(), product(hat, hb, m, n), 1e-5, "TN");
    expect_close(gemm(x, y).sync(), product(hat, hbt, m, n), 1e-5, "TT");
  }
}

TEST(Gemm, EveryRowOfTheTable) {
  const auto a = random_tensor<bf16>({300, 100}, 5), b = random_tensor<bf16>({100, 270}, 6);
  const auto want = product(doubles(a), doubles(b), 300, 270);
  for (int row = 0; row < kGemmRows; ++row)
    expect_close(gemm(a, b, {}, Row{row}).sync(), want, tolerance<bf16>(), "row " + std::to_string(row));
}

template <class T, class M>
void expect_every_row(double allowed) {
  const auto a = random_tensor<T>({131, 70}, 5), b = random_tensor<T>({70, 150}, 6);
  const auto want = product(doubles(a), doubles(b), 131, 150);
  for (int row = 0; row < gemm_rows(sizeof(T)); ++row)
    expect_close(gemm<void, M>(a, b, {}, Row{row}).sync(), want, allowed, "row " + std::to_string(row));
}
TEST(Gemm, EveryRowOfTheTablesOfWideTypes) {
  expect_every_row<f32, f32>(1e-5);
  expect_every_row<f32, tf32>(2e-2);
  expect_every_row<f64, f64>(1e-12);
}
/// The type that is multiplied chooses the table: tiles of f32 and f64 are not those of tensor cores.
TEST(Gemm, WhatMultipliesChoosesTheTable) {
  const auto a = random_tensor<f32>({64, 64}, 5);
  EXPECT_EQ(product_size(a, a).by, Multiplier::Fp32);
  EXPECT_EQ(product_size<tf32>(a, a).by, Multiplier::Tf32);
  EXPECT_EQ(product_size(random_tensor<bf16>({8, 8}, 6), random_tensor<bf16>({8, 8}, 6)).by, Multiplier::TensorCores);
  EXPECT_EQ(product_size(random_tensor<f64>({8, 8}, 6), random_tensor<f64>({8, 8}, 6)).by, Multiplier::Fp64);
  const Target h200{true, 132, true, true};
  for (const auto& [by, bytes] : {std::pair(Multiplier::Fp32, 4), std::pair(Multiplier::Fp64, 8)})
    for (const std::int64_t n : {100, 500, 1500, 4000, 9000}) {
      ProductSize size{n, n, n, bytes};
      size.by = by;
      const GemmTile& t = gemm_tile(by, gemm_heuristic(size, h200));
      EXPECT_LE(t.m * t.n, 128 * 128) << n << ": larger tiles spill";
      const std::int64_t tiles = ceil_div(n, std::int64_t{t.m}) * ceil_div(n, std::int64_t{t.n});
      EXPECT_TRUE(tiles >= 132 || t.m * t.n <= 64 * 64 || n < 500) << n << ": SMs are left idle";
    }
}

TEST(Gemm, RowsBeyondTheTable) {
  const auto a = random_tensor<bf16>({30, 10}, 5), b = random_tensor<bf16>({10, 27}, 6);
  const auto x = random_tensor<f32>({30, 10}, 7), y = random_tensor<f32>({10, 27}, 8);
  const std::string beyond = concat("kernels::gemm: row ", kGemmRows, " of the table: rows are 0 to ", kGemmRows - 1);
  EXPECT_ERROR(ShapeError, (void)gemm(a, b, {}, Row{kGemmRows}), beyond.c_str());
  EXPECT_ERROR(ShapeError, (void)gemm(x, y, {}, Row{kPlainGemmRows}),
               "kernels::gemm: row 6 of the table: rows are 0 to 5");
  EXPECT_ERROR(ShapeError, (void)gemm(a, b, {}, Row{-2}), "row -2 of the table");
  EXPECT_EQ(gemm(a, b, {}, Row{kGemmRows - 1}).sync().dims(), Dims(30, 27));
  EXPECT_EQ(gemm(x, y, {}, Row{kPlainGemmRows - 1}).sync().dims(), Dims(30, 27));
  EXPECT_EQ(gemm(a, b, {}, Row{-1}).sync().dims(), Dims(30, 27));
  const unsigned line = __LINE__ + 2;
  try {
    (void)gemm(a, b, {}, Row{99});
    FAIL() << "no error";
  } catch (const ShapeError& e) { EXPECT_EQ(e.where().line, line) << e.what(); }
}

class GemmOfParts : public testing::TestWithParam<int> {};
TEST_P(GemmOfParts, AtEveryEdge) {
  const int n = GetParam();
  const auto v = random_tensor<bf16>({n}, 8);
  const auto hv = doubles(v);
  const auto a = random_tensor<bf16>({130, 100}, 5), b = random_tensor<bf16>({100, n}, 6);
  auto want = product(doubles(a), doubles(b), 130, n);
  for (const int row : {6, 7, 8})
    expect_close(gemm(a, b, {}, Row{row}).sync(), want, tolerance<bf16>(), "row " + std::to_string(row));
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += hv[i % static_cast<std::size_t>(n)];
  expect_close(gemm(a, b, bias(v.view()), Row{7}).sync(), want, tolerance<bf16>(), "with a bias");
}
TEST_P(GemmOfParts, SwappedAtEveryEdge) {
  const int m = GetParam();
  const auto a = random_tensor<bf16>({m, 100}, 5), b = random_tensor<bf16>({100, 130}, 6);
  const auto v = random_tensor<bf16>({130}, 8);
  const auto r = random_tensor<bf16>({m, 130}, 9);
  const auto hv = doubles(v), hr = doubles(r);
  auto want = product(doubles(a), doubles(b), m, 130);
  expect_close(gemm(a, b, {}, Row{13}).sync(), want, tolerance<bf16>(), "plain");
  auto with_rest = want;
  for (std::size_t i = 0; i < want.size(); ++i) with_rest[i] += hr[i];
  expect_close(gemm(a, b, residual(r.view()), Row{13}).sync(), with_rest, tolerance<bf16>(), "with a residual");
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += hv[i % 130];
  expect_close(gemm(a, b, bias(v.view()), Row{13}).sync(), want, tolerance<bf16>(), "with a bias");
}
INSTANTIATE_TEST_SUITE_P(Columns, GemmOfParts, testing::Values(1, 79, 80, 81, 128, 160, 161, 320, 330, 500));

TEST(Gemm, HeuristicsTakeTheTilesOfLeastEstimatedTime) {
  const Target h200{true, 132};
  constexpr auto kLines = RowStarts::At64, kBetween = RowStarts::At16;
  using Tile = std::pair<int, int>;
  const auto chosen = [&](const ProductSize& size) {
    const GemmTile& t = kGemmTiles[gemm_heuristic(size, h200)];
    return Tile(t.m, t.n);
  };
  EXPECT_EQ(chosen({1024, 1024, 1024}), Tile(64, 128));
  EXPECT_EQ(chosen({2048, 2048, 2048}), Tile(128, 128));
  for (const int n : {4096, 8192, 16384}) EXPECT_EQ(chosen({n, n, n}), Tile(256, 256)) << n;
  EXPECT_EQ(chosen({3072, 3072, 3072}), Tile(128, 192)) << "384 tiles on 132 SMs";
  EXPECT_EQ(chosen({512, 5120, 8192}), Tile(128, 160)) << "128 tiles";
  EXPECT_EQ(chosen({2048, 2560, 9728}), Tile(128, 320)) << "128 tiles";
  EXPECT_EQ(chosen({2048, 5120, 8192}), Tile(128, 320)) << "256 tiles";
  EXPECT_EQ(chosen({512, 2560, 4096}), Tile(128, 80)) << "128 tiles";
  EXPECT_EQ(chosen({256, 6144, 2560}), Tile(128, 96)) << "128 tiles";
  EXPECT_EQ(chosen({8184, 1048, 2056, 2, kBetween, kBetween}), Tile(256, 288)) << "128 tiles on 66 pairs of SMs";
  EXPECT_EQ(chosen({4104, 4088, 4120, 2, kBetween, kBetween}), Tile(256, 288)) << "255 tiles";
  EXPECT_EQ(chosen({300, 7000, 2048, 2, kLines, kBetween}), Tile(160, 128)) << "110 tiles";
  EXPECT_EQ(chosen({1024, 4096, 2056, 2, kBetween, kLines}), Tile(256, 256)) << "64 tiles on 66 pairs of SMs";
  EXPECT_EQ(chosen({3072, 3072, 3072, 4}).second % 128, 0) << "parts are for 16 bits";
  EXPECT_NE(chosen({2048, 2048, 2048, 2, kBetween, kBetween}), Tile(128, 128))
      << "rows between lines: large tiles load less";
  EXPECT_EQ(chosen({4096, 4096, 4096, 1}).first, 256) << "8-bit floats are slower in small tiles";
  const auto with_residual = [&](ProductSize size) {
    size.epilogue = EpilogueWork::LoadsTile;
    return chosen(size);
  };
  for (const int k : {4096, 12288}) {
    EXPECT_EQ(chosen({2048, 4096, k}), Tile(256, 256)) << k;
    EXPECT_EQ(with_residual({2048, 4096, k}), Tile(128, 128)) << "large tiles have too few stages: k " << k;
  }
  EXPECT_EQ(with_residual({2048, 2560, 9728}), Tile(128, 320)) << "128 tiles";
  EXPECT_EQ(with_residual({256, 2560, 9728}), Tile(128, 80)) << "64 tiles";
  const Target without_clusters{true, 108, false};
  for (const int n : {1536, 4096})
    for (const EpilogueWork work : {EpilogueWork::None, EpilogueWork::Computes, EpilogueWork::LoadsTile})
      EXPECT_LT(gemm_heuristic({n, n, n, 2, RowStarts::At64, RowStarts::At64, work}, without_clusters), 5)
          << "timed with clusters";
}

TEST(Gemm, EpiloguesThatLoadTilesAreSeen) {
  const auto v = random_tensor<bf16>({8}, 1);
  const auto r = random_tensor<bf16>({8, 8}, 2);
  EXPECT_EQ(epilogue_work<2>(residual(r)), EpilogueWork::LoadsTile);
  EXPECT_EQ(epilogue_work<2>(bias(v)), EpilogueWork::Computes);
  EXPECT_EQ(epilogue_work<2>(fuse(epilogues::Plain{})), EpilogueWork::None);
  EXPECT_EQ(epilogue_work<3>(residual(r)), EpilogueWork::Computes) << "one for the whole batch, of other extents";
}

TEST(Gemm, HowRowsLieIsSeen) {
  const auto a = random_tensor<bf16>({64, 120}, 1), b = random_tensor<bf16>({120, 60}, 2);
  EXPECT_TRUE(product_size(a, a.permute<1, 0>()).whole_rows);
  EXPECT_FALSE(product_size(a, b).whole_rows) << "rows of 120 bytes";
  EXPECT_TRUE(product_size(a, a.permute<1, 0>()).along_k);
  EXPECT_FALSE(product_size(a, b).along_k);
  EXPECT_FALSE(product_size(b.permute<1, 0>(), b).along_k);
}

TEST(Gemm, WhereRowsStartIsSeen) {
  const auto a = random_tensor<bf16>({64, 128}, 1), b = random_tensor<bf16>({128, 72}, 2);
  const auto starts = [](const ProductSize& s) { return std::pair(s.a, s.b); };
  const auto at64 = RowStarts::At64, at32 = RowStarts::At32, at16 = RowStarts::At16, anywhere = RowStarts::Anywhere;
  EXPECT_EQ(starts(product_size(a, a.permute<1, 0>())), std::pair(at64, at64));
  EXPECT_EQ(starts(product_size(a, b)), std::pair(at64, at16)) << "rows of 144 bytes";
  EXPECT_EQ(starts(product_size(b.permute<1, 0>(), a.permute<1, 0>())), std::pair(at16, at64));
  EXPECT_EQ(row_starts(random_tensor<bf16>({8, 48}, 3)), at32) << "96 bytes";
  EXPECT_EQ(row_starts(random_tensor<bf16>({8, 47}, 4)), anywhere);
  EXPECT_EQ(row_starts(random_tensor<bf16>({1, 47}, 5)), at64) << "one row";
  EXPECT_EQ(row_starts(random_tensor<f32>({3, 5, 8}, 6)), at32) << "32 bytes, and matrices of 160";
  EXPECT_FALSE(product_size(a, random_tensor<bf16>({128, 71}, 7)).copied());
  EXPECT_TRUE(product_size(a, b).copied());
  EXPECT_EQ(product_size(a, b).steps(), 2);
}

TEST(Gemm, Epilogues) {
  const auto a = random_tensor<f32>({50, 60}, 7, 0.3), b = random_tensor<f32>({60, 70}, 8, 0.3);
  const auto v = random_tensor<f32>({70}, 9), s = random_tensor<f32>({50}, 11);
  const auto r = random_tensor<f32>({50, 70}, 10);
  const auto plain = product(doubles(a), doubles(b), 50, 70), hv = doubles(v), hr = doubles(r), hs = doubles(s);
  auto silu = plain, sum = plain, scale = plain;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double x = plain[i] + hv[i % 70];
    silu[i] = x / (1 + std::exp(-x));
    sum[i] += hr[i];
    scale[i] *= hs[i / 70] * hv[i % 70];
  }
  expect_close(gemm(a, b, bias_then<functions::Silu>(v)).sync(), silu, 1e-5, "bias and silu");
  expect_close(gemm(a, b, residual(r)).sync(), sum, 1e-5, "residual");
  expect_close(gemm(a, b, scaled(s, v)).sync(), scale, 1e-5, "scales");
  EXPECT_ERROR(ShapeError, (void)gemm(a, b, bias_then<functions::Silu>(s)), "argument bias has the extents [50]");
  EXPECT_ERROR(ShapeError, (void)gemm(a, b, residual(b)), "argument residual has the extents [60, 70]");
  // A function of the caller: the launch requires that the regions agree.
  const auto add = [](auto acc, auto out, auto more) { return acc + more.load_like(out); };
  expect_close(gemm(a, b, fuse(add, r)).sync(), sum, 1e-5, "fused residual");
  EXPECT_ERROR(ShapeError, (void)gemm(a, b, fuse(add, b)), "[60, 70]", "gemm_test.cpp", "found 60 and 50");
}

TEST(Gemm, EmptyAndShapesThatDoNotFit) {
  const auto a = random_tensor<f32>({5, 6}, 12), b = random_tensor<f32>({7, 6}, 13);
  EXPECT_ERROR(ShapeError, (void)gemm(a, b), "argument b has the extents [7, 6]: axis 0 must be 6");
  EXPECT_EQ(gemm(a, b.permute<1, 0>()).sync().dims(), Dims(5, 7));
  EXPECT_EQ(gemm(random_tensor<f32>({0, 6}, 1), b.permute<1, 0>()).sync().size(), 0);
  EXPECT_EQ(doubles(gemm(random_tensor<f32>({2, 0}, 1), random_tensor<f32>({0, 2}, 1)).sync()),
            std::vector<double>(4, 0.0));
}

TEST(Gemm, OperandsOfAnEpilogueFitTheResult) {
  const auto a = ones<f32>({3, 2, 4}).sync(), b = ones<f32>({3, 4, 5}).sync();
  const auto with = [&](int batch, int rows, int columns) {
    return batched_gemm(a, b, residual(full<f32>({batch, rows, columns}, 100.0f).sync()));
  };
  for (const int batch : {0, 2, 4, 5})
    EXPECT_ERROR(ShapeError, (void)with(batch, 2, 5), "argument residual has the extents");
  EXPECT_ERROR(ShapeError, (void)with(3, 1, 5), "axis 1 must be 2");
  EXPECT_ERROR(ShapeError, (void)with(3, 2, 6), "axis 2 must be 5");
  EXPECT_ERROR(ShapeError, (void)batched_gemm(a, b, bias(ones<f32>({4}).sync())), "argument bias");
  const auto two = ones<f32>({2}).sync(), five = ones<f32>({5}).sync();
  EXPECT_ERROR(ShapeError, (void)batched_gemm(a, b, scaled(five, five)), "argument row_scales");
  EXPECT_ERROR(ShapeError, (void)batched_gemm(a, b, scaled(two, two)), "argument column_scales");
  for (const int batch : {1, 3}) EXPECT_EQ(doubles(with(batch, 2, 5).sync()), std::vector<double>(30, 104.0));
  EXPECT_EQ(doubles(batched_gemm(a, b, scaled(two, five)).sync()), std::vector<double>(30, 4.0));
}

}  // namespace
}  // namespace tessera::kernels
