// The host layer's operations that the driver implements: fills with one value, dense copies. They are faster than a
// kernel, and nothing has to be compiled.
#pragma once
#include <cstddef>

#include "tessera/host/create.hpp"

namespace tessera::detail {

/// Overwrites all of `to` with `recipe`. Returns false without effect if the driver cannot: it fills only values whose
/// bytes repeat after 1, 2 or 4.
bool fill_by_driver(const Stream&, const runtime::StorageRef& to, const Recipe& recipe);

/// Copies `bytes` bytes between storages of the stream's device. Returns false without effect if the driver cannot.
bool copy_by_driver(const Stream&, const runtime::StorageRef& to, std::size_t to_offset,
                    const runtime::StorageRef& from, std::size_t from_offset, std::size_t bytes, const char* label,
                    SourceLocation);

/// Checked mode: marks [offset, offset + bytes) of `to` as written in its shadow, for work that `stream` enqueues next
/// and that does not update the shadow itself.
void mark_written(const Stream&, const runtime::StorageRef& to, std::size_t offset, std::size_t bytes,
                  const char* label, SourceLocation);

}  // namespace tessera::detail
