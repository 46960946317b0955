// Tokens to choices, their ends, and what their clients are told.
#include "server/run.hpp"

#include <algorithm>

#include "server/ids.hpp"
#include "server/metrics.hpp"

namespace mortar::server {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

}  // namespace

const char* name_of(Finish finish) noexcept {
  return finish == Finish::Stop ? "stop" : finish == Finish::Length ? "length" : "tool_calls";
}

Run::Run(Tokenizer tokenizer, std::vector<RunPrompt> prompts, std::unique_ptr<AnswerWriter> writer,
         ServerMetrics& metrics)
    : tokenizer_(std::move(tokenizer)),
      prompts_(std::move(prompts)),
      writer_(std::move(writer)),
      metrics_(metrics),
      started_(Clock::now()) {
  per_prompt_ = static_cast<std::size_t>(prompts_.at(0).request.choices);
  for (const RunPrompt& prompt : prompts_) {
    prompt_tokens_ += std::ssize(prompt.request.ids);
    for (std::size_t i = 0; i < per_prompt_; ++i) {
      Choice& choice = choices_.emplace_back();
      choice.machine = std::make_unique<answer::AnswerMachine>(tokenizer_, prompt.machine);
    }
  }
}

void Run::submit(Engine& engine, const Deliver& deliver) {
  {
    const std::lock_guard lock(mutex_);
    engine_ = &engine;
  }
  try {
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const auto on_token = [self = shared_from_this(), i, deliver](const Token& token) {
        if (!self->ended_) deliver({self, i, token, Clock::now()});
      };
      const SequenceId id = engine.submit(std::move(prompts_[i].request), on_token);
      const std::lock_guard lock(mutex_);
      sequences_.push_back(id);
    }
  } catch (...) {
    const bool told = ended_.exchange(true);
    cancel_all();
    if (!told) throw;
  }
  metrics_.accepted(prompt_tokens_);
  if (ended_) cancel_all();  // it has been ended meanwhile
}

void Run::cancel_all() {
  const std::lock_guard lock(mutex_);
  for (const SequenceId id : sequences_) engine_->cancel(id);
  sequences_.clear();
}

void Run::abandon() {
  if (ended_.exchange(true)) return;
  cancel_all();
  metrics_.ended("cancelled", seconds_between(started_, Clock::now()));
}

void Run::fail(const ApiError& error) {
  if (ended_.exchange(true)) return;
  cancel_all();
  metrics_.ended("failed", seconds_between(started_, Clock::now()));
  writer_->failed(error);
}

Usage Run::usage() const {
  Usage u{prompt_tokens_, cached_tokens_, 0, 0};
  for (const Choice& c : choices_) {
    u.completion += c.tokens;
    u.thinking += c.thinking_tokens;
  }
  return u;
}

void Run::add_events(Choice& choice) {
  for (const answer::Event& e : choice.fresh) {
    switch (e.kind) {
      case answer::EventKind::Thinking: choice.thinking += e.text; break;
      case answer::EventKind::Content: choice.content += e.text; break;
      case answer::EventKind::CallBegin: choice.calls.push_back({new_id("call_"), e.text, ""}); break;
      case answer::EventKind::Arguments: choice.calls.back().arguments += e.text; break;
      case answer::EventKind::CallEnd: break;
    }
  }
}

void Run::take_token(Choice& choice, const Arrived& arrived) {
  const Token& token = arrived.token;
  if (token.id < 0) return;
  ++choice.tokens;
  choice.ids.push_back(token.id);
  if (has_token_ && choice.tokens > 1) metrics_.gap(seconds_between(choice.last_token, arrived.time));
  if (choice.tokens == 1) {
    metrics_.first_token(seconds_between(started_, arrived.time));
    if (token.choice == 0) cached_tokens_ += token.cached_tokens;
  }
  if (!has_token_) first_token_ = arrived.time;
  has_token_ = true;
  choice.last_token = last_token_ = arrived.time;
  answer::Events events;
  const answer::Place place = choice.machine->push(token.id, events);
  if (place == answer::Place::Thinking) ++choice.thinking_tokens;
  if (place == answer::Place::Content && token.chosen)
    choice.held_logprobs.push_back({token.chosen->id, token.chosen->logprob, token.top});
  add_fresh(choice, std::move(events));
}

