// Weights onto a device: from the files of a checkpoint, or random ones.
//
// For a GPU several threads read the files into pinned buffers, from which the elements are copied to their final
// place. On the CPU tensors that are in the file as the kernels want them are used there (mapped, not copied); of the
// others one copy is made.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "mortar/checkpoint.hpp"
#include "mortar/plan.hpp"
#include "mortar/progress.hpp"
#include "mortar/weights.hpp"
#include "tessera/runtime/device.hpp"

namespace mortar {

struct LoadOptions {
  /// Called by the thread that loads, about ten times a second and at the end. What it throws ends the loading and is
  /// thrown again; nothing of the model remains.
  std::function<void(const LoadProgress&)> progress;
  int threads = 0;   ///< that read files; 0: chosen
  Ranks ranks = {};  ///< the weights are those of one rank
};

/// `model` is what Checkpoint::verify has returned. Throws ModelError if a file cannot be read, CapacityError if the
/// device has too little memory.
Weights load_weights(const ModelSpec& model, const Checkpoint& checkpoint, tessera::Device device,
                     const LoadOptions& options = {});

/// Weights of a model without files: normally distributed, scaled so that activations stay near 1; norms are 1. The
/// same for the same seed on every device. Throws CapacityError.
Weights random_weights(const ModelSpec& model, std::uint64_t seed, tessera::Device device,
                       const LoadOptions& options = {});

/// What the device has for this process, as the memory plan needs it.
DeviceMemory device_memory(tessera::Device device);

}  // namespace mortar
