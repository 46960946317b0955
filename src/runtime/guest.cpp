// Guest streams and storages: what differs from those that the library orders itself.
#include "tessera/runtime/guest.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "runtime/failure_log.hpp"
#include "runtime/guest_rules.hpp"
#include "tessera/abi/kernel_abi.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

GuestMemory::~GuestMemory() = default;

[[noreturn]] void throw_guest_mix(const Submission& submission, bool guest_stream) {
  throw DeviceError(
      guest_stream
          ? concat(
                submission.label,
                ": an operator of another library uses a tensor that is neither its argument nor made by it.\n  Pass "
                "the tensor as an argument: the other library orders the work on its tensors, and knows no others.")
          : concat(submission.label,
                   ": a tensor of an operator of another library is used on another stream than the operator's.\n  "
                   "Return the operation and leave .sync() and .on(stream) out: it is enqueued on that library's "
                   "stream."),
      submission.where);
}

std::shared_ptr<StreamCore> StreamCore::guest(Device device, void* native, GuestMemory& memory) {
  Origin origin;
  origin.wrapped.handle = native;
  origin.guest_memory = &memory;
  try {
    return std::make_shared<StreamCore>(Private(), device, std::move(origin));
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while making a stream on ", device.name()));
  }
}

/// Orders nothing, and notes nothing. Work that has ended when launch() returns (the CPU's) has its failure thrown
/// here: the other library does not wait for it later.
std::uint64_t StreamCore::enqueue_guest(const Submission& submission) {
  std::lock_guard lock(mutex_);
  const std::uint64_t number = enqueued_ + 1;
  queue_->launch(submission, number);
  enqueued_ = number;
  if (!queue_->immediate()) return number;
  if (const FailureRef failure = log_->deliver(number, number)) std::rethrow_exception(failure->error);
  return number;
}

/// Checked mode remembers writes, and poisons, only where the host reaches the memory: on a GPU kernels with checks do
/// not run on guest streams (src/runtime/cuda/guest_queue.cpp).
StorageRef Storage::make_guest(StreamCore& stream, std::size_t bytes, const StorageOptions& options) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const Device device = stream.device();
  GuestMemory::Block block = stream.guest_memory()->allocate(device, size);
  auto storage =
      std::make_shared<Storage>(Private(), device, block.memory, bytes, std::move(block.owner), options.label);
  storage->foreign_ = storage->guest_ = true;
  if (!device.backend().host_accessible()) return storage;
  if (options.track_writes) {
    storage->written_.reset(new std::uint8_t[size]());
    storage->tracked_.store(true, std::memory_order_relaxed);
  }
  if (options.poison) std::memset(storage->memory_, calling::kNeverWritten, bytes);
  return storage;
}

/// Nothing tells the host when a GPU's work on a guest stream has ended, and an operator must not wait for it.
void Storage::check_host_may_wait() const {
  if (!guest_ || device_.backend().host_accessible()) return;
  throw DeviceError(concat("an operator of another library reads elements of ", device_.name(),
                           " on the host, which would wait for the GPU: operators only enqueue.\n  Compute it in a "
                           "kernel, or give the number as an argument."));
}

}  // namespace tessera::runtime
