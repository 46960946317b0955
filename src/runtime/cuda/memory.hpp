// A GPU's memory: a driver memory pool that belongs to Tessera, so its settings affect no other library.
#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

#include "runtime/cuda/context.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::runtime::cuda {

class StreamMemory;

/// Frees are enqueued after the last use. The same stream can reuse the memory at once, other streams when the device
/// has executed the free: allocations do not wait for work (REUSE_ALLOW_INTERNAL_DEPENDENCIES is off). Only when memory
/// runs out does an allocation wait for pending frees.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Context& context);  ///< the context is current; throws DeviceError
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // The context is current in all of them.
  Backend::MemoryFigures figures() const;  ///< throws DeviceError
  void give_back();                        ///< what is kept for reuse; throws DeviceError
  CUmemoryPool pool() const noexcept { return pool_; }
  void* allocate(std::size_t bytes);                      ///< usable on every stream on return; throws DeviceError
  void* allocate_on(CUstream stream, std::size_t bytes);  ///< usable in the stream's order; throws DeviceError
  void free(void* memory) noexcept;                       ///< it must not be in use
  void free_after(void* memory, CUstream stream);         ///< frees it in the stream's order; throws DeviceError
  void copy(void* to, const void* from, std::size_t n);   ///< host or device memory; done on return; throws DeviceError
  void fill(void* to, std::uint8_t value, std::size_t n);  ///< done on return; throws DeviceError
  const Context& context() const noexcept { return context_; }
  /// What a stream keeps, which is released when memory runs out and by give_back(). Throws std::bad_alloc.
  void add_kept(StreamMemory& kept);
  void remove_kept(StreamMemory& kept) noexcept;

 private:
  void release_kept() noexcept;
  CUresult try_allocate(CUdeviceptr& memory, std::size_t bytes, CUstream stream) const noexcept;
  void retry_frees() noexcept;
  void finish(const char* what);
  CUresult allocate_again(CUdeviceptr& memory, std::size_t bytes, CUstream stream);
  void trim() noexcept;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes) const;

  const Context& context_;
  CUstream stream_ = nullptr;  // for operations outside the queues: allocations, copies that the host waits for
  CUmemoryPool pool_ = nullptr;
  std::size_t total_ = 0;  // bytes of the device
  std::mutex mutex_;
  std::vector<CUdeviceptr> unfreed_;  // frees that failed: retried at the next allocation
  std::mutex kept_mutex_;             // locked before the mutex of a StreamMemory
  std::vector<StreamMemory*> kept_;
};

}  // namespace tessera::runtime::cuda
