// Streams: numbering, ordering and waiting. Lock order: a stream's mutex, then the backend's own, then a storage's,
// then nothing. No two streams' and no two storages' are ever held together, and nothing is destroyed under one.
#include "tessera/runtime/stream.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "runtime/failure_log.hpp"
#include "runtime/work_scope.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/fork.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/sync_scope.hpp"

namespace tessera {

Stream::Stream(SourceLocation where) : Stream(default_device(where), where) {}
Stream::Stream(Device device, SourceLocation where)
    : core_(runtime::at_line(where, [&] { return runtime::StreamCore::create(device); })) {}
Stream Stream::default_of(Device device) { return Stream(device.backend().default_stream()); }
Device Stream::device() const noexcept { return core_->device(); }
void Stream::synchronize(SourceLocation where) {
  runtime::at_line(where, [&] { core_->synchronize(); });
}

namespace runtime {

CaptureSink::~CaptureSink() = default;

namespace {

std::atomic<std::uint64_t> next_id{1};

/// Takes back what order() reserved for accesses that are not enqueued in the end.
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

void check_submission(const Submission& submission, Device device) {
  if (inside_work())
    throw DeviceError(
        concat(submission.label, ": work that runs on a stream may not enqueue more work; enqueue it before or after"),
        submission.where);
  if (!submission.work) throw InternalError(concat(submission.label, ": a submission without work"));
  for (const Access& access : submission.accesses) {
    if (!access.storage) throw InternalError(concat(submission.label, ": a submission names an empty storage"));
    if (access.storage->device() == device) continue;
    throw DeviceError(concat(submission.label, ": tensor '", access.storage->label(), "' is on device ",
                             access.storage->device().name(), ", the stream is on ", device.name(),
                             ".\n  Copy the tensor to ", device.name(), " first, or use a stream of its device."),
                      submission.where);
  }
}

}  // namespace

std::shared_ptr<StreamCore> StreamCore::create(Device device, bool is_default) {
  try {
    return std::make_shared<StreamCore>(Private(), device, is_default);
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while making a stream on ", device.name()));
  }
}

StreamCore::StreamCore(Private, Device device, bool is_default)
    : device_(device),
      generation_(tessera::fork_generation()),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      log_(std::make_shared<FailureLog>()),
      queue_(device.backend().make_queue(is_default, log_)) {
  queue_->attach(*this);
}

StreamCore::~StreamCore() = default;

bool StreamCore::left_behind() const noexcept {
  return generation_ != tessera::fork_generation() && !queue_->immediate();
}

void StreamCore::throw_left_behind(const char* what, SourceLocation where) const {
  throw DeviceError(concat(what, ": this stream of ", device_.name(),
                           " belongs to the process that this one was forked from, and its ",
                           device_.kind() == DeviceKind::Cpu ? "thread is" : "driver works",
                           " only there.\n  Make streams after fork(), or use the CPU's default stream."),
                    where);
}

/// What the parent's stream had done by the time of the fork is in this process's memory too; nothing more will come.
void StreamCore::check_ended_before_fork(std::uint64_t number) const {
  if (number == 0 || queue_->ended_before_fork(number)) return;
  throw DeviceError(concat("waiting for work that a stream of ", device_.name(),
                           " had not ended when this process was forked: it goes on in the parent only.\n  Synchronize "
                           "the stream before fork(), or make the tensor again here."));
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
  check_submission(submission, device_);
  if (left_behind()) [[unlikely]] { throw_left_behind(submission.label, submission.where); }
  const ProfileRange range(ProfileTopic::Launch, submission.label, submission.where);
  try {
    if (CaptureSink* sink = capture_.load(std::memory_order_acquire); sink != nullptr) [[unlikely]] {
      sink->add(submission);
      return 0;
    }
    return at_line(submission.where, [&] {
      SyncScope* scope = SyncScope::innermost();
      if (scope != nullptr) scope->reserve(submission.accesses);
      Orders orders(self, submission.accesses);
      std::uint64_t number = 0;
      {
        std::lock_guard lock(mutex_);
        number = enqueued_ + 1;
        queue_->launch(submission, number);
        enqueued_ = number;
      }
      orders.note(self, number);
      if (scope != nullptr) scope->add({self, number}, submission);
      return number;
    });
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while enqueuing ", submission.label), submission.where);
  }
}

StreamCore::Allocation StreamCore::allocate(std::size_t bytes) {
  if (left_behind()) throw_left_behind("making a tensor");
  std::lock_guard lock(mutex_);
  if (capture_ != nullptr) return {};
  void* memory = queue_->allocate(bytes, enqueued_ + 1);
  if (memory == nullptr) return {};
  return {memory, ++enqueued_};
}

void StreamCore::wait_for(StreamCore& other, std::uint64_t number) {
  if (&other == this || number == 0 || other.queue_->immediate()) return;
  if (other.left_behind()) return other.check_ended_before_fork(number);
  {
    std::lock_guard lock(mutex_);
    if (has_waited(other, number)) return;
  }
  const EventRef event = other.event_after(number);
  const bool ours = &event->backend() == &device_.backend();
  if (!ours) event->wait();
  std::lock_guard lock(mutex_);
  if (ours) queue_->wait(event);
  remember_wait(other, number);
}

EventRef StreamCore::event_after(std::uint64_t number) {
  EventRef old;  // ends outside the lock
  std::lock_guard lock(mutex_);
  if (event_ && event_number_ >= number) return event_;
  try {
    old = std::exchange(event_, queue_->record());
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while recording an event on ", device_.name()));
  }
  event_number_ = enqueued_;
  return event_;
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
  if (left_behind()) return check_ended_before_fork(number);
  if (inside_work())
    throw DeviceError("work that runs on a stream may not wait for other work: it could wait for itself");
  if (capturing()) throw DeviceError("the host cannot wait for a stream that is being captured into a graph");
  const ProfileRange range(ProfileTopic::Synchronize, device_.name().c_str(), {});
  event_after(number)->wait();
}

void StreamCore::host_wait_noexcept(std::uint64_t number) noexcept {
  if (number == 0 || queue_->immediate() || left_behind()) return;
  try {
    return event_after(number)->wait();
  } catch (...) {
    // No event to be had: wait for everything.
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
  return left_behind() ? queue_->ended_before_fork(number) : event_after(number)->done();
}

void StreamCore::synchronize() {
  if (left_behind()) throw_left_behind("synchronizing");
  if (inside_work())
    throw DeviceError("work that runs on a stream may not wait for other work: it could wait for itself");
  std::uint64_t last = 0;
  {
    std::lock_guard lock(mutex_);
    last = enqueued_;
  }
  host_wait(last);
  if (const FailureRef failure = log_->deliver()) std::rethrow_exception(failure->error);
}

FailureRef StreamCore::failure_of(std::uint64_t number) noexcept { return log_->of(number); }

void StreamCore::release(Retired& memory) {
  if (left_behind()) throw_left_behind("freeing memory");
  std::lock_guard lock(mutex_);
  queue_->release(memory);
}

void StreamCore::begin_capture(CaptureSink& sink) {
  std::lock_guard lock(mutex_);
  if (capture_ != nullptr) throw DeviceError("this stream is already being captured into a graph");
  capture_ = &sink;
}

void StreamCore::end_capture() noexcept {
  std::lock_guard lock(mutex_);
  capture_ = nullptr;
}

bool StreamCore::capturing() const noexcept { return capture_.load(std::memory_order_acquire) != nullptr; }

}  // namespace runtime
}  // namespace tessera
