// The free list of events.
#include "runtime/cuda/event_pool.hpp"

namespace tessera::runtime::cuda {

EventPool::~EventPool() {
  const Current current(context_, std::nothrow);
  if (!current) return;
  for (CUevent event : free_) context_.driver().cuEventDestroy(event);
}

CUevent EventPool::take() {
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    CUevent event = free_.back();
    free_.pop_back();
    return event;
  }
  free_.reserve(made_ + 1);
  CUevent event = nullptr;
  context_.check(context_.driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate", "making an event");
  ++made_;
  return event;
}

void EventPool::give(CUevent event) noexcept {
  if (context_.unusable_after_fork()) return;  // another thread of the parent may have held the lock
  std::lock_guard lock(mutex_);
  free_.push_back(event);
}

}  // namespace tessera::runtime::cuda
