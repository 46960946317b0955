// Threads that share an engine: letters to the one that steps, what functions hear, serving.
#include <algorithm>
#include <ranges>

#include "engine/engine_state.hpp"
#include "mortar/errors.hpp"

namespace mortar {

Engine::State::Guard::Guard(State& state) : state_(state) {
  if (state.stepper.load() == std::this_thread::get_id())
    throw RequestError("a function of a sequence must not step the engine that calls it");
  state.stepping.lock();
  state.stepper = std::this_thread::get_id();
}

Engine::State::Guard::~Guard() {
  state_.stepper = std::thread::id();
  state_.stepping.unlock();
}

void Engine::State::open_letters() {
  const Mailbox::Letters letters = mailbox.take();
  if (letters.empty()) return;
  for (const SubmissionPtr& submission : letters.submitted) scheduler.add(*submission);
  for (const Mailbox::Cancellation& letter : letters.cancelled) {
    // The first choice last: others that wait for it do not begin.
    for (Sequence& s : letter.submission->choices | std::views::reverse) {
      if (letter.choice && s.choice != *letter.choice) continue;
      if (s.stage != Stage::Ended) {
        close(s);
        ++stats.cancelled;
      }
      if (!letter.submission->request.report_cancelled || s.told) continue;
      s.told = true;
      outbox.emplace_back(letter.submission->pointer(s), last_token(s, FinishReason::Cancelled, letter.reason));
    }
  }
  publish();
}

void Engine::State::open_letters_now() {
  if (stepper.load() == std::this_thread::get_id()) return open_letters();
  if (!stepping.try_lock()) return;
  const std::lock_guard lock(stepping, std::adopt_lock);
  open_letters();
}

void Engine::State::publish() {
  Mailbox::News news;
  news.stats = stats;
  news.stats.preemptions = scheduler.preemptions();
  news.stats.cached_tokens = scheduler.cached_tokens();
  news.stats.running = std::ssize(scheduler.running());
  news.stats.waiting = scheduler.waiting();
  news.stats.waiting_tokens = scheduler.queue().tokens();
  news.stats.total_pages = scheduler.pages().count();
  news.stats.held_pages = scheduler.pages().count() - scheduler.pages().free();
  news.stats.cached_pages = scheduler.pages().cached();
  news.queued = scheduler.queue().size();
  news.queued_tokens = scheduler.queue().tokens();
  news.busy = !scheduler.idle() || ahead || !outbox.empty();
  news.ended = std::exchange(ended, {});
  mailbox.publish(std::move(news));
}

void Engine::State::close(Sequence& s) {
  s.over = true;
  scheduler.end(s);
  if (--s.submission->open == 0) ended.push_back(s.submission->id);
}

Token Engine::State::last_token(Sequence& s, FinishReason reason, std::string why) const {
  Token token{.sequence = s.submission->id, .finish = reason, .choice = s.choice};
  if (s.text && s.request().text) token.text = s.text->finish();
  token.timings = s.timings;
  token.error = std::move(why);
  return token;
}

void Engine::State::fail(Sequence& s, const std::string& why) {
  if (s.stage == Stage::Ended) return;
  close(s);
  ++stats.failed;
  outbox.emplace_back(s.submission->pointer(s), last_token(s, FinishReason::Failed, why));
}

void Engine::State::fail_all(const std::vector<SequencePtr>& sequences, const std::string& why) {
  for (const SequencePtr& s : sequences) fail(*s, why);
}

void Engine::State::send(std::vector<Thrown>& thrown) {
  const auto letters = std::exchange(outbox, {});
  for (const auto& [s, token] : letters) {
    const Submission& submission = *s->submission;
    // It may have been cancelled meanwhile, by an earlier call or another thread.
    if (s->cancelled && token.finish != FinishReason::Cancelled) continue;
    if (token.finish) s->told = true;
    if (!submission.on_token) {
      if (token.finish == FinishReason::Failed)
        thrown.push_back({nullptr, std::make_exception_ptr(ModelError(token.error))});
      continue;
    }
    try {
      submission.on_token(token);
    } catch (...) { thrown.push_back({s->submission->shared_from_this(), std::current_exception()}); }
  }
}

/// Another process may end the group while there is nothing to do.
void Engine::State::wait_for_requests(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kBetween{100};
  if (!runner.has_processes()) {
    mailbox.wait(stop);
    return;
  }
  while (!stop.stop_requested() && !mailbox.wait(kBetween)) runner.throw_if_ended();
}

void Engine::State::serve(const std::stop_token& stop) {
  constexpr int kTries = 2, kRounds = 2;  // of a step, and of steps whose sequences have failed
  int failures = 0;
  while (!stop.stop_requested()) {
    std::vector<Thrown> thrown;
    try {
      const bool worked = step(thrown);
      failures = 0;
      for (const Thrown& t : thrown)
        if (t.by && mailbox.cancel(t.by->id, "its function has thrown")) open_letters_now();
      if (!worked) wait_for_requests(stop);
    } catch (const std::exception& error) {
      const Guard guard(*this);
      ++failures;
      const bool last = failures == kTries * kRounds || runner.has_ended();
      if (last) {
        open_letters();
        ahead.reset();
        scheduler.forget_launched();
        for (const SubmissionPtr& submission : mailbox.open())
          for (Sequence& s : submission->choices) suspects.push_back(submission->pointer(s));
      }
      if (last || failures % kTries == 0) fail_all(std::exchange(suspects, {}), error.what());
      publish();
      send(thrown);
      if (last) throw;
    }
  }
}

SequenceId Engine::submit(Request request, OnToken on_token) {
  state_->check_request(request);
  return state_->mailbox.submit(state_->submission_of(std::move(request), std::move(on_token)));
}

bool Engine::cancel(SequenceId id, std::string reason) {
  if (!state_->mailbox.cancel(id, std::move(reason))) return false;
  state_->open_letters_now();
  return true;
}

bool Engine::cancel_choice(SequenceId id, std::int64_t choice, std::string reason) {
  if (!state_->mailbox.cancel_choice(id, choice, std::move(reason))) return false;
  state_->open_letters_now();
  return true;
}

bool Engine::wait(std::chrono::milliseconds longest) { return state_->mailbox.wait(longest); }

bool Engine::step() {
  std::vector<Thrown> thrown;
  const bool worked = state_->step(thrown);
  if (!thrown.empty()) std::rethrow_exception(thrown.front().what);
  return worked;
}

void Engine::run() {
  while (step()) {}
}

void Engine::serve(const std::stop_token& stop) { state_->serve(stop); }

void Engine::warm_up(const std::function<void(std::int64_t done, std::int64_t all)>& progress) {
  const State::Guard guard(*state_);
  const EngineOptions& o = state_->options;
  const MemoryPlan& plan = state_->model.plan;
  state_->runner.warm_up({.batch = o.max_batch,
                          .prefill = std::min(o.prefill_tokens, state_->max_context),
                          .pages = pages_for(state_->max_context),
                          .memory = plan.reserve + activation_bytes(state_->model.config, o.prefill_tokens, 0)},
                         progress);
}

void Engine::time_device(bool on) {
  const State::Guard guard(*state_);
  state_->runner.time(on);
}

double Engine::device_seconds() {
  const State::Guard guard(*state_);
  return state_->runner.device_seconds();
}

EngineStats Engine::stats() const { return state_->mailbox.stats(); }
std::int64_t Engine::running() const { return stats().running; }
std::int64_t Engine::waiting() const { return stats().waiting; }
std::int64_t Engine::total_pages() const noexcept { return state_->scheduler.pages().count(); }
std::int64_t Engine::free_pages() const { return total_pages() - stats().held_pages; }
const Model& Engine::model() const noexcept { return state_->model; }
const EngineOptions& Engine::options() const noexcept { return state_->options; }

}  // namespace mortar
