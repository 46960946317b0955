// The elementwise kernels against plain C++, for one axis, for pieces of rows, in place, and with shapes that do not
// fit.
#include "tessera/kernels/elementwise.hpp"

#include <algorithm>

#include "kernels/support.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // a rejected operation takes nothing, which the analysis cannot know
#endif

namespace tessera::kernels {
namespace {

template <class F>
std::vector<double> mapped(const std::vector<double>& x, F f) {
  std::vector<double> y;
  for (const double v : x) y.push_back(f(v));
  return y;
}
double silu_of(double x) { return x / (1 + std::exp(-x)); }

template <Element T>
void check_unary() {
  for (const auto& dims : {Dims(7, 333), Dims(1, 1), Dims(0, 5), Dims(3, 20000)}) {
    auto x = random_tensor<T>(dims, 1, 2);
    const auto in = doubles(x);
    const double allowed = tolerance<T>(10);
    const std::string what = dims.to_string();
    expect_close(silu(x).sync(), mapped(in, silu_of), allowed, "silu " + what);
    x = silu(std::move(x)).sync();
    expect_close(x, mapped(in, silu_of), allowed, "silu in place " + what);
  }
}
TEST(Elementwise, Unary) {
  check_unary<f32>();
  check_unary<bf16>();
}

TEST(Elementwise, EveryFunction) {
  const auto x = random_tensor<f32>({1000}, 2, 3);
  const auto in = doubles(x);
  const auto check = [&](const Tensor<f32, 1>& got, auto f, const char* what) {
    expect_close(got, mapped(in, f), 2e-6, what);
  };
  check(
      relu(x).sync(), [](double v) { return std::max(v, 0.0); }, "relu");
  check(
      sigmoid(x).sync(), [](double v) { return 1 / (1 + std::exp(-v)); }, "sigmoid");
  check(
      gelu(x).sync(), [](double v) { return v * (1 + std::erf(v / std::sqrt(2.0))) / 2; }, "gelu");
  check(
      gelu_tanh(x).sync(),
      [](double v) { return v / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v))); },
      "gelu_tanh");
}

TEST(Elementwise, NotANumberAndInfinity) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto x = cast<f16>(from(std::vector<double>{inf, -inf, nan, -0.0}, {4})).sync();
  const auto r = doubles(relu(x).sync()), g = doubles(gelu(x).sync());
  EXPECT_EQ(r[0], inf);
  EXPECT_EQ(r[1], 0);
  EXPECT_TRUE(std::isnan(r[2]));
  EXPECT_EQ(g[0], inf);
  EXPECT_TRUE(std::isnan(g[2]));
}

TEST(Elementwise, BinaryBroadcastsAndTakesViewsAndNumbers) {
  const auto x = random_tensor<f16>({40, 70}, 3), z = random_tensor<f16>({70, 40}, 4);
  const auto row = random_tensor<f16>({1, 70}, 5);
  const auto hx = doubles(x), hz = doubles(z), hr = doubles(row);
  std::vector<double> sum(hx), with_row(hx), gate(hx);
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 70; ++j) {
      sum[i * 70 + j] += hz[j * 40 + i];
      with_row[i * 70 + j] *= hr[j];
      gate[i * 70 + j] = silu_of(hx[i * 70 + j]) * hr[j];
    }
  }
  expect_close(add(x, z.permute<1, 0>()).sync(), sum, tolerance<f16>(), "a permuted view");
  expect_close(mul(x, row).sync(), with_row, tolerance<f16>(), "a row");
  expect_close(silu_mul(x, row).sync(), gate, tolerance<f16>(), "silu_mul");
  expect_close(mul(x, 0.5f).sync(), mapped(hx, [](double v) { return v / 2; }), tolerance<f16>(), "a number");
  const auto shared = share(clone(x).sync());
  expect_close(add(shared, shared).sync(), mapped(hx, [](double v) { return 2 * v; }), tolerance<f16>(), "shared");
}

TEST(Elementwise, SaxpyAndIntegersAndOtherTypes) {
  const auto x = random_tensor<f32>({5, 6, 70}, 6);
  auto y = random_tensor<f32>({5, 6, 70}, 7);
  const auto hx = doubles(x);
  auto want = doubles(y);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += 2.5 * hx[i];
  y = saxpy(std::move(y), 2.5, x).sync();
  expect_close(y, want, tolerance<f32>(), "saxpy");
  const auto n = arange<i32>(100).sync();
  expect_close(mul(n, n).sync(), mapped(doubles(n), [](double v) { return v * v; }), 0, "integers");
  const auto positive = map<bool>([](const auto& v) { return v > 0.0f; }, x).sync();
  const auto flags = host(positive).sync();
  for (std::size_t i = 0; i < flags.size(); ++i) ASSERT_EQ(flags[i], hx[i] > 0);
}

TEST(Elementwise, ShapesThatDoNotFit) {
  auto x = random_tensor<f32>({4, 6}, 8);
  const auto y = random_tensor<f32>({4, 5}, 9), tall = random_tensor<f32>({1, 6}, 10);
  EXPECT_ERROR(ShapeError, (void)add(x, y), "argument 2 has the extents [4, 5]");
  EXPECT_ERROR(ShapeError, (void)add(random_tensor<f32>({1, 6}, 10), x), "may not be longer");
  EXPECT_EQ(add(tall, x).sync().dims(), Dims(4, 6));
  {
    const auto reader = add(x, 1.0f);  // holds a lease
    EXPECT_THROW((void)relu(std::move(x)), BorrowError);
  }
  x = relu(std::move(x)).sync();  // a rejected operation took nothing
  EXPECT_EQ(x.dims(), Dims(4, 6));
}

}  // namespace
}  // namespace tessera::kernels
