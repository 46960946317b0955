// Running, waiting, cancelling (docs/flows.md). The strand: `driving_` is true while a thread resumes flows of this
// execution; that thread alone touches the flows, the branches, the streams and the record of work.
#include "tessera/host/flow_run.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "host/flow_waiter.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/work_ranges.hpp"

namespace tessera::detail {

struct FlowRun::Wait {
  std::vector<runtime::Ticket> work;
  std::coroutine_handle<> flow;
};

struct FlowRun::State {
  struct Waiting {
    std::shared_ptr<FlowRun> run;
    std::coroutine_handle<> flow;
  };
  Mode mode;
  FlowPost post;
  // The driver's:
  runtime::WorkRanges work;
  std::vector<Stream> free_streams;
  std::vector<Wait> waits;  // blocking
  // Shared by all threads, under the mutex:
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::coroutine_handle<>> ready;
  std::vector<Waiting> waiting;  // for done()
  std::shared_ptr<void> frame;   // to be released by the driver
  std::thread::id driver;
  std::exception_ptr post_error;  // of the event loop's function
  bool driving = false, ended = false, cancelled = false;

  /// The caller becomes the driver. Under the mutex.
  void begin_driving() {
    driving = true;
    driver = std::this_thread::get_id();
  }
};

bool has_ended(const std::vector<runtime::Ticket>& work) noexcept {
  return std::all_of(work.begin(), work.end(), [](const runtime::Ticket& ticket) {
    try {
      return !ticket.stream || ticket.stream->has_ended(ticket.number);
    } catch (...) {
      return true;  // the flow asks again and gets the error
    }
  });
}

void throw_empty_flow(const char* what, SourceLocation where) {
  throw BorrowError(std::string(what) + " has been run or moved already.\n  Call the coroutine again for another flow.",
                    where);
}

void throw_spent_task(SourceLocation where) {
  throw BorrowError("the result of this task has been taken, or the task was moved: a task gives its result once.",
                    where);
}

std::shared_ptr<FlowRun> make_flow_run(FlowRun::Mode mode, std::optional<Stream> stream, FlowPost post,
                                       SourceLocation where) {
  check_not_recording("a flow", where);
  return std::make_shared<FlowRun>(mode, std::move(stream), std::move(post));
}

FlowRun::FlowRun(Mode mode, std::optional<Stream> stream, FlowPost post) : state_(std::make_unique<State>()) {
  state_->mode = mode;
  state_->post = std::move(post);
  first_ = {this, std::move(stream)};
}
FlowRun::~FlowRun() = default;

// -- driving ---------------------------------------------------------------------------------------------------------

void FlowRun::start(std::coroutine_handle<> root) {
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.ready.push_back(root);
    s.begin_driving();
  }
  if (s.mode == Mode::Blocking) return drive_until_done();
  drive();
}

/// Resumes what can be resumed. The caller is the driver.
void FlowRun::drive() {
  const auto self = shared_from_this();  // the task may be dropped meanwhile
  State& s = *state_;
  std::shared_ptr<void> frame;  // released outside the lock
  std::vector<State::Waiting> waiting;
  for (;;) {
    std::coroutine_handle<> flow;
    {
      std::lock_guard lock(s.mutex);
      if (s.cancelled || s.ready.empty()) {
        s.driving = false;
        s.driver = {};
        frame = std::move(s.frame);
        if (s.ended) waiting = std::exchange(s.waiting, {});
        s.changed.notify_all();
        break;
      }
      flow = s.ready.front();
      s.ready.pop_front();
    }
    const runtime::SinkScope scope(s.work);
    flow.resume();
  }
  if (frame) FlowWaiter::instance().remove(*this);
  for (const State::Waiting& w : waiting) w.run->post(w.flow);
}

void FlowRun::drive_until_done() {
  State& s = *state_;
  for (;;) {
    drive();
    std::unique_lock lock(s.mutex);
    if (s.ended) return;
    if (s.waits.empty()) {
      s.changed.wait(lock, [&] { return !s.ready.empty(); });
    } else if (s.ready.empty()) {
      lock.unlock();
      while (!wait_for_first()) {}
      lock.lock();
    }
    s.begin_driving();
  }
}

/// Waits for one of the waits, or that a task which a flow awaits has ended. False if neither happened yet.
bool FlowRun::wait_for_first() {
  State& s = *state_;
  bool found = false;
  const auto resume = [&](const Wait& wait) {
    std::lock_guard lock(s.mutex);
    s.ready.push_back(wait.flow);
    found = true;
  };
  if (s.waits.size() == 1) {  // nothing else can be resumed before, as far as the device goes
    try {
      for (const runtime::Ticket& ticket : s.waits.front().work)
        if (ticket.stream) ticket.stream->host_wait(ticket.number);
    } catch (...) {
      // The flow asks again and gets the error.
    }
    resume(s.waits.front());
    s.waits.clear();
    return true;
  }
  std::erase_if(s.waits, [&](const Wait& wait) {
    if (!detail::has_ended(wait.work)) return false;
    resume(wait);
    return true;
  });
  if (found) return true;
  std::unique_lock lock(s.mutex);
  return s.changed.wait_for(lock, std::chrono::microseconds(20), [&] { return !s.ready.empty(); });
}

