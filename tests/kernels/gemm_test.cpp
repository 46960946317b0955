// The matrix product against f64: transposes, every tile of the table, ragged and empty sizes, epilogues.
#include "tessera/kernels/gemm.hpp"

#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"

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
  const auto a = random_tensor<f32>({300, 100}, 5), b = random_tensor<f32>({100, 270}, 6);
  const auto want = product(doubles(a), doubles(b), 300, 270);
  for (int row = 0; row < kGemmRows; ++row)
    expect_close(gemm(a, b, {}, Row{row}).sync(), want, 1e-5, "row " + std::to_string(row));
}

TEST(Gemm, HeuristicsTakeTheTilesThatWereMeasuredBest) {
  const Target h200{true, 132};
  const auto chosen = [&](std::int64_t m, std::int64_t n) { return kGemmTiles[gemm_heuristic(m, n, h200)]; };
  EXPECT_EQ(chosen(1024, 1024).m, 64);
  EXPECT_EQ(chosen(2048, 2048).n, 128);
  EXPECT_EQ(chosen(4096, 4096).n, 256);
  EXPECT_EQ(chosen(512, 19456).m, 256) << "small tiles are slow where there are many";
  EXPECT_EQ(chosen(8192, 8192).n, 256);
  EXPECT_EQ(chosen(16384, 16384).n, 256);
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
}

TEST(Gemm, EmptyAndShapesThatDoNotFit) {
  const auto a = random_tensor<f32>({5, 6}, 12), b = random_tensor<f32>({7, 6}, 13);
  EXPECT_ERROR(ShapeError, (void)gemm(a, b), "argument b has the extents [7, 6]: axis 0 must be 6");
  EXPECT_EQ(gemm(a, b.permute<1, 0>()).sync().dims(), Dims(5, 7));
  EXPECT_EQ(gemm(random_tensor<f32>({0, 6}, 1), b.permute<1, 0>()).sync().size(), 0);
  EXPECT_EQ(doubles(gemm(random_tensor<f32>({2, 0}, 1), random_tensor<f32>({0, 2}, 1)).sync()),
            std::vector<double>(4, 0.0));
}

}  // namespace
}  // namespace tessera::kernels
