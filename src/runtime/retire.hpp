// The end of memory: behind its last uses, without blocking the host where the device can do it in order.
#pragma once
#include <span>

#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

/// Frees `memory` (or releases its owner) once `uses` have ended. Never throws and never loses memory: where the device
/// cannot order the end behind the uses, the host waits for them.
void retire(Backend& backend, Retired memory, std::span<const Use> uses) noexcept;

}  // namespace tessera::runtime
