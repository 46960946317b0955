// Who is admitted, who gives way, what a step contains.
#include "engine/scheduler.hpp"

#include <algorithm>
#include <tuple>

namespace mortar {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), pages_(options.pages), slot_used_(static_cast<std::size_t>(options.max_batch)) {
  running_.reserve(static_cast<std::size_t>(options.max_batch));
}

// What comes and goes.

void Scheduler::add(Submission& submission) {
  submission.scope = submission.request.cache_salt;
  // Without a prefix cache, only the choices of a request find each other's pages.
  if (!options_.prefix_cache) submission.scope = std::string(1, '\0') + std::to_string(submission.id);
  for (Sequence& s : submission.choices) {
    s.stage = s.choice == 0 ? Stage::Queued : Stage::Held;
    if (s.stage == Stage::Queued)
      queue_.push(submission.pointer(s));
    else
      ++held_;
  }
}

/// Pages of earlier sequences that begin in the same way. If they have all tokens, the last one is computed for its
/// logits, and not stored again.
void Scheduler::take_cached_pages(Sequence& s) {
  if (!shares_pages(s)) return;
  while (s.known() - s.computed >= kPage) {
    const Contents before = s.contents.empty() ? 0 : s.contents.back();
    const auto found = pages_.find(before, s.tokens(s.computed, kPage), s.submission->scope);
    if (!found) break;
    s.pages.push_back(found->page);
    s.contents.push_back(found->contents);
    s.computed += kPage;
  }
  s.computed = std::min(s.computed, s.known() - 1);
}

/// Pages that stay free when another sequence begins: one for each that runs and will need one.
std::int64_t Scheduler::reserve() const {
  return std::ranges::count_if(running_, [](const SequencePtr& s) {
    return std::ssize(s->pages) < pages_for(s->prompt() + s->request().max_tokens);
  });
}

/// Gives a sequence its pages and its slot. False if there are not enough pages for all its tokens.
bool Scheduler::begin(Sequence& s) {
  take_cached_pages(s);
  const std::int64_t wanted = pages_for(s.known() + 1) - std::ssize(s.pages);
  if (wanted > pages_.free() - reserve()) {
    release(s);
    return false;
  }
  for (std::int64_t i = 0; i < wanted; ++i) s.pages.push_back(*pages_.take());
  s.slot = std::ranges::find(slot_used_, 0) - slot_used_.begin();
  slot_used_[static_cast<std::size_t>(s.slot)] = 1;
  return true;
}

SequencePtr Scheduler::admit() {
  if (std::ssize(running_) >= options_.max_batch) return nullptr;
  SequencePtr s = returning_.empty() ? queue_.next() : returning_.front();
  if (!s || !begin(*s)) return nullptr;
  if (s->stage == Stage::Waiting) {
    returning_.erase(returning_.begin());
  } else {
    queue_.erase(*s);
    s->order = ++begun_;
  }
  if (!s->charged) {
    s->charged = true;
    s->timings.cached_tokens = s->computed;
    queue_.charge(s->request().key, s->known() - s->computed);
  }
  cached_tokens_ += s->computed;
  s->stage = Stage::Running;
  running_.push_back(s);
  return s;
}

void Scheduler::return_later(SequencePtr s) {
  s->stage = Stage::Waiting;
  const auto place = [](const SequencePtr& a) { return std::tuple(a->order, a->choice); };
  const auto at = std::ranges::upper_bound(returning_, place(s), {}, place);
  returning_.insert(at, std::move(s));
}

void Scheduler::put_back(Sequence& s) {
  const auto at = std::ranges::find(running_, &s, &SequencePtr::get);
  cached_tokens_ -= s.computed;
  release(s);
  return_later(*at);
  running_.erase(at);
}

void Scheduler::release(Sequence& s) {
  for (auto page = s.pages.rbegin(); page != s.pages.rend(); ++page) pages_.release(*page);  // the last is reused first
  s.pages.clear();
  s.contents.clear();
  s.computed = s.in_flight = s.pending = 0;
  if (s.slot >= 0) slot_used_[static_cast<std::size_t>(s.slot)] = 0;
  s.slot = -1;
}

/// `first` has computed the prompt: the other choices begin.
void Scheduler::release_held(const Sequence& first) {
  for (Sequence& s : first.submission->choices) {
    if (s.stage != Stage::Held) continue;
    --held_;
    s.order = first.order;
    return_later(first.submission->pointer(s));
  }
}

