// Slices of the vocabulary, and their cache.
#include "grammar/slice.hpp"

#include <algorithm>

namespace mortar::grammar {
namespace {

constexpr std::size_t kDenseFrom = 2048;  // tokens; the mask then takes less than twice the memory of their ids

class Maker {
 public:
  Maker(const Dfa& dfa, const TokenTrie& vocabulary) : dfa_(dfa), vocabulary_(vocabulary) {}

  void visit(std::uint32_t node, std::uint32_t state, std::uint32_t chars, std::uint32_t depth) {
    const Trie& trie = vocabulary_.trie;
    for (std::uint32_t c = node + 1; c < trie.after(node); c = trie.after(c)) {
      const std::uint8_t byte = trie.byte(c);
      if (byte == '"' && dfa_.accepts[state]) {
        for (std::uint32_t e = trie.first(c); e < trie.subtree_end(c); ++e)
          closings_.push_back({vocabulary_.texts[e].substr(depth + 1), vocabulary_.tokens[e], chars});
        continue;
      }
      const std::uint32_t next = dfa_.step(state, byte);
      if (next == Dfa::kDead) continue;
      const std::uint32_t begun = chars + (dfa_.boundary[state] ? 1 : 0);
      if (trie.ends(c)) {
        std::vector<TokenId>& group = stays(begun, next);
        for (std::uint32_t e = trie.first(c); e < trie.own_end(c); ++e) group.push_back(vocabulary_.tokens[e]);
      }
      visit(c, next, begun, depth + 1);
    }
  }

  Slice finish() {
    Slice slice;
    for (std::uint32_t chars = 0; chars < stays_.size(); ++chars) {
      for (const Stay& stay : stays_[chars]) {
        const auto first = static_cast<std::uint32_t>(slice.stay.size());
        slice.stay.insert(slice.stay.end(), stay.tokens.begin(), stay.tokens.end());
        slice.groups.push_back({chars, stay.state, first, static_cast<std::uint32_t>(slice.stay.size())});
      }
    }
    if (slice.stay.size() >= kDenseFrom) {
      slice.dense.assign(vocabulary_.words(), 0);
      for (const TokenId id : slice.stay) slice.dense[static_cast<std::size_t>(id) / 32] |= 1U << (id % 32);
    }
    std::sort(closings_.begin(), closings_.end(), [](const Closing& a, const Closing& b) { return a.text < b.text; });
    std::vector<std::string_view> texts;
    for (const Closing& closing : closings_) {
      texts.push_back(closing.text);
      slice.closing_tokens.push_back(closing.token);
      slice.closing_chars.push_back(closing.chars);
    }
    slice.closings = Trie(texts);
    return slice;
  }

 private:
  struct Stay {
    std::uint32_t state;
    std::vector<TokenId> tokens;
  };
  struct Closing {
    std::string_view text;
    TokenId token;
    std::uint32_t chars;
  };
  std::vector<TokenId>& stays(std::uint32_t chars, std::uint32_t state) {
    if (stays_.size() <= chars) stays_.resize(chars + 1);
    std::vector<Stay>& group = stays_[chars];
    auto at = std::find_if(group.begin(), group.end(), [state](const Stay& s) { return s.state == state; });
    if (at == group.end()) at = group.insert(at, {state, {}});
    return at->tokens;
  }

  const Dfa& dfa_;
  const TokenTrie& vocabulary_;
  std::vector<std::vector<Stay>> stays_;  // by code points; few states each
  std::vector<Closing> closings_;
};

/// The number of bytes of a node's text.
std::uint32_t depth_of(const Trie& trie, std::uint32_t node) {
  std::uint32_t depth = 0;
  for (std::uint32_t n = 0; n != node; ++depth) {
    std::uint32_t child = n + 1;
    while (trie.after(child) <= node) child = trie.after(child);
    n = child;
  }
  return depth;
}

}  // namespace

Slice make_slice(const Dfa& dfa, std::uint32_t state, const TokenTrie& vocabulary, std::uint32_t node) {
  Maker maker(dfa, vocabulary);
  maker.visit(node, state, 0, depth_of(vocabulary.trie, node));
  return maker.finish();
}

std::shared_ptr<const Slice> SliceCache::get(std::uint32_t number, const Dfa& dfa, std::uint32_t state,
                                             const TokenTrie& vocabulary, std::uint32_t node) {
  const auto key = std::make_tuple(number, state, node);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto at = slices_.find(key); at != slices_.end()) return at->second;
  }
  auto made = std::make_shared<const Slice>(make_slice(dfa, state, vocabulary, node));
  const std::scoped_lock lock(mutex_);
  if (bytes_ + made->bytes() > limit_) {
    slices_.clear();
    bytes_ = 0;
  }
  const auto [at, is_new] = slices_.try_emplace(key, std::move(made));
  if (is_new) bytes_ += at->second->bytes();
  return at->second;
}

}  // namespace mortar::grammar