void FlowRun::post(std::coroutine_handle<> flow) noexcept {
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    if (s.cancelled || s.post_error) return;
    s.ready.push_back(flow);
    if (s.mode == Mode::Blocking) return s.changed.notify_all();
    if (s.driving) return;
    if (!s.post) s.begin_driving();
  }
  if (!s.post) return drive();
  std::vector<State::Waiting> waiting;
  try {
    return s.post(FlowStep(shared_from_this()));
  } catch (...) {  // the loop takes nothing any more, and no other thread may continue the flow
    std::lock_guard lock(s.mutex);
    s.post_error = std::current_exception();
    s.ended = true;
    s.ready.clear();
    waiting = std::exchange(s.waiting, {});
    s.changed.notify_all();
  }
  for (const State::Waiting& w : waiting) w.run->post(w.flow);
}

void FlowRun::check_posted() const {
  std::lock_guard lock(state_->mutex);
  if (state_->post_error) std::rethrow_exception(state_->post_error);
}

void FlowRun::step() {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->driving || state_->cancelled || state_->ready.empty()) return;
    state_->begin_driving();
  }
  drive();
}

// -- for awaiting flows ----------------------------------------------------------------------------------------------

Stream FlowRun::stream_for(const FlowBranch& branch, const OpBase& op, SourceLocation where) {
  return branch.stream ? *branch.stream : detail::stream_for(op, where);
}

void FlowRun::resume_after(std::coroutine_handle<> flow, std::vector<runtime::Ticket> work) {
  if (state_->mode == Mode::Blocking) {
    state_->waits.push_back({std::move(work), flow});
    return;
  }
  FlowWaiter::instance().add(shared_from_this(), flow, std::move(work));
}

Stream FlowRun::take_stream(const FlowBranch& parent) {
  // A recording takes the order from the tensors.
  if (parent.stream && parent.stream->core()->capturing()) return *parent.stream;
  const Device device = parent.stream ? parent.stream->device() : default_device();
  const auto at = std::find_if(state_->free_streams.begin(), state_->free_streams.end(),
                               [&](const Stream& stream) { return stream.device() == device; });
  if (at == state_->free_streams.end()) return Stream(device);
  Stream stream = *at;
  state_->free_streams.erase(at);
  return stream;
}

void FlowRun::give_stream(Stream stream) noexcept {
  if (stream.core()->capturing()) return;
  try {
    state_->free_streams.push_back(std::move(stream));
  } catch (...) {
    // Then the next fork makes a new one.
  }
}

void FlowRun::ended() noexcept {
  std::lock_guard lock(state_->mutex);
  state_->ended = true;
}

// -- for any thread --------------------------------------------------------------------------------------------------

bool FlowRun::done() const {
  std::lock_guard lock(state_->mutex);
  return state_->ended && !state_->driving;
}

bool FlowRun::is_driver() const {
  std::lock_guard lock(state_->mutex);
  return state_->driving && state_->driver == std::this_thread::get_id();
}

void FlowRun::wait(SourceLocation where) {
  if (done()) return;
  const bool own = !state_->post && FlowWaiter::instance().is_this_thread();
  if (own || is_driver())
    throw DeviceError(
        "get() of a task, called in a flow on the thread that would have to continue the task, would wait "
        "for ever.\n  Write co_await task.",
        where);
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->ended && !state_->driving; });
}

void FlowRun::wait_for_work() { state_->work.wait(); }

bool FlowRun::notify_when_done(FlowRun& other, std::coroutine_handle<> flow) {
  std::lock_guard lock(state_->mutex);
  if (state_->ended && !state_->driving) return false;
  state_->waiting.push_back({other.shared_from_this(), flow});
  return true;
}

void FlowRun::cancel(std::shared_ptr<void> frame) noexcept {
  {
    std::unique_lock lock(state_->mutex);
    if (!state_->ended) state_->cancelled = true;
    if (state_->driving && state_->driver == std::this_thread::get_id()) {  // a flow that drops its own task
      state_->frame = std::move(frame);
      return;
    }
    state_->changed.wait(lock, [&] { return !state_->driving; });
  }
  FlowWaiter::instance().remove(*this);
}

}  // namespace tessera::detail

void tessera::FlowStep::operator()() const { run_->step(); }
