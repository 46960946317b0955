// An engine that is shared: what requests ask of each other and of the choice of tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "mortar/engine.hpp"
#include "mortar/engine/test_engine.hpp"
#include "mortar/errors.hpp"
#include "tessera/tessera.hpp"

namespace mortar::test {
namespace THIS_FILE {

using testing::HasSubstr;

constexpr TokenId kVocabulary = 376, kThink = 374, kEndThinking = 375;  // of the tokenizers of the test models

template <class E = Error, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& error) { return error.what(); }
  return "nothing was thrown";
}

/// After token i, ten ids that depend on i may come; after `length` tokens only the end.
class Chain : public TokenConstraint {
 public:
  explicit Chain(int length, TokenId begins_after = -1) : left_(length), begins_after_(begins_after) {}
  static bool follows(TokenId last, TokenId id) { return (id - last * 7 % 330 + 330) % 330 < 10 && id < 330; }

  bool restricts() const override { return begins_after_ < 0; }
  void fill_mask(std::span<std::uint32_t> mask) override {
    std::ranges::fill(mask, 0U);
    for (TokenId id = 0; id < 350; ++id)
      if (left_ > 0 && follows(last_, id)) mask[static_cast<std::size_t>(id) / 32] |= 1U << (id % 32);
    if (left_ == 0) mask[352 / 32] |= 1U << (352 % 32);
  }
  bool accept(TokenId id) override {
    if (begins_after_ >= 0) {
      if (id == begins_after_) begins_after_ = -1;
      return true;
    }
    if (left_ == 0 || !follows(last_, id)) return false;
    last_ = id;
    --left_;
    return true;
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Chain>(*this); }

 private:
  int left_;
  TokenId last_ = 0, begins_after_;
};

void expect_chain(std::span<const TokenId> ids, std::size_t length) {
  ASSERT_EQ(ids.size(), length + 1);
  TokenId last = 0;
  for (const TokenId id : ids.first(length)) {
    EXPECT_TRUE(Chain::follows(last, id)) << id << " after " << last;
    last = id;
  }
  EXPECT_EQ(ids.back(), 352);
}

TEST(SharedEngine, MasksKeepToIds) {
  Engine engine(load_test_model("dense-tied"), {});
  Request r = some_request(5, 30);
  r.allowed_ids = {11, 40, 300, 301};
  r.banned_ids = {40};
  for (const TokenId id : answer(engine, r).ids) EXPECT_THAT(id, testing::AnyOf(11, 300, 301));
  r.allowed_ids.clear();
  r.sampling.greedy = true;
  r.banned_ids.clear();
  const TokenId first = answer(engine, r).ids[0];
  r.banned_ids = {first};
  for (const TokenId id : answer(engine, r).ids) EXPECT_NE(id, first);
  r.allowed_ids = {first};
  const Heard none = answer(engine, r);
  EXPECT_EQ(none.finish, FinishReason::Failed);
  EXPECT_THAT(none.tokens.back().error, HasSubstr("no token is allowed"));
  EXPECT_EQ(engine.stats().failed, 1);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

TEST(SharedEngine, EndsAfterAsManyTokensAsRequested) {
  Engine engine(load_test_model("dense-tied"), {});
  Request r = some_request(5, 40);
  r.ignore_eos = false;
  for (TokenId id = 0; id < 340; ++id)
    if (id % 4 != 0) r.stop_ids.push_back(id);
  EXPECT_LT(answer(engine, r).ids.size(), 10U);
  r.min_tokens = 20;
  const Heard heard = answer(engine, r);
  ASSERT_GE(heard.ids.size(), 21U);
  EXPECT_LT(heard.ids.size(), 40U);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(heard.ids[i] % 4 == 0 || heard.ids[i] >= 340);
}

TEST(SharedEngine, ThinkingEndsWhenItsBudgetIsSpent) {
  Engine engine(load_test_model("dense-tied"), {});
  Request r = some_request(5, 20);
  r.banned_ids = {kEndThinking};  // it does not end by itself
  r.starts_thinking = true;
  r.thinking_budget = 6;
  const auto end_of = [](const Heard& heard) { return std::ranges::find(heard.ids, kEndThinking) - heard.ids.begin(); };
  EXPECT_EQ(end_of(answer(engine, r)), 20) << "what is banned is not chosen";
  r.banned_ids.clear();
  r.sampling.logit_bias = {{kEndThinking, -100.0F}};
  EXPECT_EQ(end_of(answer(engine, r)), 6);
  r.thinking_budget = 0;
  EXPECT_EQ(end_of(answer(engine, r)), 0);
  r.starts_thinking = false;
  r.thinking_budget = 3;
  EXPECT_EQ(end_of(answer(engine, r)), 20) << "it does not think";
  r.sampling.logit_bias.emplace_back(kThink, 100.0F);
  r.max_tokens = 10;
  const auto again = testing::ElementsAre(kThink, kThink, kThink, kThink, kEndThinking, kThink, kEndThinking, kThink,
                                          kEndThinking, kThink);
  EXPECT_THAT(answer(engine, r).ids, again) << "the budget is that of all thinking of the answer";
  r.constraint = std::make_shared<Chain>(4, kEndThinking);
  r.starts_thinking = true;
  r.sampling.logit_bias.pop_back();
  r.ignore_eos = false;
  r.max_tokens = 20;
  const Heard heard = answer(engine, r);
  EXPECT_EQ(end_of(heard), 3);
  expect_chain(std::span(heard.ids).subspan(4), 4);
}

// The answer by hand: the largest logit after the penalties.
TEST(SharedEngine, FrequencyPenaltiesCountTokens) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2, .batch_invariant = true});
  Request r = some_request(6, 24);
  r.sampling.greedy = true;
  r.sampling.frequency_penalty = 0.02F;
  std::vector<TokenId> ids = r.ids, expected;
  std::vector<int> counts(kVocabulary);
  for (int i = 0; i < 24; ++i) {
    const std::vector<float> all = engine.logits(ids);
    std::vector<float> last(all.end() - 384, all.end());
    last.resize(kVocabulary);
    for (std::size_t id = 0; id < last.size(); ++id) last[id] -= 0.02F * static_cast<float>(counts[id]);
    expected.push_back(static_cast<TokenId>(std::ranges::max_element(last) - last.begin()));
    ids.push_back(expected.back());
    ++counts[static_cast<std::size_t>(expected.back())];
  }
  EXPECT_GT(*std::ranges::max_element(counts), 1);
  Heard other, heard;
  Request plain = some_request(9, 40, 2);
  engine.submit(plain, other.listener());
  engine.step();
  engine.submit(r, heard.listener());
  engine.run();
  EXPECT_EQ(heard.ids, expected);
  EXPECT_EQ(answer(engine, plain).ids, other.ids) << "rows without a penalty are not changed";
}

