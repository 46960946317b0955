// Driver events without timing, made once and used again: making one costs several times what recording it does.
#pragma once
#include <mutex>
#include <vector>

#include "runtime/cuda/context.hpp"

namespace tessera::runtime::cuda {

class EventPool {
 public:
  explicit EventPool(const Context& context) : context_(context) {}
  ~EventPool();  ///< every event has been given back
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// The context is current. Throws DeviceError.
  CUevent take();
  /// A wait for the event that was enqueued before stays valid when the event is recorded anew ("CUDA Driver API",
  /// cuStreamWaitEvent: it refers to the most recent record at the time of the call).
  void give(CUevent event) noexcept;

 private:
  const Context& context_;
  std::mutex mutex_;
  std::vector<CUevent> free_;  // room for all events that were made
  std::size_t made_ = 0;
};

/// An event that goes back to its pool.
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
