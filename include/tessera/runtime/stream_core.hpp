// The core of a stream: it numbers the work, remembers what was waited for, and keeps failures that have not been
// reported.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera {
namespace runtime {

/// Receives the submissions of a stream instead of the device, between StreamCore::begin_capture() and end_capture().
class CaptureSink {
 public:
  virtual ~CaptureSink();
  virtual void add(const Submission&) = 0;
};

class FailureLog;
class GuestMemory;

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
  /// A guest stream (guest.hpp): work goes to another library's stream of the device, a CUstream (null on the CPU,
  /// where work runs at once). `memory` outlives it. One thread uses it. Throws DeviceError.
  static std::shared_ptr<StreamCore> guest(Device device, void* native, GuestMemory& memory);
  /// Where a guest stream has its memory from; null for any other stream.
  GuestMemory* guest_memory() const noexcept { return guest_memory_; }
  struct Origin {
    bool is_default = false;
    int priority = 0;
    NativeStream wrapped{};  ///< of another library
    std::shared_ptr<void> owner{};
    GuestMemory* guest_memory = nullptr;
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
  std::uint64_t enqueue_guest(const Submission&);
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
  GuestMemory* guest_memory_;
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
