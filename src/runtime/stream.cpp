// Streams: numbering, ordering and waiting. Lock order: a stream's mutex, then the backend's, then a storage's. The
// mutexes of two streams or of two storages are never held together, and no object is destroyed while one is held.
#include "tessera/runtime/stream.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "runtime/failure_log.hpp"
#include "runtime/guest_rules.hpp"
#include "runtime/work_scope.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/fork.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/sync_scope.hpp"

namespace tessera {

Stream::Stream(std::shared_ptr<runtime::StreamCore> core) noexcept : core_(std::move(core)) { core_->add_handle(); }
Stream::Stream(const Stream& other) noexcept : Stream(other.core_) {}
Stream& Stream::operator=(const Stream& other) noexcept {
  Stream copy(other);
  core_.swap(copy.core_);
  return *this;
}
Stream::~Stream() { core_->drop_handle(); }
Stream::Stream(SourceLocation where) : Stream(default_device(where), where) {}
Stream::Stream(Device device, SourceLocation where)
    : Stream(runtime::at_line(where, [&] { return runtime::StreamCore::create(device); })) {}
Stream::Stream(Device device, const StreamOptions& options, SourceLocation where)
    : Stream(runtime::at_line(where, [&] { return runtime::StreamCore::create(device, options); })) {}
Stream Stream::default_of(Device device) { return Stream(device.backend().default_stream()); }
PriorityRange Stream::priorities(Device device, SourceLocation where) {
  return runtime::at_line(where, [&] { return device.backend().priorities(); });
}
Stream Stream::wrap(void* native, Device device, std::shared_ptr<void> owner, SourceLocation where) {
  return Stream(runtime::at_line(where, [&] { return runtime::StreamCore::wrap(device, native, std::move(owner)); }));
}
Stream Stream::wrap(void* native, SourceLocation where) { return wrap(native, default_device(where), nullptr, where); }
void* Stream::native(SourceLocation where) const {
  return runtime::at_line(where, [&] { return core_->expose(); });
}
Device Stream::device() const noexcept { return core_->device(); }
void Stream::synchronize(SourceLocation where) {
  runtime::at_line(where, [&] { core_->synchronize(); });
}

namespace runtime {

CaptureSink::~CaptureSink() = default;

namespace {

std::atomic<std::uint64_t> next_id{1};

/// Streams whose driver's handle is known outside: those of other libraries, and ours whose handle was given out.
class KnownStreams {
 public:
  static KnownStreams& all() {
    static KnownStreams& streams = *new KnownStreams;  // never destroyed: streams in statics may end last
    return streams;
  }
  struct Entry {
    Backend* device = nullptr;
    std::uint64_t id = 0;
    std::weak_ptr<StreamCore> stream;
  };
  /// The stream with this id, or what `make` returns, which is known from then on.
  template <class F>
  std::shared_ptr<StreamCore> find_or(Backend& device, std::uint64_t id, F make) {
    std::vector<std::shared_ptr<StreamCore>> seen;  // the last reference to one must not end under the lock
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const Entry& entry) { return entry.stream.expired(); });
    seen.reserve(entries_.size());
    for (const Entry& entry : entries_) {
      if (entry.device != &device || entry.id != id) continue;
      seen.push_back(entry.stream.lock());
      if (seen.back()) return seen.back();
    }
    entries_.reserve(entries_.size() + 1);
    std::shared_ptr<StreamCore> made = make();
    entries_.push_back({&device, id, made});
    return made;
  }

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

/// Orders all accesses; the destructor undoes it unless note() was called.
class Orders {
 public:
  Orders(const std::shared_ptr<StreamCore>& stream, std::span<const Access> accesses) : accesses_(accesses) {
    try {
      for (const Access& access : accesses) {
        access.storage->order(stream, access.mode);
        ++ordered_;
      }
    } catch (...) {
      forget();
      throw;
    }
  }
  ~Orders() { forget(); }
  void note(const std::shared_ptr<StreamCore>& stream, std::uint64_t number) noexcept {
    for (const Access& access : accesses_) access.storage->note(stream, number, access.mode, access.lease);
    ordered_ = 0;
  }

