// Queue and Event over driver streams and events: one driver call each if nothing fails.
#include "runtime/cuda/queue.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/queue_launch.hpp"
#include "runtime/cuda/stream_memory.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(CudaBackend& backend, PooledEvent event, std::shared_ptr<Track> track, std::uint64_t number)
      : backend_(backend), event_(std::move(event)), track_(std::move(track)), number_(number) {}

  bool done() const override {
    if (done_.load(std::memory_order_acquire)) return true;
    {
      const Current current(backend_.context());
      const CUresult result = backend_.driver().cuEventQuery(event_.get());
      if (result == CUDA_ERROR_NOT_READY) return false;
      backend_.context().check(result, "cuEventQuery", "asking whether work has ended");
    }
    finish();
    return true;
  }
  void wait() const override {
    if (done_.load(std::memory_order_acquire)) return;
    {
      const Current current(backend_.context());
      backend_.context().check(backend_.driver().cuEventSynchronize(event_.get()), "cuEventSynchronize",
                               "waiting for work");
    }
    finish();
  }
  const Backend& backend() const noexcept override { return backend_; }
  CUevent handle() const noexcept { return event_.get(); }

 private:
  void finish() const {
    backend_.ended(*track_, number_);
    done_.store(true, std::memory_order_release);
  }

  CudaBackend& backend_;
  PooledEvent event_;
  std::shared_ptr<Track> track_;
  std::uint64_t number_;  ///< everything up to here of the track has ended when the event is done
  mutable std::atomic<bool> done_{false};
};

