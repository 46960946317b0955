// Moving bytes between the host and storages, ordered against work in flight. The caller holds the lease.
#pragma once
#include <cstddef>

#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

/// Copies [offset, offset + bytes) of `from` to host memory; waits until the contents are there and returns when done.
/// Throws the failure that the contents carry, InternalError for a range outside the storage.
void copy_to_host(void* to, Storage& from, std::size_t offset, std::size_t bytes);
/// Copies host memory into [offset, offset + bytes) of `to`; waits until nothing uses the storage and returns when
/// done.
void copy_from_host(Storage& to, std::size_t offset, const void* from, std::size_t bytes);

}  // namespace tessera::runtime