TEST(SharedEngine, ConstrainedRowsAreAsAloneAndOneStepAhead) {
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    requests.push_back(some_request(3 + 40 * i, 20 + i, i));
    if (i % 2 == 0) continue;
    requests[i].ignore_eos = false;
    requests[i].constraint = std::make_shared<Chain>(8 + static_cast<int>(i));
  }
  const auto with_clones = [&] {  // a constraint belongs to one sequence
    std::vector<Request> copies = requests;
    for (Request& r : copies)
      if (r.constraint) r.constraint = r.constraint->clone();
    return copies;
  };
  std::vector<std::vector<TokenId>> alone;
  Engine single(load_test_model("dense-tied"), {.prefix_cache = false, .batch_invariant = true});
  for (Request& r : with_clones()) alone.push_back(answer(single, r).ids);
  // Few pages, so that constrained sequences give way: their constraints stay where they are.
  Engine engine(load_test_model("dense-tied"), {.max_batch = 4, .kv_tokens = 5 * 64, .batch_invariant = true});
  std::vector<Heard> heard(requests.size());
  std::vector<Request> copies = with_clones();
  for (std::size_t i = 0; i < copies.size(); ++i) engine.submit(copies[i], heard[i].listener());
  engine.run();
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(heard[i].ids, alone[i]) << i;
    if (i % 2 == 1) expect_chain(heard[i].ids, 8 + i);
  }
  const EngineStats stats = engine.stats();
  EXPECT_GT(stats.steps_ahead, stats.steps / 2) << "masks do not make the device wait";
  EXPECT_EQ(stats.masked_rows, 9 + 11 + 13 + 3) << "one for each token of a constrained answer";
  EXPECT_EQ(stats.stopped, 3);
}

