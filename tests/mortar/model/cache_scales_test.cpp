// The scales of an FP8 cache: powers of two such that no key and no value of a model is too large, and not much larger
// than they have to be.
#include "model/cache_scales.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/packed_step.hpp"
#include "host/expect_error.hpp"
#include "model/open.hpp"
#include "mortar/engine/test_engine.hpp"
#include "tessera/tessera.hpp"

namespace mortar::test {
namespace THIS_FILE {

using namespace tessera;

constexpr double kLargest = 448;  ///< f8e4m3

TEST(CacheScales, ArePowersOfTwoWithAMarginOfAnEighth) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-60, 60);
  for (int i = 0; i < 1000; ++i) {
    const double bound = std::exp2(exponent(random)), scale = static_cast<double>(scale_for(bound));
    int power = 0;
    EXPECT_EQ(std::frexp(scale, &power), 0.5) << bound;
    EXPECT_LE(bound * 1.125, kLargest * scale) << bound;
    EXPECT_GT(bound * 1.125, kLargest * scale / 2) << bound;
  }
}
TEST(CacheScales, AreOneWhereThereIsNoBound) {
  for (const double bound : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_EQ(scale_for(bound), 1) << bound;
  EXPECT_EQ(scale_for(1e-200), 0x1p-100f);
  EXPECT_EQ(scale_for(1e200), 0x1p100f);
  EXPECT_EQ(scale_for(kLargest / 1.125), 1) << "it fits";
}

std::vector<float> normals(std::mt19937& random, std::int64_t count) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(bf16(normal(random)));
  return values;
}
template <class T, int R>
Tensor<T, R> tensor(const std::vector<float>& x, const Dims<R>& dims) {
  const std::vector<T> rounded(x.begin(), x.end());
  return reshape(from(rounded, {std::ssize(rounded)}).sync(), dims);
}

// Head sizes that fill a tile and such that do not; rows whose length is no multiple of a step; the longest row of each
// head is somewhere else, and other heads have longer ones.
TEST(CacheScales, LongestRowsEqualFloat64) {
  for (const auto& [heads, kv_heads, d, hidden] :
       {std::array{4, 2, 64, 256}, std::array{3, 3, 48, 320}, std::array{2, 1, 128, 136}, std::array{8, 2, 32, 200}})
    for (const bool fp8 : {false, true}) {
      SCOPED_TRACE(testing::Message() << d << (fp8 ? " FP8" : " bf16"));
      std::mt19937 random(static_cast<unsigned>(d));
      const std::int64_t rows = std::int64_t{heads + 2 * kv_heads} * d;
      std::vector<float> w = normals(random, rows * hidden), norm = normals(random, hidden);
      for (std::int64_t row = 0; row < rows; ++row) {
        const float size = static_cast<float>(1 + random() % 8);
        for (int k = 0; k < hidden; ++k) w[static_cast<std::size_t>(row * hidden + k)] *= size;
      }
      const Dims<2> blocks({(rows + 127) / 128, (std::int64_t{hidden} + 127) / 128});
      std::vector<float> scales(static_cast<std::size_t>(blocks[0] * blocks[1]), 1);
      LayerWeights layer;
      layer.attention_norm = tensor<bf16>(norm, Dims<1>({hidden}));
      const Dims<2> dims({rows, hidden});
      if (fp8) {
        for (float& s : scales) s = std::ldexp(1.5f, static_cast<int>(random() % 6) - 3);
        for (float& x : w) x = static_cast<float>(f8e4m3(x));
        layer.qkv.quantized = tensor<f8e4m3>(w, dims);
        layer.qkv.scales = tensor<f32>(scales, blocks);
        layer.qkv.is_fp8 = true;
      } else {
        for (float& x : w) x = static_cast<float>(bf16(x));
        layer.qkv.values = tensor<bf16>(w, dims);
      }
      const int all = heads + 2 * kv_heads;
      const auto found = longest_rows(layer, all, d, Stream(default_device()));
      const auto last = longest_rows(layer, 2, d, Stream(default_device()));
      ASSERT_EQ(found.size(), static_cast<std::size_t>(all));
      EXPECT_EQ(last, std::vector<float>(found.end() - 2, found.end()));
      for (int head = 0; head < all; ++head) {
        double longest = 0;
        for (std::int64_t row = std::int64_t{head} * d; row < std::int64_t{head + 1} * d; ++row) {
          double squares = 0;
          for (int k = 0; k < hidden; ++k) {
            const double scale = static_cast<double>(scales[static_cast<std::size_t>(row / 128 * blocks[1] + k / 128)]);
            squares +=
                std::pow(scale * w[static_cast<std::size_t>(row * hidden + k)] * norm[static_cast<std::size_t>(k)], 2);
          }
          longest = std::max(longest, std::sqrt(squares));
        }
        EXPECT_NEAR(static_cast<double>(found[static_cast<std::size_t>(head)]), longest, longest * 1e-5) << head;
      }
    }
}

/// The forward pass of one prompt over a cache of bf16.
struct PromptPass {
  Network network;
  KvCache cache;

  explicit PromptPass(Model&& model) {
    const RopeAngles angles = rope_angles(model.config);
    network.config = model.config;
    network.weights = std::move(model.weights);
    network.frequencies = from(std::span(angles.inverse_frequencies), {std::ssize(angles.inverse_frequencies)}).sync();
    network.rope_factor = angles.attention_factor;
  }
  void run(const std::vector<TokenId>& ids) {
    const std::vector<PageId> pages{0, 1, 2};
    const auto& attention = network.config.attention;
    for (std::size_t i = 0; i < network.weights.layers.size(); ++i)
      for (auto* tensors : {&cache.keys, &cache.values})
        tensors->push_back(
            zeros<bf16>({attention.kv_heads, std::ssize(pages) * kPage, 2, attention.head_dim / 2}).sync());
    const RowPlan row{ids, 0, pages};
    const StepShape shape = shape_of(std::span(&row, 1), 1, kSmallQueryTile);
    const auto packed = PackedStep(std::span(&row, 1), shape).data();
    const auto data = from(packed, {std::ssize(packed)}).sync();
    const StepViews views = views_of(data, shape);
    (void)forward(network, cache, views.step).sync();
  }
};

