// The scheduler: which sequences are computed in a step, who has which pages, who has to wait. It does not
// depend on a device: an engine executes its plans and reports the results (docs/mortar/scheduler.md).
//
//   while (SequencePtr s = scheduler.admit()) ...      // sequences that begin
//   StepPlan now = scheduler.plan();
//   scheduler.launched(now);
//   StepPlan next = scheduler.plan_ahead();            // while `now` is computed; may be launched, too
//   scheduler.computed(*s, row);                       // `now` has ended: for each of its rows
//   scheduler.append(*s, token);                       // and its token, if it has one
//   scheduler.end(*s);                                 // at any time
#pragma once
#include <cstdint>
#include <vector>

#include "engine/fair_queue.hpp"
#include "engine/pages.hpp"
#include "engine/sequence.hpp"
#include "mortar/plan.hpp"

namespace mortar {

inline std::int64_t pages_for(std::int64_t tokens) { return (tokens + kPage - 1) / kPage; }

struct SchedulerOptions {
  std::int64_t pages = 0;
  std::int64_t max_batch = 1;
  std::int64_t prefill_tokens = kDefaultPrefill;
  std::int64_t mixed_tokens = kDefaultMixed;
  std::int64_t query_tile = 1;  ///< prompts of a step begin at multiples of it
  bool prompts_first = false;
  bool prefix_cache = true;
  /// The position at which attention makes a token of a prompt twice as expensive as at the beginning; 0: nowhere.
  std::int64_t costly_position = 0;
  /// Products of so many tokens, those of answers included, take as long as products of one: reading the weights is
  /// their bound. 0: more tokens always take longer.
  std::int64_t free_tokens = 0;
  std::int64_t rounding = 1;  ///< the tokens of prompts and of answers are each computed in multiples of it
};

class Scheduler {
 public:
  /// What a token of an answer counts beside one of a prompt, in the accounts of keys.
  static constexpr std::int64_t kAnswerWeight = 2;
  /// A sequence that gave way so often gives way only if all others did, too.
  static constexpr std::int64_t kPatience = 2;

  explicit Scheduler(const SchedulerOptions& options);

  /// All choices of a request: they wait.
  void add(Submission& submission);
  /// The next sequence that begins, with a slot and with pages for all its tokens and one more; null if none can.
  SequencePtr admit();
  /// One that was admitted last and could not be started: it waits before all others.
  void put_back(Sequence& s);
  /// Takes away what a sequence has, wherever it is.
  void end(Sequence& s);

  /// The next step, when none is in flight. Sequences may give way to others for it. Empty if there is nothing to do.
  StepPlan plan() { return make_plan(false); }
  /// The step after the ones that have been launched, whose tokens are not known yet. Empty if it cannot be known yet:
  /// a sequence would have to give way, or nothing is left to do.
  StepPlan plan_ahead() { return make_plan(true); }
  void launched(const StepPlan& plan);
  /// Steps that were launched have failed, and are not waited for any more: sequences are as before.
  void forget_launched();
  /// A row of a step that was launched has been computed, if its sequence still runs.
  void computed(Sequence& s, const RowPlan& row);
  /// The token of such a row.
  void append(Sequence& s, TokenId id);

  const Pages& pages() const noexcept { return pages_; }
  Pages& pages() noexcept { return pages_; }
  const FairQueue& queue() const noexcept { return queue_; }
  /// In the order in which they were admitted.
  const std::vector<SequencePtr>& running() const noexcept { return running_; }
  /// All that have neither ended nor run.
  std::int64_t waiting() const noexcept { return queue_.size() + static_cast<std::int64_t>(returning_.size()) + held_; }
  bool idle() const noexcept { return running_.empty() && waiting() == 0; }
  std::int64_t preemptions() const noexcept { return preemptions_; }
  std::int64_t cached_tokens() const noexcept { return cached_tokens_; }

 private:
  StepPlan make_plan(bool ahead);
  bool begin(Sequence& s);
  bool shares_pages(const Sequence& s) const { return options_.prefix_cache || s.request().choices > 1; }
  void take_cached_pages(Sequence& s);
  std::int64_t reserve() const;
  void release(Sequence& s);
  void publish(Sequence& s);
  void return_later(SequencePtr s);
  void release_held(const Sequence& first);
  void hand_over(const Sequence& first, Stage before);
  bool grow(Sequence& s, bool ahead);
  bool grow_answers(bool ahead);
  SequencePtr victim() const;
  void preempt(const SequencePtr& s);
  /// Tokens of prompts of a step.
  struct Budget {
    std::int64_t tokens;
    bool weighted = false;  ///< late tokens count more
    std::int64_t free = 0;  ///< at most so many late ones of a long prompt; 0: any number
  };
  Budget budget_beside(std::int64_t answers, std::int64_t prompts) const;
  std::int64_t free_beside(std::int64_t answers) const;
  void plan_prompts(StepPlan& plan, const Budget& of_step) const;
  void plan_answers(StepPlan& plan) const;

  SchedulerOptions options_;
  Pages pages_;
  FairQueue queue_;
  std::vector<SequencePtr> returning_;  ///< waits before the queue, by Sequence::order and choice
  std::vector<SequencePtr> running_;
  std::vector<char> slot_used_;
  std::int64_t held_ = 0;
  std::uint64_t begun_ = 0;
  bool prompts_last_ = false;  ///< the last step was over prompts
  std::int64_t preemptions_ = 0, cached_tokens_ = 0;
};

}  // namespace mortar
