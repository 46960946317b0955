// Several answers to one prompt: who computes the prompt, what they share, and choices that end alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "mortar/engine/scheduler_device.hpp"

namespace mortar::test {
namespace THIS_FILE {

Request with_choices(Request r, std::int64_t choices) {
  r.choices = choices;
  return r;
}

std::vector<std::int64_t> begun_choices(const Device& device) {
  std::vector<std::int64_t> choices;
  for (const Sequence* s : device.begun) choices.push_back(s->choice);
  return choices;
}

TEST(MortarSchedulerChoices, ShareThePagesOfTheirPrompt) {
  for (const bool cache : {false, true}) {
    Device device({.pages = 9, .max_batch = 4, .prefix_cache = cache});
    Request r = request_of(300, 20);  // five pages, of which four are full: each choice has one of its own
    r.choices = 4;
    const auto submission = device.submit(r);
    device.submit(request_of(300, 20));
    while (device.step()) {}
    EXPECT_EQ(device.scheduler.preemptions(), 0);
    for (int i = 1; i < 4; ++i) EXPECT_EQ(submission->choices[static_cast<std::size_t>(i)].timings.cached_tokens, 256);
    EXPECT_EQ(device.all[1]->choices[0].timings.cached_tokens, cache ? 256 : 0) << "another request";
  }
}

TEST(MortarSchedulerChoices, ShareTheTokensOfTheirPrompt) {
  Device device({.pages = 40, .max_batch = 4, .prefill_tokens = 64, .prefix_cache = false});
  const auto submission = device.submit(with_choices(request_of(130, 70), 4));
  while (device.step()) {}
  const std::vector<TokenId>& prompt = submission->request.ids;
  for (const Sequence& s : submission->choices) {
    EXPECT_EQ(s.answer, answer_alone(s));
    EXPECT_EQ(s.tokens(0, s.known()).first().data(), prompt.data()) << "none has a copy";
  }
  std::size_t parts = 0;
  for (const StepPlan& plan : device.plans) parts += plan.prompts;
  EXPECT_EQ(parts, 3 + 3) << "the prompt once, in chunks, and its last page for each other choice";
}

TEST(MortarSchedulerChoices, RangesOfTokensGoOverTheEndOfThePrompt) {
  const SubmissionPtr submission = submission_of(request_of(5, 10));
  Sequence& s = submission->choices[0];
  s.answer = {90, 91, 92};
  const std::vector<TokenId> all = {0, 7, 14, 21, 28, 90, 91, 92};
  ASSERT_EQ(s.known(), 8);
  for (std::int64_t begin = 0; begin <= 8; ++begin) {
    for (std::int64_t count = 0; begin + count <= 8; ++count) {
      const TokenRange range = s.tokens(begin, count);
      std::vector<TokenId> copy(range.size());
      range.copy_to(copy.begin());
      EXPECT_EQ(copy, std::vector<TokenId>(all.begin() + begin, all.begin() + begin + count)) << begin << ", " << count;
      for (std::size_t i = 0; i < copy.size(); ++i) EXPECT_EQ(range[i], copy[i]);
    }
  }
}

TEST(MortarSchedulerChoices, OneEndsWhileOthersGoOn) {
  Device device({.pages = 40, .max_batch = 3});
  const auto submission = device.submit(with_choices(lasting_request(100, 60), 3));
  for (int i = 0; i < 10; ++i) device.step();
  Sequence& ended = submission->choices[1];
  ASSERT_EQ(ended.stage, Stage::Running);
  device.cancel(ended);
  const std::size_t tokens = ended.answer.size();
  while (device.step()) {}
  EXPECT_EQ(ended.answer.size(), tokens);
  EXPECT_EQ(submission->choices[0].answer, answer_alone(submission->choices[0]));
  EXPECT_EQ(submission->choices[2].answer, answer_alone(submission->choices[2]));
  EXPECT_EQ(device.scheduler.pages().free(), 40);
}

TEST(MortarSchedulerChoices, AnotherOneComputesThePromptOfOneThatHasEnded) {
  Device device({.pages = 40, .max_batch = 4, .prefill_tokens = 64, .prefix_cache = false});
  const auto submission = device.submit(with_choices(request_of(640, 3), 4));
  for (int i = 0; i < 4; ++i) device.step();
  ASSERT_TRUE(submission->choices[0].answer.empty());
  device.cancel(submission->choices[0]);
  device.step();
  EXPECT_EQ(device.scheduler.running().size(), 1U) << "not all of them compute it";
  EXPECT_EQ(device.scheduler.waiting(), 2);
  while (device.step()) {}
  EXPECT_EQ(begun_choices(device), (std::vector<std::int64_t>{0, 1, 2, 3}));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(submission->choices[i].answer, answer_alone(submission->choices[i]));
  EXPECT_EQ(submission->choices[2].timings.cached_tokens, 639);
  EXPECT_TRUE(device.scheduler.idle());
}

TEST(MortarSchedulerChoices, AnotherOneWaitsInThePlaceOfOneThatHasEnded) {
  Device device({.pages = 40});
  device.submit(lasting_request(20, 5));
  const auto second = device.submit(with_choices(request_of(20, 2, "b"), 3));
  const auto third = device.submit(request_of(20, 2, "b"));
  device.step();
  const std::int64_t tokens = device.scheduler.queue().tokens();
  device.cancel(second->choices[0]);
  EXPECT_EQ(device.scheduler.queue().size(), 2);
  EXPECT_EQ(device.scheduler.queue().tokens(), tokens) << "its prompt still waits";
  EXPECT_EQ(device.scheduler.waiting(), 3);
  device.cancel(second->choices[2]);
  ASSERT_EQ(device.scheduler.waiting(), 2);
  while (device.step()) {}
  ASSERT_EQ(device.begun.size(), 3U);
  EXPECT_EQ(device.begun[1], &second->choices[1]) << "as if it had been the first one";
  EXPECT_EQ(device.begun[2], &third->choices[0]);
  device.cancel(*device.submit(with_choices(request_of(20, 2), 2)));
  EXPECT_TRUE(device.scheduler.idle());
  EXPECT_EQ(device.scheduler.queue().tokens(), 0);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
