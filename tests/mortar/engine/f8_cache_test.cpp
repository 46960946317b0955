// An engine over an FP8 cache: its logits are near those over a cache of bf16, and what else must not change a token
// does not change one here either.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "mortar/engine/test_engine.hpp"
#include "tessera/runtime/memory.hpp"
#include "tessera/tessera.hpp"

namespace mortar::test {
namespace THIS_FILE {

Model model_of(const std::string& name, KvType type = KvType::Fp8, std::int64_t max_context = 256) {
  return load_test_model(name, max_context, 1, tessera::default_device(), type);
}

class Fp8CacheOfModels : public testing::TestWithParam<const char*> {};

// Three bits after the first one: a key or value is wrong by 1/16 at most, by about 1/38 in the mean of squares. In
// these models, whose weights are random numbers, that reaches the logits as up to twice as much; and where an expert
// is chosen by a score that is hardly larger than another one, the token has another expert.
TEST_P(Fp8CacheOfModels, LogitsAreNearThoseOfBf16) {
  const bool experts = std::string_view(GetParam()).starts_with("moe");
  const double most = experts ? 0.4 : 0.08;
  for (const bool strict : {false, true}) {
    const EngineOptions options{.prefill_tokens = 32, .strict = strict};  // several chunks
    const std::vector<TokenId> ids = some_ids(150, 8);
    Engine wide(model_of(GetParam(), KvType::Bf16), options), narrow(model_of(GetParam()), options);
    const double error = relative_error(narrow.logits(ids), wide.logits(ids));
    RecordProperty(strict ? "strict" : "error", std::to_string(error));
    EXPECT_LT(error, most);
    EXPECT_GT(error, 0.001) << "it is another cache";
  }
}

// What decoding reads is what prompts have written, and the other way round.
TEST_P(Fp8CacheOfModels, DecodingAgreesWithPrompts) {
  Engine engine(model_of(GetParam()), {.prefix_cache = false, .batch_invariant = true});
  Request request = some_request(70, 40, 3);
  request.sampling.greedy = true;
  request.logprobs = 1;
  const Heard heard = answer(engine, request);
  std::vector<TokenId> ids = request.ids;
  ids.insert(ids.end(), heard.ids.begin(), heard.ids.end());
  const std::vector<float> expected = engine.log_likelihoods(ids);
  for (std::size_t i = 0; i < heard.tokens.size(); ++i)
    EXPECT_EQ(heard.tokens[i].chosen->logprob, expected[request.ids.size() - 1 + i]) << i;
}

TEST_P(Fp8CacheOfModels, TheWarmUpLeavesTheEngineAsItWas) {
  const EngineOptions options{.max_batch = 2, .prefill_tokens = 40, .kv_tokens = 6 * 64};
  Engine cold(model_of(GetParam()), options), warm(model_of(GetParam()), options);
  std::int64_t parts = 0;
  warm.warm_up([&](std::int64_t done, std::int64_t) { parts = done; });
  EXPECT_GT(parts, 10);
  const Request request = some_request(50, 20, 6);
  EXPECT_EQ(answer(warm, request).ids, answer(cold, request).ids);
}
INSTANTIATE_TEST_SUITE_P(Models, Fp8CacheOfModels,
                         testing::Values("dense-tied", "dense-untied", "dense-yarn", "moe", "fp8", "moe-fp8",
                                         "llama-tied", "llama-untied"));

TEST(Fp8CacheEngine, LogitsDoNotDependOnChunks) {
  const std::vector<TokenId> ids = some_ids(150, 2);
  const auto logits = [&](std::int64_t chunk) {
    Engine engine(model_of("dense-untied"), {.prefill_tokens = chunk, .batch_invariant = true});
    return engine.logits(ids);
  };
  const std::vector<float> whole = logits(150);
  for (const std::int64_t chunk : {7, 32, 64}) EXPECT_EQ(logits(chunk), whole) << chunk;
}

/// Requests with a common beginning of more than a page; greedy and sampled, one with two choices.
std::vector<Request> requests_of_all_kinds() {
  std::mt19937 random(9);
  const std::vector<TokenId> common = some_ids(80, 1);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 8; ++i) {
    Request r = some_request(1 + random() % 60, 10 + static_cast<std::int64_t>(random() % 40), i);
    if (i % 2 == 0) r.ids.insert(r.ids.begin(), common.begin(), common.end());
    r.sampling.greedy = i % 3 == 0;
    if (i % 4 == 1) r.sampling.repetition_penalty = 1.2F;
    if (i == 5) r.choices = 2;
    requests.push_back(std::move(r));
  }
  return requests;
}

using Answers = std::map<std::pair<std::size_t, std::int64_t>, std::vector<TokenId>>;  ///< by request and choice

Answers answers_of(Engine& engine, bool one_by_one) {
  const std::vector<Request> requests = requests_of_all_kinds();
  Answers answers;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    engine.submit(requests[i], [&answers, i](const Token& token) { answers[{i, token.choice}].push_back(token.id); });
    if (one_by_one)
      engine.run();
    else
      engine.step();
  }
  engine.run();
  return answers;
}

TEST(Fp8CacheEngine, TokensDoNotDependOnTheOthers) {
  Engine alone(model_of("dense-tied"), {.max_batch = 2, .prefix_cache = false, .batch_invariant = true});
  const Answers expected = answers_of(alone, true);
  // 4 pages for up to 4 sequences of up to 3: some give way, and are computed again. Pages of others are used again.
  Engine engine(model_of("dense-tied"),
                {.max_batch = 4, .prefill_tokens = 24, .kv_tokens = 4 * 64, .batch_invariant = true});
  EXPECT_EQ(answers_of(engine, false), expected);
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_GT(engine.stats().mixed_steps, 0);
  EXPECT_GT(engine.stats().cached_tokens, 0);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

// The same memory holds twice as many tokens.
TEST(Fp8CacheEngine, HasTwiceAsManyPagesInTheSameMemory) {
  const auto bytes = [](KvType type, std::int64_t tokens) {
    const Model model = model_of("dense-tied", type);
    return tokens * model.plan.kv_per_token;
  };
  EXPECT_EQ(bytes(KvType::Fp8, 2 * 64), bytes(KvType::Bf16, 64));
  const auto in_use = [](KvType type) {
    Engine engine(model_of("dense-tied", type), {.kv_tokens = 64 * 64});
    return static_cast<std::int64_t>(tessera::memory_stats(engine.model().device).in_use);
  };
  const std::int64_t layers_bytes = bytes(KvType::Bf16, 64 * 64) / 2;
  EXPECT_NEAR(static_cast<double>(in_use(KvType::Bf16) - in_use(KvType::Fp8)), static_cast<double>(layers_bytes),
              0.02 * static_cast<double>(layers_bytes));
}

}  // namespace THIS_FILE
}  // namespace mortar::test