 private:
  void forget() noexcept {
    for (std::size_t i = 0; i < ordered_; ++i) accesses_[i].storage->forget(accesses_[i].mode);
    ordered_ = 0;
  }
  std::span<const Access> accesses_;
  std::size_t ordered_ = 0;
};

void check_submission(const Submission& submission, Device device, bool guest_stream) {
  if (inside_work())
    throw DeviceError(concat(submission.label,
                             ": work that runs on a stream may not enqueue more work.\n  Enqueue it before or after."),
                      submission.where);
  if (!submission.work) throw InternalError(concat(submission.label, ": a submission without work"));
  for (const Access& access : submission.accesses) {
    if (!access.storage) throw InternalError(concat(submission.label, ": a submission names an empty storage"));
    if (access.storage->guest() != guest_stream) [[unlikely]] { throw_guest_mix(submission, guest_stream); }
    if (access.storage->device() == device || submission.between_devices) continue;
    throw DeviceError(concat(submission.label, ": tensor '", access.storage->label(), "' is on device ",
                             access.storage->device().name(), ", the stream is on ", device.name(),
                             ".\n  Copy the tensor to ", device.name(), " first, or use a stream of its device."),
                      submission.where);
  }
}

/// What other devices write has an outcome before work of `device` reads it: their failures are not known to its queue.
void wait_for_outcomes(const Submission& submission, Device device) {
  for (const Access& access : submission.accesses) {
    if (access.mode != AccessMode::Write && access.storage->device() != device) access.storage->wait_outcome();
  }
}

}  // namespace

/// f(), with host memory that ran out as a DeviceError.
template <class F>
static std::shared_ptr<StreamCore> making(Device device, F f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while making a stream on ", device.name()));
  }
}

/// A name of the calling thread.
static const void* this_thread() noexcept {
  static thread_local const char here = 0;
  return &here;
}

[[noreturn]] static void throw_wait_inside_work() {
  throw DeviceError(
      "work that runs on a stream may not wait for other work: it could wait for itself.\n  Wait on a thread of the "
      "program's own.");
}

[[noreturn]] static void throw_wait_in_capture() {
  throw DeviceError(
      "the host cannot wait for a stream that is being captured into a graph.\n  Wait for the replay instead, or read "
      "before the capture.");
}

std::shared_ptr<StreamCore> StreamCore::create(Device device, bool is_default) {
  return making(device, [&] { return std::make_shared<StreamCore>(Private(), device, Origin{is_default}); });
}

std::shared_ptr<StreamCore> StreamCore::create(Device device, const StreamOptions& options) {
  const PriorityRange range = device.backend().priorities();
  const bool ignored = range.least == range.greatest && device.kind() == DeviceKind::Cpu;
  if (!ignored && (options.priority > range.least || options.priority < range.greatest)) {
    throw DeviceError(concat("a stream with priority ", options.priority, " on ", device.name(),
                             ": its priorities are ", range.greatest, " (most urgent) to ", range.least,
                             " (least urgent).\n  Stream::priorities(device) has the range."));
  }
  return making(device, [&] {
    return std::make_shared<StreamCore>(Private(), device, Origin{false, ignored ? 0 : options.priority});
  });
}

std::shared_ptr<StreamCore> StreamCore::wrap(Device device, void* native, std::shared_ptr<void> owner) {
  const NativeStream stream = device.backend().examine_stream(native);
  std::shared_ptr<StreamCore> core = making(device, [&] {
    return KnownStreams::all().find_or(device.backend(), stream.id, [&] {
      return std::make_shared<StreamCore>(Private(), device, Origin{false, 0, stream, owner});
    });
  });
  std::lock_guard lock(core->mutex_);
  if (core->wrapped() && !core->owner_) core->owner_ = std::move(owner);
  return core;
}

