// Frees are enqueued after the last uses; if the device rejects that, the host waits and frees.
#include "runtime/retire.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tessera/runtime/small_vector.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

namespace {

/// `stream`: a stream of the device, for a user's allocator.
void end_now(Backend& backend, Retired& memory, void* stream) noexcept {
  if (memory.memory != nullptr && memory.allocator) {
    memory.allocator->deallocate(memory.memory, memory.bytes, stream);
  } else if (memory.memory != nullptr) {
    backend.free(memory.memory, memory.bytes);
  }
  memory.memory = nullptr;
  memory.allocator.reset();
  memory.owner.reset();
}

struct OwnedMemory {
  Backend& backend;
  Retired memory;
  explicit OwnedMemory(Backend& device) : backend(device) {}
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  ~OwnedMemory() { end_now(backend, memory, nullptr); }
};

/// Memory of the CPU that a GPU's work still uses ends as foreign memory does: with its owner.
void own(Backend& backend, Retired& memory) {
  auto owned = std::make_shared<OwnedMemory>(backend);
  owned->memory = std::exchange(memory, {});
  memory.owner = std::move(owned);
}

/// The stream that the end is enqueued on: one that used the memory, if its device is the memory's and its handle is
/// ours; else that device's default stream. The one that has to wait for the fewest others, so that no work is ordered
/// that need not be: a stream that only wrote the memory does not wait for its readers. Of equal ones the first: `uses`
/// names readers before the writer.
std::shared_ptr<StreamCore> last_stream(Backend& backend, std::span<const Use> uses) {
  const bool to_host = backend.queues_hold_storages();  // then any device takes it
  const Use* best = nullptr;
  std::ptrdiff_t fewest = 0;
  for (const Use& use : uses) {
    StreamCore& stream = *use.stream;
    if (stream.wrapped() || (!to_host && &stream.device().backend() != &backend)) continue;
    const auto waits = std::count_if(uses.begin(), uses.end(),
                                     [&](const Use& other) { return !stream.is_after(*other.stream, other.number); });
    if (best == nullptr || waits < fewest) best = &use, fewest = waits;
  }
  if (best != nullptr) return best->stream;
  return (to_host ? uses.back().stream->device().backend() : backend).default_stream();
}

}  // namespace

void retire(Backend& backend, Retired memory, std::span<const Use> all) noexcept {
  SmallVector<Use, kInlineReads + 1> uses;  // without those whose queues kept the storage until they had ended
  void* native = nullptr;
  try {
    for (const Use& use : all) {
      if (!use.stream->device().backend().queues_hold_storages()) uses.push_back(use);
    }
    if (uses.empty()) {
      if (memory.allocator && !backend.queues_hold_storages()) native = backend.default_stream()->native_handle();
      return end_now(backend, memory, native);
    }
    const std::shared_ptr<StreamCore> last = last_stream(backend, uses.span());
    if (&last->device().backend() == &backend) native = last->native_handle();
    for (const Use& use : uses) last->wait_for(*use.stream, use.number);
    if (backend.queues_hold_storages()) own(backend, memory);
    if (memory.allocator) return end_now(backend, memory, native);  // behind what the stream has
    return last->release(memory);
  } catch (...) {
    // The device rejects the free (out of memory, or dead): wait on the host instead.
  }
  for (const Use& use : all) {
    if (!use.stream->device().backend().queues_hold_storages()) use.stream->host_wait_noexcept(use.number);
  }
  end_now(backend, memory, native);
}

}  // namespace tessera::runtime
