// The host layer's own work that a device's driver does by itself: fills with one value, dense copies. Faster than a
// kernel of ours, and nothing has to be compiled.
#pragma once
#include <cstddef>

#include "tessera/host/create.hpp"

namespace tessera::detail {

/// Overwrites all of `to` as `recipe` says. False, having done nothing, if the driver cannot: only values whose bytes
/// repeat after 1, 2 or 4.
bool fill_by_driver(const Stream&, const runtime::StorageRef& to, const Recipe& recipe);

/// Copies `bytes` bytes between storages of the stream's device. False, having done nothing, if the driver cannot.
bool copy_by_driver(const Stream&, const runtime::StorageRef& to, std::size_t to_offset,
                    const runtime::StorageRef& from, std::size_t from_offset, std::size_t bytes, const char* label,
                    SourceLocation);

/// Checked mode: work that `stream` enqueues next writes [offset, offset + bytes) of `to` and knows nothing of its
/// shadow, so that is told here.
void mark_written(const Stream&, const runtime::StorageRef& to, std::size_t offset, std::size_t bytes,
                  const char* label, SourceLocation);

}  // namespace tessera::detail
