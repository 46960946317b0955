// Waiting for a spin mutex: looking, and then giving the processor to whoever holds it.
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
