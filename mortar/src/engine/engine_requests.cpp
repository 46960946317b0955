// What is requested of an engine: checks of options and requests, sequences that come and go, scores of whole texts.
#include <algorithm>
#include <random>

#include "engine/engine_state.hpp"
#include "mortar/errors.hpp"

namespace mortar {

namespace {

constexpr std::int64_t kMostSequences = 65536, kMostPrefill = std::int64_t{1} << 20;
constexpr std::int64_t kMostKvTokens = INT32_MAX / kPage * kPage;  ///< places in the KV cache are i32

std::uint64_t drawn_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

[[noreturn]] void fail(const std::string& text) { throw RequestError(text); }

}  // namespace

const char* name_of(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::Stop: return "stop";
    case FinishReason::Length: return "length";
    case FinishReason::Cancelled: return "cancelled";
    case FinishReason::Failed: break;
  }
  return "failed";
}

EngineOptions Engine::State::checked(EngineOptions o, const ModelConfig& model) {
  if (o.strict && model.hidden > kMostStrictHidden)
    throw RequestError("strict: expected a model with a hidden size of at most " + std::to_string(kMostStrictHidden) +
                       ", found " + std::to_string(model.hidden));
  if (o.max_batch < 1 || o.max_batch > kMostSequences)
    throw RequestError("max_batch: expected 1 to " + std::to_string(kMostSequences) + ", found " +
                       std::to_string(o.max_batch));
  if (o.prefill_tokens < 1 || o.prefill_tokens > kMostPrefill)
    throw RequestError("prefill_tokens: expected 1 to " + std::to_string(kMostPrefill) + ", found " +
                       std::to_string(o.prefill_tokens));
  if (o.kv_tokens < 0) throw RequestError("kv_tokens: expected at least 0, found " + std::to_string(o.kv_tokens));
  return o;
}

std::int64_t Engine::State::page_count() const {
  const MemoryPlan& plan = model.plan;
  const std::int64_t activations = activation_bytes(model.config, options.prefill_tokens, options.max_batch);
  const std::int64_t left =
      std::max<std::int64_t>(0, plan.available - plan.weights.total() - activations - plan.reserve);
  const std::int64_t fit = std::min(left / plan.kv_per_token / kPage * kPage, kMostKvTokens);
  if (options.kv_tokens > fit || fit == 0)
    throw CapacityError("a KV cache of " + std::to_string(std::max<std::int64_t>(options.kv_tokens, kPage)) +
                        " tokens, each of " + std::to_string(plan.kv_per_token) + " bytes, does not fit: " +
                        bytes_text(left) + " are left beside the weights and " + bytes_text(activations) +
                        " for steps of " + std::to_string(options.prefill_tokens) + " tokens of prompts and " +
                        std::to_string(options.max_batch) + " sequences, and the largest cache has " +
                        std::to_string(fit) + " tokens: take smaller kv_tokens, prefill_tokens or max_batch");
  if (options.kv_tokens > 0) return pages_for(options.kv_tokens);
  return pages_for(std::min(options.max_batch * plan.max_context, fit));
}

std::string Engine::State::larger_context() const {
  if (max_context < model.plan.max_context) return "let the KV cache have more tokens (kv_tokens)";
  return max_context < model.config.max_context ? "load the model with a larger max_context"
                                                : "the model has no larger context";
}

void Engine::State::check_ids(const std::vector<TokenId>& ids) const {
  if (ids.empty()) fail("the prompt: expected at least one token, found none");
  for (const TokenId id : ids)
    if (id < 0 || id >= model.config.vocabulary)
      fail("the prompt: expected ids from 0 to " + std::to_string(model.config.vocabulary - 1) + ", found " +
           std::to_string(id));
}

void Engine::State::check_request(const Request& r) const {
  const auto prompt = static_cast<std::int64_t>(r.ids.size());
  check_ids(r.ids);
  if (r.max_tokens < 1) fail("max_tokens: expected at least 1, found " + std::to_string(r.max_tokens));
  if (prompt > max_context || r.max_tokens > max_context - prompt)
    fail("expected at most " + std::to_string(max_context) +
         " tokens of prompt and answer together, found a prompt of " + std::to_string(prompt) + " and max_tokens of " +
         std::to_string(r.max_tokens) + ": shorten one of them, or " + larger_context());
  if (r.logprobs > kMostLogprobs)
    fail("logprobs: expected at most " + std::to_string(kMostLogprobs) + ", found " + std::to_string(r.logprobs));
  if (!r.stop.empty() && !model.tokenizer) fail("stop strings need the model's tokenizer, which was not loaded");
  for (const std::string& stop : r.stop) {
    if (stop.empty()) fail("stop: expected texts, found an empty one");
    if (!is_utf8(stop)) fail("stop: expected texts in UTF-8, found one with other bytes");
  }
  mortar::check(r.sampling, model.config.vocabulary);
  if (r.min_tokens > 0 || !r.banned_ids.empty() || !r.allowed_ids.empty() || r.thinking_budget >= 0 || r.constraint ||
      r.choices != 1 || !r.cache_salt.empty() || r.priority != 0 || r.tell_cancelled ||
      r.sampling.frequency_penalty != 0)
    fail("the request has an option that this version does not have yet");
}

