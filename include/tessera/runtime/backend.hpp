// The interface of a device: memory, in-order queues, events. The CPU, CUDA and the tests' fake device implement it;
// storages, ordering and leases use only this interface.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "tessera/base/source_location.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/device.hpp"
#include "tessera/runtime/memory.hpp"

namespace tessera {
struct PriorityRange;
}

namespace tessera::runtime {

class GraphRecording;
class GraphWork;
/// Alignment of all memory, in bytes: that of the CUDA driver, and four cache lines of the CPU.
inline constexpr std::size_t kStorageAlignment = 256;

/// Blocks of a launch.
struct LaunchGrid {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// The arguments of a Launchable. All spans are valid during the call only.
struct LaunchContext {
  LaunchGrid grid;
  std::span<const std::uint64_t> args;  ///< 8-byte slots of the launch (tessera/lang/trace.hpp says which)
  std::span<const Access> accesses;     ///< every storage that the work touches, as given to submit()
  void* native_queue = nullptr;         ///< the driver's stream (CUstream); null on the CPU
  void* native_launch = nullptr;        ///< private to the backend
  void* native_node = nullptr;  ///< private to the backend: a node of a graph gets the work, and nothing is enqueued
  /// It runs on the thread that enqueues it, and others that enqueue wait meanwhile: it must not wait for them.
  bool immediate = false;
};

/// Work that can be enqueued: a compiled kernel, or a host function. Immutable: one object serves any number of
/// launches from any thread. A CPU queue calls launch() to run the work, in the queue's order; a GPU queue calls it
/// while the work is enqueued, and the call passes it to the driver. An exception is the failure of this work.
class Launchable {
 public:
  virtual ~Launchable();
  virtual void launch(const LaunchContext&) const = 0;
  /// Called instead of launch() by a CPU queue that skips the work, because an input carries a failure, or because work
  /// before it in the same graph has failed. For work that others, outside the queue, wait for.
  virtual void skipped() const noexcept {}
  /// True if `other`, called with the same arguments, does the same.
  virtual bool same_as(const Launchable& other) const noexcept { return this == &other; }
  /// Private to the CUDA backend, the only one that overrides it: its KernelWork, null if it is none.
  virtual const void* native_kernel() const noexcept { return nullptr; }
  /// True for work of a library that tells captures apart by the number that the driver gives them. All captures into
  /// one graph have one number, so each piece of such work is captured into a graph of its own, which becomes a node.
  virtual bool captured_apart() const noexcept { return false; }
};

/// A point in a queue's order with a time stamp: work to be submitted once. (Events for waiting have no time stamp,
/// which would cost the device more.)
class TimeMark : public Launchable {
 public:
  /// Seconds from `start` to this mark. Both are marks of one device that have been reached (the stream was
  /// synchronized). Throws DeviceError.
  virtual double seconds_since(const TimeMark& start) const = 0;
  /// True if the queue has reached the mark. Never blocks.
  virtual bool reached() const = 0;
};

/// A host function as a Launchable; `f` takes a const LaunchContext& and may be called several times. Functions
/// of one type that behave differently have to differ in the arguments of their submissions.
template <class F>
std::shared_ptr<const Launchable> host_work(F f) {
  struct Work final : Launchable {
    F f;
    explicit Work(F&& g) : f(static_cast<F&&>(g)) {}
    void launch(const LaunchContext& context) const override { f(context); }
    bool same_as(const Launchable& other) const noexcept override { return typeid(other) == typeid(Work); }
  };
  return std::make_shared<const Work>(static_cast<F&&>(f));
}

/// Work with its arguments, as a graph repeats it.
struct RecordedCall {
  std::shared_ptr<const Launchable> work;
  LaunchGrid grid;
  std::pmr::vector<std::uint64_t> args{};
};

/// Prepares a call of a graph whose numbers have changed.
class CallUpdate {
 public:
  virtual ~CallUpdate();
  /// Chooses the work and the grid for the call's arguments. Throws what a launch with them would throw.
  virtual void update(RecordedCall& call) const = 0;
};

/// args[slot] holds the bits of a number that a graph may change later: that of the GraphScalar with this id.
struct ScalarUse {
  std::uint16_t slot = 0;
  std::uint64_t scalar = 0;
  bool operator==(const ScalarUse&) const = default;
};

/// One piece of work, as submit() takes it. A queue that needs the spans after the call copies them.
struct Submission {
  std::shared_ptr<const Launchable> work;
  LaunchGrid grid;
  std::span<const std::uint64_t> args;
  std::span<const Access> accesses;
  const char* label = "work";  ///< static or interned; the name of the work in errors
  SourceLocation where{};      ///< the user's call
  /// Storages may be on other devices than the queue: work of transfer_copy(), and graphs with such work.
  bool between_devices = false;

