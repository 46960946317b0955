// Streams, as users hold them. Their core is in stream_core.hpp.
#pragma once
#include <cstdint>
#include <memory>

#include "tessera/base/source_location.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera {

namespace detail {
template <class X>
struct StreamUse;  // of Tensor, View, Shared and mut(t): tessera/host/borrow.hpp
}  // namespace detail

struct StreamOptions {
  /// Of the work that waits for an SM, the stream with the lower number goes first. 0 is what streams have
  /// otherwise; Stream::priorities() has the range. The CPU ignores it.
  int priority = 0;
};

/// The priorities of a device, as its driver numbers them: lower numbers are more urgent.
struct PriorityRange {
  int least = 0;     ///< the number of the least urgent streams
  int greatest = 0;  ///< of the most urgent ones: greatest <= least
};

/// An in-order sequence of device work. Different streams run concurrently; the library orders work that depends on
/// work of another stream. A cheap copyable handle: copies are the same stream, and work in flight keeps it alive.
class Stream {
 public:
  /// A new stream of default_device(). Throws DeviceError if there is none, or it has no more queues.
  Stream(SourceLocation where = SourceLocation::current());  // NOLINT: Stream s = {} is allowed, too
  explicit Stream(Device device, SourceLocation where = SourceLocation::current());
  /// A new stream with a priority. DeviceError if the device has no such priority.
  Stream(Device device, const StreamOptions& options, SourceLocation where = SourceLocation::current());
  /// The default stream.
  static Stream default_of(Device device);
  /// The priorities of a GPU; {0, 0} on the CPU. Throws DeviceError.
  static PriorityRange priorities(Device device, SourceLocation where = SourceLocation::current());

  /// A stream that another library made: a CUstream or cudaStream_t of the device's primary context (what the CUDA
  /// runtime and PyTorch use). Null and CU_STREAM_LEGACY are the legacy default stream. Work that Tessera enqueues on
  /// it is in one order with all other work on it. Wrapping a stream twice gives the same stream. With an
  /// `owner`, it is kept as long as anything here may use the handle. Without one, the handle must be valid while work
  /// is enqueued on it; it may be destroyed afterwards, whatever refers to that work. Throws DeviceError if the device
  /// is no GPU, if the stream belongs to another context, is being captured into a graph, or is CU_STREAM_PER_THREAD
  /// (which is another stream on every thread). A handle that is no stream at all is the caller's mistake, which the
  /// driver need not notice.
  static Stream wrap(void* native, Device device, std::shared_ptr<void> owner = nullptr,
                     SourceLocation where = SourceLocation::current());
  /// The same on default_device().
  static Stream wrap(void* native, SourceLocation where = SourceLocation::current());
  /// The driver's handle (CUstream), for other libraries' work in this stream's order; valid while the stream or a copy
  /// of it exists. From now on kernels of this stream no longer start before their predecessor has ended, because that
  /// may be work that Tessera does not know. Throws DeviceError if the device has no such handles (the CPU).
  void* native(SourceLocation where = SourceLocation::current()) const;

  /// Work enqueued from now on, by anyone, starts after the elements of `x` are complete: a Tensor, View or Shared that
  /// it may then read. With mut(t) it also starts after all reads of them, so that it may write. Throws
  /// BorrowError as an operation with this argument would.
  template <class X>
  void wait_for(const X& x, SourceLocation where = SourceLocation::current()) {
    detail::StreamUse<X>::wait_for(*this, x, where);
  }
  /// What has been enqueued so far, by anyone, reads `x` (Tensor, View, Shared): later writes wait for it, and so does
  /// the end of the memory.
  template <class X>
  void record_read(const X& x, SourceLocation where = SourceLocation::current()) {
    detail::StreamUse<X>::record_read(*this, x, where);
  }
  /// What has been enqueued so far, by anyone, writes the tensor that is lent by mut(t): later uses wait for it. Call
  /// wait_for(mut(t)) before that work is enqueued.
  template <class X>
  void record_write(const X& x, SourceLocation where = SourceLocation::current()) {
    detail::StreamUse<X>::record_write(*this, x, where);
  }

  Device device() const noexcept;
  /// Blocks until everything enqueued has ended; throws the first failure of it that has not been thrown yet.
  void synchronize(SourceLocation where = SourceLocation::current());
  bool operator==(const Stream& other) const noexcept { return core_ == other.core_; }

  explicit Stream(std::shared_ptr<runtime::StreamCore> core) noexcept;
  const std::shared_ptr<runtime::StreamCore>& core() const noexcept { return core_; }
  // No move operations: a stream handle is never empty.
  Stream(const Stream& other) noexcept;
  Stream& operator=(const Stream& other) noexcept;
  ~Stream();

 private:
  std::shared_ptr<runtime::StreamCore> core_;
};

namespace runtime {

/// Throws DeviceError if this thread captures: `what` cannot be captured. `instead` is what to do.
void check_not_capturing(const char* what, const char* instead, SourceLocation where = {});

}  // namespace runtime
}  // namespace tessera
