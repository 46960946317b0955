// Guest streams by thread, and storages over another library's memory.
#include "tessera/host/guest.hpp"

#include <algorithm>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::detail {

namespace {

struct GuestEntry {
  Device device;
  void* native;
  const runtime::GuestMemory* memory;
  Stream stream;
};
constexpr std::size_t kMaxGuestStreams = 64;  // the other library has some 32 streams a device; the oldest ones go

}  // namespace

const Stream& guest_stream(Device device, void* native, runtime::GuestMemory& memory) {
  static thread_local std::vector<GuestEntry> entries;
  for (const GuestEntry& e : entries) {
    if (e.native == native && e.device == device && e.memory == &memory) [[likely]]
      return e.stream;
  }
  if (entries.size() == kMaxGuestStreams) entries.erase(entries.begin());
  entries.push_back({device, native, &memory, Stream(runtime::StreamCore::guest(device, native, memory))});
  return entries.back().stream;
}

runtime::StorageRef guest_storage(Device device, void* memory, std::size_t bytes, SourceLocation where) {
  runtime::StorageOptions options;
  options.guest = true;
  options.where = where;
  return runtime::Storage::adopt(device, memory, bytes, nullptr, options);
}

std::shared_ptr<void> guest_owner(const runtime::StorageRef& storage, SourceLocation where) {
  if (storage && storage->guest() && storage->owner()) return storage->owner();
  throw DeviceError(
      "an operator of another library returned a tensor that its operation did not make: results are fresh operands of "
      "the operation, such as empty_like(x).\n  Write into an argument that is lent instead.",
      where);
}

}  // namespace tessera::detail
