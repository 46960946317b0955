// Memory that other libraries have given back (to_dlpack's deleter), while streams of theirs that nobody here knows may
// still use it: each batch waits for an event behind all that the context had been given.
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

  /// Calls no driver and takes no lock.
  void add(HandedBack* memory) noexcept;
  /// Ends what the device has passed. Never blocks. Called where the runtime holds no lock, as finish() and clear().
  void poll() noexcept {
    if (new_.load(std::memory_order_relaxed) != nullptr || batches_left_.load(std::memory_order_relaxed) != 0) look();
  }
  /// Waits for the device and ends everything. True if there was something. Throws DeviceError; nothing is ended then.
  bool finish();
  /// Ends everything. Nothing is running any more.
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
  std::atomic<HandedBack*> new_{nullptr};  // behind no event yet
  std::atomic<std::size_t> batches_left_{0};
  std::mutex mutex_;
  std::vector<Batch> batches_;
};

}  // namespace tessera::runtime::cuda
