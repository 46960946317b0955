// Queues and events of a GPU: driver streams and driver events.
#pragma once
#include <memory>

#include "runtime/cuda/context.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::runtime::cuda {

class CudaBackend;

/// Throws DeviceError.
std::unique_ptr<Queue> make_queue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer, int priority = 0);
/// Of another library's stream, which Backend::examine_stream has accepted.
std::unique_ptr<Queue> wrap_queue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer,
                                  const NativeStream& native);
/// On the stream of another library whose operator is running (tessera/runtime/guest.hpp).
std::unique_ptr<Queue> guest_queue(CudaBackend& backend, void* native);
/// Throws DeviceError if the stream is being captured into a graph, or the driver does not say. The context is current.
void check_not_capturing(const Context& context, CUstream stream, const char* what, SourceLocation where);

}  // namespace tessera::runtime::cuda
