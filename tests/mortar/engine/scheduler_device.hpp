// Scheduling without a device: a cache of hashes stands for keys and values. What a position holds is the hash of all
// tokens up to it, so a page that is shared, reused or lost at the wrong time gives another answer.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/scheduler.hpp"

namespace mortar::test {

inline std::uint64_t hash_of(std::uint64_t before, TokenId id) {
  std::uint64_t h = (before ^ static_cast<std::uint64_t>(id)) * 0x9e3779b97f4a7c15U + 1;
  return h ^ (h >> 29);
}
/// The token that comes next after these, for a sequence with a seed.
inline TokenId token_after(std::uint64_t hash, std::uint64_t seed) {
  return static_cast<TokenId>(hash_of(hash, static_cast<TokenId>(seed)) % 1000);
}
/// Some tokens end a sequence before its last one.
inline bool is_end(TokenId id) { return id % 97 == 0; }

inline SubmissionPtr submission_of(Request request, SequenceId id = 1) {
  auto submission = std::make_shared<Submission>();
  submission->id = id;
  submission->request = std::move(request);
  submission->choices = std::vector<Sequence>(static_cast<std::size_t>(submission->request.choices));
  for (std::size_t i = 0; i < submission->choices.size(); ++i) {
    Sequence& s = submission->choices[i];
    s.submission = submission.get();
    s.choice = static_cast<std::int64_t>(i);
    s.seed = id * 10 + i;
  }
  return submission;
}

inline std::vector<TokenId> answer_alone(const Sequence& s) {
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
    for (std::size_t i = submission.choices.size(); i-- > 0;) cancel(submission.choices[i]);
  }
  void cancel(Sequence& choice) {
    scheduler.end(choice);
    choice.cancelled = true;
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
      if (!row.stored) expect_own_pages(row, *step.plan.chosen[r]);
      std::uint64_t hash = row.first == 0 ? 0 : at(row, row.first - 1);
      for (std::size_t i = 0; i < row.ids.size(); ++i) {
        TokenId id = row.ids[i];
        if (row.after >= 0) {
          ASSERT_TRUE(before != nullptr && row.ids.size() == 1);
          id = before->tokens.at(static_cast<std::size_t>(row.after));
        }
        hash = hash_of(hash, id);
        std::uint64_t& place = at(row, row.first + static_cast<std::int64_t>(i));
        EXPECT_TRUE(!row.stored || place == hash) << "what is said to be stored";
        place = hash;
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

  /// The pages that a row writes: no other sequence reads them.
  void expect_own_pages(const RowPlan& row, const Sequence& s) {
    for (std::int64_t page = row.first / kPage; page < pages_for(row.first + std::ssize(row.ids)); ++page)
      for (const SequencePtr& other : scheduler.running())
        EXPECT_TRUE(other.get() == &s ||
                    std::ranges::count(other->pages, row.pages[static_cast<std::size_t>(page)]) == 0);
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

inline Request request_of(std::size_t prompt, std::int64_t max_tokens, std::string key = {},
                          std::int64_t priority = 0) {
  Request r;
  for (std::size_t i = 0; i < prompt; ++i) r.ids.push_back(static_cast<TokenId>(i * 7 % 1000));
  r.max_tokens = max_tokens;
  r.key = std::move(key);
  r.priority = priority;
  return r;
}

/// A request whose answer has `tokens` tokens.
inline Request lasting_request(std::size_t prompt, std::int64_t tokens) {
  Request r = request_of(prompt, tokens);
  while (std::ssize(answer_alone(submission_of(r)->choices[0])) < tokens) ++r.ids[0];
  return r;
}

}  // namespace mortar::test
