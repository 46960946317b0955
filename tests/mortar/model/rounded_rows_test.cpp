// Rows that their norm, or their gates, round to FP8: the same numbers as those of separate kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "mortar/model/fp8_weights.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"

namespace mortar {
namespace THIS_FILE {

using test::Weights;

constexpr float kEpsilon = 1e-6f;

Numerics rounding_rows() {
  Numerics numerics;
  numerics.fp8_activations = true;
  return numerics;
}
/// Rows of ordinary, of large and of small numbers, one of zeros, and, if told, one with an infinity and one with NaN.
Tensor<bf16, 2> rows_of_all_kinds(std::int64_t m, std::int64_t k, bool infinite) {
  std::mt19937 random(11);
  std::normal_distribution<float> number;
  std::vector<bf16> values;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < k; ++j)
      values.push_back(bf16(number(random) * (i % 7 == 3 ? 0.0f : std::ldexp(1.0f, static_cast<int>(i % 5) * 6 - 12))));
  if (infinite) {
    values[static_cast<std::size_t>(4 * k + k / 2)] = bf16(std::numeric_limits<float>::infinity());
    values[static_cast<std::size_t>(5 * k + 1)] = bf16(std::numeric_limits<float>::quiet_NaN());
  }
  return from(values, {m, k}).sync();
}
/// NaN is equal to NaN.
void expect_equal(const Tensor<bf16, 2>& found, const Tensor<bf16, 2>& wanted) {
  const auto f = host(found).sync(), w = host(wanted).sync();
  ASSERT_EQ(f.size(), w.size());
  for (std::size_t i = 0; i < f.size(); ++i) {
    const float a = static_cast<float>(f[i]), b = static_cast<float>(w[i]);
    ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i << ": " << a << " instead of " << b;
  }
}
/// What separate kernels give: the rows are rounded to bf16, then to FP8.
Tensor<bf16, 2> product_of_rounded(const Tensor<bf16, 2>& x, const Matrix& w) {
  const auto [rows, scales] = kernels::quantize_blocks<f8e4m3, 1>(x).sync();
  return kernels::block_scaled_linear(rows, scales, w.quantized, w.scales).sync();
}

TEST(RoundedRows, OfANormAreThoseOfSeparateKernels) {
  for (const std::int64_t k : {128, 200, 648, 1160}) {
    const Matrix matrix = Weights(264, k).matrix();
    const auto weight = random::normal<bf16>({k}, 5).sync();
    const Norm norm{weight, kEpsilon};
    for (const std::int64_t m : {17, 40})
      for (const bool infinite : {false, true}) {
        SCOPED_TRACE(testing::Message() << m << " rows of " << k << (infinite ? ", not all finite" : ""));
        const auto x = rows_of_all_kinds(m, k, infinite);
        const auto y = normed_linear(x.view(), norm, matrix, rounding_rows()).sync();
        expect_equal(y, product_of_rounded(normed(x.view(), norm, {}).sync(), matrix));
      }
  }
}
TEST(RoundedRows, OfGatesAreThoseOfSeparateKernels) {
  for (const std::int64_t n : {128, 264}) {  // columns of each half
    const std::int64_t k = 200;
    DenseMlp mlp;
    mlp.gate_up = Weights(2 * n, k).matrix();
    mlp.down = Weights(k, n).matrix();
    const auto weight = random::normal<bf16>({k}, 5).sync();
    const Norm norm{weight, kEpsilon};
    for (const bool infinite : {false, true}) {
      SCOPED_TRACE(testing::Message() << n << " columns" << (infinite ? ", not all finite" : ""));
      const auto x = rows_of_all_kinds(21, k, infinite);
      const auto y = dense_mlp(x.view(), norm, mlp, rounding_rows()).sync();
      const auto gate_up = product_of_rounded(normed(x.view(), norm, {}).sync(), mlp.gate_up);
      const auto h = gated(gate_up.view(), {}).sync();
      const auto [rows, scales] = kernels::quantize_blocks<f8e4m3, 1>(h).sync();
      expect_equal(
          y,
          kernels::block_scaled_linear(rows, scales, mlp.down.quantized, mlp.down.scales, kernels::residual(x)).sync());
    }
  }
}
/// Few rows keep their numbers: the weights are what takes time.
TEST(RoundedRows, AreAtLeast17) {
  const Matrix matrix = Weights(264, 200).matrix();
  const auto weight = ones<bf16>({std::int64_t{200}}).sync();
  const auto x = rows_of_all_kinds(16, 200, false);
  const auto y = host(normed_linear(x.view(), {weight, kEpsilon}, matrix, rounding_rows()).sync()).sync();
  const auto plain = host(normed_linear(x.view(), {weight, kEpsilon}, matrix, {}).sync()).sync();
  EXPECT_TRUE(std::equal(y.begin(), y.end(), plain.begin()));
}

}  // namespace THIS_FILE
}  // namespace mortar
