// The tokens of a tokenizer as masks need them.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "grammar/slice.hpp"
#include "mortar/grammar.hpp"

namespace mortar {

struct Vocabulary::State {
  explicit State(const Tokenizer& tokenizer);

  Tokenizer tokenizer;
  std::uint64_t number;                                       ///< no other vocabulary of the process has it
  grammar::TokenTrie tokens;                                  ///< without added tokens
  std::vector<bool> is_text;                                  ///< by id: is in `tokens`
  std::uint32_t longest = 0;                                  ///< bytes of the longest token
  std::uint32_t most_commas = 0;                              ///< of one token
  mutable grammar::SliceCache slices{std::size_t{64} << 20};  ///< of the strings that all grammars share
};

}  // namespace mortar
