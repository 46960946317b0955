// Texts that share their beginnings: nodes in the order of their texts, so that a subtree is a range.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mortar::grammar {

class Trie {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  Trie() = default;
  /// `texts` are sorted; texts may repeat. Entry i is text i.
  explicit Trie(std::span<const std::string_view> texts);

  std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()) - 1; }
  std::uint8_t byte(std::uint32_t node) const { return nodes_[node].byte; }
  /// The node after the subtree of `node`.
  std::uint32_t after(std::uint32_t node) const { return nodes_[node].after; }
  bool is_leaf(std::uint32_t node) const { return nodes_[node].after == node + 1; }
  /// Entries that end at the node: from first(node) to own_end(node); in its subtree: to subtree_end(node).
  std::uint32_t first(std::uint32_t node) const { return nodes_[node].first; }
  std::uint32_t own_end(std::uint32_t node) const { return nodes_[node + 1].first; }
  std::uint32_t subtree_end(std::uint32_t node) const { return nodes_[nodes_[node].after].first; }
  bool ends(std::uint32_t node) const { return own_end(node) > first(node); }
  /// The child by a byte, or kNone.
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const {
    for (std::uint32_t c = node + 1; c < nodes_[node].after; c = nodes_[c].after) {
      if (nodes_[c].byte == byte) return c;
    }
    return kNone;
  }
  std::size_t bytes() const { return nodes_.size() * sizeof(Node); }

 private:
  struct Node {
    std::uint32_t after, first;
    std::uint8_t byte;
  };
  std::vector<Node> nodes_;  // the last one stands after all
};

}  // namespace mortar::grammar
