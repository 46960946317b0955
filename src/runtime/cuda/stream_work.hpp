// Memsets and device-to-device copies of the driver, as work of a stream.
#pragma once
#include <memory>

#include "runtime/cuda/context.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::runtime::cuda {

/// Backend::pattern_fill(), range_copy() and range_fill(). The context outlives them.
std::shared_ptr<const Launchable> make_pattern_fill(const Context& context);
std::shared_ptr<const Launchable> make_range_copy(const Context& context);
std::shared_ptr<const Launchable> make_range_fill(const Context& context);

}  // namespace tessera::runtime::cuda