static std::unique_ptr<Queue> queue_for(Backend& backend, const StreamCore::Origin& origin,
                                        std::shared_ptr<QueueObserver> observer) {
  if (origin.guest_memory != nullptr) return backend.guest_queue(origin.wrapped.handle, std::move(observer));
  if (origin.wrapped.handle != nullptr) return backend.wrap_queue(origin.wrapped, std::move(observer));
  if (origin.priority != 0) return backend.make_priority_queue(origin.priority, std::move(observer));
  return backend.make_queue(origin.is_default, std::move(observer));
}

StreamCore::StreamCore(Private, Device device, Origin origin)
    : device_(device),
      generation_(tessera::fork_generation()),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      wrapped_(origin.wrapped),
      owner_(origin.owner),
      guest_memory_(origin.guest_memory),
      log_(std::make_shared<FailureLog>()),
      queue_(queue_for(device.backend(), origin, log_)) {
  queue_->attach(*this);
  if (origin.is_default) add_handle();  // the device's: the program's come and go
}

StreamCore::~StreamCore() = default;

void StreamCore::drop_handle() noexcept {
  if (handles_.fetch_sub(1, std::memory_order_relaxed) == 1) queue_->dropped();
}

bool StreamCore::unusable_after_fork() const noexcept {
  return generation_ != tessera::fork_generation() && !queue_->immediate();
}

void StreamCore::throw_after_fork(const char* what, SourceLocation where) const {
  throw DeviceError(concat(what, ": this stream of ", device_.name(),
                           " belongs to the process that this one was forked from, and its ",
                           device_.kind() == DeviceKind::Cpu ? "thread is" : "driver works",
                           " only there.\n  Make streams after fork(), or use the CPU's default stream."),
                    where);
}

/// The child has a copy of the parent's state at the time of the fork; what had not ended then never ends here.
void StreamCore::check_ended_before_fork(std::uint64_t number) const {
  if (number == 0 || queue_->ended_before_fork(number)) return;
  throw DeviceError(concat("waiting for work that a stream of ", device_.name(),
                           " had not ended when this process was forked: it continues only in the parent.\n  "
                           "Synchronize the stream before fork(), or make the tensor again here."));
}

Ticket StreamCore::submit(const Submission& submission) {
  auto self = shared_from_this();
  const std::uint64_t number = enqueue(self, submission);
  return {std::move(self), number};
}

std::uint64_t StreamCore::submit(const std::shared_ptr<StreamCore>& stream, const Submission& submission) {
  return stream->enqueue(stream, submission);
}

std::uint64_t StreamCore::enqueue(const std::shared_ptr<StreamCore>& self, const Submission& submission) {
  check_submission(submission, device_, guest_memory_ != nullptr);
  if (unusable_after_fork()) [[unlikely]] { throw_after_fork(submission.label, submission.where); }
  const ProfileRange range(ProfileTopic::Launch, submission.label, submission.where);
  try {
    if (CaptureSink* sink = capture_.load(std::memory_order_acquire); sink != nullptr) [[unlikely]] {
      if (capturing_thread_ != this_thread())
        throw DeviceError(concat(submission.label,
                                 ": its stream is being captured into a graph by another thread.\n  Use another "
                                 "stream, or enqueue it after the capture."),
                          submission.where);
      sink->add(submission);
      return 0;
    }
    check_not_capturing("work on another stream", "Leave the stream out: operations of the flow go to its own.",
                        submission.where);
    if (guest_memory_ != nullptr) return at_line(submission.where, [&] { return enqueue_guest(submission); });
    return at_line(submission.where, [&] {
      if (submission.between_devices) [[unlikely]] { wait_for_outcomes(submission, device_); }
      SubmissionSink* sink = SubmissionSink::innermost();
      if (sink != nullptr) sink->reserve(submission.accesses);
      Orders orders(self, submission.accesses);
      std::uint64_t number = 0;
      EventRef old;  // ends outside the lock
      {
        std::lock_guard lock(mutex_);
        number = enqueued_ + 1;
        queue_->launch(submission, number);
        enqueued_ = number;
        // The handle of another library's stream may be gone when this work is waited for. And the host, which waits
        // for copies of its memory, need not wait for what comes after them.
        if (wrapped() || (submission.between_devices && !queue_->immediate())) [[unlikely]] { old = record_noexcept(); }
      }
      orders.note(self, number);
      if (sink != nullptr) sink->add({self, number}, submission);
      return number;
    });
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while enqueuing ", submission.label), submission.where);
  }
}

