// The mixture of experts of few tokens, against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "model/weight_kernels.hpp"

namespace mortar {
namespace THIS_FILE {

constexpr std::int64_t kTokens = 3, kExperts = 6, kHidden = 520, kIntermediate = 264;
constexpr int kPerToken = 2;
constexpr float kEpsilon = 1e-6f;

class FewTokens : public ::testing::Test {
 protected:
  std::vector<float> normals(std::int64_t n, float factor = 1) {
    std::normal_distribution<float> normal(0, factor);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& x : values) x = static_cast<float>(bf16(normal(random_)));
    return values;
  }
  template <int R>
  static Tensor<bf16, R> tensor(const std::vector<float>& values, Dims<R> dims) {
    return from(std::vector<bf16>(values.begin(), values.end()), dims).sync();
  }
  static double element(const std::vector<float>& values, std::int64_t i) {
    return double{values[static_cast<std::size_t>(i)]};
  }
  static std::int64_t expert_of(std::int64_t pair) {
    return std::min<std::int64_t>(chosen()[static_cast<std::size_t>(pair)], kExperts - 1);
  }
  /// One that is not there reads the last expert.
  static std::vector<i32> chosen() { return {5, 0, 2, 3, 4, 99}; }
  Tensor<i32, 2> experts() const { return from(chosen(), {kTokens, std::int64_t{kPerToken}}).sync(); }
  /// The norm of a token's row.
  std::vector<double> normed(std::int64_t token) const {
    double squares = 0;
    for (std::int64_t j = 0; j < kHidden; ++j) squares += std::pow(element(x_, token * kHidden + j), 2);
    const double scale = 1 / std::sqrt(squares / kHidden + double{kEpsilon});
    std::vector<double> row;
    for (std::int64_t j = 0; j < kHidden; ++j)
      row.push_back(element(x_, token * kHidden + j) * scale * element(norm_, j));
    return row;
  }
  /// `gates`: a kernel<expert_gates<bf16, ...>>.
  void expect_gates(const auto& gates) {
    const auto gate_up = normals(kExperts * 2 * kIntermediate * kHidden, 0.05f);
    const auto h = gates(full<bf16>({kTokens * kPerToken, kIntermediate}, bf16(777.0f)),
                         tensor<2>(x_, {kTokens, kHidden}), tensor<1>(norm_, {kHidden}),
                         tensor<3>(gate_up, {kExperts, 2 * kIntermediate, kHidden}), experts(), kEpsilon)
                       .sync();
    const auto found = host(h).sync();
    for (std::int64_t pair = 0; pair < kTokens * kPerToken; ++pair) {
      const auto row = normed(pair / kPerToken);
      const auto dot = [&](std::int64_t output) {
        double sum = 0;
        for (std::int64_t j = 0; j < kHidden; ++j)
          sum += row[static_cast<std::size_t>(j)] *
                 element(gate_up, (expert_of(pair) * 2 * kIntermediate + output) * kHidden + j);
        return sum;
      };
      for (std::int64_t i = 0; i < kIntermediate; ++i) {
        const double gate = dot(i), wanted = gate / (1 + std::exp(-gate)) * dot(kIntermediate + i);
        ASSERT_NEAR(static_cast<float>(found[static_cast<std::size_t>(pair * kIntermediate + i)]), wanted,
                    std::abs(wanted) / 256 + 1e-3)
            << pair << ' ' << i;
      }
    }
  }
  std::mt19937 random_{5};
  std::vector<float> x_ = normals(kTokens * kHidden), norm_ = normals(kHidden);
};

TEST_F(FewTokens, GatesOfANormEqualFloat64) {
  expect_gates(kernel<expert_gates<bf16, 4, 512, 1>>);
  expect_gates(kernel<expert_gates<bf16, 4, 256, 8>>);
}

TEST_F(FewTokens, SumsOverExpertsEqualFloat64) {
  const auto h = normals(kTokens * kPerToken * kIntermediate),
             down = normals(kExperts * kHidden * kIntermediate, 0.05f);
  const std::vector<float> weights{0.25f, 0.75f, 0.5f, 0.5f, 1.0f, 0.0f};
  const auto y =
      kernel<expert_sums<bf16, 2, 256>>(full<bf16>({kTokens, kHidden}, bf16(777.0f)), tensor<2>(x_, {kTokens, kHidden}),
                                        tensor<2>(h, {kTokens * kPerToken, kIntermediate}),
                                        tensor<3>(down, {kExperts, kHidden, kIntermediate}), experts(),
                                        from(weights, {kTokens, std::int64_t{kPerToken}}).sync(), kPerToken)
          .sync();
  const auto found = host(y).sync();
  for (std::int64_t token = 0; token < kTokens; ++token) {
    for (std::int64_t i = 0; i < kHidden; ++i) {
      double sum = element(x_, token * kHidden + i);
      for (std::int64_t pair = token * kPerToken; pair < (token + 1) * kPerToken; ++pair)
        for (std::int64_t j = 0; j < kIntermediate; ++j)
          sum += element(weights, pair) * element(down, (expert_of(pair) * kHidden + i) * kIntermediate + j) *
                 element(h, pair * kIntermediate + j);
      ASSERT_NEAR(static_cast<float>(found[static_cast<std::size_t>(token * kHidden + i)]), sum,
                  std::abs(sum) / 256 + 1e-3)
          << token << ' ' << i;
    }
  }
}

/// FP8 weights [kExperts, rows, columns] with a scale for each block of 128 x 128.
struct Fp8Experts {
  Fp8Experts(std::mt19937& random, std::int64_t rows, std::int64_t columns) : n(rows), k(columns) {
    std::uniform_real_distribution<float> number(-2, 2), scale(0.01f, 0.05f);
    for (std::int64_t i = 0; i < kExperts * n * k; ++i) values.push_back(f8e4m3(number(random)));
    for (std::int64_t i = 0; i < kExperts * blocks(n) * blocks(k); ++i) scales.push_back(scale(random));
  }
  static std::int64_t blocks(std::int64_t extent) { return ceil_div(extent, std::int64_t{kScaled}); }
  double at(std::int64_t expert, std::int64_t i, std::int64_t j) const {
    const auto block = static_cast<std::size_t>((expert * blocks(n) + i / kScaled) * blocks(k) + j / kScaled);
    return double{static_cast<float>(values[static_cast<std::size_t>((expert * n + i) * k + j)])} *
           double{scales[block]};
  }
  Tensor<f8e4m3, 3> tensor() const { return from(values, {kExperts, n, k}).sync(); }
  Tensor<f32, 3> scale_tensor() const { return from(scales, {kExperts, blocks(n), blocks(k)}).sync(); }
  std::int64_t n, k;
  std::vector<f8e4m3> values;
  std::vector<float> scales;
};

TEST_F(FewTokens, Fp8WeightsAreScaledByBlocks) {
  constexpr std::int64_t kWide = 256;  // whole blocks of gate and of up
  const Fp8Experts gate_up(random_, 2 * kWide, kHidden), down(random_, kHidden, kWide);
  const auto h = kernel<expert_gates<f8e4m3, 4, 512, 1, In<f32, dyn, dyn, dyn>>>(
                     full<bf16>({kTokens * kPerToken, kWide}, bf16(777.0f)), tensor<2>(x_, {kTokens, kHidden}),
                     tensor<1>(norm_, {kHidden}), gate_up.tensor(), experts(), kEpsilon, gate_up.scale_tensor())
                     .sync();
  const std::vector<float> weights{0.25f, 0.75f, 0.5f, 0.5f, 1.0f, 0.0f};
  const auto y =
      kernel<expert_sums<f8e4m3, 2, 256, In<f32, dyn, dyn, dyn>>>(
          full<bf16>({kTokens, kHidden}, bf16(777.0f)), tensor<2>(x_, {kTokens, kHidden}), h, down.tensor(), experts(),
          from(weights, {kTokens, std::int64_t{kPerToken}}).sync(), kPerToken, down.scale_tensor())
          .sync();
  const auto found_h = host(h).sync();
  const auto found = host(y).sync();
  for (std::int64_t pair = 0; pair < kTokens * kPerToken; ++pair) {
    const auto row = normed(pair / kPerToken);
    const auto dot = [&](std::int64_t output) {
      double sum = 0;
      for (std::int64_t j = 0; j < kHidden; ++j)
        sum += row[static_cast<std::size_t>(j)] * gate_up.at(expert_of(pair), output, j);
      return sum;
    };
    for (std::int64_t i = 0; i < kWide; ++i) {
      const double gate = dot(i), wanted = gate / (1 + std::exp(-gate)) * dot(kWide + i);
      ASSERT_NEAR(static_cast<float>(found_h[static_cast<std::size_t>(pair * kWide + i)]), wanted,
                  std::abs(wanted) / 256 + 1e-3)
          << pair << ' ' << i;
    }
  }
  for (std::int64_t token = 0; token < kTokens; ++token) {
    for (std::int64_t i = 0; i < kHidden; ++i) {
      double sum = element(x_, token * kHidden + i);
      for (std::int64_t pair = token * kPerToken; pair < (token + 1) * kPerToken; ++pair)
        for (std::int64_t j = 0; j < kWide; ++j)
          sum += element(weights, pair) * down.at(expert_of(pair), i, j) *
                 double{static_cast<float>(found_h[static_cast<std::size_t>(pair * kWide + j)])};
      ASSERT_NEAR(static_cast<float>(found[static_cast<std::size_t>(token * kHidden + i)]), sum,
                  std::abs(sum) / 256 + 1e-3)
          << token << ' ' << i;
    }
  }
}

TEST_F(FewTokens, AnotherNumberOfExpertsIsAnError) {
  const auto y = [&](int per_token) {
    return kernel<expert_sums<bf16, 2, 256>>(full<bf16>({kTokens, kHidden}, bf16(777.0f)),
                                             tensor<2>(x_, {kTokens, kHidden}),
                                             full<bf16>({kTokens * kPerToken, kIntermediate}, bf16(1.0f)),
                                             full<bf16>({kExperts, kHidden, kIntermediate}, bf16(1.0f)), experts(),
                                             full<f32>({kTokens, std::int64_t{kPerToken}}, 0.5f), per_token);
  };
  EXPECT_THROW((void)y(kPerToken + 1).sync(), ShapeError);
  (void)y(kPerToken).sync();
}

}  // namespace THIS_FILE
}  // namespace mortar
