// Freeing memory after its last uses, without blocking the host where the device can order the free.
#pragma once
#include <span>

#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

/// Frees `memory` (or releases its owner) once `uses` have ended. Never throws and never leaks: if the device cannot
/// order the free after the uses, the host waits for them.
void retire(Backend& backend, Retired memory, std::span<const Use> uses) noexcept;

}  // namespace tessera::runtime