  // -- for graphs, which move temporaries and change numbers --
  /// The work reaches its storages through `accesses` and `addresses` only.
  bool movable = false;
  std::span<const std::uint16_t> addresses{};  ///< args[addresses[i]] is an address in the storage of accesses[i]
  std::span<const ScalarUse> scalars{};        ///< set while capturing only
  std::shared_ptr<const CallUpdate> update{};  ///< of work with `scalars`
};

/// A point in a queue's order that others can wait for.
class Event {
 public:
  virtual ~Event();
  virtual bool done() const = 0;  ///< never blocks
  virtual void wait() const = 0;  ///< blocks the calling thread; throws DeviceError if the device fails
  virtual const Backend& backend() const noexcept = 0;
};
using EventRef = std::shared_ptr<const Event>;

/// Notifications of a queue about its work; called on the thread that runs the work, in the queue's order.
class QueueObserver {
 public:
  virtual ~QueueObserver();
  /// Called right before the work `number` runs. Returns false if it must be skipped, because an input carries a
  /// failure.
  virtual bool may_run(std::uint64_t number, std::span<const Access> accesses) noexcept = 0;
  /// Called after the work has run; inside the catch block of its exception if `failed`.
  virtual void finished(std::uint64_t number, std::span<const Access> accesses, bool failed) noexcept = 0;
  /// Called when work for which finished() has been called is found to have failed (a GPU's kernel with checks). The
  /// caller marks what it wrote.
  virtual void found_failed(std::uint64_t number, const FailureRef& failure) noexcept = 0;
};

/// Memory without users, to be freed; if it is foreign, its owner is released.
struct Retired {
  void* memory = nullptr;
  std::size_t bytes = 0;
  bool of_queue = false;                   ///< Queue::allocate gave it: more of this size may be needed on a queue
  std::shared_ptr<void> owner;             ///< foreign memory: its owner
  std::shared_ptr<Allocator> allocator{};  ///< gave the memory, if the backend did not; queues never see it
};

/// A stream of another library.
struct NativeStream {
  void* handle = nullptr;
  std::uint64_t id = 0;  ///< of this stream alone, in the life of the process; handles are used again
};

/// A resource that another library has used and returned (Backend::end_when_idle). An entry of an intrusive list, so
/// that taking it cannot fail.
class HandedBack {
 public:
  virtual ~HandedBack();
  /// Called once, before the destructor, when the memory may be used again. Must not block.
  virtual void end_lease() noexcept = 0;
  HandedBack* next = nullptr;  ///< link of the list
};

/// An in-order queue of a device. Calls on one queue are serialised by its StreamCore. Every call either succeeds or
/// throws and has had no effect.
class Queue {
 public:
  /// Finishes enqueued work before it returns.
  virtual ~Queue();
  /// Enqueues the work and copies what it needs of the submission (whose spans end with the call). Where
  /// Backend::queues_hold_storages, that includes a reference to every storage until the work has ended.
  virtual void launch(const Submission&, std::uint64_t number) = 0;
  /// Memory for work that is enqueued later, allocated in the queue's order as work `number`. Null if the queue has no
  /// memory of its own (use Backend::allocate).
  virtual void* allocate(std::size_t bytes, std::uint64_t number);
  /// Records an event that is done when everything enqueued before has ended.
  virtual EventRef record() = 0;
  /// Everything enqueued later starts after `event` (of a backend that Backend::waits_for) is done.
  virtual void wait(const EventRef& event) = 0;
  /// Enqueues freeing memory. Takes it only if it does not throw. Never called if queues hold storages.
  virtual void release(Retired& memory) = 0;
  /// Blocks the calling thread until everything enqueued has ended. Failures of the work itself are not thrown here.
  virtual void synchronize() = 0;
  /// Called in a child of fork() for a queue of its parent: true if the work `number` is known to have ended before the
  /// fork.
  virtual bool ended_before_fork(std::uint64_t number) const noexcept;
  /// True if work has ended when launch() returns (the CPU's default queue), so no event is needed.
  virtual bool immediate() const noexcept { return false; }
  /// The driver's stream, null if there is none.
  virtual void* native_handle() const noexcept;
  /// No handle of the stream is left: what is kept for later work may be released. Any thread calls it, also while
  /// another call on the queue runs.
  virtual void dropped() noexcept {}
  /// From now on others may enqueue work on native_handle().
  virtual void expose() noexcept;
  /// Sets the stream that owns this queue; called before its first work.
  void attach(const StreamCore& stream) noexcept { stream_ = &stream; }

 protected:
  const StreamCore* stream_ = nullptr;  ///< null if a queue is used without a stream (tests)
};

/// The count behind MemoryStats.
class MemoryAccount {
 public:
  /// Counts `bytes` as in use; false if that is above the limit.
  bool take(std::size_t bytes) noexcept;
  /// They were allocated, after take().
  void taken() noexcept;
  /// They were not.
  void cancel(std::size_t bytes) noexcept { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }
  void give_back(std::size_t bytes) noexcept;

