// The scheduler without a device: a cache of hashes stands for keys and values. What a position holds is the hash of
// all tokens up to it, so a page that is shared, reused or lost at the wrong time gives another answer.
#include "engine/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/rounds.hpp"

namespace mortar {
namespace THIS_FILE {

using tessera::test::rounds;

using Random = std::mt19937;

std::uint64_t hash_of(std::uint64_t before, TokenId id) {
  std::uint64_t h = (before ^ static_cast<std::uint64_t>(id)) * 0x9e3779b97f4a7c15U + 1;
  return h ^ (h >> 29);
}
/// The token that comes next after these, for a sequence with a seed.
TokenId token_after(std::uint64_t hash, std::uint64_t seed) {
  return static_cast<TokenId>(hash_of(hash, static_cast<TokenId>(seed)) % 1000);
}
/// Some tokens end a sequence before its last one.
bool is_end(TokenId id) { return id % 97 == 0; }

SubmissionPtr submission_of(Request request, SequenceId id = 1) {
  auto submission = std::make_shared<Submission>();
  submission->id = id;
  submission->request = std::move(request);
  submission->choices = std::vector<Sequence>(static_cast<std::size_t>(submission->request.choices));
  for (std::size_t i = 0; i < submission->choices.size(); ++i) {
    Sequence& s = submission->choices[i];
    s.submission = submission.get();
    s.choice = static_cast<std::int64_t>(i);
    s.seed = id * 10 + i;
    s.tokens = submission->request.ids;
  }
  return submission;
}

std::vector<TokenId> answer_alone(const Sequence& s) {
  std::uint64_t hash = 0;
  for (const TokenId id : s.request().ids) hash = hash_of(hash, id);
  std::vector<TokenId> answer;
  do {
    answer.push_back(token_after(hash, s.seed));
    hash = hash_of(hash, answer.back());
  } while (!is_end(answer.back()) && std::ssize(answer) < s.request().max_tokens);
  return answer;
}

/// Executes the plans of a scheduler, with the next one launched early, as an engine does.
class Device {
 public:
  explicit Device(const SchedulerOptions& options)
      : options_(options), scheduler(options), cache_(static_cast<std::size_t>(options.pages * kPage)) {}

  SubmissionPtr submit(Request request) {
    SubmissionPtr s = submission_of(std::move(request), ++last_id_);
    scheduler.add(*s);
    all.push_back(s);
    return s;
  }
  void cancel(Submission& submission) {
    for (std::size_t i = submission.choices.size(); i-- > 0;) scheduler.end(submission.choices[i]);
    submission.cancelled = true;
  }
  /// `fails`: the step is lost, as when a device fails. False if there is nothing to do.
  bool step(bool fails = false) {
    admit();
    if (!ahead_) {
      Step now{scheduler.plan(), {}};
      if (now.plan.empty()) return !scheduler.idle();
      launch(now, nullptr);
      ahead_ = std::move(now);
    }
    Step now = std::move(*ahead_);
    ahead_.reset();
    if (Step next{scheduler.plan_ahead(), {}}; !next.plan.empty()) {
      launch(next, &now);
      ahead_ = std::move(next);
      ++steps_ahead;
    }
    if (fails) {
      ahead_.reset();
      scheduler.forget_launched();
    } else {
      deliver(now);
    }
    check();
    return true;
  }

  std::vector<SubmissionPtr> all;
  std::vector<StepPlan> plans;         ///< of the last step() that was launched
  std::vector<const Sequence*> begun;  ///< in the order of admission
  std::int64_t steps_ahead = 0, mixed = 0;

 private:
  struct Step {
    StepPlan plan;
    std::vector<TokenId> tokens;
  };

  void admit() {
    while (true) {
      std::set<std::tuple<std::uint64_t, std::int64_t>> returning;
      for (const SubmissionPtr& submission : all)
        for (const Sequence& s : submission->choices)
          if (s.stage == Stage::Waiting) returning.emplace(s.order, s.choice);
      const std::int64_t queued = scheduler.queue().size();
      const SequencePtr s = scheduler.admit();
      if (!s) return;
      begun.push_back(s.get());
      if (returning.empty()) continue;
      EXPECT_EQ(std::tuple(s->order, s->choice), *returning.begin()) << "those that gave way begin again in order";
      EXPECT_EQ(scheduler.queue().size(), queued) << "and before all others";
    }
  }

