// Waiting for a spin mutex: polls it, then yields the processor to the thread that holds it.
#include "tessera/runtime/spin_mutex.hpp"

#include <sched.h>

namespace tessera::runtime {

void SpinMutex::wait() noexcept {
  for (int i = 0; i < 100; ++i) {
    if (!locked_.load(std::memory_order_relaxed)) return;
  }
  sched_yield();
}

}  // namespace tessera::runtime
