// For timing a stream's work: marks in its order, and work that occupies the device or empties its caches.
#pragma once
#include <memory>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

/// Enqueues a mark, which has a time once it has been reached. Throws DeviceError.
std::shared_ptr<const TimeMark> place_time_mark(const Stream& stream);

/// Enqueues writing zeros over `storage`, whose device must have a pattern_fill(). `label`: its name in errors. Throws
/// DeviceError.
void overwrite(const Stream& stream, const StorageRef& storage, const char* label);

}  // namespace tessera::runtime
