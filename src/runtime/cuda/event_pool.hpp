// A pool of driver events without timing: creating one costs several times what recording it does.
#pragma once
#include <mutex>
#include <vector>

#include "runtime/cuda/context.hpp"

namespace tessera::runtime::cuda {

class EventPool {
 public:
  explicit EventPool(const Context& context) : context_(context) {}
  ~EventPool();  ///< every event must have been returned
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// The context is current. Throws DeviceError.
  CUevent take();
  /// Returns an event. Waits for it that are already enqueued stay valid when it is recorded again ("CUDA Driver API",
  /// cuStreamWaitEvent: a wait refers to the most recent record at the time of the call).
  void give(CUevent event) noexcept;

 private:
  const Context& context_;
  std::mutex mutex_;
  std::vector<CUevent> free_;  // room for all events that were made
  std::size_t made_ = 0;
};

/// An event; the destructor returns it to its pool.
class PooledEvent {
 public:
  explicit PooledEvent(EventPool& pool) : pool_(&pool), event_(pool.take()) {}
  PooledEvent(PooledEvent&& other) noexcept : pool_(other.pool_), event_(other.event_) { other.event_ = nullptr; }
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~PooledEvent() {
    if (event_ != nullptr) pool_->give(event_);
  }
  CUevent get() const noexcept { return event_; }

 private:
  EventPool* pool_;
  CUevent event_;
};

}  // namespace tessera::runtime::cuda
