// The queue of the CPU's default stream: work runs on the calling thread and has ended when launch() returns.
#pragma once
#include <memory>

#include "tessera/runtime/backend.hpp"

namespace tessera::runtime {

std::unique_ptr<Queue> make_immediate_queue(Backend& backend, std::shared_ptr<QueueObserver> observer);

}  // namespace tessera::runtime