StreamCore::Allocation StreamCore::allocate(std::size_t bytes) {
  if (unusable_after_fork()) throw_after_fork("making a tensor");
  EventRef old;  // ends outside the lock
  std::lock_guard lock(mutex_);
  if (capture_ != nullptr) return {};
  void* memory = queue_->allocate(bytes, enqueued_ + 1);
  if (memory == nullptr) return {};
  ++enqueued_;
  if (wrapped()) old = record_noexcept();
  return {memory, enqueued_};
}

/// Under the mutex: records an event behind everything. Returns the event that is forgotten, which ends outside the
/// lock.
EventRef StreamCore::record(std::uint64_t number) {
  Recorded made{queue_->record(), number};
  next_recorded_ = (next_recorded_ + 1) % recorded_.size();
  return std::exchange(recorded_[next_recorded_], std::move(made)).event;
}

/// The same for what was enqueued last. If it fails, the next one who needs an event tries again.
EventRef StreamCore::record_noexcept() noexcept {
  try {
    return record(enqueued_);
  } catch (...) { return nullptr; }
}

std::uint64_t StreamCore::mark() {
  if (unusable_after_fork()) throw_after_fork("recording a use");
  if (capturing())
    throw DeviceError(
        "a use of a stream that is being captured into a graph cannot be recorded.\n  Record it after the capture.");
  EventRef old;  // ends outside the lock
  std::lock_guard lock(mutex_);
  if (wrapped() || exposed_) {  // the handle is valid now, and what others enqueue later is not meant
    old = record(enqueued_ + 1);
  }
  return ++enqueued_;
}

void* StreamCore::expose() {
  if (unusable_after_fork()) throw_after_fork("using a stream's native handle");
  void* handle = queue_->native_handle();
  if (handle == nullptr) {
    throw DeviceError(concat(
        "a stream of ", device_.name(),
        " has no native handle: only streams of GPUs are streams of a driver.\n  Use a stream of a GPU, or order "
        "the host's own work with synchronize()."));
  }
  if (wrapped()) return handle;
  if (capturing())
    throw DeviceError(
        "the native handle of a stream that is being captured into a graph: work of others on it would run at once, "
        "and "
        "not be part of the graph.\n  Enqueue their work before the capture or after the replay, on another stream.");
  const NativeStream known = device_.backend().examine_stream(handle);
  KnownStreams::all().find_or(device_.backend(), known.id, [&] { return shared_from_this(); });
  std::lock_guard lock(mutex_);
  exposed_ = true;
  queue_->expose();
  return handle;
}

void StreamCore::wait_for(StreamCore& other, std::uint64_t number) {
  if (&other == this || number == 0 || other.queue_->immediate()) return;
  if (other.unusable_after_fork()) return other.check_ended_before_fork(number);
  {
    std::lock_guard lock(mutex_);
    if (has_waited(other, number)) return;
  }
  const EventRef event = other.event_after(number);
  const bool ours = device_.backend().waits_for(event->backend());
  if (!ours) event->wait();
  std::lock_guard lock(mutex_);
  if (ours) queue_->wait(event);
  remember_wait(other, number);
}

