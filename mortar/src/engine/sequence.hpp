// A sequence of the engine, and its rows of steps.
#pragma once
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "engine/runner.hpp"
#include "mortar/engine.hpp"

namespace mortar {

/// A sequence, from submit() to its last token.
struct Sequence {
  SequenceId id = 0;
  Request request;
  OnToken on_token;
  std::uint64_t seed = 0;
  std::vector<TokenId> tokens;  ///< the prompt and the answer
  std::int64_t computed = 0;    ///< tokens whose keys and values are in the cache
  bool confirmed = true;        ///< it is known that no step over its prompt has failed
  std::vector<PageId> pages;
  std::vector<Contents> contents;  ///< of the full pages that are published
  std::int64_t slot = -1;          ///< while it is being computed
  bool ended = false;
  std::optional<AnswerStream> text;  ///< with a tokenizer

  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t prompt() const { return static_cast<std::int64_t>(request.ids.size()); }
  /// Only the last token is not computed, and it is not the prompt's alone.
  bool decodes() const { return computed + 1 == length() && length() > prompt(); }
  /// The options for the token after `ahead` tokens that are not known yet.
  SamplingRow options(std::int64_t ahead = 0) const {
    const Sampling& s = request.sampling;
    const auto bits = [](float x) { return std::bit_cast<tessera::i32>(x); };
    SamplingRow row{};
    row[kTemperature] = bits(s.greedy ? 0.0f : s.temperature);
    row[kTopK] = static_cast<tessera::i32>(std::min<std::int64_t>(s.top_k, 1 << 30));
    row[kTopP] = bits(s.top_p);
    row[kMinP] = bits(s.min_p);
    row[kRepetition] = bits(s.repetition_penalty);
    row[kPresence] = bits(s.presence_penalty);
    row[kSeedLow] = static_cast<tessera::i32>(static_cast<std::uint32_t>(seed));
    row[kSeedHigh] = static_cast<tessera::i32>(static_cast<std::uint32_t>(seed >> 32));
    row[kPosition] = static_cast<tessera::i32>(length() + ahead);
    row[kSlot] = static_cast<tessera::i32>(slot);
    return row;
  }
};
using SequencePtr = std::shared_ptr<Sequence>;

/// A step that has been planned, and launched.
struct PlannedStep {
  bool decode = false;
  std::vector<SequencePtr> chosen;  ///< the sequence of each row
  std::vector<RowPlan> rows;
  Runner::Launched launched;
  bool scored = false;  ///< log-probabilities were requested
};

/// The row of a sequence that decodes, after `ahead` tokens that are not known yet.
inline RowPlan decode_row(const Sequence& s, std::int64_t ahead) {
  RowPlan row;
  row.ids = std::span(s.tokens).last(1);
  row.first = s.computed + ahead;
  row.pages = s.pages;
  row.wants_token = true;
  row.sampling = s.options(ahead);
  return row;
}

}  // namespace mortar