class CacheScalesOfModels : public testing::TestWithParam<const char*> {};

TEST_P(CacheScalesOfModels, KeysAndValuesFit) {
  PromptPass pass(load_test_model(GetParam(), 160, 1, default_device()));
  pass.run(some_ids(150, 4));
  const auto scales = cache_scales_of(pass.network, Stream(default_device()));
  ASSERT_EQ(scales.size(), pass.network.weights.layers.size());
  for (std::size_t layer = 0; layer < scales.size(); ++layer) {
    const std::vector<float> of_layer = host(scales[layer]).sync();
    const auto heads = static_cast<std::size_t>(pass.network.config.attention.kv_heads);
    ASSERT_EQ(of_layer.size(), 2 * heads);
    for (const bool value : {false, true}) {
      const auto elements = host(value ? pass.cache.values[layer] : pass.cache.keys[layer]).sync();
      const std::size_t each = elements.size() / heads;
      for (std::size_t head = 0; head < heads; ++head) {
        float largest = 0;
        for (std::size_t i = 0; i < each; ++i)
          largest = std::max(largest, std::abs(static_cast<float>(elements[head * each + i])));
        const float scaled = largest / of_layer[(value ? heads : 0) + head];
        EXPECT_LE(scaled, 448) << value << ' ' << head;
        // The largest numbers have all of the bits, and so have numbers a hundred times smaller: from 2^-6 on.
        EXPECT_GE(scaled, 2) << value << ' ' << head;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, CacheScalesOfModels,
                         testing::Values("dense-tied", "dense-untied", "dense-yarn", "moe", "fp8", "moe-fp8",
                                         "llama-tied", "llama-untied"));

/// Queries are multiplied in f16: a model whose queries may be too large for it is named, with its layer.
TEST(CacheScales, QueriesThatMayLeaveTheRangeOfF16AreErrors) {
  PromptPass pass(load_test_model("dense-tied", 160, 1, default_device()));
  auto& norm = pass.network.weights.layers[1].query_norm;
  const Dims<1> dims = norm.dims();
  const float most = 65504 / std::sqrt(static_cast<float>(dims[0]));
  norm = full<bf16>(dims, bf16(most * 0.98f)).sync();
  EXPECT_NO_THROW((void)cache_scales_of(pass.network, Stream(default_device())));
  norm = full<bf16>(dims, bf16(-most * 1.02f)).sync();
  EXPECT_ERROR(ModelError, (void)cache_scales_of(pass.network, Stream(default_device())), "the queries of layer 1",
               "--kv-dtype bf16");
}

/// Without 8-bit floats the assembler would reject kernels when the weights have been loaded.
TEST(CacheScales, GpusWithout8BitFloatsAreErrors) {
  const ModelSpec bf16_model = read_config(test_model("dense-tied")), fp8_model = read_config(test_model("fp8"));
  EXPECT_ERROR(RequestError, check_8_bit_floats(86, bf16_model, KvType::Fp8), "the KV cache: f8", "sm_89",
               "found sm_86");
  EXPECT_ERROR(RequestError, check_8_bit_floats(80, fp8_model, KvType::Bf16), "FP8 weights", "found sm_80");
  EXPECT_NO_THROW(check_8_bit_floats(80, bf16_model, KvType::Bf16));
  for (const int sm : {89, 90, 120}) EXPECT_NO_THROW(check_8_bit_floats(sm, fp8_model, KvType::Fp8));
}

// An input along the longest row gives the largest value that the weights allow.
TEST(CacheScales, TheLargestPossibleValueFitsAndIsNotFarBelow) {
  PromptPass pass(load_test_model("dense-untied", 160, 1, default_device()));
  const auto scales = host(cache_scales_of(pass.network, Stream(default_device()))[0]).sync();
  const LayerWeights& layer = pass.network.weights.layers[0];
  const auto& attention = pass.network.config.attention;
  const auto w = host(layer.qkv.values).sync(), norm = host(layer.attention_norm).sync();
  const auto hidden = static_cast<std::size_t>(pass.network.config.hidden);
  const auto heads = static_cast<std::size_t>(attention.kv_heads), d = static_cast<std::size_t>(attention.head_dim);
  for (std::size_t head = 0; head < heads; ++head) {
    double largest = 0;
    for (std::size_t row = w.size() / hidden - (heads - head) * d; row < w.size() / hidden - (heads - head - 1) * d;
         ++row) {
      double squares = 0;
      for (std::size_t k = 0; k < hidden; ++k)
        squares += std::pow(static_cast<double>(static_cast<float>(w[row * hidden + k])) *
                                static_cast<double>(static_cast<float>(norm[k])),
                            2);
      // x = row / |row| * sqrt(hidden) has a root mean square of 1, and row x is |row| sqrt(hidden).
      largest = std::max(largest, std::sqrt(squares * static_cast<double>(hidden)));
    }
    const double scaled = largest / static_cast<double>(scales[heads + head]);
    EXPECT_LE(scaled, kLargest / 1.125) << head;
    EXPECT_GT(scaled, kLargest / 1.125 / 2.01) << head;
  }
}

}  // namespace THIS_FILE
}  // namespace mortar::test
