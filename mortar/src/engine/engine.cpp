// The scheduler: which sequences are computed in a step, who has which pages, who has to wait.
#include <algorithm>
#include <bit>
#include <exception>

#include "engine/engine_state.hpp"
#include "mortar/errors.hpp"

namespace mortar {

namespace {

bool needs_slot_state(const Sampling& s) {
  return s.repetition_penalty != 1 || s.presence_penalty != 0 || !s.logit_bias.empty();
}

}  // namespace

/// Pages of earlier sequences that begin in the same way. At least one token is left to compute.
void Engine::State::take_cached_pages(Sequence& s) {
  if (!options.prefix_cache) return;
  while (s.length() - s.computed > kPage) {
    const auto tokens = std::span(s.tokens).subspan(static_cast<std::size_t>(s.computed), kPage);
    const auto found = pages.find(s.contents.empty() ? 0 : s.contents.back(), tokens);
    if (!found) break;
    s.pages.push_back(found->page);
    s.contents.push_back(found->contents);
    s.computed += kPage;
  }
}

void Engine::State::release(Sequence& s) {
  for (auto page = s.pages.rbegin(); page != s.pages.rend(); ++page) pages.release(*page);  // the last is reused first
  s.pages.clear();
  s.contents.clear();
  s.computed = 0;
  if (s.slot >= 0) slot_used[static_cast<std::size_t>(s.slot)] = 0;
  s.slot = -1;
}

/// Gives a sequence its pages and its slot. False if there are not enough pages for all its tokens.
bool Engine::State::start(Sequence& s) {
  take_cached_pages(s);
  const std::int64_t cached = s.computed;
  const std::int64_t wanted = pages_for(s.length() + 1) - static_cast<std::int64_t>(s.pages.size());
  if (wanted > pages.free()) return false;
  for (std::int64_t i = 0; i < wanted; ++i) s.pages.push_back(*pages.take());
  s.slot = std::find(slot_used.begin(), slot_used.end(), 0) - slot_used.begin();
  slot_used[static_cast<std::size_t>(s.slot)] = 1;
  if (needs_slot_state(s.request.sampling) || slots) {
    if (!slots) slots = std::make_unique<SlotState>(options.max_batch, model.config.vocabulary, runner.stream());
    slots->begin(s.slot, s.tokens, s.prompt(), s.request.sampling, runner.stream());
  }
  stats.cached_tokens += cached;
  return true;
}

/// Sequences that wait start as long as there are slots, and pages for all their tokens. One that fails to start waits
/// as before.
void Engine::State::admit() {
  running.reserve(static_cast<std::size_t>(options.max_batch));
  while (!waiting.empty() && static_cast<std::int64_t>(running.size()) < options.max_batch) {
    const SequencePtr s = waiting.front();
    bool started = false;
    try {
      started = start(*s);
    } catch (...) {
      release(*s);
      throw;
    }
    if (!started) return release(*s);
    running.push_back(s);
    waiting.pop_front();
  }
}

/// The sequence that was admitted last waits again, before all others; its tokens will be computed again.
void Engine::State::preempt_last() {
  const SequencePtr s = running.back();
  running.pop_back();
  release(*s);
  waiting.push_front(s);
  ++stats.preemptions;
}

/// A page for the next token of s. Others, and at last s itself, give way. False if s gave way.
bool Engine::State::grow(Sequence& s) {
  while (static_cast<std::int64_t>(s.pages.size()) < pages_for(s.length())) {
    if (const auto page = pages.take()) {
      s.pages.push_back(*page);
      continue;
    }
    const bool itself = running.back().get() == &s;
    preempt_last();
    if (itself) return false;
  }
  return true;
}

void Engine::State::plan_prompts(PlannedStep& plan) const {
  std::int64_t budget = options.prefill_tokens;
  for (const SequencePtr& s : running) {
    if (s->decodes() || budget <= 0) continue;
    const std::int64_t n = std::min(s->length() - s->computed, budget), tile = runner.query_tile();
    budget -= (n + tile - 1) / tile * tile;  // which its last tokens do not fill
    RowPlan row;
    row.ids = std::span(s->tokens).subspan(static_cast<std::size_t>(s->computed), static_cast<std::size_t>(n));
    row.first = s->computed;
    row.pages = std::span(s->pages).first(static_cast<std::size_t>(pages_for(s->computed + n)));
    row.wants_token = s->computed + n == s->length();
    row.sampling = s->options();
    plan.rows.push_back(row);
    plan.chosen.push_back(s);
  }
}

void Engine::State::plan_decode(PlannedStep& plan) {
  plan.decode = true;
  for (std::size_t i = 0; i < running.size(); ++i)
    if (const SequencePtr s = running[i]; s->decodes() && !grow(*s)) break;  // it was the last
  for (const SequencePtr& s : running) {
    if (!s->decodes()) continue;
    plan.rows.push_back(decode_row(*s, 0));
    plan.chosen.push_back(s);
  }
}

/// The decoding step after one whose tokens are not known yet: the same rows, empty where the sequence has ended or
/// will have. False if that is not the next step: a prompt or log-probabilities have to be computed, others decode too,
/// a smaller graph suffices, or no page is free.
bool Engine::State::plan_after(const PlannedStep& now, PlannedStep& next) {
  if (!now.decode || now.scored) return false;
  std::size_t living = 0, decoding = 0;
  for (const SequencePtr& s : now.chosen) living += s->ended ? 0 : 1;
  if (living != running.size()) return false;
  next.decode = true;
  next.chosen = now.chosen;
  for (const SequencePtr& s : next.chosen) {
    const bool goes_on = !s->ended && s->length() + 1 - s->prompt() < s->request.max_tokens;
    while (goes_on && static_cast<std::int64_t>(s->pages.size()) < pages_for(s->length() + 1)) {
      const auto page = pages.take();
      if (!page) return false;
      s->pages.push_back(*page);
    }
    next.rows.push_back(goes_on ? decode_row(*s, 1) : RowPlan{});
    decoding += goes_on ? 1 : 0;
  }
  return decoding > 0 && std::bit_ceil(decoding) == std::bit_ceil(next.rows.size());
}

void Engine::State::launch(PlannedStep& plan, const PlannedStep* before) {
  SlotState* state = nullptr;
  std::int64_t scores = -1;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    if (!plan.rows[i].wants_token) continue;
    scores = std::max(scores, plan.chosen[i]->request.logprobs);
    if (needs_slot_state(plan.chosen[i]->request.sampling)) state = slots.get();
  }
  plan.scored = scores >= 0;
  plan.launched = runner.launch(plan.rows, plan.decode, state, scores, before == nullptr ? nullptr : &before->launched);
}

