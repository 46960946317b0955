// Byte-pair encoding of one piece of text (Sennrich et al. 2016): of all adjacent pairs that have a merge, the one of
// the lowest rank is merged, the leftmost first, until none is left.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mortar/tokenizer.hpp"

namespace mortar::text {

/// The tokens of a vocabulary as bytes, by id and by content.
class Vocabulary {
 public:
  static constexpr TokenId kMaxTokens = 1 << 20;
  void reserve(std::size_t tokens, std::size_t bytes);
  /// False if the id is taken. Ids are below kMaxTokens.
  bool add(TokenId id, std::string_view bytes);
  /// -1: none. Where two ids have the same bytes, the first that was added.
  TokenId find(std::string_view bytes) const;
  bool has(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < tokens_.size() &&
           tokens_[static_cast<std::size_t>(id)].bytes != kNone;
  }
  std::string_view bytes(TokenId id) const {
    const Token& t = tokens_[static_cast<std::size_t>(id)];
    return {bytes_.data() + t.begin, t.bytes};
  }
  /// One more than the largest id.
  TokenId size() const { return static_cast<TokenId>(tokens_.size()); }
  std::size_t count() const { return count_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Token {
    std::size_t begin = 0;
    std::uint32_t bytes = kNone;
  };
  void grow();
  std::size_t slot_of(std::string_view bytes) const;

  std::vector<Token> tokens_;
  std::string bytes_;
  std::vector<TokenId> slots_;  // open addressing; -1: free
  std::size_t count_ = 0, used_slots_ = 0;
};

class BytePairs {
 public:
  explicit BytePairs(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void reserve(std::size_t merges);
  /// Ranks are added in ascending order; of two merges of the same pair the later holds, as in `tokenizers`.
  void add_merge(TokenId left, TokenId right, TokenId merged);
  /// To be called once, after the last merge. A piece that is a token is not divided if `whole_pieces`.
  /// Returns a byte that is no token, or -1.
  int finish(bool whole_pieces);
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    std::uint64_t pair;
    std::uint32_t rank;
    TokenId merged;
  };
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  const Merge& merge_of(TokenId left, TokenId right) const;
  void encode_short(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, std::vector<TokenId>& out) const;
  void grow();

  const Vocabulary& vocabulary_;
  std::vector<Merge> merges_;  // open addressing
  std::size_t pairs_ = 0;
  std::uint32_t next_rank_ = 0;
  TokenId byte_[256] = {};
  bool whole_pieces_ = false;
  bool one_merge_each_ = true;  // no two merges make the same token
  /// Whether the bytes of a token are encoded as that token: found out when it is first needed.
  enum class Whole : std::uint8_t { Unknown, Yes, No };
  mutable std::unique_ptr<std::atomic<Whole>[]> whole_;
};

}  // namespace mortar::text
