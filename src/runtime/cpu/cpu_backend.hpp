// The CPU as a device. One per process, never destroyed.
#pragma once
#include "tessera/runtime/backend.hpp"

namespace tessera::runtime {

Backend& cpu_backend();

}  // namespace tessera::runtime
