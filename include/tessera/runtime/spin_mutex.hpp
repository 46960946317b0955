// A mutex for a few instructions: taking it costs one exchange without contention, a third of std::mutex (a launch
// takes one per storage, twice).
#pragma once
#include <atomic>

namespace tessera::runtime {

/// Never held during a call that may block. Waits by yielding the CPU. For std::lock_guard.
class SpinMutex {
 public:
  void lock() noexcept {
    while (locked_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  void wait() noexcept;
  std::atomic<bool> locked_{false};
};

}  // namespace tessera::runtime
