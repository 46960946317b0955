// Work inside an operator of another library, on its stream and in its memory (tessera/runtime/guest.hpp). For doors to
// other libraries, of which tessera/torch.hpp is one; it is not part of what users write.
#pragma once
#include <cstddef>
#include <memory>

#include "tessera/host/layout.hpp"
#include "tessera/runtime/device.hpp"
#include "tessera/runtime/guest.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::detail {

/// The guest stream of the calling thread for the other library's stream `native` of `device` (a CUstream; null on the
/// CPU). Made at the first call with these arguments and kept. Valid until the thread calls this again. `memory` lives
/// as long as the process. Throws DeviceError.
const Stream& guest_stream(Device device, void* native, runtime::GuestMemory& memory);

/// A storage over the other library's memory, for operations on guest streams only. The caller keeps the memory until
/// they have been enqueued.
runtime::StorageRef guest_storage(Device device, void* memory, std::size_t bytes, SourceLocation where);

/// What owns the memory of a result: the owner that GuestMemory::allocate() gave. Throws DeviceError if the storage
/// does not come from there.
std::shared_ptr<void> guest_owner(const runtime::StorageRef& storage, SourceLocation where);

}  // namespace tessera::detail
