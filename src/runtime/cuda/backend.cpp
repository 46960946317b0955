// The methods of Backend: make the context current, release what the device no longer uses, and call the part that does
// the work.
#include "runtime/cuda/backend.hpp"

#include <utility>

#include "runtime/cuda/pinned.hpp"
#include "runtime/cuda/queue.hpp"
#include "runtime/cuda/stream_work.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime::cuda {

CudaBackend::CudaBackend(const Driver& driver, int ordinal)
    : ordinal_(ordinal),
      context_(driver, ordinal),
      info_(describe(driver, ordinal)),
      events_(context_),
      streams_(context_),
      outcomes_(context_),
      owners_(context_),
      handed_back_(context_, events_),
      conditions_(std::make_unique<ConditionKernel>(context_)),
      pattern_fill_(make_pattern_fill(context_)),
      range_copy_(make_range_copy(context_)),
      range_fill_(make_range_fill(context_)),
      peers_(*this) {
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
  context_.synchronize();
  conditions_.reset();
  owners_.clear();
  handed_back_.clear();
  context_.synchronize();  // streams that only those owners knew have ended, and freed what they kept
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

std::unique_ptr<Queue> CudaBackend::make_priority_queue(int priority, std::shared_ptr<QueueObserver> observer) {
  poll();
  return cuda::make_queue(*this, std::move(observer), priority);
}

PriorityRange CudaBackend::priorities() {
  const Current current(context_);
  PriorityRange range;
  context_.check(driver().cuCtxGetStreamPriorityRange(&range.least, &range.greatest), "cuCtxGetStreamPriorityRange",
                 "asking for the priorities of streams");
  return range;
}

NativeStream CudaBackend::examine_stream(void* native) {
  const Current current(context_);
  const auto stream = native == nullptr ? legacy_stream() : static_cast<CUstream>(native);
  if (stream == per_thread_stream()) {
    throw DeviceError(
        "CU_STREAM_PER_THREAD cannot be wrapped: it is another stream on every thread, and a Stream is used from any.\n"
        "  Make a stream with cuStreamCreate or cudaStreamCreate and wrap that.");
  }
  CUcontext owner = nullptr;
  context_.check(driver().cuStreamGetCtx(stream, &owner), "cuStreamGetCtx", "wrapping a stream");
  if (owner != context_.handle()) {
    throw DeviceError(
        concat("this stream does not belong to the primary context of ", name(),
               ": it is of another GPU, or of a context made with cuCtxCreate.\n  Pass the device that it "
               "was made on; streams of the CUDA runtime and of PyTorch are of primary contexts."));
  }
  check_not_capturing(context_, stream, "wrapping a stream", {});
  unsigned long long id = 0;
  context_.check(driver().cuStreamGetId(stream, &id), "cuStreamGetId", "wrapping a stream");
  return {stream, id};
}

std::unique_ptr<Queue> CudaBackend::wrap_queue(const NativeStream& native, std::shared_ptr<QueueObserver> observer) {
  poll();
  return cuda::wrap_queue(*this, std::move(observer), native);
}

std::unique_ptr<Queue> CudaBackend::guest_queue(void* native, std::shared_ptr<QueueObserver>) {
  return cuda::guest_queue(*this, native);
}

std::shared_ptr<const Launchable> CudaBackend::transfer_copy(Backend& other) {
  if (other.kind() == DeviceKind::Cpu) return range_copy_;
  if (other.kind() != DeviceKind::Cuda || &other == this) return nullptr;
  return peers_.copy_with(static_cast<CudaBackend&>(other));
}

std::shared_ptr<void> CudaBackend::make_host_memory(std::size_t bytes) {
  poll();
  return pinned_memory(context_, bytes);
}

Backend::MemoryFigures CudaBackend::memory_figures() {
  const Current current(context_);
  return memory_->figures();
}

void CudaBackend::trim_memory() {
  poll();
  const Current current(context_);
  memory_->give_back();
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
  poll();  // a program that allocates nothing here may take foreign memory again and again
  const Current current(context_);
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(memory));
  unsigned type = 0;
  int device = -1;
  const CUresult known = driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (known != CUDA_ERROR_INVALID_VALUE)  // the result for memory that the driver does not know
    context_.check(known, "cuPointerGetAttribute", "examining borrowed memory");
  if (known == CUDA_ERROR_INVALID_VALUE || type != CU_MEMORYTYPE_DEVICE) {
    throw DeviceError(concat("this address is not memory of ", name(),
                             ": the driver does not know it as memory of a GPU.\n"
                             "  Borrow host memory with Device::cpu()."));
  }
  context_.check(driver().cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
                 "cuPointerGetAttribute", "examining borrowed memory");
  if (device != ordinal_)
    throw DeviceError(concat("this address is memory of cuda:", device, ", not of ", name(),
                             ".\n  Pass the device whose memory it is."));
  CUdeviceptr begin = 0;
  std::size_t size = 0;
  context_.check(driver().cuPointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address),
                 "cuPointerGetAttribute", "examining borrowed memory");
  context_.check(driver().cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address),
                 "cuPointerGetAttribute", "examining borrowed memory");
  const std::size_t left = static_cast<std::size_t>(begin + size - address);
  if (bytes <= left) return;
  throw DeviceError(
      concat("the borrowed tensor has ", bytes, " bytes, but only ", left,
             " bytes of its allocation follow this address.\n  Check the shape and the strides (in elements)."));
}

}  // namespace tessera::runtime::cuda