bool StreamCore::is_after(const StreamCore& other, std::uint64_t number) {
  if (&other == this || number == 0) return true;
  std::lock_guard lock(mutex_);
  return has_waited(other, number);
}

/// The earliest event behind the work `number`: a later one would be waited for longer.
EventRef StreamCore::event_after(std::uint64_t number) {
  EventRef old;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  const Recorded* best = nullptr;
  for (const Recorded& r : recorded_)
    if (r.event && r.number >= number && (best == nullptr || r.number < best->number)) best = &r;
  if (best != nullptr) return best->event;
  try {
    old = record(enqueued_);
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while recording an event on ", device_.name()));
  }
  return recorded_[next_recorded_].event;
}

bool StreamCore::has_waited(const StreamCore& other, std::uint64_t number) const noexcept {
  for (const Waited& waited : waited_) {
    if (waited.stream == other.id_) return waited.number >= number;
  }
  return false;
}

void StreamCore::remember_wait(const StreamCore& other, std::uint64_t number) noexcept {
  for (Waited& waited : waited_) {
    if (waited.stream != other.id_) continue;
    waited.number = std::max(waited.number, number);
    return;
  }
  waited_[next_waited_] = {other.id_, number};
  next_waited_ = (next_waited_ + 1) % waited_.size();
}

void StreamCore::host_wait(std::uint64_t number) {
  if (number == 0 || queue_->immediate()) return;
  if (unusable_after_fork()) return check_ended_before_fork(number);
  if (inside_work()) throw_wait_inside_work();
  if (capturing()) throw_wait_in_capture();
  const ProfileRange range(ProfileTopic::Synchronize, device_.name().c_str(), {});
  event_after(number)->wait();
}

void StreamCore::host_wait_noexcept(std::uint64_t number) noexcept {
  if (number == 0 || queue_->immediate() || unusable_after_fork()) return;
  try {
    return event_after(number)->wait();
  } catch (...) {
    // No event can be recorded: wait for everything.
  }
  try {
    std::lock_guard lock(mutex_);
    queue_->synchronize();
  } catch (...) {
    // The device is dead: nothing runs on it any more.
  }
}

bool StreamCore::has_ended(std::uint64_t number) {
  if (number == 0 || queue_->immediate()) return true;
  return unusable_after_fork() ? queue_->ended_before_fork(number) : event_after(number)->done();
}

void StreamCore::synchronize() {
  check_not_capturing("waiting for a stream", "Wait for the replay instead.");
  if (unusable_after_fork()) throw_after_fork("synchronizing");
  if (inside_work()) throw_wait_inside_work();
  if (capturing()) throw_wait_in_capture();
  std::uint64_t last = 0;
  bool others = wrapped();
  {
    std::lock_guard lock(mutex_);
    last = enqueued_;
    others = others || exposed_;
  }
  host_wait(others ? mark() : last);  // with what others have enqueued
  if (const FailureRef failure = log_->deliver()) std::rethrow_exception(failure->error);
}

void StreamCore::release(Retired& memory) {
  if (unusable_after_fork()) throw_after_fork("freeing memory");
  std::lock_guard lock(mutex_);
  queue_->release(memory);
}

void StreamCore::begin_capture(CaptureSink& sink) {
  std::lock_guard lock(mutex_);
  if (capture_ != nullptr) throw DeviceError("this stream is already being captured into a graph");
  if (capturing_thread_ != this_thread()) capturing_thread_ = this_thread();  // once: other threads may look at it
  capture_ = &sink;
}

void StreamCore::change_capture(CaptureSink& sink) noexcept {
  std::lock_guard lock(mutex_);
  capture_ = &sink;
}

void StreamCore::end_capture() noexcept {
  std::lock_guard lock(mutex_);
  capture_ = nullptr;
}

bool StreamCore::capturing() const noexcept { return capture_.load(std::memory_order_acquire) != nullptr; }

}  // namespace runtime
}  // namespace tessera