/// Launches the step after `now` before the tokens of `now` are read, so that the device does not wait for the host.
/// Tokens of sequences that turn out to have ended are dropped.
void Engine::State::launch_ahead(const PlannedStep& now) {
  try {
    PlannedStep next;
    if (!plan_after(now, next)) return;
    launch(next, &now);
    ahead = std::move(next);
    ++stats.steps_ahead;
  } catch (const std::exception&) {
    ahead.reset();  // the next step is launched alone, and meets the error if it lasts
  }
}

void Engine::State::drop_ahead() {
  runner.drop(std::move(ahead->launched));
  ahead.reset();
}

/// Full pages can be found by others.
void Engine::State::publish(Sequence& s) {
  if (!options.prefix_cache) return;
  while ((static_cast<std::int64_t>(s.contents.size()) + 1) * kPage <= s.computed) {
    const std::size_t page = s.contents.size();
    const auto tokens = std::span(s.tokens).subspan(page * kPage, kPage);
    s.contents.push_back(pages.publish(s.pages[page], page == 0 ? 0 : s.contents.back(), tokens));
  }
}

Token Engine::State::add_token(Sequence& s, TokenId id) {
  s.tokens.push_back(id);
  ++stats.generated_tokens;
  Token token{.sequence = s.id, .id = id};
  const auto ends = [id](const auto& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  const bool eos = (!s.request.ignore_eos && ends(model.generation.eos_ids)) || ends(s.request.stop_ids);
  if (eos) {
    token.finish = FinishReason::Stop;
  } else if (s.text) {
    token.text = s.text->push(id);
    if (s.text->stopped()) token.finish = FinishReason::Stop;
  }
  if (!token.finish && s.length() - s.prompt() >= s.request.max_tokens) token.finish = FinishReason::Length;
  if (token.finish && s.text) {
    for (AnswerText& part : s.text->finish()) token.text.push_back(std::move(part));
    if (s.text->stopped()) token.finish = FinishReason::Stop;  // what was held back completed a stop string
  }
  return token;
}

/// Waits for the step's tokens and calls the sequences' functions with them.
void Engine::State::deliver(PlannedStep& plan) {
  Runner::Chosen result;
  try {
    result = runner.finish(std::move(plan.launched));
  } catch (...) {
    ahead.reset();  // it continues tokens that are lost
    // It may be the failure of an earlier step of a prompt: such prompts are computed again, from what others can find.
    for (const SequencePtr& s : running)
      if (!s->decodes() || !s->confirmed) s->computed = std::ssize(s->contents) * kPage;
    throw;
  }
  ++stats.steps;
  // The host has seen the end of the steps before, and of this one if it read tokens.
  for (const SequencePtr& s : running) s->confirmed = true;
  const bool has_tokens = std::ranges::any_of(plan.rows, &RowPlan::wants_token);
  std::vector<std::pair<SequencePtr, Token>> tokens;
  std::optional<SequenceId> without_token;
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const RowPlan& row = plan.rows[i];
    Sequence& s = *plan.chosen[i];
    if (s.ended) continue;  // since the step was launched
    s.computed += static_cast<std::int64_t>(row.ids.size());
    if (!plan.decode) stats.prompt_tokens += static_cast<std::int64_t>(row.ids.size());
    s.confirmed = has_tokens;
    if (!row.wants_token) continue;
    publish(s);
    const std::size_t next = plan.decode ? i : wanted++;
    if (result.tokens[next] < 0) {
      s.ended = true;
      without_token = s.id;
      continue;
    }
    Token token = add_token(s, result.tokens[next]);
    if (s.request.logprobs >= 0) {
      const RowScores& all = *result.scores;
      token.chosen = TokenLogprob{token.id, all.chosen[next]};
      for (std::int64_t k = 0; k < std::min(all.count, s.request.logprobs); ++k) {
        const std::size_t at = next * static_cast<std::size_t>(all.count) + static_cast<std::size_t>(k);
        token.top.push_back({all.top_tokens[at], all.top[at]});
      }
    }
    if (token.finish) s.ended = true;
    tokens.emplace_back(plan.chosen[i], std::move(token));
  }
  std::erase_if(running, [&](const SequencePtr& s) {
    if (s->ended) release(*s);
    return s->ended;
  });
  std::exception_ptr first;
  for (const auto& [s, token] : tokens) {
    if (!s->on_token || (s->ended && !token.finish)) continue;  // an earlier call cancelled it
    try {
      s->on_token(token);
    } catch (...) { first = first ? first : std::current_exception(); }
  }
  if (first) std::rethrow_exception(first);
  if (without_token)
    throw ModelError(model.folder + ": expected logits that are finite, found others for sequence " +
                     std::to_string(*without_token) + ", which ends here: are the weights damaged?");
}

bool Engine::State::step() {
  if (ahead && std::ranges::all_of(ahead->chosen, [](const auto& s) { return s->ended; })) drop_ahead();
  admit();
  PlannedStep now;
  if (ahead) {
    now = std::move(*ahead);
    ahead.reset();
    prompts_last = false;
  } else {
    if (running.empty()) return false;
    const bool has_prompts = std::any_of(running.begin(), running.end(), [](const auto& s) { return !s->decodes(); });
    const bool has_answers = std::any_of(running.begin(), running.end(), [](const auto& s) { return s->decodes(); });
    // In turns unless the options say otherwise, so that long prompts do not hold up the answers of others.
    const bool prompts = has_prompts && (options.prompts_first || !(has_answers && prompts_last));
    prompts_last = prompts;
    if (prompts)
      plan_prompts(now);
    else
      plan_decode(now);
    if (now.rows.empty()) return true;
    launch(now);
  }
  launch_ahead(now);
  deliver(now);
  return true;
}

}  // namespace mortar
