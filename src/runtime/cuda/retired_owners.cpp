// Polling the events of retired owners.
#include "runtime/cuda/retired_owners.hpp"

#include <utility>

namespace tessera::runtime::cuda {

void RetiredOwners::add(std::shared_ptr<void>& owner, PooledEvent event) {
  std::lock_guard lock(mutex_);
  waiting_.reserve(waiting_.size() + 1);
  waiting_.push_back({std::move(owner), std::move(event)});
  count_.store(static_cast<int>(waiting_.size()), std::memory_order_relaxed);
}

void RetiredOwners::release(bool all) noexcept {
  const Current current(context_, std::nothrow);
  for (;;) {
    std::shared_ptr<void> owner;  // released after the lock: its destructor may run any code
    std::lock_guard lock(mutex_);
    std::size_t i = 0;
    while (i < waiting_.size() && !all && !context_.has_ended(waiting_[i].event.get())) ++i;
    if (i == waiting_.size()) return;
    owner = std::move(waiting_[i].owner);
    if (i + 1 != waiting_.size()) std::swap(waiting_[i], waiting_.back());
    waiting_.pop_back();
    count_.store(static_cast<int>(waiting_.size()), std::memory_order_relaxed);
  }
}

}  // namespace tessera::runtime::cuda