class CudaQueue final : public Queue {
 public:
  CudaQueue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer, int priority)
      : backend_(backend), observer_(std::move(observer)), track_(std::make_shared<Track>()) {
    backend_.context().watch(track_);
    const Current current(context());
    own_.emplace(backend_.streams(), priority);
    handle_ = own_->get();
    kept_.emplace(backend_.memory(), handle_);
  }
  /// Another library's stream.
  CudaQueue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer, const NativeStream& native)
      : backend_(backend),
        observer_(std::move(observer)),
        track_(std::make_shared<Track>()),
        handle_(static_cast<CUstream>(native.handle)),
        wrapped_(true),
        others_enqueue_(true) {
    backend_.context().watch(track_);
  }

  /// The driver finishes what was enqueued. Work with a pending outcome is waited for, because the outcome could not be
  /// resolved later.
  /// Another library's stream may be gone: the event behind its last work is waited for.
  ~CudaQueue() override {
    if (wrapped_) {
      if (backend_.outcomes().any()) resolve_wrapped();
      return;
    }
    const Current current(context(), std::nothrow);
    if (!current) return;
    if (backend_.outcomes().any()) resolve_noexcept();
  }

  void launch(const Submission& submission, std::uint64_t number) override {
    if (wrapped_) check_not_capturing(submission.label, submission.where);
    const Current current(context());
    state_.stream = stream_;
    state_.ended = std::max(state_.ended, track_->log.ended());
    QueueLaunch state(backend_.outcomes(), submission, state_, successors_, backend_.launches_among_two(*this));
    // First the outcomes that are pending, then the failures that are known: another thread may resolve one in between.
    state.inherit();
    if (observer_ && !observer_->may_run(number, submission.accesses)) {
      // What it was to write carries its failure now, whatever becomes of the work that wrote it before.
      if (backend_.outcomes().any()) Outcomes::skipped(submission.accesses);
      track_->log.add(nullptr, {}, number);
      last_ = number;
      return;
    }
    submission.work->launch(
        {submission.grid, submission.args, submission.accesses, handle_, static_cast<LaunchState*>(&state)});
    state_ = state.after(number, successors_);
    if (state_.kernel_is_last) backend_.launched(*this);
    if (others_enqueue_) state_.kernel_is_last = false;
    // A failure of what is overwritten ends. That of work with an outcome may be found as soon as it is enqueued; work
    // without one cannot fail, but the failure that it ends may be found until then.
    const bool may_fail = state.has_outcome();
    if (observer_ && may_fail) observer_->finished(number, submission.accesses, false);
    state.enqueued(track_, number, observer_);
    if (observer_ && !may_fail) observer_->finished(number, submission.accesses, false);
    track_->log.add(submission.label, submission.where, number);
    last_ = number;
  }

  void* allocate(std::size_t bytes, std::uint64_t number) override {
    if (wrapped_) check_not_capturing("making a tensor", {});
    const Current current(context());
    void* memory = kept_ && !context().poisoned() ? kept_->take(bytes) : nullptr;
    if (memory == nullptr) memory = backend_.memory().allocate_on(handle_, bytes);
    track_->log.add(nullptr, {}, number);
    last_ = number;
    return memory;
  }

  EventRef record() override {
    if (wrapped_) check_not_capturing("recording an event", {});
    const Current current(context());
    PooledEvent event(backend_.events());
    auto made = std::make_shared<CudaEvent>(backend_, std::move(event), track_, last_);
    context().check(driver().cuEventRecord(made->handle(), handle_), "cuEventRecord", "recording an event");
    if (wrapped_) recorded_ = made;
    return made;
  }

  void wait(const EventRef& event) override {
    if (wrapped_) check_not_capturing("ordering two streams", {});
    const Current current(context());
    state_.kernel_is_last = false;
    context().check(driver().cuStreamWaitEvent(handle_, static_cast<const CudaEvent&>(*event).handle(), 0),
                    "cuStreamWaitEvent", "ordering two streams");
  }

  void release(Retired& memory) override {
    const Current current(context());
    if (memory.memory != nullptr) {
      const bool kept = memory.of_queue && kept_ && kept_->keep(memory.memory, memory.bytes);
      if (!kept) backend_.memory().free_after(memory.memory, handle_);
      // Asked behind keep(): the last handle may go at any moment, and what is kept then is released by one of both.
      if (kept && stream_ != nullptr && stream_->dropped()) kept_->release();
      memory.memory = nullptr;
    }
    if (!memory.owner) return;
    PooledEvent event(backend_.events());
    context().check(driver().cuEventRecord(event.get(), handle_), "cuEventRecord", "keeping foreign memory");
    backend_.owners().add(memory.owner, std::move(event));
  }

  void* native_handle() const noexcept override { return handle_; }
  void expose() noexcept override {
    if (kept_) kept_->close();  // others may capture the stream: frees would become part of their graph
    others_enqueue_ = true;
    state_.kernel_is_last = false;
  }

  void dropped() noexcept override {
    if (!kept_) return;
    const Current current(context(), std::nothrow);
    if (current) kept_->release();
  }

  /// Resolves no outcome: the caller may hold a lock (StreamCore::host_wait_noexcept). Outcomes are resolved when an
  /// event has been waited for.
  void synchronize() override {
    const Current current(context());
    context().check(driver().cuStreamSynchronize(handle_), "cuStreamSynchronize", "waiting for a stream");
  }

 private:
  const Context& context() const noexcept { return backend_.context(); }
  const Driver& driver() const noexcept { return backend_.driver(); }
  void resolve_noexcept() noexcept {
    try {
      context().check(driver().cuStreamSynchronize(handle_), "cuStreamSynchronize", "ending a stream");
      backend_.outcomes().ended(*track_, last_);
    } catch (...) { backend_.outcomes().forget(*track_); }
  }

  void resolve_wrapped() noexcept {
    try {
      if (recorded_) recorded_->wait();
    } catch (...) {
      // The device is dead: what is open stays unknown.
    }
    backend_.outcomes().forget(*track_);
  }
  /// Work that is put into another library's graph would run again with each of its launches, which this process does
  /// not know.
  void check_not_capturing(const char* what, SourceLocation where) const {
    const Current current(context());
    cuda::check_not_capturing(context(), handle_, what, where);
  }

  CudaBackend& backend_;
  std::shared_ptr<QueueObserver> observer_;
  std::shared_ptr<Track> track_;
  std::optional<PooledStream> own_;  // none for another library's
  CUstream handle_ = nullptr;
  std::optional<StreamMemory> kept_;       // none for another library's
  bool wrapped_ = false;                   ///< another library's: it is never destroyed here
  bool others_enqueue_ = false;            ///< what comes before a kernel may be work that is not known here
  std::shared_ptr<const Event> recorded_;  ///< of another library's stream: the last event
  std::uint64_t last_ = 0;                 ///< the number of the last piece of work
  StreamState state_;
  Successors successors_;
};

}  // namespace

void check_not_capturing(const Context& context, CUstream stream, const char* what, SourceLocation where) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  context.check(context.driver().cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing",
                {"asking whether a stream is being captured", what, where});
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return;
  throw DeviceError(concat(what, ": another library is capturing this stream of ", context.name(),
                           " into a graph, which Tessera's work cannot be part of.\n  Enqueue it before or after the "
                           "capture, or capture with Tessera."),
                    where);
}

std::unique_ptr<Queue> make_queue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer, int priority) {
  return std::make_unique<CudaQueue>(backend, std::move(observer), priority);
}
std::unique_ptr<Queue> wrap_queue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer,
                                  const NativeStream& native) {
  return std::make_unique<CudaQueue>(backend, std::move(observer), native);
}

}  // namespace tessera::runtime::cuda
