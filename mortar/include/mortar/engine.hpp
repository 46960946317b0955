// The engine: sequences that join and leave between steps, over one paged KV cache.
//
//   Engine engine(std::move(model), {.max_batch = 64});
//   auto id = engine.submit({.ids = ids, .max_tokens = 64, .sampling = {.greedy = true}}, [](const Token& t) { ... });
//   engine.run();               // steps until all sequences have ended
//
// Any thread may submit, cancel, wait and read numbers, also while another one steps. One thread at a time steps
// (step, run, serve) or computes logits; functions of sequences are called on the thread that steps.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "mortar/constraint.hpp"
#include "mortar/model.hpp"
#include "mortar/sampling.hpp"
#include "mortar/text_stream.hpp"

namespace mortar {

/// Names a request with all its choices.
using SequenceId = std::uint64_t;

enum class FinishReason : std::uint8_t {
  Stop,       ///< an end-of-sequence id, a stop id or a stop string
  Length,     ///< max_tokens
  Cancelled,  ///< by cancel(); told only if Request::report_cancelled
  Failed,     ///< it cannot go on: Token::error says why
};
/// "stop", "length", "cancelled", "failed"
const char* name_of(FinishReason reason) noexcept;

struct Request {
  std::vector<TokenId> ids = {};  ///< the prompt
  std::int64_t max_tokens = 128;
  Sampling sampling = {};
  /// The text ends before the first of these, which are UTF-8; needs the model's tokenizer.
  std::vector<std::string> stop = {};
  std::vector<TokenId> stop_ids = {};  ///< end the sequence as the model's end-of-sequence ids do
  bool ignore_eos = false;             ///< the model's end-of-sequence ids do not end it
  bool starts_thinking = false;        ///< the prompt ends within the model's thinking
  std::int64_t logprobs = -1;  ///< how many of the most likely tokens to report with each, to kMaxLogprobs; -1: none

  std::int64_t min_tokens = 0;            ///< before so many, ids that end the sequence are not chosen
  std::vector<TokenId> banned_ids = {};   ///< are never chosen
  std::vector<TokenId> allowed_ids = {};  ///< if there are any, no others are chosen
  std::int64_t thinking_budget = -1;      ///< tokens of all thinking, after which </think> is chosen; -1: any number
  /// What may come next. The first choice takes it, others take clones of it as it is when it is submitted.
  std::shared_ptr<TokenConstraint> constraint = {};
  /// Answers to the prompt, up to max_batch. They share the pages of the prompt; the seed of choice i is the seed + i.
  std::int64_t choices = 1;
  std::string cache_salt = {};    ///< the prefix cache finds only pages of requests with the same one
  std::string key = {};           ///< whose request it is: keys share the engine equally while requests of several wait
  std::int64_t priority = 0;      ///< among requests of one key smaller ones go first, to kPriorityLimit either way
  bool report_cancelled = false;  ///< its function gets a last call, with FinishReason::Cancelled
  bool text = true;               ///< Token::text is wanted; stop strings are looked for in any case
};
inline constexpr std::int64_t kMaxLogprobs = 20, kPriorityLimit = 1000;

struct TokenLogprob {
  TokenId id;
  float logprob;  ///< natural logarithm of the probability, before masks, penalties and temperature
};

/// When things happened to a sequence. What did not happen has the time 0.
struct SequenceTimings {
  std::chrono::steady_clock::time_point submitted, admitted, first_token, last_token;
  std::int64_t cached_tokens = 0;  ///< of the prompt, whose keys and values were found in the prefix cache
  std::int64_t preemptions = 0;    ///< how often it gave way to others
};

/// A token of an answer, as it comes.
struct Token {
  SequenceId sequence = 0;
  TokenId id = -1;  ///< -1: no token, the sequence was cancelled or has failed
  /// What can be shown now: whole characters, and nothing that may be part of a stop string. Empty without a tokenizer,
  /// and if Request::text is false.
  std::vector<AnswerText> text = {};
  std::optional<FinishReason> finish = {};  ///< of the last token
  std::optional<TokenLogprob> chosen = {};  ///< if logprobs were requested
  std::vector<TokenLogprob> top = {};
  std::int64_t choice = 0;                      ///< which answer of the request, from 0
  std::int64_t cached_tokens = 0;               ///< with the first token: SequenceTimings::cached_tokens
  std::optional<SequenceTimings> timings = {};  ///< with the last token
  std::string error = {};                       ///< why it has failed, or was cancelled
};
using OnToken = std::function<void(const Token&)>;

struct EngineOptions {
  std::int64_t max_batch = 1;                     ///< sequences that are computed at a time, up to 65536; others wait
  std::int64_t prefill_tokens = kDefaultPrefill;  ///< tokens of a step over prompts; longer ones take several steps
  bool prompts_first = false;    ///< answers go on when no prompt is left to compute, not beside prompts
  std::int64_t kv_tokens = 0;    ///< size of the KV cache; 0: max_batch planned contexts, or as much as fits
  bool prefix_cache = true;      ///< prompts that begin as an earlier sequence reuse its keys and values
  bool batch_invariant = false;  ///< tokens of a sequence do not depend on what else is computed with it; slower
  bool strict = false;           ///< rounds intermediate results as transformers does in bf16; implies batch_invariant
  /// Of a model with FP8 weights: products of more than 16 tokens round their inputs to FP8, with a scale for each 128
  /// elements, as the published configuration does. Faster, with an error that is up to sixteen times that of bf16.
  bool fp8_activations = false;
  /// Tokens of prompts that a step computes beside answers, more beside many answers and fewer late in long prompts
  /// (docs/mortar/scheduler.md); 0: steps over prompts and steps over answers take turns.
  std::int64_t mixed_tokens = kDefaultMixed;
  std::int64_t max_queue = 0;         ///< requests that may wait to begin; 0: any number
  std::int64_t max_queue_tokens = 0;  ///< tokens of their prompts together; 0: any number
};

/// Throws RequestError for options that are out of range, or that the model cannot have, as Engine's constructor does.
/// The model needs no weights yet.
void check(const EngineOptions& options, const Model& model);
/// Throws RequestError unless `ids` are a prompt: at least one, all from 0 to `vocabulary` - 1.
void check_prompt(std::span<const TokenId> ids, std::int64_t vocabulary);

struct EngineStats {
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  ///< computed; found in the prefix cache
  std::int64_t generated_tokens = 0, steps = 0, preemptions = 0;
  std::int64_t steps_ahead = 0;  ///< launched before the tokens of the step before were known
  std::int64_t mixed_steps = 0;  ///< with tokens of prompts and of answers
  std::int64_t masked_rows = 0;  ///< for which the host computed what may come next
  std::int64_t submitted = 0;    ///< requests
  std::int64_t rejected = 0;     ///< requests, by QueueFullError
  std::int64_t stopped = 0, reached_length = 0, cancelled = 0, failed = 0;  ///< sequences, by how they ended
  std::int64_t running = 0, waiting = 0;                                    ///< sequences now
  std::int64_t waiting_tokens = 0;                                          ///< of prompts that have not begun
  std::int64_t total_pages = 0, held_pages = 0;                             ///< of the KV cache; held by sequences
  std::int64_t cached_pages = 0;  ///< held by none, with contents that the prefix cache finds
};

class Engine {
 public:
  /// Allocates the KV cache. Throws CapacityError if it does not fit, RequestError for options out of range.
  Engine(Model model, const EngineOptions& options);
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // From any thread, also from functions of sequences.

