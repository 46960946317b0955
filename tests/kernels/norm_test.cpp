// RMS norm and layer norm against f64, with and without a residual, and of shapes that do not fit.
#include "kernels/support.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/rms_norm.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // a rejected operation takes nothing, which the analysis cannot know
#endif

namespace tessera::kernels {
namespace {

std::vector<double> rms_reference(const std::vector<double>& x, const std::vector<double>& w, double eps) {
  std::vector<double> y(x.size());
  const std::size_t n = w.size();
  for (std::size_t r = 0; r < x.size(); r += n) {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += x[r + i] * x[r + i];
    for (std::size_t i = 0; i < n; ++i) y[r + i] = x[r + i] * w[i] / std::sqrt(squares / static_cast<double>(n) + eps);
  }
  return y;
}
std::vector<double> layer_reference(const std::vector<double>& x, const std::vector<double>& w,
                                    const std::vector<double>& b, double eps) {
  std::vector<double> y(x.size());
  const std::size_t n = w.size();
  for (std::size_t r = 0; r < x.size(); r += n) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[r + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) squares += (x[r + i] - mean) * (x[r + i] - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(n) + eps);
    for (std::size_t i = 0; i < n; ++i) y[r + i] = (x[r + i] - mean) / deviation * w[i] + b[i];
  }
  return y;
}
std::vector<double> sum_of(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

template <Element T>
void check(int rows, int n) {
  const std::string what = std::to_string(rows) + "x" + std::to_string(n);
  const auto x = random_tensor<T>({rows, n}, 1), w = random_tensor<T>({1, n}, 2), b = random_tensor<T>({1, n}, 3);
  const auto weight = w.reshape({n}), bias = b.reshape({n});
  const double allowed = tolerance<T>(2);
  expect_close(rms_norm(x, weight).sync(), rms_reference(doubles(x), doubles(w), 1e-6), allowed, "rms " + what);
  expect_close(layer_norm(x, weight, bias).sync(), layer_reference(doubles(x), doubles(w), doubles(b), 1e-5), allowed,
               "layer " + what);
  if (n > kLongestTile) return;
  auto h = random_tensor<T>({rows, n}, 4);
  auto want = sum_of(doubles(h), doubles(x));
  auto [y, total] = add_rms_norm(x, std::move(h), weight).sync();
  expect_close(total, want, tolerance<T>(), "residual " + what);
  expect_close(y, rms_reference(want, doubles(w), 1e-6), allowed, "add_rms " + what);
  want = sum_of(doubles(total), doubles(x));
  auto [z, again] = add_layer_norm(x, std::move(total), weight, bias).sync();
  expect_close(again, want, tolerance<T>(), "residual of add_layer " + what);
  expect_close(z, layer_reference(want, doubles(w), doubles(b), 1e-5), allowed, "add_layer " + what);
}
TEST(Norm, Rows) {
  for (const auto& [rows, n] :
       {std::pair{3, 1000}, {1, 4096}, {5, 65}, {2, 1}, {0, 8}, {2, 20000}, {3, 20001}, {3, 4099}, {2, 8193}})
    check<bf16>(rows, n);
  check<f32>(3, 1000);
}

TEST(Norm, LargeMeanKeepsItsVariance) {
  for (const int n : {1000, 20000, 20001}) {  // one tile, chunks, flat chunks
    std::vector<double> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = 1e4 + static_cast<double>(i % 2);
    const auto x = cast<f32>(from(v, {1, n})).sync();
    const auto one = ones<f32>({n}).sync(), zero = zeros<f32>({n}).sync();
    const auto y = doubles(layer_norm(x, one, zero).sync());
    EXPECT_NEAR(y[0], -1, 1e-2);
    EXPECT_NEAR(y[1], 1, 1e-2);
  }
}
TEST(Norm, LongRowWhoseFirstElementsAreFarFromItsMean) {
  const int n = 50257;
  std::vector<double> v(static_cast<std::size_t>(n), 0.0);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = (i < 4096 ? 1e4 : 0.0) + static_cast<double>(i % 3);
  const std::vector<double> one(v.size(), 1.0), zero(v.size(), 0.0);
  const auto x = cast<f32>(from(v, {1, n})).sync();
  expect_close(layer_norm(x, ones<f32>({n}).sync(), zeros<f32>({n}).sync()).sync(), layer_reference(v, one, zero, 1e-5),
               4e-6, "far");
}

TEST(Norm, AnyRankAndShapesThatDoNotFit) {
  const auto x = random_tensor<f32>({2, 3, 50}, 5);
  const auto w = random_tensor<f32>({50}, 6), wrong = random_tensor<f32>({49}, 7);
  expect_close(rms_norm(x, w).sync(), rms_reference(doubles(x), doubles(w), 1e-6), 4e-6, "rank 3");
  EXPECT_ERROR(ShapeError, (void)rms_norm(x, wrong), "argument weight has the extents [49]");
  EXPECT_ERROR(ShapeError, (void)layer_norm(x, w, wrong), "argument bias has the extents [49]");
  auto h = random_tensor<f32>({4, 50}, 8);
  const auto short_x = random_tensor<f32>({3, 50}, 9);
  EXPECT_ERROR(ShapeError, (void)add_rms_norm(short_x, std::move(h), w), "argument x has the extents [3, 50]");
  EXPECT_EQ(h.dims(), Dims(4, 50)) << "a rejected operation takes nothing";
}

}  // namespace
}  // namespace tessera::kernels
