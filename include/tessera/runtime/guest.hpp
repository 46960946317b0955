// Guest streams: the library works inside an operator of another library (PyTorch), on that library's stream and in its
// memory. The other library orders all work and owns all memory, as it does for its own operators, so nothing is
// recorded, waited for or kept here: no event, no note in a storage. That also makes it legal while the other library
// captures its stream into a CUDA graph.
//
// Two rules, checked before anything is enqueued, keep what the library does not order apart from what it does:
// a guest stream takes only guest storages (StorageOptions::guest, or allocated on such a stream), and other streams
// take none. On a GPU the host cannot read or wait for a guest storage either.
#pragma once
#include <cstddef>
#include <memory>

#include "tessera/runtime/device.hpp"

namespace tessera::runtime {

/// Memory of the other library.
class GuestMemory {
 public:
  struct Block {
    void* memory = nullptr;       ///< aligned for every element type
    std::shared_ptr<void> owner;  ///< released when the storage ends, on the host and at once
  };
  virtual ~GuestMemory();
  /// At least `bytes` (> 0) bytes on `device` for work that comes next on the guest stream. Throws an Error.
  virtual Block allocate(Device device, std::size_t bytes) = 0;
};

}  // namespace tessera::runtime
