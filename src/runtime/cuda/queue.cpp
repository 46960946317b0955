// The calls of Queue and Event, one driver call each where nothing fails.
#include "runtime/cuda/queue.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/launch_state.hpp"
#include "tessera/base/error.hpp"

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
  CudaQueue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer)
      : backend_(backend), observer_(std::move(observer)), track_(std::make_shared<Track>()) {
    backend_.context().watch(track_);
    const Current current(context());
    context().check(driver().cuStreamCreate(&handle_, CU_STREAM_NON_BLOCKING), "cuStreamCreate", "making a stream");
  }

  /// The driver finishes what was enqueued. Work whose outcome is open is waited for: nobody could settle it later.
  ~CudaQueue() override {
    const Current current(context(), std::nothrow);
    if (!current) return;
    if (backend_.outcomes().any()) settle_noexcept();
    driver().cuStreamDestroy(handle_);
  }

  void launch(const Submission& submission, std::uint64_t number) override {
    if (observer_ && !observer_->may_run(number, submission.accesses)) {
      track_->log.add(nullptr, {}, number);
      last_ = number;
      return;
    }
    const Current current(context());
    state_.stream = stream_;
    state_.ended = std::max(state_.ended, track_->log.ended());
    LaunchState state(backend_.outcomes(), submission, state_, successors_);
    state.inherit();
    submission.work->launch({submission.grid, submission.args, submission.accesses, handle_, &state});
    state_ = state.after(number, successors_);
    state.enqueued(track_, number, observer_);
    track_->log.add(submission.label, submission.where, number);
    last_ = number;
    if (observer_) observer_->finished(number, submission.accesses, false);
  }

  void* allocate(std::size_t bytes, std::uint64_t number) override {
    const Current current(context());
    void* memory = backend_.memory().allocate_on(handle_, bytes);
    track_->log.add(nullptr, {}, number);
    last_ = number;
    return memory;
  }

  EventRef record() override {
    const Current current(context());
    PooledEvent event(backend_.events());
    auto made = std::make_shared<CudaEvent>(backend_, std::move(event), track_, last_);
    context().check(driver().cuEventRecord(made->handle(), handle_), "cuEventRecord", "recording an event");
    return made;
  }

  void wait(const EventRef& event) override {
    const Current current(context());
    state_.kernel_is_last = false;
    context().check(driver().cuStreamWaitEvent(handle_, static_cast<const CudaEvent&>(*event).handle(), 0),
                    "cuStreamWaitEvent", "ordering two streams");
  }

  void release(Retired& memory) override {
    const Current current(context());
    if (memory.memory != nullptr) {
      backend_.memory().free_after(memory.memory, handle_);
      memory.memory = nullptr;
    }
    if (!memory.owner) return;
    PooledEvent event(backend_.events());
    context().check(driver().cuEventRecord(event.get(), handle_), "cuEventRecord", "keeping foreign memory");
    backend_.owners().add(memory.owner, std::move(event));
  }

  /// Settles no outcome: the caller may hold a lock (StreamCore::host_wait_noexcept), and whoever asks waits for an
  /// event.
  void synchronize() override {
    const Current current(context());
    context().check(driver().cuStreamSynchronize(handle_), "cuStreamSynchronize", "waiting for a stream");
  }

 private:
  const Context& context() const noexcept { return backend_.context(); }
  const Driver& driver() const noexcept { return backend_.driver(); }
  void settle_noexcept() noexcept {
    try {
      context().check(driver().cuStreamSynchronize(handle_), "cuStreamSynchronize", "ending a stream");
      backend_.outcomes().ended(*track_, last_);
    } catch (...) { backend_.outcomes().forget(*track_); }
  }

  CudaBackend& backend_;
  std::shared_ptr<QueueObserver> observer_;
  std::shared_ptr<Track> track_;
  CUstream handle_ = nullptr;
  std::uint64_t last_ = 0;  ///< the number of the last piece of work
  StreamState state_;
  Successors successors_;
};

}  // namespace

std::unique_ptr<Queue> make_queue(CudaBackend& backend, std::shared_ptr<QueueObserver> observer) {
  return std::make_unique<CudaQueue>(backend, std::move(observer));
}

}  // namespace tessera::runtime::cuda
