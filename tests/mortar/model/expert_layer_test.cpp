// A layer's mixture of experts as a whole, against float64: by the kernels of few tokens, by those of many, and by
// those of any number, with the decisions of the router given. So each way computes the experts of each token, whatever
// rounding makes of scores that are nearly equal.
//
// On a GPU the layer is that of Qwen3-30B-A3B; on the CPU it has as many experts, but they are smaller.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "mortar/files/model_files.hpp"
#include "mortar/load.hpp"
#include "mortar/model/routing.hpp"
#include "tessera/kernels/moe_ranks.hpp"
#include "tessera/tessera.hpp"

namespace mortar {
namespace THIS_FILE {

using namespace tessera;

/// One more than a block of places, so that an expert may have two.
constexpr std::int64_t kTokens = kernels::kMoeRows + 6;
constexpr std::int64_t kTokenCounts[] = {1, 2, 3, 5, 8, 9, 16, 33, 64, kTokens};
constexpr float kEpsilon = 1e-6f;

ModelSpec one_layer(bool fp8) {
  nlohmann::json config = nlohmann::json::parse(test::read_file(
      std::filesystem::path(MORTAR_TEST_DATA) / "../../../bench/mortar/configs/Qwen3-30B-A3B/config.json"));
  config["num_hidden_layers"] = 1, config["vocab_size"] = 64, config["eos_token_id"] = 0;
  if (default_device() == Device::cpu()) config["hidden_size"] = 256, config["moe_intermediate_size"] = 128;
  if (fp8)
    config["quantization_config"] = {
        {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  return parse_config(config.dump(), "config.json");
}

/// The weights of all experts as f32 on the host.
class HostExperts {
 public:
  explicit HostExperts(const ExpertMatrices& m)
      : rows_(m.is_fp8 ? m.quantized.dim(1) : m.values.dim(1)),
        columns_(m.is_fp8 ? m.quantized.dim(2) : m.values.dim(2)) {
    if (!m.is_fp8) {
      const std::vector<bf16> values = host(m.values).sync();
      wide_.assign(values.begin(), values.end());
      return;
    }
    const std::vector<f8e4m3> values = host(m.quantized).sync();
    const std::vector<f32> scales = host(m.scales).sync();
    const std::int64_t down = ceil_div(rows_, kScaleBlock), across = ceil_div(columns_, kScaleBlock);
    wide_.reserve(values.size());
    for (std::int64_t i = 0; i < std::ssize(values); ++i) {
      const std::int64_t row = i / columns_, block = row / rows_ * down + row % rows_ / kScaleBlock;
      const auto scale = static_cast<std::size_t>(block * across + i % columns_ / kScaleBlock);
      wide_.push_back(static_cast<float>(values[static_cast<std::size_t>(i)]) * scales[scale]);
    }
  }
  /// The product of a row of an expert's weights and x.
  double dot(std::int64_t expert, std::int64_t row, const std::vector<double>& x) const {
    const float* w = wide_.data() + (expert * rows_ + row) * columns_;
    const double* const values = x.data();
    double sum = 0;
    for (std::int64_t j = 0; j < columns_; ++j) sum += static_cast<double>(w[j]) * values[j];
    return sum;
  }

 private:
  std::int64_t rows_, columns_;
  std::vector<float> wide_;
};

class ExpertLayer : public ::testing::TestWithParam<bool> {
 protected:
  ExpertLayer() : config_(one_layer(GetParam())), weights_(random_weights(config_, 7, default_device())) {
    // Hidden states are small, so that their rounding after the sum does not hide errors of the experts.
    x_ = bf16_tensor(normals(kTokens * config_.hidden, 0x1p-6f), Dims<2>({kTokens, config_.hidden}));
    norm_ = bf16_tensor(normals(config_.hidden, 1), Dims<1>({config_.hidden}));
    if (GetParam()) {
      for (ExpertMatrices* m : {&mlp().gate_up, &mlp().down}) vary_scales(*m);
    }
  }
  ExpertMlp& mlp() { return *weights_.layers[0].experts; }
  std::vector<float> normals(std::int64_t n, float factor) {
    std::normal_distribution<float> normal(0, factor);
    std::vector<float> made(static_cast<std::size_t>(n));
    for (float& value : made) value = static_cast<float>(bf16(normal(random_)));
    return made;
  }
  template <int R>
  static Tensor<bf16, R> bf16_tensor(const std::vector<float>& values, Dims<R> dims) {
    return from(std::vector<bf16>(values.begin(), values.end()), dims).sync();
  }
  /// Random weights have the same scale everywhere.
  void vary_scales(ExpertMatrices& m) {
    std::vector<f32> scales = host(m.scales).sync();
    std::uniform_real_distribution<float> factor(0.5f, 1.5f);
    for (f32& scale : scales) scale *= factor(random_);
    m.scales = from(scales, m.scales.dims()).sync();
  }
  std::int64_t per_token() const { return config_.mlp.experts->per_token; }

  /// The layer's result for the first `n` tokens.
  std::vector<bf16> layer(std::int64_t n, const Numerics& numerics, RouterObserver& observer) {
    const auto x = x_.slice<0>(0, n);
    return host(experts(x, Norm{norm_, kEpsilon}, mlp(), *config_.mlp.experts, numerics, &observer).sync()).sync();
  }
  std::vector<double> normed(std::int64_t token) const {
    const std::vector<bf16> row = host(x_.slice<0>(token, token + 1)).sync(), weight = host(norm_).sync();
    double squares = 0;
    for (const bf16 value : row) squares += std::pow(static_cast<double>(static_cast<float>(value)), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + double{kEpsilon});
    std::vector<double> made;
    for (std::size_t j = 0; j < row.size(); ++j)
      made.push_back(static_cast<double>(static_cast<float>(row[j])) * scale *
                     static_cast<double>(static_cast<float>(weight[j])));
    return made;
  }
  /// What the experts of each token add to it.
  std::vector<std::vector<double>> reference(const test::ForcedRouting& routing) {
    const HostExperts gate_up(mlp().gate_up), down(mlp().down);
    std::vector<std::vector<double>> sums;
    for (std::int64_t token = 0; token < kTokens; ++token) {
      std::vector<double> sum(static_cast<std::size_t>(config_.hidden)), row = normed(token);
      for (std::int64_t slot = 0; slot < per_token(); ++slot) {
        const auto pair = static_cast<std::size_t>(token * per_token() + slot);
        const std::int64_t expert = routing.chosen[pair];
        std::vector<double> h;
        for (std::int64_t i = 0; i < config_.mlp.experts->intermediate; ++i) {
          const double gate = gate_up.dot(expert, i, row);
          h.push_back(gate / (1 + std::exp(-gate)) * gate_up.dot(expert, config_.mlp.experts->intermediate + i, row));
        }
        for (std::size_t i = 0; i < sum.size(); ++i)
          sum[i] += double{routing.weights[pair]} * down.dot(expert, static_cast<std::int64_t>(i), h);
      }
      sums.push_back(std::move(sum));
    }
    return sums;
  }
  /// Every number of tokens, by every way, against float64.
  void expect_experts(test::ForcedRouting& routing) {
    const auto expected = reference(routing);
    const std::vector<bf16> x = host(x_).sync();
    Numerics one_way;
    one_way.batch_invariant = true;
    for (const std::int64_t n : kTokenCounts) {
      for (const Numerics& numerics : {Numerics{}, one_way}) {
        if (numerics.one_way() && n > 8) continue;  // the ways differ up to eight tokens only
        SCOPED_TRACE(testing::Message() << n << " tokens" << (numerics.one_way() ? ", batch-invariant" : ""));
        const int steps = routing.steps;
        const std::vector<bf16> found = layer(n, numerics, routing);
        ASSERT_EQ(routing.steps, steps + 1);
        for (std::int64_t token = 0; token < n; ++token) {
          const std::vector<double>& sum = expected[static_cast<std::size_t>(token)];
          double squares = 0, largest = 0;
          for (const double value : sum) squares += value * value;
          for (std::size_t i = 0; i < sum.size(); ++i) {
            const auto at = static_cast<std::size_t>(token) * sum.size() + i;
            const double residual = static_cast<double>(static_cast<float>(x[at]));
            largest =
                std::max(largest, std::abs(static_cast<double>(static_cast<float>(found[at])) - residual - sum[i]));
          }
          // Some roundings to bf16, each with an error of up to 2^-9, have a deviation of about 2^-8 of the sum's. The
          // largest of many elements is five of these. Two weights of a token, exchanged, are an error of 2^-3 or more.
          worst_ = std::max(worst_, largest / std::sqrt(squares / static_cast<double>(sum.size())));
          ASSERT_LT(largest, 0x1p-4 * std::sqrt(squares / static_cast<double>(sum.size()))) << "token " << token;
        }
      }
    }
    std::printf("largest error: %.4f of the deviation of a token's sum\n", worst_);
  }
  /// Weights from 0.05 to 0.4, none like another of its token; `expert_of(token, slot)`.
  template <class F>
  test::ForcedRouting routing_with(F expert_of) {
    test::ForcedRouting routing;
    for (std::int64_t token = 0; token < kTokens; ++token) {
      for (std::int64_t slot = 0; slot < per_token(); ++slot) {
        routing.weights.push_back(0.05f * static_cast<float>(1 + (slot * 3 + token) % per_token()));
        routing.chosen.push_back(static_cast<int>(expert_of(token, slot)));
      }
    }
    return routing;
  }

  std::mt19937 random_{11};
  ModelSpec config_;
  Weights weights_;
  Tensor<bf16, 2> x_;
  Tensor<bf16, 1> norm_;
  double worst_ = 0;
};

TEST_P(ExpertLayer, EachTokenHasOtherExperts) {
  const std::int64_t count = config_.mlp.experts->count;
  auto routing = routing_with([&](auto token, auto slot) { return (token * 11 + slot * 37 + 3) % count; });
  expect_experts(routing);
}

/// More pairs of each than a block of places has, and most experts are chosen by none.
TEST_P(ExpertLayer, AllTokensHaveTheSameExperts) {
  const std::int64_t count = config_.mlp.experts->count;
  auto routing = routing_with([&](auto, auto slot) { return count - 1 - slot * slot; });
  expect_experts(routing);
}

/// One expert has all tokens, others one, some or none.
TEST_P(ExpertLayer, ExpertsHaveFewOrManyTokens) {
  const std::int64_t count = config_.mlp.experts->count;
  auto routing = routing_with([&](auto token, auto slot) {
    if (slot == token % 3) return std::int64_t{5};
    return 6 + (token / (1 + slot) * 8 + slot) % (count - 6);
  });
  expect_experts(routing);
}

/// The router's scores are those of float64, and it chooses the largest of them.
TEST_P(ExpertLayer, RoutersChooseTheLargestScores) {
  const std::vector<bf16> router = host(mlp().router).sync();
  const double squares = [&] {  // the length of a row of weights, times the norm's
    double sum = 0;
    for (const bf16 value : host(norm_).sync()) sum += std::pow(static_cast<double>(static_cast<float>(value)), 2);
    return sum / static_cast<double>(config_.hidden);
  }();
  for (const std::int64_t n : kTokenCounts) {
    SCOPED_TRACE(testing::Message() << n << " tokens");
    test::RoutingRecord record;
    (void)layer(n, {}, record);
    ASSERT_EQ(record.steps, 1);
    for (std::int64_t token = 0; token < n; ++token) {
      const std::vector<double> row = normed(token);
      for (std::int64_t expert = 0; expert < record.seen.experts; ++expert) {
        double sum = 0;
        for (std::size_t j = 0; j < row.size(); ++j)
          sum += row[j] *
                 static_cast<double>(static_cast<float>(router[static_cast<std::size_t>(expert) * row.size() + j]));
        ASSERT_NEAR(record.seen.scores_of(token)[static_cast<std::size_t>(expert)], sum,
                    test::kScoreError * std::sqrt(squares));
      }
      std::vector<int> largest = record.seen.ranked(token);
      largest.resize(static_cast<std::size_t>(per_token()));
      ASSERT_EQ(record.seen.chosen_for(token), largest) << "token " << token;
      const std::vector<float> weights = record.seen.weights_of(token, largest, config_.mlp.experts->normalize);
      for (std::size_t slot = 0; slot < weights.size(); ++slot)
        ASSERT_NEAR(record.seen.weights[static_cast<std::size_t>(token * per_token()) + slot], weights[slot], 1e-5f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, ExpertLayer, testing::Bool(),
                         [](const auto& info) { return info.param ? "Fp8" : "Bf16"; });

}  // namespace THIS_FILE
}  // namespace mortar
