// Memory that was freed on a stream and is used again on it, without the driver.
#pragma once
#include <cstddef>
#include <mutex>

#include "runtime/cuda/memory.hpp"
#include "runtime/free_blocks.hpp"

namespace tessera::runtime::cuda {

/// What was freed in a stream's order may be used by all later work of the same stream. The driver's pool does that as
/// well, but its calls cost more the more streams wait to free memory, and the device executes them between kernels
/// (bench/notes/streams.md). Thread-safe: take() and keep() are called for the stream, the others by any thread.
class StreamMemory {
 public:
  /// Of a stream of the library. Throws std::bad_alloc.
  StreamMemory(DeviceMemory& memory, CUstream stream);
  /// Returns everything to the driver.
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  // The context is current.
  /// Memory of exactly so many bytes, usable in the stream's order; null: none is kept.
  void* take(std::size_t bytes) noexcept;
  /// Takes memory whose last use the stream is after. False: it is too large, and remains the caller's.
  bool keep(void* memory, std::size_t bytes) noexcept;
  /// Returns everything to the driver: at once if the stream is idle, else in its order.
  void release() noexcept;
  /// The same, and keeps nothing from now on.
  void close() noexcept;

 private:
  void release_locked() noexcept;
  void free_behind(void* memory) noexcept;

  DeviceMemory& memory_;
  CUstream stream_;
  std::mutex mutex_;
  std::size_t largest_;  ///< that is kept; 0: nothing is
  FreeBlocks blocks_;
};

}  // namespace tessera::runtime::cuda
