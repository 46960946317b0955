// Streams: the user's handle, and the core behind it that numbers the work, remembers what was waited for, and keeps
// the failures that nobody has been told of.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "tessera/runtime/backend.hpp"

namespace tessera {

/// An in-order sequence of device work. Different streams run concurrently; what one produces and another uses is
/// ordered by the library. A cheap copyable handle: copies are the same stream, and work in flight keeps it alive.
class Stream {
 public:
  /// A new stream of default_device(). Throws DeviceError if there is none, or it has no more queues.
  Stream(SourceLocation where = SourceLocation::current());  // NOLINT: Stream s = {} is one, too
  explicit Stream(Device device, SourceLocation where = SourceLocation::current());
  /// The stream that is used where none is named.
  static Stream default_of(Device device);

  Device device() const noexcept;
  /// Blocks until everything enqueued has ended; throws the first failure of it that has not been thrown yet.
  void synchronize(SourceLocation where = SourceLocation::current());
  bool operator==(const Stream& other) const noexcept { return core_ == other.core_; }

  explicit Stream(std::shared_ptr<runtime::StreamCore> core) noexcept : core_(static_cast<decltype(core)&&>(core)) {}
  const std::shared_ptr<runtime::StreamCore>& core() const noexcept { return core_; }
  // No move operations: a stream handle is never empty.
  Stream(const Stream&) = default;
  Stream& operator=(const Stream&) = default;

 private:
  std::shared_ptr<runtime::StreamCore> core_;
};

namespace runtime {

struct Failure;
using FailureRef = std::shared_ptr<Failure>;

/// A piece of submitted work: what wait() takes. Copyable; keeps the stream alive, not the storages.
struct Ticket {
  std::shared_ptr<StreamCore> stream;
  std::uint64_t number = 0;
};

/// What capture of a graph will hook into: while set, submissions are handed to it instead of being enqueued.
class CaptureSink {
 public:
  virtual ~CaptureSink();
  virtual void add(const Submission&) = 0;
};

class FailureLog;

/// A stream: a queue, the numbers of its work, and what it has waited for. Safe to use from any thread. In a child of
/// fork() a stream of the parent is good for nothing but knowing which of its work had ended, and ends without a word;
/// the CPU's default stream has no thread and goes on.
class StreamCore : public std::enable_shared_from_this<StreamCore> {
  struct Private {};

 public:
  /// Throws DeviceError if the device has no more queues.
  static std::shared_ptr<StreamCore> create(Device device, bool is_default = false);
  StreamCore(Private, Device device, bool is_default);
  ~StreamCore();

  Device device() const noexcept { return device_; }

  /// Orders the submission behind everything it conflicts with, enqueues it and notes its accesses. The caller holds
  /// leases on all storages of `accesses`, which name a storage once unless
  /// all its accesses are reads. Throws DeviceError; then nothing was
  /// enqueued. What the work itself throws is not thrown here, but where its result is waited for.
  Ticket submit(const Submission&);
  /// The same, for a caller who has the stream in hand and wants no ticket; the number of the work (0 while capturing).
  static std::uint64_t submit(const std::shared_ptr<StreamCore>& stream, const Submission&);
  struct Allocation {
    void* memory = nullptr;
    std::uint64_t number = 0;  ///< of the allocation in the stream's order
  };
  /// Memory that is ready for work enqueued from now on, and elsewhere after the work `number`. Null if the queue has
  /// no memory of its own (Backend::allocate then), or while capturing. Throws DeviceError.
  Allocation allocate(std::size_t bytes);
  /// Work enqueued from now on starts after the work `number` of `other`. Does nothing if this is known to be so.
  void wait_for(StreamCore& other, std::uint64_t number);
  /// Blocks the host until the work `number` has ended.
  void host_wait(std::uint64_t number);
  /// The same where nothing may throw: if the device has no event to give, waits for everything.
  void host_wait_noexcept(std::uint64_t number) noexcept;
  /// True if the work `number` is known to have ended. Does not block; may record an event.
  bool has_ended(std::uint64_t number);
  /// Blocks until everything has ended; throws the first failure not thrown yet.
  void synchronize();
  /// The failure of the work `number`, which has ended; empty if it succeeded.
  FailureRef failure_of(std::uint64_t number) noexcept;
  /// Enqueues the end of memory behind everything enqueued so far. Takes it only if it does not throw.
  void release(Retired& memory);

  /// While capturing, submissions go to the sink, unordered, and waiting for this stream is an error.
  void begin_capture(CaptureSink& sink);
  void end_capture() noexcept;
  bool capturing() const noexcept;

 private:
  struct Waited {
    std::uint64_t stream = 0, number = 0;
  };
  std::uint64_t enqueue(const std::shared_ptr<StreamCore>& self, const Submission&);
  /// True in a child of the process that the queue's thread, or its driver, belongs to.
  bool left_behind() const noexcept;
  [[noreturn]] void throw_left_behind(const char* what, SourceLocation where = {}) const;
  void check_ended_before_fork(std::uint64_t number) const;
  EventRef event_after(std::uint64_t number);
  bool has_waited(const StreamCore& other, std::uint64_t number) const noexcept;
  void remember_wait(const StreamCore& other, std::uint64_t number) noexcept;

  Device device_;
  std::uint32_t generation_;  // fork_generation() when it was made
  std::uint64_t id_;          // unique in the process, never used again
  std::shared_ptr<FailureLog> log_;
  std::unique_ptr<Queue> queue_;
  mutable std::mutex mutex_;        // everything below, and the calls on queue_
  std::uint64_t enqueued_ = 0;      // the number of the last piece of work
  EventRef event_;                  // the last recorded event ...
  std::uint64_t event_number_ = 0;  // ... which covers the work up to here
  std::array<Waited, 8> waited_;    // the streams last waited for, and up to where
  unsigned next_waited_ = 0;
  std::atomic<CaptureSink*> capture_{nullptr};  // changed under the mutex
};

/// Blocks until the work has ended; throws its failure. After a throw the storages that it wrote are usable (contents
/// unspecified), because the user has been told.
void wait(const Ticket&, std::span<const Access> accesses);

/// True on a thread that is running a queue's work: such work must not submit or wait.
bool inside_work() noexcept;

}  // namespace runtime
}  // namespace tessera
