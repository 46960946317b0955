// Owners of foreign memory that the device still uses: each is released by a host thread after its event has completed.
// A driver callback could not release it: owners may free device memory or call other libraries.
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

  /// Keeps `owner` until `event`, which has been recorded, has completed. Takes it only if it does not throw.
  void add(std::shared_ptr<void>& owner, PooledEvent event);
  /// Releases the owners whose event has completed (all, if the device is dead). The caller holds no lock.
  void poll() noexcept {
    if (count_.load(std::memory_order_relaxed) != 0) release(false);
  }
  /// Releases all. No work may be running.
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