/// The choice that was to compute the prompt has ended without it: another one does so in its place.
void Scheduler::hand_over(const Sequence& first, Stage before) {
  auto& choices = first.submission->choices;
  const auto next = std::ranges::find(choices, Stage::Held, &Sequence::stage);
  if (next == choices.end()) {
    if (before == Stage::Queued) queue_.erase(first);
    return;
  }
  --held_;
  const SequencePtr s = first.submission->pointer(*next);
  if (before == Stage::Queued) {
    s->stage = Stage::Queued;
    queue_.replace(first, s);
  } else {
    s->order = first.order;
    return_later(s);
  }
}

void Scheduler::end(Sequence& s) {
  const Stage before = std::exchange(s.stage, Stage::Ended);
  const auto is = [&s](const SequencePtr& other) { return other.get() == &s; };
  switch (before) {
    case Stage::Held: --held_; return;
    case Stage::Queued: break;
    case Stage::Waiting: std::erase_if(returning_, is); break;
    case Stage::Running:
      release(s);
      std::erase_if(running_, is);
      break;
    case Stage::Ended: return;
  }
  hand_over(s, before);  // if others are held, they wait for this one
}

// Who gives way.

/// The sequence that was admitted last, of those that did not give way often.
SequencePtr Scheduler::victim() const {
  const auto patient = [](const SequencePtr& s) { return s->timings.preemptions < kPatience; };
  const auto last = std::find_if(running_.rbegin(), running_.rend(), patient);
  return last == running_.rend() ? running_.back() : *last;
}

/// It waits before all that have not begun; its tokens will be computed again.
void Scheduler::preempt(const SequencePtr& s) {
  release(*s);
  ++s->timings.preemptions;
  ++preemptions_;
  std::erase(running_, s);
  return_later(s);
}

/// A page for the next token of s. Others, or s itself, give way, unless the plan is ahead. False if there is none.
bool Scheduler::grow(Sequence& s, bool ahead) {
  while (std::ssize(s.pages) < pages_for(s.length())) {
    if (const auto page = pages_.take()) {
      s.pages.push_back(*page);
      continue;
    }
    if (ahead) return false;
    const SequencePtr last = victim();
    preempt(last);
    if (last.get() == &s) return false;
  }
  return true;
}

bool Scheduler::grow_answers(bool ahead) {
  for (std::size_t i = 0; i < running_.size();) {
    const std::size_t before = running_.size();
    if (running_[i]->answers()) {
      const SequencePtr s = running_[i];
      if (!grow(*s, ahead) && ahead) return false;
    }
    i = running_.size() == before ? i + 1 : 0;  // those before it have their pages
  }
  return true;
}

// Steps.

/// A step with few tokens of prompts should not take much longer than one without; beside many answers, which take long
/// themselves, each may have two; and few answers wait for many prompts.
Scheduler::Budget Scheduler::budget_beside(std::int64_t answers, std::int64_t prompts) const {
  constexpr std::int64_t kEach = 2, kMany = 4;
  if (prompts >= kMany * answers) return {std::min(options_.prefill_tokens, kDefaultPrefill), true};
  return {std::min(std::max(options_.mixed_tokens, kEach * answers), options_.prefill_tokens), true,
          free_beside(answers)};
}

/// Tokens of prompts that are computed beside answers while the weights are read for them; 0 if they are few.
std::int64_t Scheduler::free_beside(std::int64_t answers) const {
  const std::int64_t n =
      options_.free_tokens - (answers + options_.rounding - 1) / options_.rounding * options_.rounding;
  return 2 * n < options_.free_tokens ? 0 : n;
}

