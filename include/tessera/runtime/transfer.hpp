// Moving bytes between the host and storages, ordered against work in flight. The caller holds the lease.
#pragma once
#include <cstddef>

#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

/// Copies [offset, offset + bytes) of `from` to host memory; waits until the contents are complete and returns when
/// done. Throws the failure that the contents carry, InternalError for a range outside the storage.
void copy_to_host(void* to, Storage& from, std::size_t offset, std::size_t bytes);
/// Copies host memory into [offset, offset + bytes) of `to`; waits until nothing uses the storage and returns when
/// done.
void copy_from_host(Storage& to, std::size_t offset, const void* from, std::size_t bytes);

/// Bytes of a storage.
struct TransferEnd {
  const StorageRef& storage;
  std::size_t offset = 0;
};
/// Copies bytes between storages of two devices. As work of `stream` if its device, which is one of the two, can do it,
/// else of a default stream of the other one; if neither can, the bytes are moved on return. Ordered as any work.
/// Throws DeviceError.
void transfer(const Stream& stream, const TransferEnd& to, const TransferEnd& from, std::size_t bytes,
              const char* label, SourceLocation where);

}  // namespace tessera::runtime
