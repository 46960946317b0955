// Building a trie from sorted texts.
#include "grammar/trie.hpp"

#include <algorithm>

namespace mortar::grammar {

Trie::Trie(std::span<const std::string_view> texts) {
  std::vector<std::uint32_t> path = {0};  // nodes from the root to the end of the text before
  nodes_.push_back({0, 0, 0});
  std::string_view before;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      nodes_[path.back()].after = static_cast<std::uint32_t>(nodes_.size());
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string_view text = texts[i];
    const std::size_t most = std::min(text.size(), before.size());
    std::size_t shared = 0;
    while (shared < most && text[shared] == before[shared]) ++shared;
    close(shared);
    for (std::size_t at = shared; at < text.size(); ++at) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(text[at])});
    }
    before = text;
  }
  close(0);
  nodes_[0].after = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<std::uint32_t>(texts.size()), 0});
}

}  // namespace mortar::grammar
