// What is requested of an engine: checks of options and requests, scores of whole texts.
#include <algorithm>
#include <random>

#include "engine/engine_state.hpp"
#include "engine/packed_step.hpp"
#include "mortar/errors.hpp"
#include "tessera/kernels/linear_table.hpp"

namespace mortar {

namespace {

constexpr std::int64_t kMaxSequences = 65536, kMaxPrefill = std::int64_t{1} << 20;
constexpr std::int64_t kMaxKvTokens = INT32_MAX / kPage * kPage;  ///< places in the KV cache are i32

std::uint64_t drawn_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

[[noreturn]] void reject(const std::string& text) { throw RequestError(text); }

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

void check(const EngineOptions& o, const Model& model) {
  if (o.strict && model.config.hidden > kMaxStrictHidden)
    throw RequestError("strict: expected a model with a hidden size of at most " + std::to_string(kMaxStrictHidden) +
                       ", found " + std::to_string(model.config.hidden));
  if (o.fp8_activations && !model.config.fp8)
    throw RequestError("fp8_activations: expected a model with FP8 weights, found one without");
  if (o.fp8_activations && (o.strict || o.batch_invariant || model.exact))
    throw RequestError(
        "fp8_activations: expected neither strict nor batch_invariant nor exact beside it: these compute with bf16");
  if (o.max_batch < 1 || o.max_batch > kMaxSequences)
    throw RequestError("max_batch: expected 1 to " + std::to_string(kMaxSequences) + ", found " +
                       std::to_string(o.max_batch));
  if (o.prefill_tokens < 1 || o.prefill_tokens > kMaxPrefill)
    throw RequestError("prefill_tokens: expected 1 to " + std::to_string(kMaxPrefill) + ", found " +
                       std::to_string(o.prefill_tokens));
  const auto at_least_0 = [](const char* name, std::int64_t found) {
    if (found < 0) throw RequestError(std::string(name) + ": expected at least 0, found " + std::to_string(found));
  };
  if (o.mixed_tokens < 0 || o.mixed_tokens > kMaxPrefill)
    throw RequestError("mixed_tokens: expected 0 to " + std::to_string(kMaxPrefill) + ", found " +
                       std::to_string(o.mixed_tokens));
  at_least_0("max_queue", o.max_queue);
  at_least_0("max_queue_tokens", o.max_queue_tokens);
  at_least_0("kv_tokens", o.kv_tokens);
}

void check_prompt(std::span<const TokenId> ids, std::int64_t vocabulary) {
  if (ids.empty()) reject("the prompt: expected at least one token, found none");
  for (const TokenId id : ids)
    if (id < 0 || id >= vocabulary)
      reject("the prompt: expected ids from 0 to " + std::to_string(vocabulary - 1) + ", found " + std::to_string(id));
}

EngineOptions Engine::State::checked(const EngineOptions& options, const Model& model) {
  check(options, model);
  return options;
}

Engine::State::State(Model&& loaded, const EngineOptions& chosen)
    : options(checked(chosen, loaded)),
      model(std::move(loaded)),
      runner(model,
             {.strict = options.strict,
              .batch_invariant = options.batch_invariant || model.exact,
              .fp8_activations = options.fp8_activations},
             page_count()),
      scheduler(scheduler_options()),
      max_context(std::min(model.plan.max_context, scheduler.pages().count() * kPage)),
      mailbox(options.max_queue, options.max_queue_tokens) {
  meanings.vocabulary = meanings.valid = model.config.vocabulary;
  meanings.eos_ids.assign(model.generation.eos_ids.begin(), model.generation.eos_ids.end());
  if (model.tokenizer) {
    meanings.valid = std::min<std::int64_t>(meanings.valid, model.tokenizer->size());
    meanings.think = model.tokenizer->find("<think>").value_or(-1);
    meanings.end_thinking = model.tokenizer->find("</think>").value_or(-1);
  }
  publish();
}

SchedulerOptions Engine::State::scheduler_options() const {
  const ModelSpec& m = model.config;
  SchedulerOptions o;
  o.pages = page_count();
  o.max_batch = options.max_batch;
  o.prefill_tokens = options.prefill_tokens;
  o.mixed_tokens = options.mixed_tokens;
  o.query_tile = runner.query_tile();
  o.prompts_first = options.prompts_first;
  o.prefix_cache = options.prefix_cache;
  if (tessera::kernels::target_of(model.device).gpu) {
    o.free_tokens = tessera::kernels::kFewRowsLimit;
    o.rounding = kGpuRounding;
  }
  // A token at position p takes 2 operations for each weight and 4 p for each element of a query.
  o.costly_position = model_size(m).active_parameters / (2 * m.layers * m.attention.heads * m.attention.head_dim);
  return o;
}

std::int64_t Engine::State::page_count() const {
  const MemoryPlan& plan = model.plan;
  const std::int64_t activations =
      activation_bytes(model.config, options.prefill_tokens, options.max_batch,
                       {0, model.parts.empty() ? 1 : model.parts[0].mesh.size(), model.exact});
  const std::int64_t left =
      std::max<std::int64_t>(0, plan.available - plan.weights.total() - activations - plan.reserve);
  const std::int64_t fit = std::min(left / plan.kv_per_token / kPage * kPage, kMaxKvTokens);
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

void Engine::State::check_request(const Request& r) const {
  const auto prompt = static_cast<std::int64_t>(r.ids.size());
  check_prompt(r.ids, model.config.vocabulary);
  if (r.max_tokens < 1) reject("max_tokens: expected at least 1, found " + std::to_string(r.max_tokens));
  if (prompt > max_context || r.max_tokens > max_context - prompt)
    reject("expected at most " + std::to_string(max_context) +
           " tokens of prompt and answer together, found a prompt of " + std::to_string(prompt) +
           " and max_tokens of " + std::to_string(r.max_tokens) + ": shorten one of them, or " + larger_context());
  if (r.logprobs > kMaxLogprobs)
    reject("logprobs: expected at most " + std::to_string(kMaxLogprobs) + ", found " + std::to_string(r.logprobs));
  if (!r.stop.empty() && !model.tokenizer) reject("stop strings need the model's tokenizer, which was not loaded");
  for (const std::string& stop : r.stop) {
    if (stop.empty()) reject("stop: expected texts, found an empty one");
    if (!is_utf8(stop)) reject("stop: expected texts in UTF-8, found one with other bytes");
  }
  mortar::check(r.sampling, model.config.vocabulary);
  if (r.choices < 1 || r.choices > options.max_batch)
    reject("choices: expected 1 to " + std::to_string(options.max_batch) + " (max_batch), found " +
           std::to_string(r.choices));
  if (r.priority < -kPriorityLimit || r.priority > kPriorityLimit)
    reject("priority: expected -" + std::to_string(kPriorityLimit) + " to " + std::to_string(kPriorityLimit) +
           ", found " + std::to_string(r.priority));
  if (r.cache_salt.find('\0') != std::string::npos) reject("cache_salt: expected a text without zeros, found one");
  check_restrictions(r);
}

void Engine::State::check_restrictions(const Request& r) const {
  if (r.min_tokens < 0 || r.min_tokens > r.max_tokens)
    reject("min_tokens: expected 0 to max_tokens, which is " + std::to_string(r.max_tokens) + ", found " +
           std::to_string(r.min_tokens));
  const auto check = [&](const char* name, const std::vector<TokenId>& ids) {
    for (const TokenId id : ids)
      if (id < 0 || id >= meanings.valid)
        reject(std::string(name) + ": expected ids of tokens, from 0 to " + std::to_string(meanings.valid - 1) +
               ", found " + std::to_string(id));
  };
  check("banned_ids", r.banned_ids);
  check("allowed_ids", r.allowed_ids);
  if (r.thinking_budget < -1)
    reject("thinking_budget: expected at least -1, found " + std::to_string(r.thinking_budget));
  if (r.thinking_budget >= 0 && meanings.end_thinking < 0)
    reject("thinking_budget: expected a model with a token </think>, found none");
  if (r.constraint && r.ignore_eos) reject("ignore_eos: expected false beside a constraint, which says where to end");
}

SubmissionPtr Engine::State::submission_of(Request request, OnToken on_token) const {
  auto submission = std::make_shared<Submission>();
  submission->request = std::move(request);
  submission->on_token = std::move(on_token);
  const Request& r = submission->request;
  submission->open = r.choices;
  submission->choices = std::vector<Sequence>(static_cast<std::size_t>(r.choices));
  const std::uint64_t seed = r.sampling.seed ? *r.sampling.seed : drawn_seed();
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = submission->choices.size(); i-- > 0;) {  // clones are made before the first one is used
    Sequence& s = submission->choices[i];
    s.submission = submission.get();
    s.choice = static_cast<std::int64_t>(i);
    s.seed = seed + i;
    s.timings.submitted = now;
    if (const auto& tokenizer = model.tokenizer; tokenizer && (r.text || !r.stop.empty()))
      s.text.emplace(*tokenizer, AnswerOptions{.stop = r.stop, .starts_thinking = r.starts_thinking});
    if (!AllowedTokens::restricts(r)) continue;
    s.allowed.emplace(r, i == 0 || !r.constraint ? r.constraint : r.constraint->clone(), meanings);
  }
  return submission;
}

Engine::Engine(Model model, const EngineOptions& options)
    : state_(std::make_unique<State>(std::move(model), options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

void Engine::State::score(const std::vector<TokenId>& ids, const std::function<void(const RowPlan&)>& compute_chunk) {
  const Guard guard(*this);
  check_prompt(ids, model.config.vocabulary);
  const auto n = static_cast<std::int64_t>(ids.size());
  if (n > max_context)
    reject("expected at most " + std::to_string(max_context) + " tokens, found " + std::to_string(n) + ": " +
           larger_context());
  if (pages_for(n) > scheduler.pages().free())
    throw CapacityError("logits of " + std::to_string(n) + " tokens need " + std::to_string(pages_for(n)) +
                        " pages of the KV cache, and " + std::to_string(scheduler.pages().free()) + " are free");
  struct Held {
    Pages& pages;
    std::vector<PageId> ids;
    ~Held() {
      for (const PageId page : ids) pages.release(page);
    }
  } held{scheduler.pages(), {}};
  while (static_cast<std::int64_t>(held.ids.size()) < pages_for(n)) held.ids.push_back(*scheduler.pages().take());
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

}  // namespace mortar