/// Tokens are listed with the text that they are part of; those of a stop string, and white space around calls, are
/// not.
void Run::add_fresh(Choice& choice, answer::Events events) {
  bool content = false, call = false;
  for (answer::Event& e : events) {
    content = content || e.kind == answer::EventKind::Content;
    call = call || e.kind == answer::EventKind::CallBegin;
    answer::append(choice.fresh, e.kind, e.call, std::move(e.text));
  }
  if (content)
    for (Logprob& l : choice.held_logprobs) choice.logprobs.push_back(std::move(l));
  if (content || call) choice.held_logprobs.clear();
}

void Run::take(const Arrived& arrived) {
  if (ended_) return;
  const Token& token = arrived.token;
  const std::size_t index = place(arrived.prompt, token.choice);
  if (index >= choices_.size()) return;
  Choice& choice = choices_[index];
  if (token.timings) timings_ = token.timings;
  if (choice.finish) return;  // it has found its end before the engine has
  if (token.finish == FinishReason::Failed || token.finish == FinishReason::Cancelled) {
    fail({500, token.error.empty() ? "the engine could not go on with this request" : token.error, "", "engine_error"});
    return;
  }
  take_token(choice, arrived);
  if (choice.machine->stopped()) {
    choice.stop = choice.machine->stop_string();
    end_choice(index, Finish::Stop, arrived);
  } else if (token.finish) {
    answer::Events events;
    choice.machine->finish(events);
    add_fresh(choice, std::move(events));
    end_choice(index, *token.finish == FinishReason::Length ? Finish::Length : Finish::Stop, arrived);
  }
}

void Run::end_choice(std::size_t index, Finish finish, const Arrived& arrived) {
  Choice& choice = choices_[index];
  choice.finish = finish == Finish::Stop && choice.machine->calls() > 0 ? Finish::ToolCalls : finish;
  metrics_.choice_ended(name_of(*choice.finish), choice.tokens);
  if (arrived.token.finish) return;
  // It has ended by its text, which the engine does not read. Others go on.
  const std::lock_guard lock(mutex_);
  if (engine_ != nullptr) engine_->cancel_choice(arrived.token.sequence, arrived.token.choice);
}

void Run::begin() {
  if (begun_ || ended_) return;
  begun_ = true;
  writer_->begin();
}

void Run::flush() {
  if (ended_) return;
  begin();
  bool all = true;
  const Usage now = usage();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    const bool over = choice.finish.has_value();
    all = all && over;
    if (over && choice.machine == nullptr) continue;  // sent already
    add_events(choice);
    if (over) {
      const bool last =
          std::all_of(choices_.begin(), choices_.end(), [](const Choice& c) { return c.finish.has_value(); });
      const Speed measured = speed(now);
      writer_->finished(i, choice, now, last ? &measured : nullptr);
      choice.machine.reset();
    } else if (!choice.fresh.empty()) {
      writer_->piece(i, choice, now);
    } else {
      continue;
    }
    choice.fresh.clear();
  }
  if (!all || ended_.exchange(true)) return;
  metrics_.ended("finished", seconds_between(started_, Clock::now()));
  metrics_.prefix_hit(cached_tokens_);
  if (timings_) metrics_.timed(*timings_);
  writer_->done(choices_, now, speed(now));
}

Speed Run::speed(const Usage& usage) const {
  Speed s{usage.prompt, usage.cached, usage.completion, 0, 0, 0};
  const Clock::time_point begun =
      timings_ && timings_->admitted.time_since_epoch().count() > 0 ? std::max(started_, timings_->admitted) : started_;
  s.queue = seconds_between(started_, begun);
  if (!has_token_) return s;
  s.prompt = seconds_between(begun, first_token_);
  s.answer = seconds_between(first_token_, last_token_);
  return s;
}

}  // namespace mortar::server
