// Queues and events of a GPU: driver streams and driver events.
#pragma once
#include <memory>

#include "tessera/runtime/backend.hpp"

namespace tessera::runtime::cuda {

class CudaBackend;

/// Throws DeviceError.
std::unique_ptr<Queue> make_queue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer);

}  // namespace tessera::runtime::cuda
