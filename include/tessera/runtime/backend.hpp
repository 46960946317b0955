// What a device must be able to do: memory, in-order queues, events. The CPU, CUDA and the tests' fake device implement
// it; everything above (storages, ordering, leases) is written once against it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "tessera/base/source_location.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::runtime {

class Storage;
using StorageRef = std::shared_ptr<Storage>;
class StreamCore;
struct Failure;
using FailureRef = std::shared_ptr<Failure>;
class LeaseLink;

/// Of all memory, in bytes: what the CUDA driver gives, and four cache lines of the CPU.
inline constexpr std::size_t kStorageAlignment = 256;

/// How a piece of work uses a storage.
enum class AccessMode : std::uint8_t {
  Read,       ///< its contents are an input
  ReadWrite,  ///< input and output (a `Mut` piece may be loaded, or left as it was)
  Write,      ///< overwritten completely, whatever it held: an earlier failure does not matter
};

struct Access {
  StorageRef storage;
  AccessMode mode = AccessMode::Read;
  /// The caller's lease of `storage`: released by submit() once the use is noted, in the same step. Nobody else looks.
  LeaseLink* lease = nullptr;
};

/// Blocks of a launch.
struct LaunchGrid {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// What a Launchable is called with. All spans live for the call only.
struct LaunchContext {
  LaunchGrid grid;
  std::span<const std::uint64_t> args;  ///< 8-byte slots of the launch (tessera/lang/trace.hpp says which)
  std::span<const Access> accesses;     ///< every storage that the work touches, as given to submit()
  void* native_queue = nullptr;         ///< the driver's stream (CUstream); null on the CPU
  void* native_launch = nullptr;        ///< the backend's own, for its own kinds of work
};

/// Work that a queue can carry: a compiled kernel, or a host function. Immutable: one object serves any number of
/// launches from any thread. A CPU queue calls launch() when the work's turn comes, and the call does the work; a GPU
/// queue calls it when the work is enqueued, and the call hands it to the driver. An exception is the failure of this
/// piece of work.
class Launchable {
 public:
  virtual ~Launchable();
  virtual void launch(const LaunchContext&) const = 0;
};

/// A point in a queue's order that knows its time: work to be submitted once. (Events that are waited for do not:
/// taking the time costs the device more.)
class TimeMark : public Launchable {
 public:
  /// Seconds from `start` to here: two marks of one device that have been reached (the stream was synchronized). Throws
  /// DeviceError.
  virtual double seconds_since(const TimeMark& start) const = 0;
};

/// A host function as a Launchable; `f` takes a const LaunchContext& and may be called several times.
template <class F>
std::shared_ptr<const Launchable> host_work(F f) {
  struct Work final : Launchable {
    F f;
    explicit Work(F&& g) : f(static_cast<F&&>(g)) {}
    void launch(const LaunchContext& context) const override { f(context); }
  };
  return std::make_shared<const Work>(static_cast<F&&>(f));
}

/// One piece of work, as submit() takes it. The spans are copied by whoever needs them after the call.
struct Submission {
  std::shared_ptr<const Launchable> work;
  LaunchGrid grid;
  std::span<const std::uint64_t> args;
  std::span<const Access> accesses;
  const char* label = "work";  ///< static or interned; names the work in errors
  SourceLocation where{};      ///< the user's call
};

/// A point in a queue's order that others can wait for.
class Event {
 public:
  virtual ~Event();
  virtual bool done() const = 0;  ///< never blocks
  virtual void wait() const = 0;  ///< blocks the calling thread; throws DeviceError if the device cannot say
  virtual const Backend& backend() const noexcept = 0;
};
using EventRef = std::shared_ptr<const Event>;

/// What a queue tells about its work; called on the thread that runs the work, in the queue's order.
class QueueObserver {
 public:
  virtual ~QueueObserver();
  /// Right before the work `number` would run: false if it must be skipped, because an input carries a failure.
  virtual bool may_run(std::uint64_t number, std::span<const Access> accesses) noexcept = 0;
  /// After the work has run; called inside the catch block of its exception if `failed`.
  virtual void finished(std::uint64_t number, std::span<const Access> accesses, bool failed) noexcept = 0;
  /// Work for which finished() has been called turns out to have failed (a GPU's kernel with checks). What it wrote is
  /// told by the caller.
  virtual void found_failed(std::uint64_t number, const FailureRef& failure) noexcept = 0;
};

/// Memory whose last user is gone: freed, or, if it is foreign, its owner released.
struct Retired {
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void> owner;  ///< foreign memory: what keeps it
};

/// Something that another library has used and given back (Backend::end_when_idle). Entries of a list, so that taking
/// one cannot fail.
class HandedBack {
 public:
  virtual ~HandedBack();
  /// From now on the memory may be used again; called once, before the destructor. Must not block.
  virtual void end_lease() noexcept = 0;
  HandedBack* next = nullptr;  ///< the list's
};

/// An in-order queue of a device. Calls on one queue are serialised by its StreamCore. Every call either does what it
/// says or throws and has done nothing.
class Queue {
 public:
  /// Work still enqueued is finished, not dropped.
  virtual ~Queue();
  /// Enqueues the work and keeps what it needs of the submission (whose spans end with the call). Where
  /// Backend::queues_hold_storages, that includes a reference to every storage until the work has ended.
  virtual void launch(const Submission&, std::uint64_t number) = 0;
  /// Memory that is there for what is enqueued later, as the piece of work `number`. Null where Backend::allocate is
  /// all there is.
  virtual void* allocate(std::size_t bytes, std::uint64_t number);
  /// An event that is done when everything enqueued before has ended.
  virtual EventRef record() = 0;
  /// Everything enqueued later starts after `event` (of the same backend) is done.
  virtual void wait(const EventRef& event) = 0;
  /// Enqueues the end of a piece of memory. Takes it only if it does not throw. Never called where queues hold
  /// storages.
  virtual void release(Retired& memory) = 0;
  /// Blocks the calling thread until everything enqueued has ended. Failures of the work itself are not thrown here.
  virtual void synchronize() = 0;
  /// Asked in a child of fork(), of a queue of its parent: true if the work `number` is known to have ended before.
  virtual bool ended_before_fork(std::uint64_t number) const noexcept;
  /// True if work has ended when launch() returns (the CPU's default queue): nobody needs an event of it.
  virtual bool immediate() const noexcept { return false; }
  /// The stream whose queue this is says so, before its first piece of work.
  void attach(const StreamCore& stream) noexcept { stream_ = &stream; }