  std::size_t in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }
  std::size_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }
  void reset_peak() noexcept { peak_.store(in_use(), std::memory_order_relaxed); }
  /// in_use, peak, limit and the counts.
  MemoryStats stats() const noexcept;

  std::shared_ptr<Allocator> allocator() const noexcept;
  void set_allocator(std::shared_ptr<Allocator> allocator) noexcept;

 private:
  std::atomic<std::size_t> in_use_{0}, peak_{0}, limit_{kNoMemoryLimit};
  std::atomic<std::uint64_t> allocations_{0}, frees_{0};
  std::atomic<bool> has_allocator_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<Allocator> allocator_;
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
  /// Frees memory that is not in use. Must not throw.
  virtual void free(void* memory, std::size_t bytes) noexcept = 0;
  /// A new queue, which notifies `observer` about its work; `is_default` for the queue of the default stream. Throws
  /// DeviceError.
  virtual std::unique_ptr<Queue> make_queue(bool is_default, std::shared_ptr<QueueObserver> observer) = 0;
  /// A queue with a priority. Throws DeviceError if it is outside priorities().
  virtual std::unique_ptr<Queue> make_priority_queue(int priority, std::shared_ptr<QueueObserver> observer);
  virtual PriorityRange priorities();
  /// Examines another library's stream. Throws DeviceError if it cannot be used as one of this device.
  virtual NativeStream examine_stream(void* native);
  /// A queue that enqueues on another library's stream and does not own it.
  virtual std::unique_ptr<Queue> wrap_queue(const NativeStream& native, std::shared_ptr<QueueObserver> observer);
  /// A queue that enqueues on another library's stream and orders nothing (guest.hpp). By default work runs at once, on
  /// the calling thread.
  virtual std::unique_ptr<Queue> guest_queue(void* native, std::shared_ptr<QueueObserver> observer);
  /// True if a queue can wait for events of `other` (Queue::wait); otherwise the host waits for them.
  virtual bool waits_for(const Backend& other) const noexcept { return this == &other; }
  /// True if a queue keeps references to the storages of its work until it has ended, so that a destroyed storage is
  /// unused. Otherwise freeing a storage is enqueued after its last uses (Queue::release).
  virtual bool queues_hold_storages() const noexcept = 0;
  /// Copies between host memory or memory of this device, on the calling thread or through the device; returns when
  /// done. Ordering against queued work is the caller's (Storage::wait_*).
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Sets every byte; returns when done. Ordering as for copy().
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

  /// Copies bytes between memory of this device and of `other`, in either direction: args as of range_copy(). Null if
  /// the device cannot: the host then moves the bytes.
  virtual std::shared_ptr<const Launchable> transfer_copy(Backend& other);
  /// Memory of the host that the device copies from and to without a detour (pinned), aligned to kStorageAlignment;
  /// ordinary memory where that makes no difference. At least one byte. Throws DeviceError.
  virtual std::shared_ptr<void> make_host_memory(std::size_t bytes);

  struct MemoryFigures {
    std::size_t reserved = 0;         ///< bytes that the process holds: used by tensors, or kept for reuse
    std::size_t free = 0, total = 0;  ///< of the device; 0: unknown
  };
  virtual MemoryFigures memory_figures();
  /// Gives memory that is kept for reuse back to the system. Throws DeviceError.
  virtual void trim_memory();
  /// What storages hold of this device's memory, and its limit.
  MemoryAccount& account() noexcept { return account_; }

  /// A mark that has not been submitted; it uses the host's clock unless the device has one. Throws DeviceError.
  virtual std::shared_ptr<const TimeMark> make_time_mark();

  /// The recorded work as one piece of work, with the accesses of the recording. By default it runs entry after entry
  /// where it is launched. Throws DeviceError if something of it cannot be part of a graph here.
  virtual std::shared_ptr<const GraphWork> make_graph(std::shared_ptr<const GraphRecording> recording);

  /// Throws DeviceError if [memory, memory + bytes) is known not to be the device's memory. Returns if it cannot be
  /// known.
  virtual void verify_foreign(const void* memory, std::size_t bytes);

  /// Takes a resource that must end after all work that is enqueued on the device now, by any library: memory that
  /// another library returns while its own, unknown streams may still use it. Never blocks, never throws, and may be
  /// called from any context, including the driver's callbacks.
  virtual void end_when_idle(HandedBack* memory) noexcept;
  /// Waits for the device if resources of end_when_idle() are pending, and ends them. True if there were any.
  virtual bool end_handed_back();

  /// The default stream: created on first use, the same for all threads, lives as long as the backend. A child of
  /// fork() has its own.
  std::shared_ptr<StreamCore> default_stream();

 protected:
  /// Must be called first in the destructor of a backend: ends the default stream while its queue still works.
  void close_default_stream() noexcept;

 private:
  std::mutex default_mutex_;
  std::shared_ptr<StreamCore> default_stream_;
  std::uint32_t default_generation_ = 0;  // fork_generation() when it was made
  MemoryAccount account_;
};

}  // namespace tessera::runtime