  void launch(Step& step, const Step* before) {
    scheduler.launched(step.plan);
    std::int64_t prompts = 0;
    for (std::size_t r = 0; r < step.plan.rows.size(); ++r) {
      const RowPlan& row = step.plan.rows[r];
      if (r < step.plan.prompts) prompts += std::ssize(row.ids);
      std::uint64_t hash = row.first == 0 ? 0 : at(row, row.first - 1);
      for (std::size_t i = 0; i < row.ids.size(); ++i) {
        TokenId id = row.ids[i];
        if (row.after >= 0) {
          ASSERT_TRUE(before != nullptr && row.ids.size() == 1);
          id = before->tokens.at(static_cast<std::size_t>(row.after));
        }
        hash = at(row, row.first + static_cast<std::int64_t>(i)) = hash_of(hash, id);
      }
      if (row.wants_token) step.tokens.push_back(token_after(hash, step.plan.chosen[r]->seed));
    }
    mixed += prompts > 0 && step.plan.prompts < step.plan.rows.size() ? 1 : 0;
    EXPECT_LE(prompts, options_.prefill_tokens);
    plans.push_back(step.plan);
  }

  void deliver(const Step& step) {
    std::size_t wanted = 0;
    for (std::size_t r = 0; r < step.plan.rows.size(); ++r) {
      Sequence& s = *step.plan.chosen[r];
      const TokenId token = step.plan.rows[r].wants_token ? step.tokens[wanted++] : -1;
      if (s.stage == Stage::Ended) continue;
      scheduler.computed(s, step.plan.rows[r]);
      if (!step.plan.rows[r].wants_token) continue;
      scheduler.append(s, token);
      if (is_end(token) || s.known() - s.prompt() == s.request().max_tokens) scheduler.end(s);
    }
  }

  /// Pages are conserved: those that sequences have are held, all others are free.
  void check() {
    std::set<PageId> held;
    std::set<std::int64_t> slots;
    for (const SequencePtr& s : scheduler.running()) {
      EXPECT_EQ(s->stage, Stage::Running);
      EXPECT_TRUE(slots.insert(s->slot).second) << "a slot has one sequence";
      const std::set<PageId> own(s->pages.begin(), s->pages.end());
      EXPECT_EQ(own.size(), s->pages.size());
      EXPECT_GE(std::ssize(s->pages), pages_for(s->reached()));
      held.insert(own.begin(), own.end());
    }
    EXPECT_LE(std::ssize(scheduler.running()), options_.max_batch);
    EXPECT_EQ(std::ssize(held) + scheduler.pages().free(), options_.pages);
    EXPECT_LE(scheduler.pages().cached(), scheduler.pages().free());
  }

  std::uint64_t& at(const RowPlan& row, std::int64_t position) {
    const PageId page = row.pages[static_cast<std::size_t>(position / kPage)];
    return cache_[static_cast<std::size_t>(page * kPage + position % kPage)];
  }

  SchedulerOptions options_;

 public:
  Scheduler scheduler;

 private:
  std::vector<std::uint64_t> cache_;
  std::optional<Step> ahead_;
  SequenceId last_id_ = 0;
};

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
    if (!device.all.empty() && random() % 40 == 0) device.cancel(*device.all[random() % device.all.size()]);
    busy = device.step(random() % 30 == 0);
    if (testing::Test::HasFailure()) return;
  }
  for (const SubmissionPtr& submission : device.all) {
    for (const Sequence& s : submission->choices) {
      EXPECT_EQ(s.stage, Stage::Ended);
      const std::vector<TokenId> answer(s.tokens.begin() + s.prompt(), s.tokens.end());
      std::vector<TokenId> expected = answer_alone(s);
      if (submission->cancelled) expected.resize(std::min(expected.size(), answer.size()));
      EXPECT_EQ(answer, expected) << "sequence " << submission->id << ", choice " << s.choice;
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

Request request_of(std::size_t prompt, std::int64_t max_tokens, std::string key = {}, std::int64_t priority = 0) {
  Request r;
  for (std::size_t i = 0; i < prompt; ++i) r.ids.push_back(static_cast<TokenId>(i * 7 % 1000));
  r.max_tokens = max_tokens;
  r.key = std::move(key);
  r.priority = priority;
  return r;
}

/// A request whose answer has `tokens` tokens.
Request lasting_request(std::size_t prompt, std::int64_t tokens) {
  Request r = request_of(prompt, tokens);
  while (std::ssize(answer_alone(submission_of(r)->choices[0])) < tokens) ++r.ids[0];
  return r;
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

TEST(MortarScheduler, ChoicesShareThePagesOfTheirPrompt) {
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
}  // namespace mortar
