// A GPU's memory: a pool of the driver of our own, so that its settings touch no other library.
#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

#include "runtime/cuda/context.hpp"

namespace tessera::runtime::cuda {

/// Memory that is freed behind its last use is reused on the same stream at once, elsewhere when the device has passed
/// that point: the pool is told not to make allocations wait for work (REUSE_ALLOW_INTERNAL_DEPENDENCIES is off). Only
/// when memory runs out does an allocation wait for frees that are still to come.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Context& context);  ///< the context is current; throws DeviceError
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // The context is current in all of them.
  void* allocate(std::size_t bytes);                      ///< usable everywhere on return; throws DeviceError
  void* allocate_on(CUstream stream, std::size_t bytes);  ///< usable behind what the stream has; throws DeviceError
  void free(void* memory) noexcept;                       ///< nothing uses it any more
  void free_after(void* memory, CUstream stream);         ///< behind what the stream has; throws DeviceError
  void copy(void* to, const void* from, std::size_t n);   ///< host or device memory; done on return; throws DeviceError
  void fill(void* to, std::uint8_t value, std::size_t n);  ///< done on return; throws DeviceError

 private:
  CUresult try_allocate(CUdeviceptr& memory, std::size_t bytes, CUstream stream) const noexcept;
  void retry_frees() noexcept;
  void finish(const char* what);
  CUresult allocate_again(CUdeviceptr& memory, std::size_t bytes, CUstream stream);
  void trim() noexcept;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes) const;

  const Context& context_;
  CUstream stream_ = nullptr;  // for what is in no queue's order: allocations, copies that the host waits for
  CUmemoryPool pool_ = nullptr;
  std::size_t total_ = 0;  // bytes of the device
  std::mutex mutex_;
  std::vector<CUdeviceptr> unfreed_;  // what the driver refused to free: tried again with the next allocation
};

}  // namespace tessera::runtime::cuda
