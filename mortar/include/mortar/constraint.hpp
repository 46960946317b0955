// What may come next in an answer, for answers that have to be of a form: a grammar, a schema, a list of choices.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "mortar/tokenizer.hpp"

namespace mortar {

/// What may come next in one sequence. Used by one thread at a time.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Whether the next token is restricted at all; if not, the row needs no mask (thinking, text before a call).
  virtual bool restricts() const = 0;
  /// Overwrites all words: bit id % 32 of word id / 32 is set where the token `id` may come next, end-of-sequence ids
  /// included only where the answer may end. `mask` has (vocabulary of the logits + 31) / 32 words; ids beyond the
  /// tokenizer's are never set. Never empty.
  virtual void fill_mask(std::span<std::uint32_t> mask) = 0;
  /// The token that was chosen. False if it was not allowed; the state is unchanged then.
  virtual bool accept(TokenId id) = 0;
  /// A copy in the same state, for another choice of the same prompt.
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;

 protected:
  TokenConstraint() = default;
  TokenConstraint(const TokenConstraint&) = default;
  TokenConstraint& operator=(const TokenConstraint&) = default;
};

}  // namespace mortar
