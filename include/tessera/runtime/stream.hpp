// Streams: the user's handle, and the core behind it that numbers the work, remembers what was waited for, and keeps
// the failures that nobody has been told of.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/small_vector.hpp"

namespace tessera {

/// An in-order sequence of device work. Different streams run concurrently; what one produces and another uses is
/// ordered by the library. A cheap copyable handle: copies are the same stream, and work in flight keeps it alive.
class Stream {
 public:
  Stream();  ///< a new stream of default_device()
  explicit Stream(Device device);
  /// The stream that is used where none is named.
  static Stream default_of(Device device);

  Device device() const noexcept;
  /// Blocks until everything enqueued has ended; throws the first failure of it that has not been thrown yet.
  void synchronize();
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

class StreamCore : public std::enable_shared_from_this<StreamCore>, private QueueObserver {
  struct Private {};

 public:
  static std::shared_ptr<StreamCore> create(Device device, bool is_default = false);
  StreamCore(Private, Device device) noexcept;
  ~StreamCore();

  Device device() const noexcept { return device_; }

  /// Orders the submission behind everything it conflicts with, enqueues it and notes its accesses. The caller holds
  /// leases on all storages of `accesses`, which name every storage once. Throws DeviceError; then nothing was
  /// enqueued.
  Ticket submit(const Submission&);
  /// Work enqueued from now on starts after the work `number` of `other`. Nothing if this stream has waited for it
  /// before.
  void wait_for(const std::shared_ptr<StreamCore>& other, std::uint64_t number);
  /// Blocks the host until the work `number` has ended.
  void host_wait(std::uint64_t number);
  /// Blocks until everything has ended; throws the first failure not delivered yet.
  void synchronize();
  /// The failure of the work `number`, which has ended; empty if it succeeded. Forgets it.
  FailureRef take_failure(std::uint64_t number) noexcept;
  /// True if the work is known to have ended; never blocks, may be late to know.
  bool known_done(std::uint64_t number) noexcept;

  void begin_capture(CaptureSink&);
  void end_capture() noexcept;
  bool capturing() const noexcept;

 private:
  struct Waited {
    const StreamCore* stream = nullptr;
    std::uint64_t id = 0;
    std::uint64_t number = 0;
  };
  struct Failed {
    std::uint64_t number = 0;
    FailureRef failure;
  };
  EventRef event_after(std::uint64_t number);
  bool may_run(std::uint64_t number, std::span<const Access> accesses) noexcept override;
  void finished(std::uint64_t number, std::span<const Access> accesses, bool failed) noexcept override;
  void fail(std::uint64_t number, std::span<const Access> accesses, const FailureRef&) noexcept;

  Device device_;
  std::uint64_t id_;
  std::unique_ptr<Queue> queue_;
  mutable std::mutex mutex_;        // numbers, the last event, what was waited for
  std::uint64_t enqueued_ = 0;      // number of the last piece of work
  EventRef event_;                  // the last recorded event ...
  std::uint64_t event_number_ = 0;  // ... which covers the work up to here
  std::uint64_t done_ = 0;          // known to have ended up to here
  SmallVector<Waited, 4> waited_;   // per other stream: waited for up to here
  CaptureSink* capture_ = nullptr;
  mutable std::mutex failures_mutex_;
  SmallVector<Failed, 1> failures_;  // not delivered, oldest first
};

/// Blocks until the work has ended; throws its failure. After a throw the storages that it wrote are usable (contents
/// unspecified), because the user has been told.
void wait(const Ticket&, std::span<const Access> accesses);

/// True on a thread that is running a queue's work: such work must not submit or wait.
bool inside_work() noexcept;

}  // namespace runtime
}  // namespace tessera
