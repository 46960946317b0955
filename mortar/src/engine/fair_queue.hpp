// Requests that have not begun, and whose turn it is.
//
// Each key has an account of the tokens that were computed for it (Sheng et al. 2024, "Fairness in Serving Large
// Language Models"). The next request is one of the key with the smallest account. A key that comes back after it had
// nothing queued has at least the smallest account of those that wait, so that idleness is not saved up. Within a key
// requests go in the order in which they came, moved by their priority: a level is worth kPlaces places, so no request
// waits for ever behind later ones with a better priority.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/sequence.hpp"

namespace mortar {

class FairQueue {
 public:
  /// Places that a level of priority is worth.
  static constexpr std::int64_t kPlaces = 16;

  void push(SequencePtr s);
  /// Whose turn it is; null: none waits.
  SequencePtr next() const;
  void erase(const Sequence& s);
  /// Another sequence of the same request takes the place of one that waits.
  void replace(const Sequence& s, SequencePtr by);
  /// Tokens were computed for a key.
  void charge(const std::string& key, std::int64_t tokens);

  std::int64_t size() const noexcept { return size_; }
  /// Of all prompts.
  std::int64_t tokens() const noexcept { return tokens_; }
  /// The account of a key, 0 if it has none.
  std::int64_t account(const std::string& key) const;
  /// Keys with an account.
  std::size_t keys() const noexcept { return accounts_.size(); }

 private:
  struct Account {
    std::int64_t computed = 0;
    std::int64_t arrivals = 0;
    std::map<std::pair<std::int64_t, std::uint64_t>, SequencePtr> queued;  ///< by Sequence::turn
  };
  /// The smallest account of the keys that wait; if none does, the largest since then.
  std::int64_t floor() const;
  Account& account_of(const std::string& key);

  std::map<std::string, Account, std::less<>> accounts_;
  std::uint64_t arrivals_ = 0;
  std::int64_t size_ = 0, tokens_ = 0;
  std::int64_t last_ = 0;      ///< the floor while nothing is queued
  std::size_t swept_at_ = 64;  ///< accounts that nothing depends on are removed when there are so many
};

}  // namespace mortar
