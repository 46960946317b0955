// Convolutions over one to three axes against f64, at random shapes, strides, dilations, paddings and groups.
#include "tessera/kernels/convolution.hpp"

#include <random>

#include "kernels/convolution_problem.hpp"

namespace tessera::kernels {
namespace THIS_FILE {

/// Random problems; `most`: of channels of a group.
template <int S>
Problem<S> random_problem(std::mt19937& random, std::int64_t most) {
  const auto upto = [&](std::int64_t n) { return 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (;;) {
    Problem<S> p;
    p.images = random() % 4 ? upto(3) : upto(20);
    p.groups = random() % 3 ? 1 : upto(4);
    p.channels = random() % 5 ? upto(most) : 1;
    p.outputs = random() % 5 ? upto(most) : 1;
    for (std::size_t a = 0; a < S; ++a) {
      p.in[a] = upto(S == 1 ? 150 : S == 2 ? 20 : 9);
      p.filter[a] = random() % 4 ? 3 : upto(5);
      p.stride[a] = random() % 2 ? 1 : upto(3);
      p.dilation[a] = random() % 3 ? 1 : upto(3);
      p.padding[a] = static_cast<std::int64_t>(random() % 4);
    }
    if (p.possible()) return p;
  }
}

TEST(Convolution, OneAxis) {
  std::mt19937 random(11);
  for (int round = 0; round < 4; ++round) check_convolution<bf16>(random_problem<1>(random, 70));
  for (int round = 0; round < 2; ++round) check_convolution<f32>(random_problem<1>(random, 20));
}
TEST(Convolution, TwoAxes) {
  std::mt19937 random(12);
  for (int round = 0; round < 6; ++round) check_convolution<f16>(random_problem<2>(random, 40));
  for (int round = 0; round < 3; ++round) check_convolution<f32, tf32>(random_problem<2>(random, 20));
}
TEST(Convolution, ThreeAxes) {
  std::mt19937 random(13);
  for (int round = 0; round < 4; ++round) check_convolution<bf16>(random_problem<3>(random, 12));
}
/// One output for each channel, with and without steps between windows.
TEST(Convolution, ByChannel) {
  for (const std::int64_t stride : {1, 2}) {
    check_convolution<bf16>(Problem<2>{2, 70, 1, 1, {9, 11}, {3, 5}, {stride, stride}, {1, 2}, {1, 1}, {}});
    check_convolution<f32>(Problem<1>{1, 33, 1, 1, {40}, {4}, {stride}, {3}, {2}, {}});
  }
}
/// Each box of positions: rows, images, planes; and more outputs than a tile has.
TEST(Convolution, Boxes) {
  check_convolution<bf16>(Problem<2>{17, 1, 8, 20, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}});
  check_convolution<bf16>(Problem<2>{1, 1, 16, 300, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}});
  check_convolution<bf16>(Problem<2>{1, 1, 8, 70, {4, 33}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {}});
  check_convolution<bf16>(Problem<3>{1, 1, 8, 8, {4, 8, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {}});
  check_convolution<bf16>(Problem<2>{9, 1, 8, 20, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}});
  check_convolution<bf16>(Problem<2>{3, 1, 16, 140, {8, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {}});
}
TEST(Convolution, TilesWasteLittle) {
  const auto chosen = [](const convolutions::Sizes& s) {
    const auto tile =
        static_cast<std::size_t>(convolutions::tile_of(s, {.gpu = true, .num_sms = 132}, convolutions::kTileCount));
    return convolutions::kTiles[tile];
  };
  EXPECT_EQ(chosen({64, 1, 64, 64, {1, 56, 56}, {1, 56, 56}}).box.positions(), 256) << "few outputs, many blocks";
  EXPECT_EQ(convolutions::blocks_of({64, 1, 64, 64, {1, 56, 56}, {1, 56, 56}},
                                    chosen({64, 1, 64, 64, {1, 56, 56}, {1, 56, 56}})),
            64 * 56 * 56 / 256)
      << "no position is outside";
  EXPECT_EQ(chosen({1, 1, 8, 20, {1, 1, 500}, {1, 1, 500}}).box.extents[2], 128);
  EXPECT_EQ(chosen({16, 1, 8, 20, {8, 8, 8}, {8, 8, 8}}).box.images, 1) << "five axes at most";
  EXPECT_EQ(chosen({64, 1, 256, 256, {1, 14, 14}, {1, 14, 14}}).columns, 256);
  EXPECT_EQ(chosen({1, 1, 256, 256, {1, 14, 14}, {1, 14, 14}}).columns, 64) << "few blocks";
}
/// Rows are shared by the outputs of a piece, whatever the stride and the dilation along that axis are.
TEST(Convolution, RowsOfChannels) {
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t dilation : {1, 2})
      for (const std::int64_t filter : {1, 2, 5, 9})
        check_convolution<bf16>(Problem<2>{2, 70, 1, 1, {19, 11}, {filter, 3}, {stride, 1}, {3, 1}, {dilation, 1}, {}});
  check_convolution<f32>(Problem<3>{1, 40, 1, 1, {4, 9, 10}, {2, 3, 3}, {2, 1, 1}, {1, 1, 1}, {1, 1, 2}, {}});
  EXPECT_TRUE(convolutions::few_rows({1, 8, 1, 1, {1, 9, 9}, {1, 7, 7}, {1, 3, 3}}));
  EXPECT_FALSE(convolutions::few_rows({1, 8, 1, 1, {1, 9, 9}, {1, 7, 4}, {1, 3, 3}, {1, 1, 2}}));
  EXPECT_FALSE(convolutions::few_rows({1, 8, 1, 1, {1, 9, 9}, {1, 1, 7}, {1, 9, 3}}));
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  EXPECT_FALSE(convolutions::few_rows({1, 8, 1, 1, {1, 9, 9}, {1, 1, 7}, {1, 3, 3}, {1, 1, 1}, {1, kFar, 1}}));
  EXPECT_EQ(convolutions::rows_of_input(3, 3, 1, 1), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(convolutions::rows_of_input(2, 2, 3, 1), (std::vector<int>{0, 1, 3, 4}));
}
/// No copy where there is no padding and rows are whole 16 bytes.
TEST(Convolution, FramesOnlyWhereNeeded) {
  convolutions::Sizes s{2, 1, 16, 8, {1, 9, 9}, {1, 7, 7}, {1, 3, 3}};
  EXPECT_FALSE(convolutions::frame_of(s, 2).copied);
  s.channels = 3;
  EXPECT_TRUE(convolutions::frame_of(s, 2).copied);
  EXPECT_EQ(convolutions::frame_of(s, 2).channels, 8);
  s.channels = 16, s.before = {0, 1, 1}, s.out = {1, 9, 9};
  EXPECT_TRUE(convolutions::frame_of(s, 2).copied);
  EXPECT_EQ(convolutions::frame_of(s, 2).extents, (convolutions::Axes{1, 11, 11}));
}
TEST(Convolution, Epilogues) {
  const Problem<2> p{2, 2, 5, 9, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {}};
  const auto x = random_tensor<f32>(p.x_dims(), 1), w = random_tensor<f32>(p.w_dims(), 2);
  const auto b = random_tensor<f32>({18}, 3);
  const auto r = random_tensor<f32>(p.y_dims(), 4);
  Values want = p.reference(doubles(x), doubles(w)), with_rest = want;
  const Values hb = doubles(b), hr = doubles(r);
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = std::max(want[i] + hb[i % 18], 0.0);
    with_rest[i] += hr[i];
  }
  EXPECT_LE(relative_error(doubles(run_convolution<f32, f32>(p, x, w, bias_then<functions::Relu>(b))), want), 1e-5);
  EXPECT_LE(relative_error(doubles(run_convolution<f32, f32>(p, x, w, residual(r))), with_rest), 1e-5);
  EXPECT_ERROR(ShapeError, (void)convolution(x, w, {.padding = 1, .groups = 2}, bias(random_tensor<f32>({17}, 3))),
               "argument bias has the extents [17]: axis 0 must be 18");
}
/// A NaN outside of an output's window does not reach it: what is masked is not multiplied by 0.
TEST(Convolution, NaNReachesItsWindowsOnly) {
  std::vector<double> x(12 * 8, 1.0);
  x[5 * 8 + 3] = std::numeric_limits<double>::quiet_NaN();
  const auto y =
      doubles(convolution(cast<bf16>(from(x, Dims(1, 12, 8))).sync(), random_tensor<bf16>({4, 3, 8}, 2), {.padding = 1})
                  .sync());
  for (std::size_t i = 0; i < 12; ++i)
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(std::isnan(y[i * 4 + k]), i >= 4 && i <= 6) << i;
}
TEST(Convolution, NoImages) {
  EXPECT_EQ(convolution(random_tensor<bf16>({0, 5, 5, 8}, 1), random_tensor<bf16>({4, 3, 3, 8}, 2)).sync().dims(),
            Dims(0, 3, 3, 4));
}
TEST(Convolution, ShapesThatDoNotFit) {
  const auto x = random_tensor<f32>({1, 6, 6, 8}, 1), w = random_tensor<f32>({4, 3, 3, 8}, 2);
  EXPECT_EQ(convolution(x, w).sync().dims(), Dims(1, 4, 4, 4));
  EXPECT_ERROR(ShapeError, (void)convolution(x, random_tensor<f32>({4, 3, 3, 7}, 2)),
               "argument w has the extents [4, 3, 3, 7]: axis 3 must be 8");
  EXPECT_ERROR(ShapeError, (void)convolution(x, w, {.dilation = 3}), "it must fit into x with its padding");
  EXPECT_ERROR(ShapeError, (void)convolution(x, w, {.stride = {1, 0}}), "stride is 0: it must be 1 to 2147483647");
  EXPECT_ERROR(ShapeError, (void)convolution(x, w, {.padding = -1}), "padding is -1");
  EXPECT_ERROR(ShapeError, (void)convolution(x, w, {.groups = 3}), "its channels must be a multiple of groups");
  EXPECT_ERROR(ShapeError, (void)convolution(x, w, {.groups = 0}), "groups is 0");
  EXPECT_ERROR(ShapeError, (void)convolution(x.permute<0, 2, 1, 3>(), w), "it must be contiguous");
}

}  // namespace THIS_FILE
}  // namespace tessera::kernels
