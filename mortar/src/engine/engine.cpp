// Steps: the scheduler plans them, the runner computes them, functions hear of their tokens.
#include <algorithm>
#include <exception>

#include "engine/engine_state.hpp"
#include "mortar/errors.hpp"

namespace mortar {

namespace {

bool needs_slot_state(const Sampling& s) {
  return s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0 || !s.logit_bias.empty();
}

}  // namespace

/// Sequences that wait begin as long as there are slots, and pages for all their tokens. One that fails to begin waits
/// as before.
void Engine::State::admit() {
  while (const SequencePtr s = scheduler.admit()) {
    try {
      if (needs_slot_state(s->request().sampling) || has_slots) {
        runner.begin(options.max_batch, s->slot, s->tokens(0, s->known()), s->prompt(), s->request().sampling);
        has_slots = true;
      }
    } catch (...) {
      scheduler.put_back(*s);
      suspects = {s};
      throw;
    }
    if (s->timings.admitted == decltype(s->timings.admitted)()) s->timings.admitted = std::chrono::steady_clock::now();
  }
}

void Engine::State::launch(PlannedStep& plan, const PlannedStep* before) {
  StepRequest request;
  request.rows = plan.rows;
  request.prompts = plan.prompts;
  request.how.greedy = true;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    RowPlan& row = plan.rows[i];
    if (!row.wants_token) continue;
    const Sequence& s = *plan.chosen[i];
    request.scores = std::max(request.scores, s.request().logprobs);
    request.penalised = request.penalised || needs_slot_state(s.request().sampling);
    request.how.counted = request.how.counted || s.request().sampling.frequency_penalty != 0;
    request.how.greedy = request.how.greedy && is_greedy(row.sampling);
    if (s.allowed && s.allowed->may_restrict(s.pending)) row.sampling[kMask] = static_cast<tessera::i32>(plan.masks++);
  }
  request.masked = plan.masks > 0;
  plan.scored = request.scores >= 0;
  plan.tokens_chosen = !request.masked;
  plan.launched = runner.launch(request, before == nullptr ? nullptr : &before->launched);
  scheduler.launched(plan);
}

/// Computes what may come next in the rows of a step that has been launched, while it is computed, and launches the
/// choice of its tokens. The tokens before it are known by now.
void Engine::State::choose(PlannedStep& plan) {
  if (plan.tokens_chosen) return;
  const auto words = static_cast<std::size_t>(meanings.words());
  masks.resize(plan.masks * words);
  std::int64_t restricted = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const auto number = plan.rows[i].sampling[kMask];
    if (!plan.rows[i].wants_token || number < 0) continue;
    const SequencePtr& s = plan.chosen[i];
    const auto mask = std::span(masks).subspan(static_cast<std::size_t>(number) * words, words);
    auto filled = AllowedTokens::Filled::None;
    std::string why = "no token is allowed to come next: a constraint, allowed_ids and banned_ids exclude each other";
    if (s->stage != Stage::Ended) {
      try {
        filled = s->allowed->fill(mask);
      } catch (const std::exception& error) { why = std::string("the constraint has failed: ") + error.what(); }
      if (filled == AllowedTokens::Filled::None) fail(*s, why);
    }
    if (filled == AllowedTokens::Filled::None) std::ranges::fill(mask, ~0U);  // its token is dropped
    restricted += filled == AllowedTokens::Filled::Some ? 1 : 0;
  }
  stats.masked_rows += restricted;
  runner.choose(plan.launched,
                restricted > 0 ? std::span<const std::uint32_t>(masks) : std::span<const std::uint32_t>());
  plan.tokens_chosen = true;
}

