// The added tokens of a tokenizer: names that are found in a text before anything else is done with it.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "mortar/tokenizer.hpp"

namespace mortar::text {

/// A tree of names, byte by byte. Of the names at a place the longest is found.
class AddedTokenTree {
 public:
  void add(std::string_view name, TokenId id);
  bool empty() const { return nodes_.size() == 1; }
  struct Found {
    std::size_t begin, end;
    TokenId id;
  };
  /// The first name at or after `from`; begin is text.size() where there is none.
  Found find(std::string_view text, std::size_t from) const;

 private:
  struct Node {
    TokenId id = -1;
    std::vector<std::pair<unsigned char, std::uint32_t>> next = {};  // by byte
  };
  std::uint32_t child(std::uint32_t node, unsigned char byte) const;
  std::vector<Node> nodes_{Node{}};
  std::uint32_t root_[256] = {};  // 0: none
};

}  // namespace mortar::text
