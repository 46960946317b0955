// The exact mode: tokens, log-probabilities and logits of several ranks are those of one device, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "mortar/parallel/ranks.hpp"

namespace mortar::test {
namespace THIS_FILE {

constexpr EngineOptions kOneByOne{.prefill_tokens = 24};

/// Prompts of less and more than a page; greedy and sampled, with and without penalties and log-probabilities.
std::vector<Request> some_requests() {
  std::mt19937 random(5);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 5; ++i) {
    Request r = some_request(1 + random() % 90, 1 + static_cast<std::int64_t>(random() % 24), i);
    r.sampling.greedy = i % 2 == 0;
    if (i % 3 == 1) r.sampling.repetition_penalty = 1.3F, r.sampling.logit_bias = {{7, 2.5F}};
    r.logprobs = i % 2 == 0 ? 3 : -1;
    requests.push_back(std::move(r));
  }
  return requests;
}

/// The bits of what an answer says.
using Bits = std::vector<std::uint32_t>;
Bits bits_of(const Heard& heard) {
  Bits bits;
  for (const Token& token : heard.tokens) {
    bits.push_back(static_cast<std::uint32_t>(token.id));
    if (token.chosen) bits.push_back(std::bit_cast<std::uint32_t>(token.chosen->logprob));
    for (const TokenLogprob& top : token.top) bits.push_back(std::bit_cast<std::uint32_t>(top.logprob));
  }
  return bits;
}
Bits bits_of(const std::vector<float>& numbers) {
  Bits bits;
  for (const float x : numbers) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

std::vector<Bits> one_by_one(Model&& model) {
  Engine engine(std::move(model), kOneByOne);
  std::vector<Bits> answers;
  for (const Request& r : some_requests()) answers.push_back(bits_of(answer(engine, r)));
  return answers;
}

TEST(MortarExact, AnswersOfRanksAreThoseOfOneDevice) {
  for (const auto& [shared, ranks] : shared_models()) {
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<Bits> expected = one_by_one(shared.on_one_device(true, ranks));
    // 4 pages for up to 3 sequences: some give way; steps with prompts and answers; chunks of 24 tokens.
    Engine engine(shared.on_ranks(ranks, true), {.max_batch = 3, .prefill_tokens = 24, .kv_tokens = 4 * 64});
    const std::vector<Request> requests = some_requests();
    std::vector<Heard> heard(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      engine.submit(requests[i], heard[i].listener());
      engine.step();
    }
    engine.run();
    for (std::size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(bits_of(heard[i]), expected[i]) << "request " << i;
    EXPECT_GT(engine.stats().mixed_steps, 0);
    EXPECT_EQ(engine.free_pages(), engine.total_pages());
  }
}

TEST(MortarExact, LogitsOfRanksAreThoseOfOneDevice) {
  for (const auto& [shared, ranks] : shared_models()) {
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<TokenId> ids = some_ids(70, 3);
    Engine one(shared.on_one_device(true, ranks), {}), all(shared.on_ranks(ranks, true), {.prefill_tokens = 40});
    const std::vector<float> expected = one.logits(ids);
    EXPECT_EQ(expected.size(), ids.size() * static_cast<std::size_t>(one.model().config.vocabulary));
    EXPECT_EQ(bits_of(all.logits(ids)), bits_of(expected));
    EXPECT_EQ(bits_of(all.log_likelihoods(ids)), bits_of(one.log_likelihoods(ids)));
  }
}

/// The sizes of pages and graphs do not matter: sequences give way to each other.
TEST(MortarExact, SequencesGiveWay) {
  const SharedModel shared{"dense-tied"};
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 4; ++i) requests.push_back(some_request(60, 60, i));
  Engine one(shared.on_one_device(true, 2), {});
  Engine all(shared.on_ranks(2, true), {.max_batch = 4, .kv_tokens = 3 * 64, .prefix_cache = false});
  std::vector<Heard> heard(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) all.submit(requests[i], heard[i].listener());
  all.run();
  EXPECT_GT(all.stats().preemptions, 0);
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(heard[i].ids, answer(one, requests[i]).ids);
}

// A rank rounds the keys and values of its own heads, by scales of its own rows of the weights.
TEST(MortarExact, AnswersOverFp8CachesOfRanksAreThoseOfOneDevice) {
  for (const auto& [shared, ranks] : shared_models()) {
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<TokenId> ids = some_ids(70, 3);
    Engine one(shared.load({}, true, 1, KvType::Fp8), kOneByOne), other(shared.on_one_device(true), {});
    // 4 pages for up to 3 sequences: some give way.
    Engine all(shared.load(tessera::Mesh::threads(ranks), true, 1, KvType::Fp8),
               {.max_batch = 3, .prefill_tokens = 24, .kv_tokens = 4 * 64});
    const Bits expected = bits_of(one.logits(ids));
    EXPECT_EQ(bits_of(all.logits(ids)), expected);
    EXPECT_NE(bits_of(other.logits(ids)), expected) << "a cache of bf16 gives other bits";
    const std::vector<Request> requests = some_requests();
    std::vector<Heard> heard(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) all.submit(requests[i], heard[i].listener());
    all.run();
    for (std::size_t i = 0; i < heard.size(); ++i)
      EXPECT_EQ(bits_of(heard[i]), bits_of(answer(one, requests[i]))) << "request " << i;
  }
}

}  // namespace THIS_FILE
}  // namespace mortar::test
