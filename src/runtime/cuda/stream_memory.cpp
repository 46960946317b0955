// The limits of what a stream keeps, and how it ends.
#include "runtime/cuda/stream_memory.hpp"

#include "tessera/base/env.hpp"

namespace tessera::runtime::cuda {

namespace {

/// Larger tensors take the device longer to read than the driver takes to allocate them.
constexpr std::size_t kLargest = std::size_t{32} << 20;
constexpr std::size_t kMaxBytes = 4 * kLargest;  // of a stream
constexpr std::size_t kMaxBlocks = 64;           // of a stream: one is found faster than a kernel is launched

}  // namespace

StreamMemory::StreamMemory(DeviceMemory& memory, CUstream stream)
    : memory_(memory),
      stream_(stream),
      largest_(env_flag(Env::KEEP_MEMORY, true) ? kLargest : 0),
      blocks_(kMaxBytes, kMaxBlocks) {
  memory_.add_kept(*this);
}

StreamMemory::~StreamMemory() {
  const Current current(memory_.context(), std::nothrow);
  if (!current) return;  // a child of fork(): another thread of the parent may have held the locks
  memory_.remove_kept(*this);
  release();
}

void* StreamMemory::take(std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  return blocks_.take(bytes);
}

bool StreamMemory::keep(void* memory, std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  if (bytes > largest_) return false;
  blocks_.give(memory, bytes, [&](void* old, std::size_t) { free_behind(old); });
  return true;
}

void StreamMemory::release() noexcept {
  std::lock_guard lock(mutex_);
  release_locked();
}

void StreamMemory::close() noexcept {
  std::lock_guard lock(mutex_);
  largest_ = 0;
  release_locked();
}

/// Under the lock no block can be taken: if the stream is idle now, nothing uses them.
void StreamMemory::release_locked() noexcept {
  if (blocks_.empty()) return;
  const bool idle = memory_.context().driver().cuStreamQuery(stream_) == CUDA_SUCCESS;
  blocks_.clear([&](void* old, std::size_t) { idle ? memory_.free(old) : free_behind(old); });
}

/// Frees it behind the stream's work. If the driver fails to enqueue that, the host waits for the work.
void StreamMemory::free_behind(void* memory) noexcept {
  const Driver& driver = memory_.context().driver();
  if (driver.cuMemFreeAsync(reinterpret_cast<std::uintptr_t>(memory), stream_) == CUDA_SUCCESS) return;
  if (driver.cuStreamSynchronize(stream_) == CUDA_SUCCESS) memory_.free(memory);
}

}  // namespace tessera::runtime::cuda