  /// Adds a sequence, or several (Request::choices); `on_token` is called by the thread that steps for each of their
  /// tokens. Throws RequestError for a request that can never be served, with the numbers, and QueueFullError for one
  /// that finds the queue full; the engine is unchanged then.
  SequenceId submit(Request request, OnToken on_token);
  /// Ends a request, in whatever state it is, without further calls of its function but one that has begun on another
  /// thread, and the last one if Request::report_cancelled; `reason` is its Token::error. False if it has ended
  /// already.
  bool cancel(SequenceId id, std::string reason = {});
  /// Cancels one choice of a request, while the others go on. False if the choice has ended already, or there is
  /// none.
  bool cancel_choice(SequenceId id, std::int64_t choice, std::string reason = {});
  /// Blocks until there is something to do for step(), or until `longest` has passed: then false.
  bool wait(std::chrono::milliseconds longest);
  /// Consistent: of one moment between two steps, but what waits is counted now.
  EngineStats stats() const;
  std::int64_t running() const;
  std::int64_t waiting() const;
  /// Pages of the KV cache that no sequence holds.
  std::int64_t free_pages() const;
  std::int64_t total_pages() const noexcept;
  /// The model's files and sizes; its weights stay with the engine.
  const Model& model() const noexcept;
  const EngineOptions& options() const noexcept;

  // From one thread at a time.

  /// One step: tokens of prompts, one token of each sequence that has its prompt computed, or both. False if there is
  /// nothing to do. If the device fails, it throws, and sequences stay as they were before the step. A sequence that
  /// cannot go on (logits that are not finite, as damaged weights give; a constraint that allows no token) ends with
  /// FinishReason::Failed; without a function that hears of it a ModelError is thrown. What functions of sequences
  /// throw is thrown again after all of them were called.
  bool step();
  /// Steps until all sequences have ended.
  void run();
  /// Steps, and waits for requests, until `stop` is requested. A sequence whose function throws is cancelled. A step
  /// that fails is tried once more; then its sequences end with FinishReason::Failed. If the next steps fail as well,
  /// all sequences do, and the error is thrown.
  void serve(const std::stop_token& stop);

  /// Computes steps of all sizes without a sequence, so that their kernels are compiled, or found in the cache and
  /// loaded. Without it the first steps do that while requests wait: seconds for each new kernel on a GPU. `progress`
  /// hears how many of how many steps have been computed; what it throws ends the warm-up. Steps for which there is no
  /// memory are left out.
  void warm_up(const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});

  /// From now on the device's time is measured, or no longer: by marks around the work of each step, two of steps with
  /// masks, for which the device may wait.
  void time_device(bool on);
  /// Seconds that the device has worked on steps since time_device(true), until all that was launched has ended.
  double device_seconds();

  // Both compute the keys and values of `ids` in pages that no sequence holds. They throw RequestError for no ids, ids
  // beyond the vocabulary and more than the context, CapacityError if too few pages are free.

  /// The logits of all positions of `ids`, computed with nothing else: f32, [ids, vocabulary], row-major.
  std::vector<float> logits(const std::vector<TokenId>& ids);
  /// The natural logarithm of the probability of each token but the first, given those before it: [ids - 1].
  std::vector<float> log_likelihoods(const std::vector<TokenId>& ids);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// For the processes of rank 1 or later, instead of an Engine: makes the calls of rank 0's engine on the ranks of this
/// process, and returns when that has ended. Throws RanksError with the rank and the cause when the group ends, what a
/// call throws here, CapacityError if the KV cache does not fit, ModelError if rank 0 has another model or other
/// options, RequestError for a model of one process or of rank 0.
void follow(Model model);

}  // namespace mortar
