// The calls of Backend: make the context current, poll what waits for the device, hand on.
#include "runtime/cuda/backend.hpp"

#include <utility>

#include "runtime/cuda/queue.hpp"
#include "runtime/cuda/stream_work.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

CudaBackend::CudaBackend(const Driver& driver, int ordinal)
    : ordinal_(ordinal),
      context_(driver, ordinal),
      info_(describe(driver, ordinal)),
      events_(context_),
      outcomes_(context_),
      owners_(context_),
      handed_back_(context_, events_),
      pattern_fill_(make_pattern_fill(context_)),
      range_copy_(make_range_copy(context_)),
      range_fill_(make_range_fill(context_)) {
  const Current current(context_);
  memory_ = std::make_unique<DeviceMemory>(context_);
}

CudaBackend::~CudaBackend() {
  close_default_stream();
  const Current current(context_, std::nothrow);
  if (!current) {
    (void)memory_.release();
    return;
  }
  driver().cuCtxSynchronize();
  owners_.clear();
  handed_back_.clear();
  memory_.reset();
}

void* CudaBackend::allocate(std::size_t bytes) {
  poll();
  const Current current(context_);
  return memory_->allocate(bytes);
}

void CudaBackend::free(void* memory, std::size_t) noexcept {
  const Current current(context_, std::nothrow);
  if (current) memory_->free(memory);
}

std::unique_ptr<Queue> CudaBackend::make_queue(bool, std::shared_ptr<QueueObserver> observer) {
  poll();
  return cuda::make_queue(*this, std::move(observer));
}

void CudaBackend::copy(void* to, const void* from, std::size_t bytes) {
  poll();
  const Current current(context_);
  memory_->copy(to, from, bytes);
}

void CudaBackend::fill(void* to, std::uint8_t value, std::size_t bytes) {
  const Current current(context_);
  if (bytes != 0) memory_->fill(to, value, bytes);
}

void CudaBackend::ended(Track& track, std::uint64_t number) {
  track.log.ended(number);
  outcomes_.ended(track, number);
  poll();
}

void CudaBackend::verify_foreign(const void* memory, std::size_t bytes) {
  const Current current(context_);
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(memory));
  unsigned type = 0;
  int device = -1;
  const CUresult known = driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (known != CUDA_ERROR_INVALID_VALUE)  // which is the answer for memory that the driver has never heard of
    context_.check(known, "cuPointerGetAttribute", "examining borrowed memory");
  if (known == CUDA_ERROR_INVALID_VALUE || type != CU_MEMORYTYPE_DEVICE) {
    throw DeviceError(concat("this address is not memory of ", name(),
                             ": the driver does not know it as memory of a GPU.\n"
                             "  Borrow host memory with Device::cpu()."));
  }
  context_.check(driver().cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
                 "cuPointerGetAttribute", "examining borrowed memory");
  if (device != ordinal_)
    throw DeviceError(concat("this address is memory of cuda:", device, ", not of ", name(), "."));
  CUdeviceptr begin = 0;
  std::size_t size = 0;
  context_.check(driver().cuPointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address),
                 "cuPointerGetAttribute", "examining borrowed memory");
  context_.check(driver().cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address),
                 "cuPointerGetAttribute", "examining borrowed memory");
  const std::size_t left = static_cast<std::size_t>(begin + size - address);
  if (bytes <= left) return;
  throw DeviceError(concat("the borrowed tensor has ", bytes, " bytes, but only ", left,
                           " bytes of its allocation follow this address: check the shape and the strides."));
}

}  // namespace tessera::runtime::cuda
