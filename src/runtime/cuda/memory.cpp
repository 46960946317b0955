// Allocation from the driver's pool, and synchronous copies.
#include "runtime/cuda/memory.hpp"

#include <algorithm>
#include <cstdint>

#include "runtime/cuda/stream_memory.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {
CUdeviceptr address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }
}  // namespace

DeviceMemory::DeviceMemory(const Context& context) : context_(context) {
  const Driver& driver = context.driver();
  context.check(driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate", "making a stream");
  CUmemPoolProps properties;
  properties.location.id = context.device();
  CUresult result = driver.cuMemPoolCreate(&pool_, &properties);
  const char* call = "cuMemPoolCreate";
  std::uint64_t keep = ~std::uint64_t{0};  // freed memory stays with the process: memory of the system is slow to get
  int yes = 1, no = 0;
  const struct {
    CUmemPool_attribute attribute;
    void* value;
  } settings[] = {{CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep},
                  {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &yes},
                  {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &yes},
                  {CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no}};
  for (const auto& setting : settings) {
    if (result != CUDA_SUCCESS) break;
    result = driver.cuMemPoolSetAttribute(pool_, setting.attribute, setting.value);
    call = "cuMemPoolSetAttribute";
  }
  std::size_t free = 0;
  if (result == CUDA_SUCCESS) result = driver.cuMemGetInfo(&free, &total_), call = "cuMemGetInfo";
  if (result == CUDA_SUCCESS) return;
  if (pool_ != nullptr) driver.cuMemPoolDestroy(pool_);
  driver.cuStreamDestroy(stream_);
  context.fail(result, call, "making a memory pool");
}

DeviceMemory::~DeviceMemory() {
  retry_frees();
  context_.driver().cuMemPoolDestroy(pool_);
  context_.driver().cuStreamDestroy(stream_);
}

CUresult DeviceMemory::try_allocate(CUdeviceptr& memory, std::size_t bytes, CUstream stream) const noexcept {
  return context_.driver().cuMemAllocFromPoolAsync(&memory, bytes, pool_, stream);
}

/// Returns the pool's unused memory to the system.
void DeviceMemory::trim() noexcept { context_.driver().cuMemPoolTrimTo(pool_, 0); }

/// Retries an allocation that ran out of memory. A failed attempt leaves in the pool what it got before it failed: all
/// memory that was free, which other processes and the driver itself may need. So the pool is trimmed in any case.
CUresult DeviceMemory::allocate_again(CUdeviceptr& memory, std::size_t bytes, CUstream stream) {
  release_kept();
  // Enqueued frees take effect when the work before them has ended. After that, the pool's blocks of other sizes are
  // returned to the system.
  const CUresult waited = context_.synchronize();
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (waited == CUDA_SUCCESS) result = try_allocate(memory, bytes, stream);
  if (waited == CUDA_SUCCESS && result == CUDA_ERROR_OUT_OF_MEMORY) {
    trim();
    result = try_allocate(memory, bytes, stream);
  }
  trim();
  context_.check(waited, "cuCtxSynchronize", "waiting for memory to be freed");
  return result;
}

void* DeviceMemory::allocate_on(CUstream stream, std::size_t bytes) {
  retry_frees();
  CUdeviceptr memory = 0;
  if (bytes > total_ && !context_.poisoned()) throw_out_of_memory(bytes);
  CUresult result = try_allocate(memory, bytes, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) result = allocate_again(memory, bytes, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw_out_of_memory(bytes);
  context_.check(result, "cuMemAllocFromPoolAsync", "allocating memory");
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
}

/// An allocation is an operation of its stream; once it has completed, every stream can use the memory.
void* DeviceMemory::allocate(std::size_t bytes) {
  void* memory = allocate_on(stream_, bytes);
  const CUresult result = context_.driver().cuStreamSynchronize(stream_);
  if (result == CUDA_SUCCESS) return memory;
  free(memory);
  context_.fail(result, "cuStreamSynchronize", "allocating memory");
}

void DeviceMemory::throw_out_of_memory(std::size_t bytes) const {
  MemorySizes sizes;
  sizes.asked = bytes;
  if (context_.driver().cuMemGetInfo(&sizes.free, &sizes.total) != CUDA_SUCCESS) sizes.free = sizes.total = 0;
  runtime::throw_out_of_memory(context_.name(), sizes);  // the storage knows the rest
}

Backend::MemoryFigures DeviceMemory::figures() const {
  const Driver& driver = context_.driver();
  Backend::MemoryFigures figures;
  std::uint64_t reserved = 0;
  context_.check(driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved),
                 "cuMemPoolGetAttribute", "asking for memory in use");
  context_.check(driver.cuMemGetInfo(&figures.free, &figures.total), "cuMemGetInfo", "asking for free memory");
  figures.reserved = static_cast<std::size_t>(reserved);
  return figures;
}

void DeviceMemory::give_back() {
  release_kept();
  finish("freeing memory");
  context_.check(context_.driver().cuMemPoolTrimTo(pool_, 0), "cuMemPoolTrimTo", "giving memory back");
}

void DeviceMemory::free(void* memory) noexcept {
  if (context_.driver().cuMemFreeAsync(address(memory), stream_) == CUDA_SUCCESS || context_.poisoned()) return;
  try {
    std::lock_guard lock(mutex_);
    unfreed_.push_back(address(memory));
  } catch (const std::bad_alloc&) {
    // The driver has failed to free it and the host has no memory to record it: it stays until the process ends.
  }
}

void DeviceMemory::retry_frees() noexcept {
  std::lock_guard lock(mutex_);
  std::erase_if(unfreed_,
                [&](CUdeviceptr memory) { return context_.driver().cuMemFreeAsync(memory, stream_) == CUDA_SUCCESS; });
}

void DeviceMemory::add_kept(StreamMemory& kept) {
  std::lock_guard lock(kept_mutex_);
  kept_.push_back(&kept);
}

void DeviceMemory::remove_kept(StreamMemory& kept) noexcept {
  std::lock_guard lock(kept_mutex_);
  std::erase(kept_, &kept);
}

void DeviceMemory::release_kept() noexcept {
  std::lock_guard lock(kept_mutex_);
  for (StreamMemory* kept : kept_) kept->release();
}

void DeviceMemory::free_after(void* memory, CUstream stream) {
  context_.check(context_.driver().cuMemFreeAsync(address(memory), stream), "cuMemFreeAsync", "freeing memory");
}

/// Waits for what was just enqueued. The caller may free a host buffer once an error has been thrown, so the device
/// must not still be writing to it: if waiting for the stream fails, wait for the context.
void DeviceMemory::finish(const char* what) {
  const Driver& driver = context_.driver();
  const CUresult result = driver.cuStreamSynchronize(stream_);
  if (result == CUDA_SUCCESS) return;
  context_.synchronize();
  context_.fail(result, "cuStreamSynchronize", what);
}

void DeviceMemory::copy(void* to, const void* from, std::size_t n) {
  context_.check(context_.driver().cuMemcpyAsync(address(to), address(from), n, stream_), "cuMemcpyAsync", "copying");
  finish("copying");
}

void DeviceMemory::fill(void* to, std::uint8_t value, std::size_t n) {
  context_.check(context_.driver().cuMemsetD8Async(address(to), value, n, stream_), "cuMemsetD8Async",
                 "filling memory");
  finish("filling memory");
}

}  // namespace tessera::runtime::cuda
