// What may come next in an answer whatever its probability: a constraint, ids that were allowed or banned, a number of
// tokens before the end, a budget for thinking. All of them become a mask, a bit for each token.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mortar/engine.hpp"

namespace mortar {

/// What a model's tokens mean.
struct TokenMeanings {
  std::int64_t vocabulary = 0;                                   ///< of the logits
  std::int64_t valid = 0;                                        ///< ids from 0 to valid - 1 are tokens
  std::vector<TokenId> eos_ids = {};                             ///< the model's end-of-sequence ids
  TokenId think = -1, end_thinking = -1;                         ///< <think> and </think>; -1: there are none
  std::int64_t words() const { return (vocabulary + 31) / 32; }  ///< of a mask
};

class AllowedTokens {
 public:
  /// For one sequence of a request that restricts() says yes to. `meanings` outlives it.
  AllowedTokens(const Request& request, std::shared_ptr<TokenConstraint> constraint, const TokenMeanings& meanings);
  /// Whether a request restricts anything.
  static bool restricts(const Request& request);

  /// Whether the next token may need a mask, when `unknown` tokens, 0 or 1, have yet to be accepted.
  bool may_restrict(std::int64_t unknown) const;
  enum class Filled : std::uint8_t { All, Some, None };
  /// Writes the mask of the next token. All: every token is allowed, the mask says so too.
  Filled fill(std::span<std::uint32_t> mask);
  /// The token that was chosen. False if the constraint does not allow it.
  bool accept(TokenId id);
  /// A token that ends the sequence is not given to the constraint.
  bool ends(TokenId id) const;

 private:
  bool must_end_thinking(std::int64_t unknown) const;
  void clear(std::span<std::uint32_t> mask, std::span<const TokenId> ids) const;

  const Request& request_;
  std::shared_ptr<TokenConstraint> constraint_;
  const TokenMeanings& meanings_;
  std::vector<std::uint32_t> fixed_;  ///< by allowed_ids and banned_ids; empty: there are none
  std::vector<TokenId> end_ids_;
  std::int64_t accepted_ = 0, thought_ = 0;
  bool thinking_;
};

}  // namespace mortar
