// Short pieces search the lowest rank in an array; long ones use a queue, so that n bytes cost n log n.
#include "text/byte_pairs.hpp"

#include <algorithm>
#include <cstring>
#include <queue>

namespace mortar::text {
namespace {

constexpr std::size_t kShort = 64;

std::uint64_t mix(std::uint64_t h) {
  h ^= h >> 32;
  h *= 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

std::uint64_t hash(std::string_view bytes) {
  std::uint64_t h = bytes.size() * 0x9E3779B97F4A7C15u;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    h = mix(h ^ word);
    bytes.remove_prefix(8);
  }
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return mix(h ^ word);
}

/// Slots for so many entries, at most two thirds of them used.
std::size_t slots_for(std::size_t entries) {
  std::size_t slots = 64;
  while (slots * 2 / 3 <= entries) slots *= 2;
  return slots;
}

}  // namespace

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  tokens_.reserve(tokens);
  bytes_.reserve(bytes);
  slots_.assign(slots_for(tokens), -1);
}

std::size_t Vocabulary::slot_of(std::string_view key) const {
  std::size_t slot = hash(key) & (slots_.size() - 1);
  while (slots_[slot] >= 0 && bytes(slots_[slot]) != key) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void Vocabulary::grow() {
  std::vector<TokenId> old(slots_for(used_slots_ + 1), -1);
  old.swap(slots_);
  for (TokenId id : old) {
    if (id >= 0) slots_[slot_of(bytes(id))] = id;
  }
}

bool Vocabulary::add(TokenId id, std::string_view bytes) {
  if (has(id)) return false;
  const auto at = static_cast<std::size_t>(id);
  if (at >= tokens_.size()) tokens_.resize(at + 1);
  tokens_[at] = {bytes_.size(), static_cast<std::uint32_t>(bytes.size())};
  bytes_.append(bytes);
  ++count_;
  if (slots_.size() * 2 / 3 <= used_slots_) grow();
  const std::size_t slot = slot_of(bytes);
  if (slots_[slot] < 0) {
    slots_[slot] = id;
    ++used_slots_;
  }
  return true;
}

TokenId Vocabulary::find(std::string_view bytes) const { return slots_.empty() ? -1 : slots_[slot_of(bytes)]; }

void BytePairs::reserve(std::size_t merges) { merges_.assign(slots_for(merges), Merge{kFree, kNoRank, -1}); }

void BytePairs::grow() {
  std::vector<Merge> old(slots_for(pairs_ + 1), Merge{kFree, kNoRank, -1});
  old.swap(merges_);
  for (const Merge& m : old) {
    if (m.pair == kFree) continue;
    std::size_t slot = mix(m.pair) & (merges_.size() - 1);
    while (merges_[slot].pair != kFree) slot = (slot + 1) & (merges_.size() - 1);
    merges_[slot] = m;
  }
}

const BytePairs::Merge& BytePairs::merge_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  std::size_t slot = mix(pair) & (merges_.size() - 1);
  while (merges_[slot].pair != pair && merges_[slot].pair != kFree) slot = (slot + 1) & (merges_.size() - 1);
  return merges_[slot];
}

void BytePairs::add_merge(TokenId left, TokenId right, TokenId merged) {
  if (merges_.size() * 2 / 3 <= pairs_) grow();
  auto& place = const_cast<Merge&>(merge_of(left, right));
  if (place.pair == kFree) ++pairs_;
  place = {std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right), next_rank_++,
           merged};
}

int BytePairs::finish(bool whole_pieces) {
  if (merges_.empty()) reserve(0);
  whole_pieces_ = whole_pieces;
  std::vector<bool> made(static_cast<std::size_t>(vocabulary_.size()));
  for (const Merge& m : merges_) {
    if (m.pair == kFree) continue;
    if (made[static_cast<std::size_t>(m.merged)]) one_merge_each_ = false;
    made[static_cast<std::size_t>(m.merged)] = true;
  }
  whole_ = std::make_unique<std::atomic<Whole>[]>(static_cast<std::size_t>(vocabulary_.size()));
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_[b] = vocabulary_.find({&byte, 1});
    if (byte_[b] < 0) return b;
  }
  return -1;
}

void BytePairs::encode(std::string_view piece, std::vector<TokenId>& out) const {
  const TokenId whole = vocabulary_.find(piece);
  std::atomic<Whole>* known = whole < 0 ? nullptr : &whole_[static_cast<std::size_t>(whole)];
  if (known != nullptr && (whole_pieces_ || known->load(std::memory_order_relaxed) == Whole::Yes)) {
    out.push_back(whole);
    return;
  }
  const std::size_t before = out.size();
  if (piece.size() <= kShort && one_merge_each_)
    encode_short(piece, out);
  else
    encode_long(piece, out);
  if (known != nullptr)
    known->store(out.size() == before + 1 && out.back() == whole ? Whole::Yes : Whole::No, std::memory_order_relaxed);
}

void BytePairs::encode_short(std::string_view piece, std::vector<TokenId>& out) const {
  TokenId ids[kShort], merged[kShort];
  std::uint32_t ranks[kShort];  // of each token with the one after it
  std::size_t n = piece.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = byte_[static_cast<unsigned char>(piece[i])];
  const auto look_up = [&](std::size_t i) {
    const Merge& m = merge_of(ids[i], ids[i + 1]);
    ranks[i] = m.rank;
    merged[i] = m.merged;
  };
  for (std::size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    ids[best] = merged[best];
    --n;
    for (std::size_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1];
    for (std::size_t i = best + 1; i + 1 < n; ++i) ranks[i] = ranks[i + 1], merged[i] = merged[i + 1];
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  out.insert(out.end(), ids, ids + n);
}

void BytePairs::encode_long(std::string_view piece, std::vector<TokenId>& out) const {
  struct Token {
    TokenId id;  // -1: merged into the one before
    std::int64_t before, after;
  };
  struct Candidate {
    std::uint32_t rank;
    TokenId merged;
    std::int64_t at;
    bool operator<(const Candidate& b) const { return rank != b.rank ? rank > b.rank : at > b.at; }
  };
  const auto n = static_cast<std::int64_t>(piece.size());
  std::vector<Token> tokens(piece.size());
  std::vector<Candidate> first;
  for (std::int64_t i = 0; i < n; ++i)
    tokens[static_cast<std::size_t>(i)] = {byte_[static_cast<unsigned char>(piece[static_cast<std::size_t>(i)])], i - 1,
                                           i + 1 < n ? i + 1 : -1};
  const auto token = [&](std::int64_t i) -> Token& { return tokens[static_cast<std::size_t>(i)]; };
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    if (const Merge& m = merge_of(token(i).id, token(i + 1).id); m.rank != kNoRank)
      first.push_back({m.rank, m.merged, i});
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(first));
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Token& left = token(c.at);
    if (left.id < 0 || left.after < 0) continue;
    Token& right = token(left.after);
    // The pair may have changed since. As in `tokenizers`, what counts is the token that it makes.
    if (const Merge& m = merge_of(left.id, right.id); m.rank == kNoRank || m.merged != c.merged) continue;
    left.id = c.merged;
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) token(left.after).before = c.at;
    const auto candidate = [&](std::int64_t at) {
      const Merge& m = merge_of(token(at).id, token(token(at).after).id);
      if (m.rank != kNoRank) queue.push({m.rank, m.merged, at});
    };
    if (left.before >= 0) candidate(left.before);
    if (left.after >= 0) candidate(c.at);
  }
  for (std::int64_t i = 0; i >= 0 && i < n; i = token(i).after) out.push_back(token(i).id);
}

}  // namespace mortar::text
