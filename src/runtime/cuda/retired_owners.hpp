// Owners of foreign memory that the device still uses: each waits for an event, and is let go by a host thread, because
// what an owner does when it goes (free device memory, call into another library) is forbidden in a driver's callback.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/event_pool.hpp"

namespace tessera::runtime::cuda {

class RetiredOwners {
 public:
  explicit RetiredOwners(const Context& context) : context_(context) {}

  /// Keeps `owner` until `event`, which is recorded, has passed. Takes it only if it does not throw.
  void add(std::shared_ptr<void>& owner, PooledEvent event);
  /// Lets go of those whose event has passed (all, if the device is dead). Called where the runtime holds no lock.
  void poll() noexcept {
    if (count_.load(std::memory_order_relaxed) != 0) release(false);
  }
  /// Lets go of all. Nothing is running any more.
  void clear() noexcept { release(true); }

 private:
  struct Waiting {
    std::shared_ptr<void> owner;
    PooledEvent event;
  };
  void release(bool all) noexcept;

  const Context& context_;
  std::atomic<int> count_{0};
  std::mutex mutex_;
  std::vector<Waiting> waiting_;
};

}  // namespace tessera::runtime::cuda
