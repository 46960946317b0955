// Ends of memory: enqueued behind the last uses, or after waiting for them where the device refuses.
#include "runtime/retire.hpp"

#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

namespace {

void end_now(Backend& backend, Retired& memory) noexcept {
  if (memory.memory != nullptr) backend.free(memory.memory, memory.bytes);
  memory.memory = nullptr;
  memory.owner.reset();
}

}  // namespace

void retire(Backend& backend, Retired memory, std::span<const Use> uses) noexcept {
  if (uses.empty() || backend.queues_hold_storages()) return end_now(backend, memory);
  StreamCore& last = *uses.back().stream;
  try {
    for (const Use& use : uses.first(uses.size() - 1)) last.wait_for(*use.stream, use.number);
    last.release(memory);
    return;
  } catch (...) {
    // The device refuses (out of memory, or dead): wait on the host instead.
  }
  for (const Use& use : uses) use.stream->host_wait_noexcept(use.number);
  end_now(backend, memory);
}

}  // namespace tessera::runtime
