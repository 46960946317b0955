// Tokens of a sequence that follow each other, without a copy: of its prompt, which other sequences may share, and then
// of its answer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "mortar/tokenizer.hpp"

namespace mortar {

class TokenRange {
 public:
  using Part = std::span<const TokenId>;
  TokenRange() = default;
  TokenRange(Part first) : first_(first) {}                         // NOLINT: any list of tokens is a range of them
  TokenRange(const std::vector<TokenId>& first) : first_(first) {}  // NOLINT
  TokenRange(Part first, Part second) : first_(first), second_(second) {}

  std::size_t size() const { return first_.size() + second_.size(); }
  bool empty() const { return size() == 0; }
  TokenId operator[](std::size_t i) const { return i < first_.size() ? first_[i] : second_[i - first_.size()]; }
  /// `count` tokens from the one at `begin` on.
  TokenRange subrange(std::size_t begin, std::size_t count) const {
    const std::size_t from = std::min(begin, first_.size()), to = std::min(begin + count, first_.size());
    return {first_.subspan(from, to - from), second_.subspan(begin - from, count - (to - from))};
  }
  template <class Out>
  Out copy_to(Out out) const {
    return std::copy(second_.begin(), second_.end(), std::copy(first_.begin(), first_.end(), out));
  }
  /// The part that the sequence shares, or all of a list.
  Part first() const { return first_; }

 private:
  Part first_, second_;
};

}  // namespace mortar
