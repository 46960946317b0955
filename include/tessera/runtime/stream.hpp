// Streams: the user's handle, and its core, which numbers the work, remembers what was waited for, and keeps failures
// that have not been reported.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "tessera/runtime/backend.hpp"

namespace tessera {

namespace detail {
template <class X>
struct StreamUse;  // of Tensor, View, Shared and mut(t): tessera/host/exchange.hpp
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

struct Failure;
using FailureRef = std::shared_ptr<Failure>;

/// Receives the submissions of a stream instead of the device, between StreamCore::begin_capture() and end_capture().
class CaptureSink {
 public:
  virtual ~CaptureSink();
  virtual void add(const Submission&) = 0;
};

class FailureLog;

/// A stream: a queue, the numbers of its work, and what it has waited for. Safe to use from any thread. In a child of
/// fork() a stream of the parent only reports which of its work had ended, and its destructor does nothing; the CPU's
/// default stream has no thread and keeps working.
class StreamCore : public std::enable_shared_from_this<StreamCore> {
  struct Private {};

 public:
  /// Throws DeviceError if the device has no more queues.
  static std::shared_ptr<StreamCore> create(Device device, bool is_default = false);
  static std::shared_ptr<StreamCore> create(Device device, const StreamOptions& options);
  /// The core of another library's stream; the same one for each call while it lives. Throws DeviceError.
  static std::shared_ptr<StreamCore> wrap(Device device, void* native, std::shared_ptr<void> owner);
  struct Origin {
    bool is_default = false;
    int priority = 0;
    NativeStream wrapped{};  ///< of another library
    std::shared_ptr<void> owner{};
  };
  StreamCore(Private, Device device, Origin origin);
  ~StreamCore();

  Device device() const noexcept { return device_; }

  /// Orders the submission after everything it conflicts with, enqueues it and notes its accesses. The caller holds
  /// leases on all storages of `accesses`, which name a storage once unless all its accesses are reads. Throws
  /// DeviceError; then nothing was enqueued. Errors of the work itself are thrown where its result is waited for.
  Ticket submit(const Submission&);
  /// The same without a ticket; returns the number of the work (0 while capturing).
  static std::uint64_t submit(const std::shared_ptr<StreamCore>& stream, const Submission&);
  struct Allocation {
    void* memory = nullptr;
    std::uint64_t number = 0;  ///< of the allocation in the stream's order
  };
  /// Memory that work enqueued from now on may use, and other streams after the work `number`. Null if the queue has no
  /// memory of its own (use Backend::allocate), or while capturing. Throws DeviceError.
  Allocation allocate(std::size_t bytes);
  /// A number for all that has been enqueued on the driver's stream so far, by anyone. Throws DeviceError.
  std::uint64_t mark();
  /// True for a stream of another library, which may end while this object lives: its handle is only used to enqueue.
  bool wrapped() const noexcept { return wrapped_.handle != nullptr; }
  /// The driver's handle, null if there is none. For calls that enqueue nothing but memory.
  void* native_handle() const noexcept { return queue_->native_handle(); }
  /// The same for use by others. Throws DeviceError if there is none.
  void* expose();
  /// Work enqueued from now on starts after the work `number` of `other`. Does nothing if that is already ensured.
  void wait_for(StreamCore& other, std::uint64_t number);
  /// True if that is already ensured.
  bool is_after(const StreamCore& other, std::uint64_t number);
  /// Blocks the host until the work `number` has ended.
  void host_wait(std::uint64_t number);
  /// The same without exceptions: if the device has no event left, waits for everything.
  void host_wait_noexcept(std::uint64_t number) noexcept;
  /// True if the work `number` is known to have ended. Does not block; may record an event.
  bool has_ended(std::uint64_t number);
  /// Blocks until everything has ended; throws the first failure not thrown yet.
  void synchronize();
  /// Counts the handles (Stream) of the program.
  void add_handle() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  void drop_handle() noexcept;
  /// True if no handle is left: no work follows, except on a stream of another library that is wrapped again.
  bool dropped() const noexcept { return handles_.load(std::memory_order_relaxed) == 0; }
  /// The failure of the work `number`, which has ended; empty if it succeeded.
  FailureRef failure_of(std::uint64_t number) noexcept;
  /// The first failure of the work from `first` to `last`, which has ended, that has not been thrown yet; empty if
  /// there is none. All of them count as thrown afterwards.
  FailureRef deliver_failure_of(std::uint64_t first, std::uint64_t last) noexcept;
  /// True if all of that work succeeded.
  bool succeeded(std::uint64_t first, std::uint64_t last) const noexcept;
  /// Enqueues freeing memory after everything enqueued so far. Takes it only if it does not throw.
  void release(Retired& memory);

  /// While capturing, submissions go to the sink, unordered, and waiting for this stream is an error.
  void begin_capture(CaptureSink& sink);
  /// While capturing: submissions go to another sink from now on.
  void change_capture(CaptureSink& sink) noexcept;
  void end_capture() noexcept;
  bool capturing() const noexcept;

 private:
  struct Waited {
    std::uint64_t stream = 0, number = 0;
  };
  struct Recorded {
    EventRef event;
    std::uint64_t number = 0;  ///< it is done when the work up to here has ended
  };
  std::uint64_t enqueue(const std::shared_ptr<StreamCore>& self, const Submission&);
  /// True in a fork()ed child of the process that the queue's thread, or its driver, belongs to.
  bool unusable_after_fork() const noexcept;
  [[noreturn]] void throw_after_fork(const char* what, SourceLocation where = {}) const;
  void check_ended_before_fork(std::uint64_t number) const;
  EventRef event_after(std::uint64_t number);
  EventRef record(std::uint64_t number);
  EventRef record_noexcept() noexcept;
  bool has_waited(const StreamCore& other, std::uint64_t number) const noexcept;
  void remember_wait(const StreamCore& other, std::uint64_t number) noexcept;

  Device device_;
  std::uint32_t generation_;     // fork_generation() when it was made
  std::uint64_t id_;             // unique in the process, never reused
  NativeStream wrapped_;         // null unless it is another library's
  std::shared_ptr<void> owner_;  // of that one; ends after the queue
  std::shared_ptr<FailureLog> log_;
  std::unique_ptr<Queue> queue_;
  mutable std::mutex mutex_;          // everything below, and the calls on queue_
  std::uint64_t enqueued_ = 0;        // the number of the last piece of work
  std::array<Recorded, 8> recorded_;  // the last events
  unsigned next_recorded_ = 0;
  std::array<Waited, 8> waited_;  // the streams last waited for, and up to where
  unsigned next_waited_ = 0;
  std::atomic<int> handles_{0};
  bool exposed_ = false;                        // others may enqueue work
  std::atomic<CaptureSink*> capture_{nullptr};  // changed under the mutex
  const void* capturing_thread_ = nullptr;      // which alone may submit to it; read while capture_ is set
};

/// Blocks until the work has ended; throws its failure. After that the storages that it wrote are usable (contents
/// unspecified), because the failure has been reported.
void wait(const Ticket&, std::span<const Access> accesses);

/// True on a thread that is running a queue's work: such work must not submit or wait.
bool inside_work() noexcept;

}  // namespace runtime
}  // namespace tessera