TEST(SharedEngine, AConstraintThatFailsEndsItsSequenceAlone) {
  class Failing : public Chain {
   public:
    using Chain::Chain;
    void fill_mask(std::span<std::uint32_t> mask) override {
      if (++calls_ == 3) throw std::runtime_error("the third mask");
      Chain::fill_mask(mask);
    }
    int calls_ = 0;
  };
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  Request r = some_request(4, 20);
  r.ignore_eos = false;
  r.constraint = std::make_shared<Failing>(10);
  Heard failed, other;
  engine.submit(r, failed.listener());
  engine.submit(some_request(4, 12), other.listener());
  engine.run();
  EXPECT_EQ(failed.finish, FinishReason::Failed);
  EXPECT_THAT(failed.tokens.back().error, HasSubstr("the third mask"));
  EXPECT_EQ(failed.ids, (std::vector<TokenId>{failed.ids[0], failed.ids[1], -1}));
  EXPECT_EQ(other.ids.size(), 12U);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

TEST(SharedEngine, ChoicesAreTheAnswersOfTheirSeeds) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 3, .batch_invariant = true});
  Request r = some_request(150, 15, 7);
  r.sampling.temperature = 2;
  r.choices = 3;
  std::vector<Heard> heard(3);
  engine.submit(r, [&](const Token& token) { heard.at(static_cast<std::size_t>(token.choice)).listener()(token); });
  EXPECT_EQ(engine.waiting(), 3);
  engine.run();
  r.choices = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(heard[i].tokens.front().cached_tokens, i == 0 ? 0 : 128);
    r.sampling.seed = 7 + i;
    EXPECT_EQ(answer(engine, r).ids, heard[i].ids) << i;
  }
  EXPECT_NE(heard[0].ids, heard[1].ids);
  r.constraint = std::make_shared<Chain>(9);
  r.ignore_eos = false;
  r.choices = 2;
  for (Heard& h : heard) h = {};
  engine.submit(r, [&](const Token& token) { heard.at(static_cast<std::size_t>(token.choice)).listener()(token); });
  engine.run();
  expect_chain(heard[0].ids, 9);
  expect_chain(heard[1].ids, 9);
}

TEST(SharedEngine, TheQueueIsBounded) {
  Engine engine(load_test_model("dense-tied"), {.max_queue = 2, .max_queue_tokens = 50});
  const auto submit = [&](std::size_t prompt) {
    return message_of<QueueFullError>([&] { engine.submit(some_request(prompt, 4), {}); });
  };
  EXPECT_EQ(submit(100), "nothing was thrown") << "one that is larger than the queue waits alone";
  EXPECT_THAT(submit(1), HasSubstr("at most 50 tokens"));
  EXPECT_EQ(engine.stats().waiting_tokens, 100);
  engine.step();  // it begins
  EXPECT_EQ(submit(20), "nothing was thrown");
  EXPECT_THAT(submit(31), HasSubstr("found 20 and a prompt of 31"));
  EXPECT_EQ(submit(30), "nothing was thrown");
  EXPECT_THAT(submit(1), HasSubstr("expected fewer than 2 requests"));
  engine.run();
  EXPECT_EQ(submit(20), "nothing was thrown");
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.rejected, 3);
  EXPECT_EQ(stats.submitted, 4);
  EXPECT_EQ(stats.reached_length, 3);
}

TEST(SharedEngine, RestrictionsThatCannotBeKeptSayWhy) {
  Engine engine(load_test_model("dense-tied", 100), {.max_batch = 2});
  const auto submit = [&](auto change) {
    Request r = some_request(3, 5);
    change(r);
    return message_of<RequestError>([&] { engine.submit(r, {}); });
  };
  EXPECT_THAT(submit([](Request& r) { r.choices = 3; }), HasSubstr("choices: expected 1 to 2 (max_batch), found 3"));
  EXPECT_THAT(submit([](Request& r) { r.choices = 0; }), HasSubstr("choices"));
  EXPECT_THAT(submit([](Request& r) { r.min_tokens = 6; }), HasSubstr("which is 5, found 6"));
  EXPECT_THAT(submit([](Request& r) { r.banned_ids = {376}; }), HasSubstr("banned_ids"));
  EXPECT_THAT(submit([](Request& r) { r.allowed_ids = {-1}; }), HasSubstr("allowed_ids"));
  EXPECT_THAT(submit([](Request& r) { r.thinking_budget = -2; }), HasSubstr("thinking_budget"));
  EXPECT_THAT(submit([](Request& r) { r.priority = 1001; }), HasSubstr("priority"));
  EXPECT_THAT(submit([](Request& r) { r.cache_salt = std::string(1, '\0'); }), HasSubstr("cache_salt"));
  EXPECT_THAT(submit([](Request& r) { r.sampling.frequency_penalty = 101; }), HasSubstr("frequency_penalty"));
  EXPECT_THAT(submit([](Request& r) { r.constraint = std::make_shared<Chain>(1); }), HasSubstr("ignore_eos"));
  EXPECT_THAT(message_of([&] { Engine(load_test_model("dense-tied", 100), {.mixed_tokens = -1}); }),
              HasSubstr("mixed_tokens"));
  EXPECT_EQ(submit([](Request& r) { r.choices = 2; }), "nothing was thrown");
}