/// Launches the step after `now` before the tokens of `now` are read, so that the device does not wait for the host.
/// Tokens of sequences that turn out to have ended are dropped.
void Engine::State::launch_ahead(const PlannedStep& now) {
  if (now.scored) return;  // its logits are still needed
  try {
    PlannedStep next{scheduler.plan_ahead(), {}, false, 0, false};
    if (next.empty()) return;
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

Token Engine::State::add_token(Sequence& s, TokenId id) {
  const auto now = std::chrono::steady_clock::now();
  Token token{.sequence = s.submission->id, .id = id, .choice = s.choice};
  if (s.known() == s.prompt()) {
    s.timings.first_token = now;
    token.cached_tokens = s.timings.cached_tokens;
  }
  s.timings.last_token = now;
  scheduler.append(s, id);
  ++stats.generated_tokens;
  const auto ends = [id](const auto& ids) { return std::ranges::find(ids, id) != ids.end(); };
  const bool eos = (!s.request().ignore_eos && ends(model.generation.eos_ids)) || ends(s.request().stop_ids);
  if (eos) {
    token.finish = FinishReason::Stop;
  } else if (s.text) {
    token.text = s.text->push(id);
    if (s.text->stopped()) token.finish = FinishReason::Stop;
  }
  if (!token.finish && s.known() - s.prompt() >= s.request().max_tokens) token.finish = FinishReason::Length;
  if (token.finish && s.text) {
    for (AnswerText& part : s.text->finish()) token.text.push_back(std::move(part));
    if (s.text->stopped()) token.finish = FinishReason::Stop;  // what was held back completed a stop string
  }
  if (!s.request().text) token.text.clear();
  if (token.finish) token.timings = s.timings;
  return token;
}

/// The token of a row that was computed; `place` is its place in the result.
void Engine::State::take_token(const SequencePtr& s, TokenId id, const Runner::Chosen& result, std::size_t place) {
  if (id < 0)
    return fail(*s, model.folder + ": expected logits that are finite, found others for sequence " +
                        std::to_string(s->submission->id) + ", which ends here: are the weights damaged?");
  try {
    if (s->allowed && !s->allowed->accept(id))
      return fail(*s, "the constraint does not accept token " + std::to_string(id) + ", which it has allowed");
  } catch (const std::exception& error) { return fail(*s, std::string("the constraint has failed: ") + error.what()); }
  Token token = add_token(*s, id);
  if (s->request().logprobs >= 0) {
    const RowScores& all = *result.scores;
    token.chosen = TokenLogprob{token.id, all.chosen[place]};
    for (std::int64_t k = 0; k < std::min(all.count, s->request().logprobs); ++k) {
      const std::size_t at = place * static_cast<std::size_t>(all.count) + static_cast<std::size_t>(k);
      token.top.push_back({all.top_tokens[at], all.top[at]});
    }
  }
  if (token.finish) {
    ++(*token.finish == FinishReason::Stop ? stats.stopped : stats.reached_length);
    close(*s);
  }
  outbox.emplace_back(s, std::move(token));
}

/// Waits for the step's tokens, which go to the outbox.
void Engine::State::deliver(PlannedStep& plan) {
  Runner::Chosen result;
  try {
    result = runner.finish(std::move(plan.launched));
  } catch (...) {
    ahead.reset();  // it continues tokens that are lost
    scheduler.forget_launched();
    suspects = plan.chosen;
    throw;
  }
  ++stats.steps;
  if (plan.prompts > 0 && plan.prompts < plan.rows.size()) ++stats.mixed_steps;
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const RowPlan& row = plan.rows[i];
    const SequencePtr& s = plan.chosen[i];
    const std::size_t place = row.wants_token ? wanted++ : 0;
    if (s->stage == Stage::Ended) continue;  // since the step was launched
    scheduler.computed(*s, row);
    if (i < plan.prompts) stats.prompt_tokens += std::ssize(row.ids);
    if (row.wants_token) take_token(s, result.tokens[place], result, place);
  }
}

bool Engine::State::step(std::vector<Thrown>& thrown) {
  const Guard guard(*this);
  open_letters();
  suspects.clear();
  const bool said = !outbox.empty();
  if (ahead && std::ranges::all_of(ahead->chosen, [](const auto& s) { return s->stage == Stage::Ended; })) drop_ahead();
  try {
    if (ahead) choose(*ahead);
  } catch (...) {
    suspects = ahead->chosen;
    ahead.reset();
    scheduler.forget_launched();
    throw;
  }
  admit();
  PlannedStep now;
  if (ahead) {
    now = std::move(*ahead);
    ahead.reset();
  } else {
    now = PlannedStep{scheduler.plan(), {}, false, 0, false};
    if (now.empty()) {
      publish();
      send(thrown);
      return said || !scheduler.idle();
    }
    suspects = now.chosen;
    launch(now);
    try {
      choose(now);
    } catch (...) {
      scheduler.forget_launched();
      throw;
    }
    suspects.clear();
  }
  launch_ahead(now);
  deliver(now);
  publish();
  send(thrown);
  return true;
}

}  // namespace mortar
