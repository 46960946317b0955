// Accounts of keys, and their queues.
#include "engine/fair_queue.hpp"

#include <algorithm>
#include <limits>

namespace mortar {

std::int64_t FairQueue::floor() const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [key, account] : accounts_)
    if (!account.queued.empty()) least = std::min(least, account.computed);
  return size_ > 0 ? least : last_;
}

FairQueue::Account& FairQueue::account_of(const std::string& key) {
  if (const auto at = accounts_.find(key); at != accounts_.end()) return at->second;
  const std::int64_t least = floor();
  if (accounts_.size() >= swept_at_) {
    // A key that comes back gets the floor anyway.
    std::erase_if(accounts_, [&](const auto& a) { return a.second.queued.empty() && a.second.computed <= least; });
    swept_at_ = 2 * accounts_.size() + 64;
  }
  Account& account = accounts_[key];
  account.computed = least;
  return account;
}

void FairQueue::push(SequencePtr s) {
  Account& account = account_of(s->request().key);
  if (account.queued.empty()) account.computed = std::max(account.computed, floor());
  s->turn = {account.arrivals++ + kPlaces * s->request().priority, arrivals_++};
  ++size_;
  tokens_ += s->prompt();
  account.queued.emplace(s->turn, std::move(s));
}

SequencePtr FairQueue::next() const {
  const Account* best = nullptr;
  for (const auto& [key, account] : accounts_) {
    if (account.queued.empty()) continue;
    // Of equal accounts, the one whose request came first.
    if (best == nullptr || account.computed < best->computed ||
        (account.computed == best->computed &&
         account.queued.begin()->first.second < best->queued.begin()->first.second))
      best = &account;
  }
  return best == nullptr ? nullptr : best->queued.begin()->second;
}

void FairQueue::erase(const Sequence& s) {
  Account& account = account_of(s.request().key);
  --size_;
  tokens_ -= s.prompt();
  account.queued.erase(s.turn);
  if (account.queued.empty()) last_ = std::max(last_, account.computed);
}

void FairQueue::replace(const Sequence& s, SequencePtr by) {
  by->turn = s.turn;
  account_of(s.request().key).queued.at(s.turn) = std::move(by);
}

void FairQueue::charge(const std::string& key, std::int64_t tokens) {
  Account& account = account_of(key);
  account.computed += tokens;
  if (size_ == 0) last_ = std::max(last_, account.computed);
}

std::int64_t FairQueue::account(const std::string& key) const {
  const auto at = accounts_.find(key);
  return at == accounts_.end() ? 0 : at->second.computed;
}

}  // namespace mortar
