// Who is admitted, who gives way, what a step contains: random schedules, and rules one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/rounds.hpp"
#include "mortar/engine/scheduler_device.hpp"

namespace mortar::test {
namespace THIS_FILE {

using tessera::test::rounds;

using Random = std::mt19937;

SchedulerOptions random_options(Random& random) {
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  SchedulerOptions o;
  o.pages = one_of({4, 4, 5, 12});
  o.max_batch = one_of({1, 4, 8});
  o.prefill_tokens = one_of({7, 64, 200});
  o.mixed_tokens = one_of({0, 5, 128});
  o.query_tile = one_of({1, 16, 64});
  o.prompts_first = random() % 5 == 0;
  o.prefix_cache = random() % 3 != 0;
  o.costly_position = one_of({0, 20});
  return o;
}

Request random_request(Random& random, const SchedulerOptions& options) {
  Request r;
  const std::int64_t room = std::min<std::int64_t>(options.pages * kPage, 360);
  const std::int64_t longest = random() % 3 == 0 ? room - 160 : 60;
  r.ids.assign(1 + random() % static_cast<std::uint64_t>(longest), static_cast<TokenId>(random() % 2));
  for (std::size_t i = r.ids.size() - random() % std::min<std::size_t>(r.ids.size(), 30); i < r.ids.size(); ++i)
    r.ids[i] = static_cast<TokenId>(random() % 1000);
  r.max_tokens = 1 + static_cast<std::int64_t>(random() % 160);
  r.choices = std::min<std::int64_t>(random() % 4 == 0 ? 3 : 1, options.max_batch);
  r.cache_salt = random() % 4 == 0 ? "salt" : "";
  r.key = std::string(1, static_cast<char>('a' + random() % 3));
  r.priority = static_cast<std::int64_t>(random() % 3) - 1;
  return r;
}

/// Requests that come, are cancelled, give way, and steps that fail: the answers are those that each has alone, and all
/// end in a bounded number of steps.
void run_schedule(std::uint32_t seed, std::int64_t& preemptions, std::int64_t& ahead, std::int64_t& mixed) {
  Random random(seed);
  const SchedulerOptions options = random_options(random);
  Device device(options);
  std::size_t to_come = 4 + random() % 10;
  std::int64_t steps = 0;
  for (bool busy = true; busy || to_come > 0; ++steps) {
    ASSERT_LT(steps, 20000) << "a sequence starves";
    if (to_come > 0 && random() % 4 != 0) {
      device.submit(random_request(random, options));
      --to_come;
    }
    if (!device.all.empty() && random() % 30 == 0) {
      Submission& some = *device.all[random() % device.all.size()];
      if (random() % 2 == 0)
        device.cancel(some);
      else
        device.cancel(some.choices[random() % some.choices.size()]);
    }
    busy = device.step(random() % 30 == 0);
    if (testing::Test::HasFailure()) return;
  }
  for (const SubmissionPtr& submission : device.all) {
    for (const Sequence& s : submission->choices) {
      EXPECT_EQ(s.stage, Stage::Ended);
      std::vector<TokenId> expected = answer_alone(s);
      if (s.cancelled) expected.resize(std::min(expected.size(), s.answer.size()));
      EXPECT_EQ(s.answer, expected) << "sequence " << submission->id << ", choice " << s.choice;
    }
  }
  EXPECT_EQ(device.scheduler.pages().free(), options.pages);
  EXPECT_TRUE(device.scheduler.idle());
  EXPECT_EQ(device.scheduler.queue().tokens(), 0);
  preemptions += device.scheduler.preemptions();
  ahead += device.steps_ahead;
  mixed += device.mixed;
}

TEST(MortarScheduler, RandomSchedulesGiveTheAnswersOfEachAlone) {
  std::int64_t preemptions = 0, ahead = 0, mixed = 0;
  for (std::uint32_t seed = 0; seed < rounds(1000) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_schedule(seed, preemptions, ahead, mixed);
  }
  EXPECT_GT(preemptions, static_cast<std::int64_t>(rounds(200)));
  EXPECT_GT(ahead, static_cast<std::int64_t>(rounds(50000)));
  EXPECT_GT(mixed, static_cast<std::int64_t>(rounds(10000)));
}

/// The keys of requests in the order in which they begin, one at a time.
std::string order_of_keys(Device& device) {
  while (device.step()) {}
  std::string keys;
  for (const Sequence* s : device.begun) keys += s->request().key;
  return keys;
}

TEST(MortarScheduler, KeysShareTheEngineWhateverTheySend) {
  Device device({.pages = 64, .prefix_cache = false});
  for (int i = 0; i < 12; ++i) device.submit(request_of(40, 1, "a"));
  for (int i = 0; i < 4; ++i) device.submit(request_of(40, 1, "b"));
  device.submit(request_of(80, 1, "c"));
  device.submit(request_of(80, 1, "c"));
  EXPECT_EQ(order_of_keys(device), "abcabcababaaaaaaaa") << "c has the same share in larger requests";
}

TEST(MortarScheduler, AccountsOfKeysThatWaitStayCloseToEachOther) {
  Random random(3);
  Device device({.pages = 40, .max_batch = 4});
  const std::string keys = "abc";
  for (int step = 0; step < 3000; ++step) {
    for (const char key : keys)  // all of them always have something queued
      while (std::ranges::count_if(device.all, [&](const SubmissionPtr& s) {
               return s->choices[0].stage == Stage::Queued && s->request.key[0] == key;
             }) < 2)
        device.submit(request_of(1 + random() % (key == 'a' ? 200 : 20), 1 + random() % 30, std::string(1, key)));
    std::erase_if(device.all, [](const SubmissionPtr& s) { return s->choices[0].stage == Stage::Ended; });
    device.plans.clear();
    device.begun.clear();
    ASSERT_TRUE(device.step());
    const FairQueue& queue = device.scheduler.queue();
    const auto [least, most] = std::minmax({queue.account("a"), queue.account("b"), queue.account("c")});
    // Twice what the largest requests cost that run at a time (Sheng et al., theorem 4.4).
    EXPECT_LE(most - least, 2 * 4 * (200 + Scheduler::kAnswerWeight * 30));
  }
  EXPECT_GT(device.scheduler.queue().account("b"), 10000);
}

TEST(MortarScheduler, IdlenessIsNotSavedUp) {
  Device device({.pages = 64, .prefix_cache = false});
  for (int i = 0; i < 20; ++i) device.submit(request_of(60, 1, "a"));
  for (int i = 0; i < 12; ++i) device.step();
  for (int i = 0; i < 8; ++i) device.submit(request_of(60, 1, "b"));
  const std::size_t before = device.begun.size();
  EXPECT_EQ(order_of_keys(device).substr(before, 6), "ababab") << "b has no claim for the time when it sent nothing";
}

TEST(MortarScheduler, AKeyThatComesBackHasNoClaimEither) {
  Device device({.pages = 64, .prefix_cache = false});
  device.submit(request_of(60, 1, "b"));
  for (int i = 0; i < 20; ++i) device.submit(request_of(60, 1, "a"));
  for (int i = 0; i < 14; ++i) device.step();
  for (int i = 0; i < 8; ++i) device.submit(request_of(60, 1, "b"));
  const std::size_t before = device.begun.size();
  ASSERT_GT(before, 6U);
  EXPECT_EQ(order_of_keys(device).substr(before, 6), "ababab");
}

TEST(MortarScheduler, TokensOfAnswersCountTwice) {
  Device device({.pages = 8});
  const auto other = device.submit(request_of(3, 1, "b"));
  device.submit(lasting_request(10, 5));
  while (device.step()) {}
  EXPECT_EQ(device.scheduler.queue().account("b"), 3 + 2 * 1);
  EXPECT_EQ(device.scheduler.queue().account("") - device.scheduler.queue().account("b"), 10 + 2 * 5 - (3 + 2 * 1));
}

TEST(MortarScheduler, APageStaysFreeForASequenceThatWillNeedOne) {
  Device device({.pages = 3, .max_batch = 2});
  device.submit(lasting_request(60, 60));
  const auto second = device.submit(request_of(100, 5));
  device.step();
  EXPECT_EQ(second->choices[0].stage, Stage::Queued) << "two pages are free, and one of them is kept";
  while (device.step()) {}
  EXPECT_EQ(device.scheduler.preemptions(), 0);
  EXPECT_EQ(second->choices[0].answer, answer_alone(second->choices[0]));
}

TEST(MortarScheduler, OfSeveralPromptsTheShortestIsComputedFirst) {
  Device device({.pages = 200, .max_batch = 8, .prefill_tokens = 128, .query_tile = 16, .prefix_cache = false});
  device.submit(request_of(6000, 1));
  device.step();
  const auto large = device.submit(request_of(3000, 1)), small = device.submit(request_of(100, 1));
  for (int i = 0; i < 4; ++i) device.step();
  EXPECT_EQ(small->choices[0].stage, Stage::Ended);
  EXPECT_LT(large->choices[0].computed, 100);
}

TEST(MortarScheduler, AccountsOfKeysThatAreGoneAreRemoved) {
  Device device({.pages = 8});
  for (int i = 0; i < 3000; ++i) {
    device.submit(request_of(3, 1, "key" + std::to_string(i)));
    while (device.step()) {}
    device.all.clear();
  }
  EXPECT_LT(device.scheduler.queue().keys(), 200U);
}

TEST(MortarScheduler, PrioritiesMoveRequestsByAFewPlaces) {
  Device device({.pages = 8});
  for (int i = 0; i < 20; ++i) device.submit(request_of(3, 1));
  const auto urgent = device.submit(request_of(3, 1, "", -1));
  const auto late = device.submit(request_of(3, 1, "", 1));
  for (int i = 0; i < 40; ++i) device.submit(request_of(3, 1));
  (void)order_of_keys(device);
  const auto place_of = [&](const SubmissionPtr& s) {
    return std::ranges::find(device.begun, &s->choices[0]) - device.begun.begin();
  };
  EXPECT_EQ(place_of(urgent), 20 - FairQueue::kPlaces + 1) << "kPlaces before its own place";
  EXPECT_EQ(place_of(late), 20 + FairQueue::kPlaces) << "and as many behind: it does not starve";
}

TEST(MortarScheduler, AnswersGoOnBesideAPromptWhoseChunksBecomeSmaller) {
  Device device({.pages = 200, .max_batch = 3, .prefill_tokens = 512, .query_tile = 16, .costly_position = 2000});
  const auto answer = device.submit(lasting_request(10, 200));
  device.step();
  device.plans.clear();
  device.submit(request_of(8000, 5));
  std::vector<std::int64_t> chunks;
  for (int i = 0; i < 100; ++i) device.step();
  ASSERT_NE(answer->choices[0].stage, Stage::Ended);
  for (const StepPlan& plan : device.plans) {
    if (plan.prompts == 0) continue;
    ASSERT_EQ(plan.rows.size(), plan.prompts + 1) << "the answer is in every step";
    chunks.push_back(std::ssize(plan.rows[0].ids));
  }
  ASSERT_GT(chunks.size(), 20U);
  EXPECT_EQ(chunks[0], 128);
  EXPECT_EQ(chunks[20], 64) << "a token at position 2000 costs two";
}

TEST(MortarScheduler, LateTokensOfALongPromptAreThoseThatCostAnswersNothing) {
  constexpr std::int64_t kEarly = 2048, kPrompt = 4000;
  for (const int answers : {1, 8}) {
    Device device(
        {.pages = 200, .max_batch = 12, .prefill_tokens = 512, .query_tile = 64, .free_tokens = 64, .rounding = 16});
    for (int i = 0; i < answers; ++i) device.submit(lasting_request(10, 400));
    const auto answering = [&] {
      return std::ranges::count_if(device.scheduler.running(), &Sequence::answers,
                                   [](const SequencePtr& s) -> const Sequence& { return *s; });
    };
    while (answering() < answers) device.step();
    const auto prompt = device.submit(request_of(kPrompt, 1));
    device.plans.clear();
    while (prompt->choices[0].stage != Stage::Ended) device.step();
    std::int64_t position = 0;
    for (const StepPlan& plan : device.plans) {
      if (plan.prompts == 0) continue;
      const auto chunk = std::ssize(plan.rows[0].ids);
      EXPECT_EQ(chunk, position < kEarly ? 128 : std::min<std::int64_t>(48, kPrompt - position)) << position;
      position += chunk;
    }
    EXPECT_EQ(position, kPrompt);
  }
}

TEST(MortarScheduler, ShortPromptsPassLongOnes) {
  Device device({.pages = 200, .max_batch = 8, .prefill_tokens = 128, .query_tile = 16, .prefix_cache = false});
  const auto large = device.submit(request_of(6000, 1));
  device.step();
  const auto small = device.submit(request_of(100, 1));
  device.plans.clear();
  for (int i = 0; i < 3; ++i) device.step();
  EXPECT_EQ(small->choices[0].stage, Stage::Ended);
  for (const StepPlan& plan : device.plans) {
    ASSERT_EQ(plan.chosen[0].get(), &large->choices[0]) << "which has half of every step";
    EXPECT_GE(plan.rows[0].ids.size(), 64U);
  }
}

TEST(MortarScheduler, FewAnswersWaitForManyPrompts) {
  Device device({.pages = 200, .max_batch = 8, .prefill_tokens = 512, .prefix_cache = false});
  device.submit(lasting_request(10, 100));
  device.step();
  for (int i = 0; i < 4; ++i) device.submit(request_of(1000, 1));
  device.step();
  device.plans.clear();
  device.step();
  std::int64_t tokens = 0;
  for (std::size_t r = 0; r < device.plans[0].prompts; ++r) tokens += std::ssize(device.plans[0].rows[r].ids);
  EXPECT_EQ(tokens, 512);
}

/// The tokens of prompts that are computed for a request.
std::int64_t computed_tokens(Device& device, const Request& request) {
  device.plans.clear();
  device.submit(request);
  while (device.step()) {}
  std::int64_t tokens = 0;
  for (const StepPlan& plan : device.plans)
    for (std::size_t r = 0; r < plan.prompts; ++r) tokens += std::ssize(plan.rows[r].ids);
  return tokens;
}

TEST(MortarScheduler, APromptThatIsKnownComputesItsLastToken) {
  for (const std::int64_t pages : {1, 2, 5}) {
    Device device({.pages = 32});
    const auto tokens = static_cast<std::size_t>(pages * kPage);
    EXPECT_EQ(computed_tokens(device, request_of(tokens, 3)), pages * kPage);
    EXPECT_EQ(computed_tokens(device, request_of(tokens, 3)), 1);
    EXPECT_EQ(device.all.back()->choices[0].timings.cached_tokens, pages * kPage - 1);
    EXPECT_EQ(computed_tokens(device, request_of(tokens + 1, 3)), 1) << "its token is behind the pages";
    EXPECT_EQ(computed_tokens(device, request_of(tokens - 1, 3)), kPage - 1) << "its last page is not full";
  }
}

TEST(MortarScheduler, SaltsKeepPagesApart) {
  Device device({.pages = 32});
  const auto cached = [&](const std::string& salt) {
    Request r = request_of(100, 2);
    r.cache_salt = salt;
    const auto submission = device.submit(r);
    while (device.step()) {}
    return submission->choices[0].timings.cached_tokens;
  };
  EXPECT_EQ(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached("one"), 64);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
