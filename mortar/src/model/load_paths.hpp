// The two ways by which weights get onto a device (load.cpp chooses).
#pragma once
#include "mortar/load.hpp"

namespace mortar::model {

/// For devices with memory of their own, and for tests on the CPU: through pinned buffers.
Weights load_staged(const ModelSpec& model, const Checkpoint& checkpoint, tessera::Device device,
                    const LoadOptions& options);
/// For the CPU: in the mapped files where they are as the kernels want them, else one copy.
Weights load_mapped(const ModelSpec& model, const Checkpoint& checkpoint, const LoadOptions& options);

}  // namespace mortar::model