TEST(SharedEngine, CancellingSaysWhyWhereAsked) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  Heard running, queued, silent;
  Request r = some_request(70, 100);
  r.report_cancelled = true;
  r.choices = 2;
  const SequenceId first = engine.submit(r, running.listener());
  const SequenceId second = engine.submit(some_request(3, 100), silent.listener());
  for (int i = 0; i < 5; ++i) engine.step();
  r.choices = 1;
  const SequenceId third = engine.submit(r, queued.listener());
  const std::size_t tokens = running.ids.size();
  EXPECT_TRUE(engine.cancel(first, "the client has gone"));
  EXPECT_FALSE(engine.cancel(first)) << "it has ended";
  EXPECT_TRUE(engine.cancel(second));
  EXPECT_TRUE(engine.cancel(third, "too late"));
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
  EXPECT_EQ(running.ids.size(), tokens) << "functions are called by the thread that steps";
  EXPECT_TRUE(engine.wait(std::chrono::milliseconds(0)));
  engine.run();
  ASSERT_EQ(running.ids.size(), tokens + 2) << "both choices";
  EXPECT_EQ(running.tokens.back().error, "the client has gone");
  EXPECT_EQ(running.finish, FinishReason::Cancelled);
  EXPECT_EQ(queued.finish, FinishReason::Cancelled);
  EXPECT_EQ(queued.tokens.back().timings->admitted, std::chrono::steady_clock::time_point());
  EXPECT_FALSE(silent.finish);
  EXPECT_EQ(engine.stats().cancelled, 4);
  EXPECT_FALSE(engine.wait(std::chrono::milliseconds(0)));
}

TEST(SharedEngine, AChoiceIsCancelledWhileOthersGoOn) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 3, .batch_invariant = true});
  Request r = some_request(70, 40, 7);
  r.sampling.temperature = 2;
  r.choices = 3;
  r.report_cancelled = true;
  std::vector<Heard> heard(3);
  const SequenceId id = engine.submit(r, [&](const Token& token) {
    Heard& own = heard.at(static_cast<std::size_t>(token.choice));
    own.listener()(token);
    if (token.choice == 1 && own.tokens.size() == 5) {
      EXPECT_TRUE(engine.cancel_choice(token.sequence, 1, "enough"));
      EXPECT_FALSE(engine.cancel_choice(token.sequence, 1)) << "it has ended";
      EXPECT_FALSE(engine.cancel_choice(token.sequence, 3)) << "there is none";
    }
  });
  engine.run();
  ASSERT_EQ(heard[1].ids.size(), 6U);
  EXPECT_EQ(heard[1].finish, FinishReason::Cancelled);
  EXPECT_EQ(heard[1].tokens.back().error, "enough");
  EXPECT_FALSE(engine.cancel_choice(id, 0)) << "all have ended";
  EXPECT_FALSE(engine.cancel(id));
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.generated_tokens, 40 + 5 + 40) << "nothing is computed for it any more";
  EXPECT_EQ(stats.cancelled, 1);
  EXPECT_EQ(stats.reached_length, 2);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
  r.choices = 1;
  for (const std::uint64_t other : {0, 2}) {
    r.sampling.seed = 7 + other;
    EXPECT_EQ(answer(engine, r).ids, heard[other].ids);
  }
}

TEST(SharedEngine, CancellingEachChoiceEndsTheRequest) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  Heard heard;
  Request r = some_request(70, 10);
  r.choices = 2;
  const SequenceId first = engine.submit(r, heard.listener()), second = engine.submit(r, heard.listener());
  EXPECT_TRUE(engine.cancel_choice(first, 0));
  EXPECT_TRUE(engine.cancel_choice(first, 1));
  EXPECT_FALSE(engine.cancel(first));
  EXPECT_TRUE(engine.cancel_choice(second, 0)) << "the one that was to compute the prompt";
  EXPECT_EQ(engine.waiting(), 1);
  engine.run();
  EXPECT_EQ(heard.ids.size(), 10U);
  for (const Token& token : heard.tokens) EXPECT_EQ(token.choice, 1);
  EXPECT_EQ(engine.stats().cancelled, 3);
}