Engine::Engine(Model model, const EngineOptions& options)
    : state_(std::make_unique<State>(std::move(model), options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

SequenceId Engine::submit(Request request, OnToken on_token) {
  state_->check_request(request);
  auto s = std::make_shared<Sequence>();
  s->id = state_->next_id++;
  s->tokens = request.ids;
  s->seed = request.sampling.seed ? *request.sampling.seed : drawn_seed();
  if (const auto& tokenizer = state_->model.tokenizer)
    s->text.emplace(*tokenizer, AnswerOptions{.stop = request.stop, .starts_thinking = request.starts_thinking});
  s->request = std::move(request);
  s->on_token = std::move(on_token);
  state_->waiting.push_back(s);
  return s->id;
}

bool Engine::cancel(SequenceId id, std::string) {
  const auto is = [id](const SequencePtr& s) { return s->id == id; };
  if (const auto at = std::find_if(state_->running.begin(), state_->running.end(), is); at != state_->running.end()) {
    (*at)->ended = true;
    state_->release(**at);
    state_->running.erase(at);
    return true;
  }
  const auto at = std::find_if(state_->waiting.begin(), state_->waiting.end(), is);
  if (at == state_->waiting.end()) return false;
  (*at)->ended = true;
  state_->waiting.erase(at);
  return true;
}

bool Engine::step() { return state_->step(); }

void Engine::run() {
  while (step()) {}
}

void Engine::State::score(const std::vector<TokenId>& ids, const std::function<void(const RowPlan&)>& compute_chunk) {
  check_ids(ids);
  const auto n = static_cast<std::int64_t>(ids.size());
  if (n > max_context)
    fail("expected at most " + std::to_string(max_context) + " tokens, found " + std::to_string(n) + ": " +
         larger_context());
  if (pages_for(n) > pages.free())
    throw CapacityError("logits of " + std::to_string(n) + " tokens need " + std::to_string(pages_for(n)) +
                        " pages of the KV cache, and " + std::to_string(pages.free()) + " are free");
  struct Held {
    Pages& pages;
    std::vector<PageId> ids;
    ~Held() {
      for (const PageId page : ids) pages.release(page);
    }
  } held{pages, {}};
  while (static_cast<std::int64_t>(held.ids.size()) < pages_for(n)) held.ids.push_back(*pages.take());
  for (std::int64_t first = 0; first < n; first += options.prefill_tokens) {
    RowPlan row;
    row.first = first;
    row.ids = std::span(ids).subspan(static_cast<std::size_t>(first),
                                     static_cast<std::size_t>(std::min(options.prefill_tokens, n - first)));
    row.pages = held.ids;
    compute_chunk(row);
  }
}

std::vector<float> Engine::logits(const std::vector<TokenId>& ids) {
  std::vector<float> all;
  state_->score(ids, [&](const RowPlan& row) {
    const std::vector<float> part = state_->runner.logits(row);
    all.insert(all.end(), part.begin(), part.end());
  });
  return all;
}

std::vector<float> Engine::log_likelihoods(const std::vector<TokenId>& ids) {
  std::vector<float> all;
  state_->score(ids, [&](const RowPlan& row) {
    // Each token is scored by the logits of the one before it.
    const auto next = static_cast<std::size_t>(row.first) + 1;
    const std::size_t count = std::min(row.ids.size(), ids.size() - next);
    if (count == 0) return;
    const std::vector<float> part = state_->runner.log_likelihoods(row, std::span(ids).subspan(next, count));
    all.insert(all.end(), part.begin(), part.end());
  });
  return all;
}

std::int64_t Engine::running() const { return static_cast<std::int64_t>(state_->running.size()); }
std::int64_t Engine::waiting() const { return static_cast<std::int64_t>(state_->waiting.size()); }
std::int64_t Engine::free_pages() const { return state_->pages.free(); }
std::int64_t Engine::total_pages() const noexcept { return state_->pages.count(); }
EngineStats Engine::stats() const { return state_->stats; }
bool Engine::wait(std::chrono::milliseconds) { return running() + waiting() > 0; }
void Engine::serve(const std::stop_token& stop) {
  while (!stop.stop_requested() && step()) {}
}
const Model& Engine::model() const noexcept { return state_->model; }

}  // namespace mortar
