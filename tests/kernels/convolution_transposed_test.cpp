// Transposed convolutions with a stride: which filter positions each phase of the outputs has, and results against f64.
#include "tessera/kernels/convolution_transposed.hpp"

#include <random>

#include "kernels/convolution_problem.hpp"

namespace tessera::kernels {
namespace THIS_FILE {

using convolutions::Phases;
using convolutions::TransposedAxis;

std::string text_of(const TransposedAxis& a) {
  return concat("in ", a.in, " out ", a.out, " filter ", a.filter, " stride ", a.stride, " padding ", a.padding,
                " dilation ", a.dilation);
}
/// f(axis) for axes of small extents.
template <class F>
void each_axis(F f) {
  for (const std::int64_t stride : {1, 2, 3, 4, 6, 1 << 30})
    for (const std::int64_t dilation : {1, 2, 3, 4})
      for (const std::int64_t filter : {1, 2, 3, 4, 7})
        for (std::int64_t padding = 0; padding < 8; ++padding)
          for (const std::int64_t in : {1, 2, 5})
            for (std::int64_t more = 0; more < std::min<std::int64_t>(std::max(stride, dilation), 9); ++more) {
              const std::int64_t out = (in - 1) * stride - 2 * padding + (filter - 1) * dilation + 1 + more;
              if (out >= 1 && out < 1000) f(TransposedAxis{in, out, filter, stride, padding, dilation});
            }
}
/// The filter positions of output o and the inputs that they are multiplied by, in the order of the positions.
using Products = std::vector<std::array<std::int64_t, 2>>;
Products by_definition(const TransposedAxis& a, std::int64_t o) {
  Products all;
  for (std::int64_t k = 0; k < a.filter; ++k)
    if ((o + a.padding - k * a.dilation) % a.stride == 0)
      all.push_back({k, (o + a.padding - k * a.dilation) / a.stride});
  return all;
}
/// The pairs that the phases give for output q of phase r; inputs are elements of the frame.
Products by_phase(const Phases& p, std::int64_t r, std::int64_t q) {
  Products all;
  const auto taps = convolutions::taps_of(p.place + r + p.advance * q, p.extent, p.step);
  for (std::int64_t j = 0; j < taps.count; ++j)
    all.push_back({taps.first + j * p.step, p.begin + taps.ahead - j * p.apart});
  return all;
}
void expect_phases(const TransposedAxis& axis, bool planes) {
  SCOPED_TRACE(text_of(axis));
  std::vector<int> times(static_cast<std::size_t>(axis.out), 0);
  for (const Phases& p : convolutions::phases_of(axis, planes))
    for (std::int64_t r = 0; r < p.width; ++r)
      for (std::int64_t q = 0; q < p.count; ++q) {
        const std::int64_t o = p.first + r + p.spacing * q;
        ASSERT_LT(o, axis.out);
        ++times[static_cast<std::size_t>(o)];
        Products want = by_definition(axis, o);
        for (auto& [position, element] : want) {
          element += axis.before();
          ASSERT_GE(element, 0);
          ASSERT_LT(element, axis.reached());
          if (!planes) { ASSERT_LE(element - q, p.reach()) << "the view of windows has this element"; }
        }
        ASSERT_EQ(by_phase(p, r, q), want) << "output " << o;
      }
  ASSERT_EQ(times, std::vector<int>(times.size(), 1)) << "each output belongs to one launch";
}
TEST(ConvolutionPhases, HaveThePositionsOfTheDefinition) {
  each_axis([](const TransposedAxis& axis) {
    expect_phases(axis, false);
    expect_phases(axis, true);
  });
}
/// One launch where the stride divides the outputs; two along an axis where it does not, and one for each phase that a
/// filter with dilation reaches. Large strides do not make more.
TEST(ConvolutionPhases, NeedFewLaunches) {
  const auto launches = [](const TransposedAxis& axis, bool planes) {
    return convolutions::phases_of(axis, planes).size();
  };
  EXPECT_EQ(launches({5, 10, 4, 2, 1, 1}, false), 1u);
  EXPECT_EQ(launches({5, 9, 3, 2, 1, 1}, false), 2u);
  EXPECT_EQ(launches({5, 9, 3, 2, 1, 1}, true), 1u);
  EXPECT_EQ(launches({1, 3, 3, 1000, 0, 1}, false), 1u);
  EXPECT_EQ(launches({5, 4003, 2, 1000, 0, 2}, false), 4u) << "0, 1 without a position, 2, and the others";
  EXPECT_EQ(
      convolutions::frame_of(convolutions::Transposed{1, 1, 8, 8, {{{}, {5, 10, 2, 2}, {5, 10, 2, 2}}}}, 2).copied,
      false)
      << "no output reaches beyond the input";
  EXPECT_TRUE(convolutions::frame_of(convolutions::Transposed{1, 1, 8, 8, {{{}, {5, 9, 3, 2, 1}, {}}}}, 4).extents ==
              (convolutions::Axes{1, 5, 1}));
}

/// Random problems with a stride; `most`: of channels of a group.
template <int S>
Problem<S> random_strided(std::mt19937& random, std::int64_t most) {
  const auto upto = [&](std::int64_t n) { return 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (;;) {
    Problem<S> p;
    p.transposed = true;
    p.images = random() % 4 ? upto(3) : upto(20);
    p.groups = random() % 3 ? 1 : upto(4);
    p.channels = random() % 5 ? upto(most) : 1;
    p.outputs = random() % 5 ? upto(most) : 1;
    bool strided = false;
    for (std::size_t a = 0; a < S; ++a) {
      p.in[a] = upto(S == 1 ? 60 : S == 2 ? 10 : 5);
      p.filter[a] = upto(5);
      p.stride[a] = upto(4);
      p.dilation[a] = random() % 3 ? 1 : upto(4);
      p.padding[a] = static_cast<std::int64_t>(random() % 4);
      p.more[a] = static_cast<std::int64_t>(random()) % std::max(p.stride[a], p.dilation[a]);
      strided = strided || p.stride[a] > 1;
    }
    if (strided && p.possible()) return p;
  }
}
/// Without a stride it is a convolution with the filter backwards.
TEST(ConvolutionTransposed, WithoutStride) {
  std::mt19937 random(14);
  for (int round = 0; round < 4; ++round) {
    Problem<2> p = random_strided<2>(random, 20);
    p.stride = {1, 1}, p.more = {0, 0}, p.padding = {0, 1};
    if (p.possible()) check_transposed<bf16>(p);
  }
  check_transposed<bf16>(Problem<2>{2, 16, 1, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}});
}
TEST(ConvolutionTransposed, OneAxis) {
  std::mt19937 random(21);
  for (int round = 0; round < 12; ++round) check_transposed<bf16>(random_strided<1>(random, 70));
}
TEST(ConvolutionTransposed, TwoAxes) {
  std::mt19937 random(22);
  for (int round = 0; round < 16; ++round) check_transposed<bf16>(random_strided<2>(random, 40));
  for (int round = 0; round < 6; ++round) check_transposed<f32, tf32>(random_strided<2>(random, 20));
}
TEST(ConvolutionTransposed, ThreeAxes) {
  std::mt19937 random(23);
  for (int round = 0; round < 10; ++round) check_transposed<bf16>(random_strided<3>(random, 12));
}
/// Products without tensor cores, with and without groups.
TEST(ConvolutionTransposed, OfF32) {
  std::mt19937 random(24);
  for (int round = 0; round < 6; ++round) check_transposed<f32>(random_strided<2>(random, 20));
}
TEST(ConvolutionTransposed, ByChannel) {
  std::mt19937 random(25);
  for (int round = 0; round < 6; ++round) {
    Problem<2> p = random_strided<2>(random, 1);
    p.channels = p.outputs = 1, p.groups = 70;
    check_transposed<bf16>(p);
  }
  Problem<3> volume = random_strided<3>(random, 1);
  volume.channels = volume.outputs = 1, volume.groups = 9;
  check_transposed<bf16>(volume);
}
/// Several images in a box, or one of several with several planes; more outputs than a tile has, more channels than a
/// step.
TEST(ConvolutionTransposed, Boxes) {
  check_transposed<bf16>(Problem<2>{17, 1, 8, 20, {7, 7}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}});
  check_transposed<bf16>(Problem<2>{1, 1, 136, 300, {6, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  check_transposed<bf16>(Problem<2>{33, 1, 8, 20, {1, 8}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0}});
  check_transposed<bf16>(Problem<3>{2, 1, 8, 8, {3, 2, 70}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1}});
}
/// The filter has one position and the stride is 3: most outputs are 0, or what the epilogue makes of it.
TEST(ConvolutionTransposed, OutputsThatNoPositionReaches) {
  const auto x = full<f32>({1, 2, 2, 8}, 1).sync(), w = full<f32>({8, 1, 1, 4}, 1).sync();
  const auto b = full<f32>({4}, 5).sync();
  const auto y =
      doubles(convolution_transposed(x, w, {.stride = 3, .output_padding = 1}, bias_then<functions::Relu>(b)).sync());
  ASSERT_EQ(y.size(), 5u * 5 * 4);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 5; ++j)
      EXPECT_EQ(y[(i * 5 + j) * 4], i % 3 == 0 && j % 3 == 0 ? 13 : 5) << i << ", " << j;
}
/// Places of outputs are not numbers of 32 bits here.
TEST(ConvolutionTransposed, StridesLargerThanTheOutput) {
  constexpr std::int64_t kLargest = 0x7fffffff;
  check_transposed<bf16>(Problem<1>{1, 1, 8, 4, {1}, {3}, {kLargest}, {0}, {1}, {2}});
  check_transposed<bf16>(Problem<1>{1, 1, 8, 4, {3}, {3}, {kLargest}, {kLargest - 1}, {1}, {0}});
  check_transposed<bf16>(
      Problem<3>{2, 1, 8, 4, {1, 2, 2}, {3, 2, 2}, {kLargest, 2, 30}, {1, 0, 0}, {1, 1, 1}, {0, 0, 1}});
}
void copy_line(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y)); }
/// In checked mode a DeviceError for an element that was never written.
auto read_all(const Tensor<f32, 4>& y) {
  const Dims<1> line(y.size());
  return kernel<copy_line>(tessera::empty<f32>(line), tessera::reshape(y.view(), line)).sync();
}
TEST(ConvolutionTransposed, WritesEachElement) {
  const bool before = check_mode();
  set_check_mode(true);
  std::mt19937 random(26);
  for (int round = 0; round < 6; ++round) {
    const Problem<2> p = random_strided<2>(random, 9);
    SCOPED_TRACE(p.text());
    const auto x = random_tensor<f32>(p.x_dims(), 1), w = random_tensor<f32>(p.w_dims(), 2);
    const auto y = run_transposed<f32, f32>(p, x, w);
    EXPECT_NO_THROW((void)read_all(y));
  }
  EXPECT_THROW((void)read_all(tessera::empty<f32>({1, 2, 3, 4}).sync()), DeviceError);
  set_check_mode(before);
}
template <int S>
void check_epilogues(Problem<S> p) {
  p.transposed = true;
  SCOPED_TRACE(p.text());
  const auto x = random_tensor<f32>(p.x_dims(), 1), w = random_tensor<f32>(p.w_dims(), 2);
  const auto b = random_tensor<f32>({p.groups * p.outputs}, 3);
  const auto r = random_tensor<f32>(p.y_dims(), 4);
  Values want = p.reference(doubles(x), doubles(w)), with_rest = want;
  const Values hb = doubles(b), hr = doubles(r);
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = std::max(want[i] + hb[i % hb.size()], 0.0);
    with_rest[i] += hr[i];
  }
  EXPECT_LE(relative_error(doubles(run_transposed<f32, f32>(p, x, w, bias_then<functions::Relu>(b))), want), 1e-5);
  EXPECT_LE(relative_error(doubles(run_transposed<f32, f32>(p, x, w, residual(r))), with_rest), 1e-5);
}
TEST(ConvolutionTransposed, Epilogues) {
  check_epilogues(Problem<2>{2, 1, 5, 9, {6, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 1}});
  check_epilogues(Problem<2>{2, 2, 5, 9, {6, 7}, {3, 3}, {2, 3}, {1, 1}, {1, 1}, {1, 0}});
}
/// One number of an epilogue's tensor may stand for an axis.
TEST(ConvolutionTransposed, OperandsOfEpilogues) {
  Problem<3> p{2, 1, 5, 3, {2, 3, 4}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 0}};
  p.transposed = true;
  const auto x = random_tensor<f32>(p.x_dims(), 1), w = random_tensor<f32>(p.w_dims(), 2);
  const auto d = p.y_dims();
  const auto times = [](auto acc, auto out, auto factor) { return acc * factor.load_like(out); };
  const auto factors = random_tensor<f32>({d[0], 1, 1, 1, 1}, 5);
  Values want = p.reference(doubles(x), doubles(w));
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] *= doubles(factors)[i / (want.size() / static_cast<std::size_t>(d[0]))];
  EXPECT_LE(relative_error(doubles(run_transposed<f32, f32>(p, x, w, fuse(times, factors))), want), 1e-5);
  const auto wrong = fuse(times, random_tensor<f32>({2, 1, 1, 1, 2}, 5));
  EXPECT_ERROR(ShapeError, (void)(run_transposed<f32, f32>(p, x, w, wrong)), "operand of the epilogue");
}
TEST(ConvolutionTransposed, ShapesThatDoNotFit) {
  const auto x = random_tensor<f32>({1, 6, 6, 8}, 1), w = random_tensor<f32>({4, 3, 3, 8}, 2);
  const auto t = random_tensor<f32>({8, 3, 3, 4}, 2);
  EXPECT_EQ(convolution_transposed(x, t, {.stride = 2, .padding = 1, .output_padding = 1}).sync().dims(),
            Dims(1, 12, 12, 4));
  EXPECT_ERROR(ShapeError, (void)convolution_transposed(x, t, {.output_padding = 1}), "output_padding must be less");
  EXPECT_ERROR(ShapeError, (void)convolution_transposed(x, w), "argument w has the extents [4, 3, 3, 8]");
}
TEST(ConvolutionTransposed, NoImages) {
  const auto x = random_tensor<bf16>({0, 5, 5, 8}, 1), w = random_tensor<bf16>({8, 3, 3, 4}, 2);
  EXPECT_EQ(convolution_transposed(x, w, {.stride = 2}).sync().dims(), Dims(0, 11, 11, 4));
}

}  // namespace THIS_FILE
}  // namespace tessera::kernels
