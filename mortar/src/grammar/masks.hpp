// Masks of allowed tokens. Most are found by the top of the threads' stacks: a mask that was computed without looking
// below a certain depth holds for everything that is equal down to there.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/threads.hpp"
#include "grammar/vocabulary.hpp"

namespace mortar::grammar {

using Words = std::vector<std::uint32_t>;

/// The masks of one grammar and vocabulary that are known. Safe to use from several threads.
class MaskCache {
 public:
  static constexpr std::size_t kLimit = std::size_t{32} << 20;  // bytes, of masks and of slices each

  explicit MaskCache(std::uint64_t vocabulary) : slices(kLimit), vocabulary_(vocabulary) {}

  struct Mask {
    Words words;               ///< the whole mask, or
    std::vector<TokenId> ids;  ///< its tokens, where they are few
  };
  struct Found {
    std::shared_ptr<const Mask> mask;  ///< null: unknown, or
    bool is_deeper = false;            ///< known by more of the stacks
  };
  Found find(const Words& key);
  void add(const Words& key, std::span<const std::uint32_t> words);
  void add_deeper(const Words& key);
  std::uint64_t vocabulary() const { return vocabulary_; }
  /// Of the masks and the slices.
  std::size_t bytes() const;

  SliceCache slices;  ///< of the strings of this grammar

 private:
  struct Hash {
    std::size_t operator()(const Words& key) const;
  };
  void make_room(std::size_t bytes);

  mutable std::mutex mutex_;
  std::unordered_map<Words, Found, Hash> known_;
  std::size_t bytes_ = 0;
  std::uint64_t vocabulary_;
};

/// Computes masks for one answer at a time.
class MaskMaker {
 public:
  MaskMaker(const Program& program, const Vocabulary::State& vocabulary, MaskCache& cache, Stacks& stacks,
            const std::vector<TokenId>& token_ids);

  /// The mask of the tokens of text, and of those that the program names. Valid until the next call.
  std::span<const std::uint32_t> make(const Threads& threads);

 private:
  struct Body {
    const Dfa* dfa;  // null: the thread reads something else
    std::uint32_t number, state;
    const LengthTable* lengths;
  };
  Body body_of(const Thread& thread) const;
  std::uint32_t item_key(Pc ret, std::uint32_t count) const;
  bool add_threads(const Threads& threads, Words& key);
  bool add_level(Words& key);
  void find_levels(std::vector<std::uint32_t>& levels);
  void compute(const Threads& threads);
  void set(TokenId id) { mask_[static_cast<std::size_t>(id) / 32] |= 1U << (id % 32); }
  void take_slices(std::uint32_t node, Threads& threads, std::size_t depth);
  void apply(const Slice& slice, const Thread& thread, const Body& body, std::size_t depth);
  void apply_stay(const Slice& slice, const Thread& thread, const Body& body);
  void apply_other_name(const Thread& thread, std::size_t depth);
  void clear_names(const Names& names, std::uint32_t name, std::uint32_t node);
  template <class Emit>
  void walk(const Trie& trie, std::uint32_t node, std::size_t depth, const Emit& emit);
  template <class Emit>
  void walk_dfa(const Trie& trie, std::uint32_t node, const Thread& thread, std::size_t depth, const Emit& emit);
  bool first_bytes(const Threads& threads, std::array<bool, 256>& allowed) const;
  Threads& level(std::size_t depth);

  const Program& program_;
  const Vocabulary::State& vocabulary_;
  MaskCache& cache_;
  Stacks& stacks_;
  const std::vector<TokenId>& token_ids_;
  Stepper stepper_;
  Words mask_, other_mask_, key_;
  std::deque<Threads> levels_;
  std::vector<std::uint32_t> order_;  // nodes in the order in which the key has them
  std::size_t expanded_ = 0;          // how many of these the key shows
  std::unordered_map<std::uint32_t, std::uint32_t> place_;
};

}  // namespace mortar::grammar
