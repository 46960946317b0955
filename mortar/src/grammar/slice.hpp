// What tokens do within a JSON string: worked out once for an automaton of strings, one of its states and a subtree of
// the vocabulary, and used wherever such a string is read. Almost all tokens stay within the string; those that close
// it are sorted by the few texts that follow a closing quote.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "grammar/dfa.hpp"
#include "grammar/trie.hpp"
#include "mortar/tokenizer.hpp"

namespace mortar::grammar {

/// Tokens sorted by their bytes.
struct TokenTrie {
  Trie trie;
  std::vector<TokenId> tokens;          ///< by entry
  std::vector<std::string_view> texts;  ///< by entry
  TokenId size = 0;                     ///< one more than the largest id
  std::size_t words() const { return (static_cast<std::size_t>(size) + 31) / 32; }
};

struct Slice {
  struct Group {
    std::uint32_t chars;  ///< code points that the tokens begin
    std::uint32_t state;  ///< after them
    std::uint32_t first, end;
  };
  std::vector<Group> groups;         ///< ranges of `stay`, sorted by chars
  std::vector<TokenId> stay;         ///< tokens that end within the string
  std::vector<std::uint32_t> dense;  ///< the mask of all of these, where they are many
  Trie closings;                     ///< of what follows the closing quote in other tokens
  std::vector<TokenId> closing_tokens;
  std::vector<std::uint32_t> closing_chars;  ///< by entry: code points that the token begins before the quote

  std::uint32_t longest() const { return groups.empty() ? 0 : groups.back().chars; }
  std::size_t bytes() const {
    return groups.size() * sizeof(Group) + (stay.size() + dense.size() + 2 * closing_tokens.size()) * 4 +
           closings.bytes();
  }
};

Slice make_slice(const Dfa& dfa, std::uint32_t state, const TokenTrie& vocabulary, std::uint32_t node);

/// Slices by automaton, state and node, made when they are first needed. Safe to use from several threads.
class SliceCache {
 public:
  explicit SliceCache(std::size_t limit) : limit_(limit) {}
  std::shared_ptr<const Slice> get(std::uint32_t number, const Dfa& dfa, std::uint32_t state,
                                   const TokenTrie& vocabulary, std::uint32_t node);
  std::size_t bytes() const {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::shared_ptr<const Slice>> slices_;
  std::size_t bytes_ = 0, limit_;
};

}  // namespace mortar::grammar
