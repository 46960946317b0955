// Products of one row with bf16 and FP8 weights, with and without the norm inside, against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "model/kernels.hpp"
#include "tessera/kernels/linear.hpp"

namespace mortar {
namespace {

constexpr float kEpsilon = 1e-6f;
using Scales = In<f32, dyn, dyn>;

/// FP8 weights [rows, columns] with a scale for each block of 128 x 128.
struct Weights {
  Weights(std::int64_t rows, std::int64_t columns) : n(rows), k(columns) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> number(-2, 2), scale(0.01f, 0.05f);
    for (std::int64_t i = 0; i < n * k; ++i) values.push_back(f8e4m3(number(random)));
    for (std::int64_t i = 0; i < blocks(n) * blocks(k); ++i) scales.push_back(scale(random));
  }
  static std::int64_t blocks(std::int64_t extent) { return ceil_div(extent, std::int64_t{kScaled}); }
  double at(std::int64_t i, std::int64_t j) const {
    return double{static_cast<float>(values[static_cast<std::size_t>(i * k + j)])} *
           double{scales[static_cast<std::size_t>(i / kScaled * blocks(k) + j / kScaled)]};
  }
  /// Of each row, the product with `row`.
  std::vector<double> times(const std::vector<double>& row) const {
    std::vector<double> sums;
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < k; ++j) sum += at(i, j) * row[static_cast<std::size_t>(j)];
      sums.push_back(sum);
    }
    return sums;
  }
  Tensor<f8e4m3, 2> tensor() const { return from(values, {n, k}).sync(); }
  Tensor<f32, 2> scale_tensor() const { return from(scales, {blocks(n), blocks(k)}).sync(); }
  std::int64_t n, k;
  std::vector<f8e4m3> values;
  std::vector<float> scales;
};

struct Row {
  explicit Row(std::int64_t k) {
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < k; ++i) x.push_back(bf16(normal(random))), norm.push_back(bf16(normal(random)));
    double squares = 0;
    for (const bf16 v : x) squares += std::pow(double{static_cast<float>(v)}, 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(k) + double{kEpsilon});
    for (std::size_t i = 0; i < x.size(); ++i) normed.push_back(at(i) * scale * double{static_cast<float>(norm[i])});
  }
  double at(std::size_t i) const { return double{static_cast<float>(x[i])}; }
  std::vector<double> values() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < x.size(); ++i) all.push_back(at(i));
    return all;
  }
  Tensor<bf16, 2> tensor() const { return from(x, {std::int64_t{1}, static_cast<std::int64_t>(x.size())}).sync(); }
  Tensor<bf16, 1> norm_tensor() const { return from(norm, {static_cast<std::int64_t>(norm.size())}).sync(); }
  std::vector<bf16> x, norm;
  std::vector<double> normed;
};

void expect_near(const Tensor<bf16, 2>& y, const std::vector<double>& wanted) {
  const auto found = host(y).sync();
  ASSERT_EQ(static_cast<std::size_t>(y.dim(1)), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(static_cast<float>(found[i]), wanted[i], std::abs(wanted[i]) / 256 + 1e-3) << i;
}

/// 1160 and 1032 are no multiples of a tile nor of a block of scales.
TEST(OneRow, Fp8WeightsOfANormedRow) {
  const Row row(1160);
  const Weights w(1032, 1160);
  expect_near(kernel<normed_row<false, bf16, f8e4m3, 4, 1024, Scales>>(full<bf16>({std::int64_t{1}, w.n}, bf16(777.0f)),
                                                                       row.tensor(), row.norm_tensor(), w.tensor(),
                                                                       kEpsilon, w.scale_tensor())
                  .sync(),
              w.times(row.normed));
}

/// Gate and up have scales of their own.
TEST(OneRow, Fp8GatesOfANormedRow) {
  const Row row(1160);
  const Weights w(512, 1160);
  const std::vector<double> both = w.times(row.normed);
  std::vector<double> wanted;
  for (std::size_t i = 0; i < both.size() / 2; ++i)
    wanted.push_back(both[i] / (1 + std::exp(-both[i])) * both[both.size() / 2 + i]);
  expect_near(kernel<normed_row<true, bf16, f8e4m3, 4, 1024, Scales>>(
                  full<bf16>({std::int64_t{1}, w.n / 2}, bf16(777.0f)), row.tensor(), row.norm_tensor(), w.tensor(),
                  kEpsilon, w.scale_tensor())
                  .sync(),
              wanted);
}

TEST(OneRow, Fp8WeightsAndAResidual) {
  const Row row(1160);
  const Weights w(1032, 1160);
  const Row residual(w.n);
  std::vector<double> wanted = w.times(row.values());
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += residual.at(i);
  expect_near(kernel<scaled_row<kernels::epilogues::Residual, 4, 1024, In<bf16, dyn, dyn>>>(
                  full<bf16>({std::int64_t{1}, w.n}, bf16(777.0f)), row.tensor(), w.tensor(), w.scale_tensor(),
                  residual.tensor())
                  .sync(),
              wanted);
}

TEST(OneRow, Bf16WeightsOfANormedRow) {
  const Row row(1160);
  Weights w(36, 1160);
  std::fill(w.scales.begin(), w.scales.end(), 1.0f);
  std::vector<bf16> values;
  for (const f8e4m3 v : w.values) values.push_back(bf16(static_cast<float>(v)));
  expect_near(
      kernel<normed_row<false, bf16, bf16, 2, 512>>(full<bf16>({std::int64_t{1}, w.n}, bf16(777.0f)), row.tensor(),
                                                    row.norm_tensor(), from(values, {w.n, w.k}).sync(), kEpsilon)
          .sync(),
      w.times(row.normed));
}

}  // namespace
}  // namespace mortar
