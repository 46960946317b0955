// FP8 weights of tests, and the products with them in double.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "model/kernels.hpp"
#include "model/products.hpp"
#include "model/weight_kernels.hpp"

namespace mortar::test {

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
  /// Of each row, the root of the sum of squares of its products with `row`.
  std::vector<double> sizes(const std::vector<double>& row) const {
    std::vector<double> roots;
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < k; ++j) sum += std::pow(at(i, j) * row[static_cast<std::size_t>(j)], 2);
      roots.push_back(std::sqrt(sum));
    }
    return roots;
  }
  Tensor<f8e4m3, 2> tensor() const { return from(values, {n, k}).sync(); }
  Matrix matrix() const {
    Matrix made;
    made.quantized = tensor(), made.scales = scale_tensor(), made.is_fp8 = true;
    return made;
  }
  Tensor<f32, 2> scale_tensor() const { return from(scales, {blocks(n), blocks(k)}).sync(); }
  std::int64_t n, k;
  std::vector<f8e4m3> values;
  std::vector<float> scales;
};

}  // namespace mortar::test
