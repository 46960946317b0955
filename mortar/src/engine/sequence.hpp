// A request of the engine and its sequences, one for each choice.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/allowed_tokens.hpp"
#include "engine/row_plan.hpp"
#include "mortar/engine.hpp"

namespace mortar {

struct Submission;

/// Where a sequence is, from submit() to its last token.
enum class Stage : std::uint8_t {
  Held,     ///< until the first choice has computed the prompt
  Queued,   ///< has not begun
  Waiting,  ///< gave way to others, or shares a prompt that has been computed
  Running,  ///< has a slot and pages
  Ended,
};

struct Sequence {
  Submission* submission = nullptr;  ///< owns it
  std::int64_t choice = 0;
  std::uint64_t seed = 0;
  Stage stage = Stage::Queued;
  std::vector<TokenId> answer;  ///< behind the prompt, which all choices share
  std::int64_t computed = 0;    ///< tokens whose keys and values are in the cache
  std::int64_t in_flight = 0;   ///< tokens that steps compute which have been launched, behind `computed`
  std::int64_t pending = 0;     ///< tokens, 0 or 1, that such a step chooses behind these
  std::int32_t place = 0;       ///< of the pending one, among those of its step
  std::vector<PageId> pages;
  std::vector<Contents> contents;              ///< of the full pages that can be found
  std::int64_t slot = -1;                      ///< while it runs
  bool told = false;                           ///< its function has heard of its end
  std::atomic<bool> over = false;              ///< it has ended, or is about to
  std::atomic<bool> cancelled = false;         ///< no call of the function for it begins any more
  bool charged = false;                        ///< its prompt, to the account of its key
  std::uint64_t order = 0;                     ///< of beginning: those that gave way begin again in this order
  std::pair<std::int64_t, std::uint64_t> turn; /**< while it is queued: its place among those of its key */
  SequenceTimings timings = {};
  std::optional<AnswerStream> text;  ///< with a tokenizer
  std::optional<AllowedTokens> allowed = std::nullopt;

  const Request& request() const;
  std::int64_t prompt() const { return static_cast<std::int64_t>(request().ids.size()); }
  std::int64_t known() const { return prompt() + std::ssize(answer); }
  /// `count` tokens of the prompt and the answer, from the one at `position` on.
  TokenRange tokens(std::int64_t position, std::int64_t count) const {
    return TokenRange(request().ids, answer)
        .subrange(static_cast<std::size_t>(position), static_cast<std::size_t>(count));
  }

  /// Whether the keys and values of the next token to compute are in a page that was found: it is computed for its
  /// logits alone.
  bool next_is_stored() const { return reached() < std::ssize(contents) * kPage; }

  // As it will be when the steps that have been launched have ended.

  std::int64_t length() const { return known() + pending; }
  std::int64_t reached() const { return computed + in_flight; }
  /// Only the last token is not computed, and it is not the prompt's alone.
  bool decodes() const { return reached() + 1 == length() && length() > prompt(); }
  /// The next step computes the last token of its answer.
  bool answers() const { return decodes() && length() - prompt() < request().max_tokens; }
  /// The next step computes a part of its prompt, or of what it had computed before it gave way.
  bool prompts() const { return pending == 0 && !decodes(); }

  /// The options for the next token.
  SamplingRow options() const {
    const Sampling& s = request().sampling;
    const auto bits = [](float x) { return std::bit_cast<std::int32_t>(x); };
    SamplingRow row{};
    row[kTemperature] = bits(s.greedy ? 0.0f : s.temperature);
    row[kTopK] = static_cast<std::int32_t>(std::min<std::int64_t>(s.top_k, 1 << 30));
    row[kTopP] = bits(s.top_p);
    row[kMinP] = bits(s.min_p);
    row[kRepetition] = bits(s.repetition_penalty);
    row[kPresence] = bits(s.presence_penalty);
    row[kFrequency] = bits(s.frequency_penalty);
    row[kSeedLow] = static_cast<std::int32_t>(static_cast<std::uint32_t>(seed));
    row[kSeedHigh] = static_cast<std::int32_t>(static_cast<std::uint32_t>(seed >> 32));
    row[kPosition] = static_cast<std::int32_t>(length());
    row[kSlot] = static_cast<std::int32_t>(slot);
    row[kMask] = -1;
    return row;
  }
};

/// Keeps the submission alive, with all its sequences.
using SequencePtr = std::shared_ptr<Sequence>;

/// What was submitted.
struct Submission : std::enable_shared_from_this<Submission> {
  SequenceId id = 0;
  Request request;
  OnToken on_token;
  std::vector<Sequence> choices;  ///< as many as were requested: they stay where they are
  std::int64_t open = 0;          ///< choices that have not ended
  std::string scope;              ///< of its pages

  SequencePtr pointer(Sequence& s) { return {shared_from_this(), &s}; }
};
using SubmissionPtr = std::shared_ptr<Submission>;

inline const Request& Sequence::request() const { return submission->request; }

/// What a step computes. Rows are sequences: first those of which it computes parts of prompts, then those of which it
/// computes the last token of the answer.
struct StepPlan {
  std::vector<SequencePtr> chosen;  ///< the sequence of each row
  std::vector<RowPlan> rows;
  std::size_t prompts = 0;  ///< how many rows are parts of prompts

  bool empty() const { return rows.empty(); }
};

}  // namespace mortar
