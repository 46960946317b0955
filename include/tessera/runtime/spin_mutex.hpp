// A mutex for a few instructions: taking it costs one exchange where nobody else wants it, a third of what std::mutex
// costs (a launch takes one per storage, twice).
#pragma once
#include <atomic>

namespace tessera::runtime {

/// Never held over a call that may block. Waits by giving the processor away. For std::lock_guard.
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
