// The queue of a CPU stream other than the default one: a thread that runs its work in order.
#pragma once
#include <memory>

#include "tessera/runtime/backend.hpp"

namespace tessera::runtime {

/// Throws DeviceError if the system gives no more threads.
std::unique_ptr<Queue> make_thread_queue(Backend& backend, std::shared_ptr<QueueObserver> observer);

}  // namespace tessera::runtime