 protected:
  const StreamCore* stream_ = nullptr;  ///< null where a queue is used by itself (tests)
};

/// One device. Its methods may be called from any thread.
class Backend {
 public:
  virtual ~Backend();
  virtual DeviceKind kind() const noexcept = 0;
  virtual int ordinal() const noexcept = 0;
  virtual const std::string& name() const noexcept = 0;

  /// At least one byte, aligned to kStorageAlignment. Throws DeviceError.
  virtual void* allocate(std::size_t bytes) = 0;
  /// Frees memory that nothing uses any more. Must not throw.
  virtual void free(void* memory, std::size_t bytes) noexcept = 0;
  /// A new queue, which tells `observer` about its work; `is_default` for the one of the default stream. Throws
  /// DeviceError.
  virtual std::unique_ptr<Queue> make_queue(bool is_default, std::shared_ptr<QueueObserver> observer) = 0;
  /// True if a queue keeps references to the storages of its work until it has ended, so that a storage that dies is
  /// unused. Otherwise the end of a storage is enqueued behind its last uses (Queue::release).
  virtual bool queues_hold_storages() const noexcept = 0;
  /// Copies between host memory or memory of this device, on the calling thread or through the device; returns when
  /// done. Ordering against queued work is the caller's (Storage::wait_*).
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Sets every byte, and returns when done. Ordering as for copy().
  virtual void fill(void* to, std::uint8_t value, std::size_t bytes) = 0;
  /// True if the host can read and write the device's memory by its address.
  virtual bool host_accessible() const noexcept = 0;

  // -- what the device can do by itself, in a stream's order; null where the host does it --
  /// Overwrites the whole of accesses[0] with a pattern: args are its bits and its size, 1, 2 or 4 bytes, which divides
  /// the storage's.
  virtual std::shared_ptr<const Launchable> pattern_fill() const;
  /// Copies bytes from accesses[1] to accesses[0]: args are the offset in each (target first) and their number.
  virtual std::shared_ptr<const Launchable> range_copy() const;
  /// Sets bytes of the memory of accesses[0], its shadow included: args are the offset, their number and the value.
  virtual std::shared_ptr<const Launchable> range_fill() const;

  /// A mark that has not been submitted. By the host's clock unless the device has one. Throws DeviceError.
  virtual std::shared_ptr<const TimeMark> make_time_mark();

  /// Throws DeviceError if [memory, memory + bytes) is known not to be the device's memory. What cannot be known
  /// passes.
  virtual void verify_foreign(const void* memory, std::size_t bytes);

  /// What may end only when everything that anybody has enqueued on the device by now has ended: memory that another
  /// library gives back, while streams that nobody knows may still use it. Takes it at once, never blocks, never
  /// throws, and may be called anywhere, also from the driver's callbacks.
  virtual void end_when_idle(HandedBack* memory) noexcept;
  /// Waits for the device if something of end_when_idle() is left, and ends it. True if there was.
  virtual bool end_handed_back();

  /// The stream that is used where none is named; made on first use, the same for all threads, lives as long as the
  /// backend. A child of fork() has one of its own.
  std::shared_ptr<StreamCore> default_stream();

 protected:
  /// To be called first in the destructor of a backend: ends the default stream while its queue can still work.
  void close_default_stream() noexcept;

 private:
  std::mutex default_mutex_;
  std::shared_ptr<StreamCore> default_stream_;
  std::uint32_t default_generation_ = 0;  // fork_generation() when it was made
};

}  // namespace tessera::runtime
