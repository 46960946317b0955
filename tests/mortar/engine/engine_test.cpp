// Sequences that join, leave, are cancelled and give way: the tokens of each are those that it has alone.
#include "mortar/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/rounds.hpp"
#include "mortar/engine/test_engine.hpp"
#include "mortar/errors.hpp"
#include "tessera/runtime/memory.hpp"
#include "text/utf8.hpp"

namespace mortar::test {
namespace THIS_FILE {

using testing::HasSubstr;

std::vector<TokenId> random_ids(std::mt19937& random, std::size_t count) {
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % 340);
  return ids;
}

/// Requests of every kind: greedy and sampled, with and without penalties, prompts of less and more than a page.
std::vector<Request> random_requests(std::mt19937& random, std::size_t count) {
  std::vector<Request> requests(count);
  for (std::size_t i = 0; i < count; ++i) {
    Request& r = requests[i];
    r.ids = random_ids(random, 1 + random() % 100);
    r.max_tokens = 1 + static_cast<std::int64_t>(random() % 60);
    r.ignore_eos = true;
    r.sampling.greedy = i % 3 == 0;
    r.sampling.seed = i;
    if (i % 3 == 1) r.sampling.top_k = 20, r.sampling.top_p = 0.9F;
    if (i % 4 == 2) r.sampling.repetition_penalty = 1.3F, r.sampling.presence_penalty = 0.5F;
    if (i % 5 == 3) r.sampling.logit_bias = {{7, 2.5F}, {11, -50.0F}};
  }
  return requests;
}

std::vector<std::vector<TokenId>> one_by_one(const std::vector<Request>& requests) {
  Engine engine(load_test_model("dense-tied"), {.prefix_cache = false, .batch_invariant = true});
  std::vector<std::vector<TokenId>> answers;
  for (const Request& r : requests) answers.push_back(answer(engine, r).ids);
  return answers;
}

TEST(MortarEngine, TokensDoNotDependOnTheOthers) {
  std::mt19937 random(1);
  const std::vector<Request> requests = random_requests(random, 12);
  const auto expected = one_by_one(requests);
  // 4 pages for up to 5 sequences of up to 3: some give way. Chunks of 24 tokens: prompts take several steps.
  Engine engine(load_test_model("dense-tied"),
                {.max_batch = 5, .prefill_tokens = 24, .kv_tokens = 4 * 64, .batch_invariant = true});
  std::vector<Heard> heard(requests.size());
  std::size_t submitted = 0;
  while (submitted < requests.size() || engine.running() + engine.waiting() > 0) {
    if (submitted < requests.size() && random() % 3 != 0) {
      engine.submit(requests[submitted], heard[submitted].listener());
      ++submitted;
    }
    engine.step();
  }
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(heard[i].ids, expected[i]) << "request " << i;
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_GT(engine.stats().mixed_steps, 0);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

TEST(MortarEngine, CancellingLeavesNothingBehind) {
  std::mt19937 random(2);
  const std::vector<Request> requests = random_requests(random, 10);
  const auto expected = one_by_one(requests);
  Engine engine(load_test_model("dense-tied"),
                {.max_batch = 4, .prefill_tokens = 40, .kv_tokens = 8 * 64, .batch_invariant = true});
  std::vector<Heard> heard(requests.size());
  std::map<std::size_t, SequenceId> open;
  for (std::size_t i = 0; i < requests.size(); ++i) open[i] = engine.submit(requests[i], heard[i].listener());
  std::map<std::size_t, std::size_t> cancelled;  // tokens until then
  while (engine.step()) {
    if (random() % 4 != 0 || cancelled.size() == 5) continue;
    const std::size_t victim = random() % requests.size();
    if (cancelled.contains(victim)) continue;
    if (engine.cancel(open[victim])) cancelled[victim] = heard[victim].ids.size();
  }
  EXPECT_EQ(cancelled.size(), 5U);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::vector<TokenId> wanted = expected[i];
    if (cancelled.contains(i)) wanted.resize(cancelled[i]);
    EXPECT_EQ(heard[i].ids, wanted) << "request " << i;
    EXPECT_FALSE(engine.cancel(open[i])) << "it has ended";
  }
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

TEST(MortarEngine, PrefixCacheGivesTheSameTokens) {
  std::mt19937 random(3);
  const std::vector<TokenId> common = random_ids(random, 130);
  Engine cached(load_test_model("dense-untied"), {.batch_invariant = true});
  Engine plain(load_test_model("dense-untied"), {.prefix_cache = false, .batch_invariant = true});
  for (int i = 0; i < 3; ++i) {
    Request r;
    r.ids = common;
    if (i == 1) r.ids[70] = 5;  // only the first page is the same
    const auto end = random_ids(random, 9);
    r.ids.insert(r.ids.end(), end.begin(), end.end());
    r.sampling.greedy = true;
    r.max_tokens = 12;
    EXPECT_EQ(answer(cached, r).ids, answer(plain, r).ids);
    EXPECT_EQ(cached.stats().cached_tokens, i == 0 ? 0 : i == 1 ? 64 : 64 + 128);
  }
  EXPECT_EQ(plain.stats().cached_tokens, 0);
}

// The last page is full and in the cache: only its last token is computed again, for its logits, beside a sequence that
// reads the page as well.
TEST(MortarEngine, APromptOfWholePagesIsComputedOnce) {
  const std::vector<const char*> models = {"dense-untied", "moe"};
  for (std::size_t m = tessera::test::first_of(2); m < models.size(); m += tessera::test::one_in(2)) {
    const char* const model = models[m];
    Engine cached(load_test_model(model, 256, 2), {.max_batch = 2, .batch_invariant = true});
    Engine plain(load_test_model(model, 256, 2), {.max_batch = 2, .prefix_cache = false, .batch_invariant = true});
    for (const std::size_t pages : {1, 3}) {
      Request r = some_request(pages * kPage, 30, 11 + static_cast<std::uint32_t>(pages));
      r.logprobs = 2;
      const Heard expected = answer(plain, r);
      EXPECT_EQ(answer(cached, r).ids, expected.ids);
      const EngineStats before = cached.stats();
      Heard first, second;
      cached.submit(r, first.listener());
      cached.step();
      cached.submit(r, second.listener());
      cached.run();
      EXPECT_EQ(cached.stats().prompt_tokens - before.prompt_tokens, 2) << "one for each of them";
      EXPECT_EQ(cached.stats().cached_tokens - before.cached_tokens,
                2 * (static_cast<std::int64_t>(pages) * kPage - 1));
      for (const Heard* heard : {&first, &second}) {
        EXPECT_EQ(heard->ids, expected.ids);
        ASSERT_EQ(heard->tokens.size(), expected.tokens.size());
        for (std::size_t i = 0; i < expected.tokens.size(); ++i)
          EXPECT_EQ(heard->tokens[i].chosen->logprob, expected.tokens[i].chosen->logprob) << "token " << i;
      }
    }
  }
}

// Steps with log-probabilities are launched one after the other, others before the tokens of the last are known.
TEST(MortarEngine, StepsThatAreLaunchedAheadChangeNothing) {
  std::mt19937 random(5);
  std::vector<Request> requests = random_requests(random, 9);
  for (std::size_t i = 0; i < requests.size(); i += 2) {
    requests[i].max_tokens = 60;
    for (TokenId id = static_cast<TokenId>(i); id < 340; id += 16) requests[i].stop_ids.push_back(id);
  }
  const auto answers = [&](std::int64_t logprobs, std::int64_t batch, EngineStats& stats) {
    Engine engine(load_test_model("dense-tied"),
                  {.max_batch = batch, .prefill_tokens = 64, .kv_tokens = 10 * 64, .batch_invariant = true});
    std::vector<Heard> heard(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Request r = requests[i];
      r.logprobs = logprobs;
      engine.submit(r, heard[i].listener());
    }
    engine.run();
    stats = engine.stats();
    EXPECT_EQ(engine.free_pages(), engine.total_pages());
    EXPECT_FALSE(engine.step());
    std::vector<std::vector<TokenId>> ids;
    for (const Heard& h : heard) ids.push_back(h.ids);
    return ids;
  };
  EngineStats in_turn, ahead, alone;
  const auto expected = answers(0, 4, in_turn);
  EXPECT_EQ(answers(-1, 4, ahead), expected);
  EXPECT_EQ(answers(-1, 1, alone), expected);
  EXPECT_EQ(in_turn.steps_ahead, 0);
  EXPECT_GT(ahead.steps_ahead, ahead.steps / 4);
  EXPECT_GT(alone.steps_ahead, alone.steps / 2);
  EXPECT_EQ(ahead.generated_tokens, in_turn.generated_tokens) << "tokens after the end are not counted";
  std::size_t stopped = 0;
  for (std::size_t i = 0; i < requests.size(); i += 2) stopped += expected[i].size() < 60 ? 1U : 0U;
  EXPECT_GT(stopped, 2U) << "steps ahead of an end that was not foreseen";
}

// A callback may submit and cancel.
TEST(MortarEngine, FunctionsOfSequencesUseTheEngine) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  Heard second;
  SequenceId first = 0;
  int calls = 0;
  Request r;
  r.ids = {1, 2, 3};
  r.max_tokens = 50;
  r.ignore_eos = true;
  first = engine.submit(r, [&](const Token&) {
    if (++calls != 3) return;
    EXPECT_TRUE(engine.cancel(first));
    engine.submit({.ids = {4, 5}, .max_tokens = 2, .ignore_eos = true}, second.listener());
  });
  engine.run();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(second.ids.size(), 2U);
  EXPECT_EQ(second.finish, FinishReason::Length);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

TEST(MortarEngine, WhatAFunctionThrowsReachesTheCallerAndTheRestGoesOn) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  Heard heard;
  engine.submit({.ids = {1, 2}, .max_tokens = 3, .ignore_eos = true},
                [](const Token&) { throw std::runtime_error("a listener's"); });
  engine.submit({.ids = {3, 4}, .max_tokens = 3, .ignore_eos = true}, heard.listener());
  int thrown = 0;
  while (engine.running() + engine.waiting() > 0) {
    try {
      engine.step();
    } catch (const std::runtime_error&) { ++thrown; }
  }
  EXPECT_EQ(thrown, 3);
  EXPECT_EQ(heard.ids.size(), 3U);
}

TEST(MortarEngine, StopsAtIdsAndTexts) {
  Engine engine(load_test_model("dense-untied"), {});
  Request r;
  r.ids = {40, 41, 42};
  r.max_tokens = 30;
  r.sampling.greedy = true;
  r.ignore_eos = true;
  const Heard all = answer(engine, r);
  ASSERT_EQ(all.finish, FinishReason::Length);
  r.stop_ids = {all.ids[5]};
  const auto at = std::find(all.ids.begin(), all.ids.end(), all.ids[5]);
  const Heard by_id = answer(engine, r);
  EXPECT_EQ(by_id.finish, FinishReason::Stop);
  EXPECT_EQ(by_id.ids, std::vector<TokenId>(all.ids.begin(), at + 1));
  r.stop_ids.clear();
  ASSERT_GT(all.text.size(), 8U);
  std::size_t begin = 4;  // of a character
  while (begin < all.text.size() && text::valid_utf8(all.text.substr(0, begin)) != begin) ++begin;
  std::size_t end = begin + 3;
  while (end < all.text.size() && text::valid_utf8(all.text.substr(begin, end - begin)) != end - begin) ++end;
  r.stop = {all.text.substr(begin, end - begin)};
  const Heard by_text = answer(engine, r);
  EXPECT_EQ(by_text.finish, FinishReason::Stop);
  EXPECT_EQ(by_text.text, all.text.substr(0, all.text.find(r.stop[0])));
  EXPECT_LT(by_text.ids.size(), all.ids.size());
}

TEST(MortarEngine, LogprobsAreThoseOfTheLogits) {
  Engine engine(load_test_model("dense-tied"), {.batch_invariant = true});
  Request r;
  r.ids = {9, 8, 7, 6};
  r.max_tokens = 3;
  r.sampling.greedy = true;
  r.ignore_eos = true;
  r.logprobs = 4;
  const Heard heard = answer(engine, r);
  std::vector<TokenId> ids = r.ids;
  ids.insert(ids.end(), heard.ids.begin(), heard.ids.end());
  const std::vector<float> likelihoods = engine.log_likelihoods(ids);
  ASSERT_EQ(likelihoods.size(), 6U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Token& token = heard.tokens[i];
    EXPECT_NEAR(token.chosen->logprob, likelihoods[3 + i], 1e-4);
    ASSERT_EQ(token.top.size(), 4U);
    EXPECT_EQ(token.top[0].id, token.id);
    EXPECT_EQ(token.top[0].logprob, token.chosen->logprob);
    EXPECT_GE(token.top[2].logprob, token.top[3].logprob);
  }
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "nothing was thrown";
}

TEST(MortarEngine, RequestsThatCannotBeServedSayWhy) {
  Engine engine(load_test_model("dense-tied", 100), {});
  const auto submit = [&](Request r) { return message_of([&] { engine.submit(std::move(r), {}); }); };
  EXPECT_THAT(submit({.ids = {}}), HasSubstr("at least one token"));
  EXPECT_THAT(submit({.ids = {1, 384}}), HasSubstr("ids from 0 to 383, found 384"));
  EXPECT_THAT(submit({.ids = {1, -1}}), HasSubstr("found -1"));
  EXPECT_THAT(submit({.ids = std::vector<TokenId>(90, 1), .max_tokens = 11}),
              HasSubstr("at most 100 tokens of prompt and answer together, found a prompt of 90 and max_tokens of 11"));
  EXPECT_THAT(submit({.ids = {1}, .max_tokens = 0}), HasSubstr("max_tokens: expected at least 1, found 0"));
  EXPECT_THAT(submit({.ids = {1}, .max_tokens = 1, .sampling = {.top_p = 0}}), HasSubstr("top_p"));
  EXPECT_THAT(submit({.ids = {1}, .max_tokens = 1, .sampling = {.temperature = -1}}), HasSubstr("temperature"));
  EXPECT_THAT(submit({.ids = {1}, .max_tokens = 1, .sampling = {.logit_bias = {{400, 1.0F}}}}),
              HasSubstr("logit_bias"));
  EXPECT_THAT(submit({.ids = {1}, .max_tokens = 1, .logprobs = 21}), HasSubstr("logprobs"));
  EXPECT_THAT(submit({.ids = {1}, .max_tokens = 1, .stop = {"\xbf"}}), HasSubstr("UTF-8"));
  EXPECT_THAT(message_of([&] { (void)engine.logits(std::vector<TokenId>(101, 1)); }), HasSubstr("at most 100 tokens"));
  EXPECT_EQ(engine.logits(std::vector<TokenId>(100, 1)).size(), 100U * 384) << "the whole context can be scored";
  EXPECT_FALSE(engine.step());
  Request good;
  good.ids = std::vector<TokenId>(90, 1);
  good.max_tokens = 10;
  good.ignore_eos = true;
  EXPECT_EQ(answer(engine, good).ids.size(), 10U);
}

TEST(MortarEngine, SizesThatDoNotFitSayWhy) {
  const auto made = [](const EngineOptions& options) {
    return message_of([&] { const Engine engine(load_test_model("dense-tied", 100), options); });
  };
  EXPECT_THAT(made({.kv_tokens = INT64_MAX}), HasSubstr("the largest cache has"));
  EXPECT_THAT(made({.kv_tokens = std::int64_t{1} << 50}), HasSubstr("CapacityError"));
  EXPECT_THAT(made({.max_batch = std::int64_t{1} << 40}), HasSubstr("max_batch: expected 1 to 65536"));
  EXPECT_THAT(made({.max_batch = 0}), HasSubstr("max_batch"));
}

// A test model with other fields, in a folder of its own, with random weights.
Model random_model(const nlohmann::json& fields) {
  const Folder folder;
  nlohmann::json config = nlohmann::json::parse(std::ifstream(test_model("dense-tied") / "config.json"));
  config.update(fields);
  folder.write("config.json", config.dump());
  ModelOptions options;
  options.device = tessera::Device::cpu();
  options.max_context = 256;
  options.random_weights = 1;
  return load(folder.path().string(), options);
}

// What decoding computes, token by token, is what a prompt of the same tokens gives.
TEST(MortarEngine, AnyNumberOfQueryHeadsForAKeyHead) {
  for (const int heads : {1, 8, 9, 16, 17, 32, 64}) {
    Engine engine(random_model({{"num_attention_heads", heads}, {"num_key_value_heads", 1}}), {});
    Request r;
    for (TokenId id = 0; id < 70; ++id) r.ids.push_back(id);
    r.max_tokens = 4;
    r.sampling.greedy = true;
    r.ignore_eos = true;
    r.logprobs = 0;
    const Heard heard = answer(engine, r);
    std::vector<TokenId> ids = r.ids;
    ids.insert(ids.end(), heard.ids.begin(), heard.ids.end());
    const std::vector<float> expected = engine.log_likelihoods(ids);
    for (std::size_t i = 0; i < heard.ids.size(); ++i)
      EXPECT_NEAR(heard.tokens[i].chosen->logprob, expected[r.ids.size() - 1 + i], 0.03)
          << heads << " heads, token " << i;
  }
}

TEST(MortarEngine, ASequenceThatFailsToStartWaitsWithItsPenalties) {
  Request r;
  r.ids = {1, 2, 3};
  r.max_tokens = 12;
  r.sampling.greedy = true;
  r.sampling.repetition_penalty = 100;
  r.sampling.logit_bias = {{7, -50.0F}};
  r.ignore_eos = true;
  Engine undisturbed(load_test_model("dense-tied"), {}), engine(load_test_model("dense-tied"), {});
  const std::vector<TokenId> expected = answer(undisturbed, r).ids;
  Heard heard;
  engine.submit(r, heard.listener());
  const tessera::Device cpu = tessera::Device::cpu();
  tessera::trim_memory(cpu);
  tessera::set_memory_limit(cpu, tessera::memory_stats(cpu).in_use);  // no state for penalties can be made
  EXPECT_THROW(engine.step(), tessera::DeviceError);
  tessera::set_memory_limit(cpu, tessera::kNoMemoryLimit);
  EXPECT_EQ(engine.waiting(), 1);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
  engine.run();
  EXPECT_EQ(heard.ids, expected);
}

TEST(MortarEngine, PromptsInTurnsOrFirst) {
  for (const bool first : {false, true}) {
    Engine engine(load_test_model("dense-tied"), {.max_batch = 2, .prefill_tokens = 16, .prompts_first = first});
    std::vector<int> order;
    Request r;
    r.ids = {1};
    r.max_tokens = 8;
    r.ignore_eos = true;
    engine.submit(r, [&](const Token&) { order.push_back(0); });
    engine.step();
    r.ids.assign(64, 1);  // four steps
    engine.submit(r, [&](const Token&) { order.push_back(1); });
    engine.run();
    const auto others = std::find(order.begin(), order.end(), 1) - order.begin();
    EXPECT_EQ(order.size(), 16U);
    if (first)
      EXPECT_LE(others, 2) << "the step that was launched ahead";
    else
      EXPECT_GE(others, 4);
  }
}

// Prompts begin at multiples of a tile of queries, so short ones take more of a step than their tokens.
TEST(MortarEngine, StepsOverPromptsAreAsLargeAsPlanned) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 8, .prefill_tokens = 32});
  Request r;
  r.ids = {1};
  r.max_tokens = 1;
  for (int i = 0; i < 8; ++i) engine.submit(r, {});
  engine.run();
  EXPECT_EQ(engine.stats().steps, 4);
}

TEST(MortarEngine, LongPromptsInSmallStepsGiveTheSameTokens) {
  Engine whole(load_test_model("dense-tied", 200),
               {.prefill_tokens = 200, .prefix_cache = false, .batch_invariant = true});
  Engine parts(load_test_model("dense-tied", 200),
               {.prefill_tokens = 7, .prefix_cache = false, .batch_invariant = true});
  Request request;
  for (TokenId id = 0; id < 150; ++id) request.ids.push_back(id);
  request.max_tokens = 20;
  request.ignore_eos = true;
  request.sampling.greedy = true;
  EXPECT_EQ(answer(parts, request).ids, answer(whole, request).ids);
  const SequenceId dropped = parts.submit(request, {});
  EXPECT_TRUE(parts.step() && parts.step() && parts.cancel(dropped));
  EXPECT_EQ(answer(parts, request).ids, answer(whole, request).ids);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
