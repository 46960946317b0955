// Products whose last wave is split, and products of block-scaled fp8, against f64.
#include "tessera/kernels/matmul.hpp"

#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"

namespace tessera::kernels {
namespace {

TEST(StreamK, EveryRemainderOfTheLastWave) {
  const auto a = random_tensor<f32>({200, 500}, 1), b = random_tensor<f32>({500, 130}, 2),
             r = random_tensor<f32>({200, 130}, 3);
  const auto want = product(doubles(a), doubles(b), 200, 130);
  auto with_residual = want;
  const auto hr = doubles(r);
  for (std::size_t i = 0; i < want.size(); ++i) with_residual[i] += hr[i];
  for (const int slots : {1, 5, 7, 12, 100})  // 12 tiles
    expect_close(gemm_stream_k(a, b, {}, slots).sync(), want, 1e-5, std::to_string(slots) + " slots");
  expect_close(gemm_stream_k(a, b, residual(r), 9).sync(), with_residual, 1e-5, "residual");
  EXPECT_ERROR(ShapeError, (void)gemm_stream_k(a, r), "argument b has the extents [200, 130]: axis 0 must be 500");
}

TEST(Matmul, TheWayFollowsFromTheWaves) {
  const Target h200{true, 132};
  const auto way = [&](const ProductSize& size) { return matmul_heuristic(size, h200).way; };
  for (const int n : {1024, 1536, 2048, 3072, 4096, 8192}) EXPECT_EQ(way({n, n, n}), MatmulWay::Whole) << n;
  EXPECT_EQ(way({256, 512, 8192}), MatmulWay::SplitK);
  EXPECT_EQ(way({256, 2560, 9728}), MatmulWay::SplitK);
  EXPECT_EQ(way({256, 2560, 64}), MatmulWay::Whole) << "there is nothing to split";
  EXPECT_EQ(way({1664, 1280, 16384, 4}), MatmulWay::Whole) << "130 tiles";
  EXPECT_EQ(way({640, 3584, 16384}), MatmulWay::Whole) << "140 tiles of 128 x 128, but 112 of 160 x 128";
  EXPECT_EQ(way({640, 3584, 16384, 4}), MatmulWay::SplitK) << "of 32 bits there are no tiles of 160 rows";
  EXPECT_EQ(way({640, 128, 32768}), MatmulWay::StreamK) << "5 tiles, in more parts than split-K makes";
  const auto a = random_tensor<bf16>({70, 90}, 6), b = random_tensor<bf16>({90, 50}, 7);
  expect_close(matmul(a, b).sync(), product(doubles(a), doubles(b), 70, 50), tolerance<bf16>(), "");
}

TEST(BlockScaled, ActivationsByRowsWeightsBySquares) {
  for (const auto& [m, n, k] : {std::tuple{70, 200, 300}, {3, 128, 128}, {1, 5, 1000}}) {
    const auto x = random_tensor<bf16>({m, k}, 4, 5), w = random_tensor<bf16>({n, k}, 5, 0.1);
    const auto [qx, sx] = quantize_blocks<f8e4m3, 1>(x).sync();
    const auto [qw, sw] = quantize_blocks<f8e4m3, 128>(w).sync();
    expect_close(block_scaled_linear(qx, sx, qw, sw).sync(), product(doubles(x), turned(doubles(w), k), m, n), 6e-2,
                 std::to_string(m) + "x" + std::to_string(n));
    const auto r = random_tensor<bf16>({m, n}, 6, 5);
    const auto product_and_r = [&] {
      auto sums = product(doubles(x), turned(doubles(w), k), m, n);
      const auto more = doubles(r);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
      return sums;
    };
    expect_close(block_scaled_linear(qx, sx, qw, sw, residual(r)).sync(), product_and_r(), 6e-2, "residual");
    EXPECT_ERROR(ShapeError, (void)block_scaled_linear(qx, sx, qw, sw, residual(r.template slice<1>(1, n))),
                 "argument residual");
    EXPECT_ERROR(ShapeError, (void)block_scaled_linear(qx, sx, qw, sw.template slice<0>(0, 0)), "argument w_scale");
  }
}

/// Every form adds the products of blocks in their order: not a bit depends on the tile. None reads beyond the blocks,
/// which only checked mode notices.
TEST(BlockScaled, EveryFormGivesTheSameBits) {
  const bool before = check_mode();
  set_check_mode(true);
  for (const auto& [m, n, k] : {std::tuple{70, 200, 700}, {3, 128, 128}, {130, 5, 1000}}) {
    const auto x = random_tensor<bf16>({m, k}, 4, 5), w = random_tensor<bf16>({n, k}, 5, 0.1);
    const auto [qx, sx] = quantize_blocks<f8e4m3, 1>(x).sync();
    const auto [qw, sw] = quantize_blocks<f8e4m3, 128>(w).sync();
    const auto expected = doubles(block_scaled_linear<f32>(qx, sx, qw, sw).sync());
    const auto computed = [&, m = m, n = n]<int BM, int BN, int S, bool Behind>() {
      return doubles(kernel<block_scaled_tiles<epilogues::Plain, f32, f8e4m3, BM, BN, S, Behind>>(
                         empty<f32>(Dims<2>(m, n)), qx.view(), sx.view(), qw.view(), sw.view())
                         .sync());
    };
    EXPECT_EQ((computed.template operator()<64, 64, 1, true>()), expected);
    EXPECT_EQ((computed.template operator()<64, 128, 1, false>()), expected);
    EXPECT_EQ((computed.template operator()<64, 128, 1, true>()), expected);
    EXPECT_EQ((computed.template operator()<128, 128, 2, false>()), expected);
  }
  set_check_mode(before);
}

TEST(BlockScaled, TheLargerTileIsTakenWhereEverySmHasOne) {
  const Target h200{true, 132};
  EXPECT_EQ(block_scaled_heuristic(448, 4096, h200), 1);
  EXPECT_EQ(block_scaled_heuristic(256, 4096, h200), 0) << "128 tiles";
  EXPECT_EQ(block_scaled_heuristic(1, 17000, h200), 1) << "133 tiles";
  EXPECT_EQ(block_scaled_heuristic(4096, 4096, {true, 132, false}), 0) << "tensor cores that read registers";
  EXPECT_EQ(block_scaled_heuristic(4096, 4096, {}), 0);
}

}  // namespace
}  // namespace tessera::kernels
