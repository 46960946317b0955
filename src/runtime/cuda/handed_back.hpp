// Memory that other libraries have returned (to_dlpack's deleter) while their own streams, which Tessera does not know,
// may still use it. Each batch is released when an event has completed that was recorded after all work of the context.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "runtime/cuda/event_pool.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::runtime::cuda {

class HandedBackMemory {
 public:
  HandedBackMemory(const Context& context, EventPool& events) : context_(context), events_(events) {}
  HandedBackMemory(const HandedBackMemory&) = delete;
  HandedBackMemory& operator=(const HandedBackMemory&) = delete;

  /// Makes no driver call and takes no lock.
  void add(HandedBack* memory) noexcept;
  /// Releases the batches whose event has completed. Never blocks. Like finish() and clear(), it must be called without
  /// locks held.
  void poll() noexcept {
    if (new_.load(std::memory_order_relaxed) != nullptr || batches_left_.load(std::memory_order_relaxed) != 0) look();
  }
  /// Waits for the device and releases everything; true if there was anything. Throws DeviceError; then nothing has
  /// been released.
  bool finish();
  /// Releases everything. No work may be running.
  void clear() noexcept;

 private:
  struct Batch {
    HandedBack* first;
    PooledEvent event;
  };
  void look() noexcept;
  void record_new() noexcept;
  void add_list(HandedBack* first) noexcept;
  HandedBack* take_all() noexcept;

  const Context& context_;
  EventPool& events_;
  std::atomic<HandedBack*> new_{nullptr};  // no event has been recorded for these yet
  std::atomic<std::size_t> batches_left_{0};
  std::mutex mutex_;
  std::vector<Batch> batches_;
};

}  // namespace tessera::runtime::cuda
