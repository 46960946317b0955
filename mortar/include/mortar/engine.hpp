// The engine: sequences that join and leave between steps, over one paged KV cache.
//
//   Engine engine(std::move(model), {.max_batch = 64});
//   auto id = engine.submit({.ids = ids, .max_tokens = 64, .sampling = {.greedy = true}}, [](const Token& t) { ... });
//   engine.run();               // steps until all sequences have ended
//
// An engine is used by one thread at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mortar/model.hpp"
#include "mortar/sampling.hpp"
#include "mortar/text_stream.hpp"

namespace mortar {

using SequenceId = std::uint64_t;

enum class FinishReason : std::uint8_t {
  Stop,    ///< an end-of-sequence id, a stop id or a stop string
  Length,  ///< max_tokens
};
/// "stop", "length"
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
  std::int64_t logprobs = -1;  ///< how many of the most likely tokens to report with each, to kMostLogprobs; -1: none
};
inline constexpr std::int64_t kMostLogprobs = 20;

struct TokenLogprob {
  TokenId id;
  float logprob;  ///< natural logarithm of the probability, before penalties and temperature
};

/// A token of an answer, as it comes.
struct Token {
  SequenceId sequence;
  TokenId id;
  /// What can be shown now: whole characters, and nothing that may be part of a stop string. Empty without a tokenizer.
  std::vector<AnswerText> text;
  std::optional<FinishReason> finish;  ///< of the last token
  std::optional<TokenLogprob> chosen;  ///< if logprobs were requested
  std::vector<TokenLogprob> top;
};
using OnToken = std::function<void(const Token&)>;

struct EngineOptions {
  std::int64_t max_batch = 1;                     ///< sequences that are computed at a time, up to 65536; others wait
  std::int64_t prefill_tokens = kDefaultPrefill;  ///< tokens of a step over prompts; longer ones take several steps
  bool prompts_first = false;    ///< answers go on when no prompt is left to compute, not in turns with prompts
  std::int64_t kv_tokens = 0;    ///< size of the KV cache; 0: max_batch planned contexts, or as much as fits
  bool prefix_cache = true;      ///< prompts that begin as an earlier sequence reuse its keys and values
  bool batch_invariant = false;  ///< tokens of a sequence do not depend on what else is computed with it; slower
  bool strict = false;           ///< rounds intermediate results as transformers does in bf16; implies batch_invariant
};

struct EngineStats {
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  ///< computed; found in the prefix cache
  std::int64_t generated_tokens = 0, steps = 0, preemptions = 0;
  std::int64_t steps_ahead = 0;  ///< launched before the tokens of the step before were known
};

class Engine {
 public:
  /// Allocates the KV cache. Throws CapacityError if it does not fit, RequestError for options out of range.
  Engine(Model model, const EngineOptions& options);
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// Adds a sequence; `on_token` is called by step() for each of its tokens, and may submit and cancel. Throws
  /// RequestError for a request that can never be served, with the numbers; the engine is unchanged then.
  SequenceId submit(Request request, OnToken on_token);
  /// Ends a sequence without further calls of its function. False if it has ended already.
  bool cancel(SequenceId id);
  /// One step: tokens of prompts, or one token of each sequence that has its prompt computed. False if there is nothing
  /// to do. If the device fails, sequences stay as they were before the step, and prompts that have given no token yet
  /// are computed again; the failure of a step that gives no token may be thrown by the next one. What functions of
  /// sequences throw is thrown again after all of them were called. Throws ModelError for a sequence whose logits are
  /// not finite, as damaged weights give; it has ended then.
  bool step();
  /// Steps until all sequences have ended.
  void run();

  // Both compute the keys and values of `ids` in pages that no sequence holds. They throw RequestError for no ids, ids
  // beyond the vocabulary and more than the context, CapacityError if too few pages are free.

  /// The logits of all positions of `ids`, computed with nothing else: f32, [ids, vocabulary], row-major.
  std::vector<float> logits(const std::vector<TokenId>& ids);
  /// The natural logarithm of the probability of each token but the first, given those before it: [ids - 1].
  std::vector<float> log_likelihoods(const std::vector<TokenId>& ids);

  std::int64_t running() const noexcept;
  std::int64_t waiting() const noexcept;
  /// Pages of the KV cache that no sequence holds.
  std::int64_t free_pages() const noexcept;
  std::int64_t total_pages() const noexcept;
  const EngineStats& stats() const noexcept;
  /// The model's files and sizes; its weights stay with the engine.
  const Model& model() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mortar
