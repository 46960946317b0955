// The tree of names: the first byte by a table, the others by lists in order of bytes.
#include "text/added_tokens.hpp"

#include <algorithm>

namespace mortar::text {
namespace {

constexpr auto kByByte = [](const std::pair<unsigned char, std::uint32_t>& e, unsigned char byte) {
  return e.first < byte;
};

}  // namespace

std::uint32_t AddedTokenTree::child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return root_[byte];
  const auto& next = nodes_[node].next;
  const auto found = std::lower_bound(next.begin(), next.end(), byte, kByByte);
  return found == next.end() || found->first != byte ? 0 : found->second;
}

void AddedTokenTree::add(std::string_view name, TokenId id) {
  std::uint32_t node = 0;
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    std::uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      if (node == 0) {
        root_[byte] = next;
      } else {
        auto& list = nodes_[node].next;
        list.insert(std::lower_bound(list.begin(), list.end(), byte, kByByte), {byte, next});
      }
    }
    node = next;
  }
  nodes_[node].id = id;
}

AddedTokenTree::Found AddedTokenTree::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::uint32_t node = root_[static_cast<unsigned char>(text[begin])];
    if (node == 0) continue;
    Found longest{begin, 0, -1};
    for (std::size_t end = begin + 1;; ++end) {
      if (nodes_[node].id >= 0) longest.end = end, longest.id = nodes_[node].id;
      if (end == text.size()) break;
      node = child(node, static_cast<unsigned char>(text[end]));
      if (node == 0) break;
    }
    if (longest.id >= 0) return longest;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace mortar::text