TEST(SharedEngine, TextIsThereWhereItIsWanted) {
  Engine engine(load_test_model("dense-tied"), {});
  Request r = some_request(5, 30);
  const Heard with = answer(engine, r);
  ASSERT_GT(with.text.size(), 5U);
  r.text = false;
  const Heard without = answer(engine, r);
  EXPECT_EQ(without.ids, with.ids);
  EXPECT_EQ(without.text, "");
  const auto plain = std::ranges::find_if(with.text, [](char c) { return c > ' '; });
  ASSERT_NE(plain, with.text.end());
  r.stop = {std::string(1, *plain)};
  const Heard stopped = answer(engine, r);
  EXPECT_EQ(stopped.finish, FinishReason::Stop) << "stop strings are found all the same";
  EXPECT_EQ(stopped.text, "");
}

TEST(SharedEngine, TheDevicesTimeIsMeasured) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  const auto seconds_of_run = [&](bool constrained) {
    Heard heard[2];
    for (Heard& h : heard) {
      Request r = some_request(5, 40);
      if (constrained) r.allowed_ids = {3, 4, 5};
      engine.submit(r, h.listener());
    }
    const auto start = std::chrono::steady_clock::now();
    engine.run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  (void)seconds_of_run(false);
  EXPECT_EQ(engine.device_seconds(), 0);
  for (const bool constrained : {false, true}) {
    engine.time_device(true);
    const double wall = seconds_of_run(constrained), busy = engine.device_seconds();
    EXPECT_GT(busy, 0);
    EXPECT_LT(busy, wall) << "pieces of work do not overlap";
  }
  engine.time_device(false);
  (void)seconds_of_run(false);
  EXPECT_EQ(engine.device_seconds(), 0);
}

TEST(SharedEngine, TimingsAreInOrder) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 1});
  Heard first, second;
  const auto start = std::chrono::steady_clock::now();
  engine.submit(some_request(5, 4), first.listener());
  engine.submit(some_request(5, 4), second.listener());
  engine.run();
  for (const Token& token : second.tokens) EXPECT_EQ(token.timings.has_value(), token.finish.has_value());
  const SequenceTimings t = *second.tokens.back().timings;
  EXPECT_LE(start, t.submitted);
  EXPECT_LE(first.tokens.back().timings->last_token, t.admitted) << "it has waited";
  EXPECT_LE(t.admitted, t.first_token);
  EXPECT_LT(t.first_token, t.last_token);
  EXPECT_EQ(t.preemptions, 0);
}

TEST(SharedEngine, LogitsThatAreNotFiniteEndTheirSequence) {
  Model model = load_test_model("dense-tied");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  model.weights.final_norm = tessera::full<tessera::bf16>({64}, tessera::bf16(nan)).sync(tessera::Stream(model.device));
  Engine engine(std::move(model), {.max_batch = 2});
  Heard heard;
  engine.submit(some_request(3, 5), heard.listener());
  engine.run();
  EXPECT_EQ(heard.finish, FinishReason::Failed);
  EXPECT_THAT(heard.tokens.back().error, HasSubstr("are the weights damaged?"));
  engine.submit(some_request(3, 5), {});
  EXPECT_THROW(engine.run(), ModelError) << "no other function is called";
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

// Not by one way of computing: the attention of answers is another kernel than that of prompts.
TEST(SharedEngine, MixedStepsComputeWhatPromptsGive) {
  for (const char* name : {"dense-tied", "moe"}) {
    Engine engine(load_test_model(name), {.max_batch = 3, .prefill_tokens = 64, .mixed_tokens = 16});
    std::vector<Heard> heard(3);
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < 3; ++i) {
      requests.push_back(some_request(i == 0 ? 5 : 100 + i, 30, i));
      requests[i].logprobs = 0;
      engine.submit(requests[i], heard[i].listener());
      engine.step();
    }
    engine.run();
    EXPECT_GT(engine.stats().mixed_steps, 5);
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<TokenId> ids = requests[i].ids;
      ids.insert(ids.end(), heard[i].ids.begin(), heard[i].ids.end());
      const std::vector<float> expected = engine.log_likelihoods(ids);
      for (std::size_t t = 0; t < heard[i].ids.size(); ++t)
        EXPECT_NEAR(heard[i].tokens[t].chosen->logprob, expected[requests[i].ids.size() - 1 + t], 0.05)
            << name << ", sequence " << i << ", token " << t;
    }
  }
}

}  // namespace THIS_FILE
}  // namespace mortar::test