/// Half of the budget for the prompt that was admitted first, so that it ends in bounded time; the rest for those with
/// the least left to compute, so that short ones need not wait for long ones. The later tokens of a long prompt, which
/// would hold answers up for long, are only those that are free.
void Scheduler::plan_prompts(StepPlan& plan, const Budget& of_step) const {
  constexpr std::int64_t kLong = 2048;
  struct Part {
    const SequencePtr* sequence;
    std::int64_t left, tokens = 0;
  };
  std::vector<Part> parts;
  for (const SequencePtr& s : running_)
    if (s->prompts()) parts.push_back({&s, s->known() - s->reached()});
  if (parts.empty()) return;
  const std::int64_t tile = options_.query_tile, whole = of_step.tokens, free = of_step.free;
  std::int64_t budget = whole;
  const auto give = [&](Part& part, std::int64_t limit) {
    if (budget <= 0 || part.left == 0) return;
    const std::int64_t first = (*part.sequence)->reached() + part.tokens, costly = options_.costly_position;
    const double weight =
        of_step.weighted && costly > 0 ? 1 + static_cast<double>(first) / static_cast<double>(costly) : 1;
    const auto affordable = free > 0 && first >= kLong
                                ? std::min({limit, budget, free - part.tokens})
                                : static_cast<std::int64_t>(static_cast<double>(std::min(limit, budget)) / weight);
    if (affordable <= 0) return;
    // A rest of the budget that is less than a tile begins nothing.
    if (budget < whole && affordable < std::min(part.left, tile)) return;
    std::int64_t n = std::clamp<std::int64_t>(affordable, 1, part.left);
    if (n < part.left && n > tile) n -= n % tile;
    part.left -= n;
    part.tokens += n;
    // What its last tile does not use counts as well.
    budget -= static_cast<std::int64_t>(static_cast<double>((n + tile - 1) / tile * tile) * weight);
  };
  give(parts.front(), parts.size() == 1 ? budget : std::max(budget / 2, tile));
  std::vector<Part*> rest;
  for (std::size_t i = 1; i < parts.size(); ++i) rest.push_back(&parts[i]);
  std::ranges::stable_sort(rest, {}, &Part::left);
  for (Part* part : rest) give(*part, budget);
  give(parts.front(), budget);
  for (const Part& part : parts) {
    if (part.tokens == 0) continue;
    const Sequence& s = **part.sequence;
    RowPlan row;
    row.first = s.reached();
    row.ids = s.tokens(row.first, part.tokens);
    row.pages = std::span(s.pages).first(static_cast<std::size_t>(pages_for(row.first + part.tokens)));
    row.wants_token = row.first + part.tokens == s.known();
    row.stored = s.next_is_stored();
    row.sampling = s.options();
    plan.rows.push_back(row);
    plan.chosen.push_back(*part.sequence);
  }
}

void Scheduler::plan_answers(StepPlan& plan) const {
  for (const SequencePtr& s : running_) {
    if (!s->answers()) continue;
    RowPlan row;
    row.ids = s->tokens(s->known() - 1, 1);
    row.first = s->reached();
    row.pages = s->pages;
    row.wants_token = true;
    row.stored = s->next_is_stored();
    row.after = s->pending > 0 ? s->place : -1;
    row.sampling = s->options();
    plan.rows.push_back(row);
    plan.chosen.push_back(s);
  }
}

StepPlan Scheduler::make_plan(bool ahead) {
  const auto answers = std::ranges::count_if(running_, [](const SequencePtr& s) { return s->answers(); });
  const auto prompts = std::ranges::count_if(running_, [](const SequencePtr& s) { return s->prompts(); });
  const bool both = answers > 0 && prompts > 0;
  bool with_answers = answers > 0, with_prompts = prompts > 0;
  if (both && (options_.prompts_first || options_.mixed_tokens == 0)) {
    with_answers = !options_.prompts_first && prompts_last_;  // in turns
    with_prompts = !with_answers;
  }
  StepPlan plan;
  if (with_answers && !grow_answers(ahead)) return plan;
  if (with_prompts)
    plan_prompts(plan, with_answers ? budget_beside(answers, prompts) : Budget{options_.prefill_tokens});
  plan.prompts = plan.rows.size();
  if (with_answers) plan_answers(plan);
  if (!plan.empty()) prompts_last_ = plan.prompts > 0;
  return plan;
}

void Scheduler::launched(const StepPlan& plan) {
  std::int32_t place = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    Sequence& s = *plan.chosen[i];
    s.in_flight += std::ssize(plan.rows[i].ids);
    if (!plan.rows[i].wants_token) continue;
    ++s.pending;
    s.place = place++;
  }
}

void Scheduler::forget_launched() {
  for (const SequencePtr& s : running_) s->in_flight = s->pending = 0;
}

void Scheduler::computed(Sequence& s, const RowPlan& row) {
  if (s.stage != Stage::Running) return;
  s.computed += std::ssize(row.ids);
  s.in_flight -= std::ssize(row.ids);
  if (row.wants_token) --s.pending;
  publish(s);
}

/// Full pages can be found by others.
void Scheduler::publish(Sequence& s) {
  if (!shares_pages(s)) return;
  while ((std::ssize(s.contents) + 1) * kPage <= s.computed) {
    const std::size_t page = s.contents.size();
    const TokenRange tokens = s.tokens(static_cast<std::int64_t>(page) * kPage, kPage);
    s.contents.push_back(pages_.publish(s.pages[page], page == 0 ? 0 : s.contents.back(), tokens, s.submission->scope));
  }
}

void Scheduler::append(Sequence& s, TokenId id) {
  s.answer.push_back(id);
  queue_.charge(s.request().key, kAnswerWeight);
  if (s.answer.size() == 1) release_held(s);
}

}  // namespace mortar
