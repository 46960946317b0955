// One layer of each published size, with random weights: what decoding computes from the KV cache, token by token, is
// what a prompt with the same tokens computes. Decoding takes other kernels, which a GPU chooses by the size of the
// model; a CPU does not, so there the smallest is enough (all took seven minutes).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mortar/engine/test_engine.hpp"
#include "tessera/runtime/device.hpp"

namespace mortar::test {
namespace {

constexpr std::int64_t kVocabulary = 512, kTokens = 8;

/// The folder's config.json with one layer and a small vocabulary.
std::string one_layer(const std::string& model) {
  nlohmann::json config = nlohmann::json::parse(
      read_file(std::filesystem::path(MORTAR_TEST_DATA) / "../../../bench/mortar/configs" / model / "config.json"));
  config["num_hidden_layers"] = 1;
  config["vocab_size"] = kVocabulary;
  config["bos_token_id"] = config["eos_token_id"] = 0;
  return config.dump();
}

/// log(softmax(logits))[token]
double logprob(const float* logits, TokenId token) {
  const double top = *std::max_element(logits, logits + kVocabulary);
  double sum = 0;
  for (std::int64_t i = 0; i < kVocabulary; ++i) sum += std::exp(static_cast<double>(logits[i]) - top);
  return logits[token] - top - std::log(sum);
}

class PublishedSizes : public testing::TestWithParam<const char*> {};

TEST_P(PublishedSizes, DecodingComputesWhatAPromptDoes) {
  if (tessera::default_device() == tessera::Device::cpu() && GetParam() != std::string("Qwen3-0.6B"))
    GTEST_SKIP() << "on a CPU the smallest size is enough";
  const Folder folder;
  folder.write("config.json", one_layer(GetParam()));
  for (const std::size_t sequences : {1, 2, 5}) {
    SCOPED_TRACE(testing::Message() << sequences << " sequences");
    ModelOptions options;
    options.random_weights = 3, options.max_context = 256, options.max_batch = static_cast<std::int64_t>(sequences);
    Engine engine(load(folder.path().string(), options), {.max_batch = options.max_batch, .prefix_cache = false});
    std::vector<Request> requests(sequences);
    std::vector<Heard> heard(sequences);
    for (std::size_t s = 0; s < sequences; ++s) {
      for (std::size_t i = 0; i < 70 + s; ++i)  // more than a page
        requests[s].ids.push_back(static_cast<TokenId>((i * i * 7 + s * 31 + 1) % kVocabulary));
      requests[s].max_tokens = kTokens, requests[s].ignore_eos = true, requests[s].logprobs = 1;
      requests[s].sampling.greedy = true;
      engine.submit(requests[s], heard[s].listener());
    }
    engine.run();
    for (std::size_t s = 0; s < sequences; ++s) {
      ASSERT_EQ(heard[s].tokens.size(), static_cast<std::size_t>(kTokens));
      std::vector<TokenId> all = requests[s].ids;
      all.insert(all.end(), heard[s].ids.begin(), heard[s].ids.end());
      const std::vector<float> logits = engine.logits(all);
      for (std::size_t i = 0; i < heard[s].tokens.size(); ++i) {
        const float* row = logits.data() + (requests[s].ids.size() + i - 1) * kVocabulary;
        // Both round to bf16 along the way. Logits have a deviation of 1.
        EXPECT_NEAR(heard[s].tokens[i].chosen.value().logprob, logprob(row, heard[s].ids[i]), 0.05) << s << ' ' << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedSizes,
                         testing::Values("Qwen3-0.6B", "Qwen3-4B", "Qwen3-8B", "Qwen3-8B-FP8", "Qwen3-32B",
                                         "Qwen3-30B-A3B"));

}  // namespace
}  // namespace mortar::test
