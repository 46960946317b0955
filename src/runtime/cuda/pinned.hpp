// Memory of the host that GPUs copy from and to without a detour.
#pragma once
#include <cstddef>
#include <memory>

#include "runtime/cuda/context.hpp"

namespace tessera::runtime::cuda {

/// For all GPUs of the process. Freed with the last reference, on a host thread. Throws DeviceError.
std::shared_ptr<void> pinned_memory(const Context& context, std::size_t bytes);

}  // namespace tessera::runtime::cuda
