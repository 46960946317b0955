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
#include "tessera/base/fork.hpp"
#include "tessera/base/stack.hpp"
#include "tessera/runtime/at_line.hpp"
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
  std::uint32_t generation = tessera::fork_generation();
  // The driver's:
  FlowPromise* next = nullptr;  // resumed before `ready`
  runtime::WorkRanges work;
  std::vector<Stream> free_streams;
  std::vector<Wait> waits;  // blocking
  // Shared by all threads, under the mutex:
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::coroutine_handle<>> ready;
  std::vector<Waiting> waiting;  // for done(): one at most, because there is one result
  std::shared_ptr<void> frame;   // to be released by the driver, or by who takes the result
  std::thread::id driver, taker;
  std::exception_ptr abandoned;  // why nothing can continue the flows
  int posting = 0;               // calls of `post` that have not returned
  bool driving = false, ended = false, cancelled = false;
  bool taken = false;    // the result is claimed ...
  bool taking = false;   // ... and being moved out of the frame
  bool dropped = false;  // the task was destroyed

  /// In a child of fork() no other thread drives an execution of the parent, but one may have held the mutex.
  std::unique_lock<std::mutex> lock() {
    return generation == tessera::fork_generation() ? std::unique_lock(mutex)
                                                    : std::unique_lock(mutex, std::defer_lock);
  }
  static thread_local std::vector<Waiting>* resumed_here;
  static void resume(std::vector<Waiting> waiting);

  /// The caller becomes the driver. Under the mutex.
  void begin_driving() {
    driving = true;
    driver = std::this_thread::get_id();
  }
};

namespace {

/// The event loop on whose thread this one continues a flow; null if there is none.
thread_local const FlowPost* this_loop = nullptr;

/// For adding an edge to the graph of which task awaits which.
std::mutex& mutex_of_all() {
  static PerProcess<std::mutex> mutex;
  return mutex.get();
}

}  // namespace

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
  throw BorrowError(
      "the result of this task has been taken, or the task was moved: a task gives its result once.\n  Keep what get() "
      "or co_await returned.",
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

/// Flows that can be resumed because a task has ended, of the innermost loop of this thread that resumes such flows: a
/// chain of tasks that await each other ends in one loop and not in nested calls.
thread_local std::vector<FlowRun::State::Waiting>* FlowRun::State::resumed_here = nullptr;

void FlowRun::State::resume(std::vector<Waiting> waiting) {
  if (waiting.empty()) return;
  if (resumed_here != nullptr) {
    resumed_here->insert(resumed_here->end(), waiting.begin(), waiting.end());
    return;
  }
  resumed_here = &waiting;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const Waiting w = std::move(waiting[i]);
    w.run->post(w.flow);
  }
  resumed_here = nullptr;
}

/// Resumes what can be resumed. The caller is the driver.
void FlowRun::drive() {
  const auto self = shared_from_this();  // the task may be dropped meanwhile
  State& s = *state_;
  auto* const outer = std::exchange(State::resumed_here, nullptr);  // flows may wait for what ends below them
  std::shared_ptr<void> frame;                                      // released outside the lock
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
    while (s.next != nullptr) std::exchange(s.next, s.next->below)->self.resume();
  }
  if (frame) FlowWaiter::instance().remove(*this);
  State::resumed_here = outer;
  State::resume(std::move(waiting));
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

/// The execution whose `post` this thread is in.
static thread_local const FlowRun* posting_here = nullptr;

void FlowRun::post(std::coroutine_handle<> flow) noexcept {
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    if (s.cancelled || s.abandoned) return;
    s.ready.push_back(flow);
    if (s.mode == Mode::Blocking) return s.changed.notify_all();
    if (s.driving) return;
    if (!s.post) s.begin_driving();
    if (s.post) ++s.posting;
  }
  if (!s.post) return drive();
  const std::shared_ptr<FlowRun> self = shared_from_this();  // the loop may end the last step before it returns
  const FlowRun* const outer = std::exchange(posting_here, this);
  try {
    const FlowStep step(self);  // kept, so that what the loop throws is the reason and not its loss
    try {
      s.post(step);
    } catch (...) {  // the loop takes nothing any more, and no other thread may continue the flow
      abandon(std::current_exception());
    }
  } catch (...) { abandon(std::current_exception()); }  // no memory for the step
  posting_here = outer;
  std::lock_guard lock(s.mutex);
  --s.posting;
  s.changed.notify_all();
}

void FlowRun::abandon(const std::exception_ptr& why) noexcept { abandon_if(why, false); }

/// `only_if_lost`: unless another thread continues the flows, or there is none to continue.
void FlowRun::abandon_if(const std::exception_ptr& why, bool only_if_lost) noexcept {
  State& s = *state_;
  std::vector<State::Waiting> waiting;
  {
    std::lock_guard lock(s.mutex);
    if (s.cancelled || s.ended || (only_if_lost && (s.driving || s.ready.empty()))) return;
    s.abandoned = why;
    s.ended = true;
    s.ready.clear();
    waiting = std::exchange(s.waiting, {});
    s.changed.notify_all();
  }
  State::resume(std::move(waiting));
}

void FlowRun::step_lost() noexcept {
  if (of_parent_process()) return;
  try {
    throw DeviceError(
        "the event loop that continues this task has dropped a step of it (a FlowStep) without calling it, so the task "
        "cannot end.\n  Keep the loop running until the task is done, or destroy the task first.");
  } catch (...) { abandon_if(std::current_exception(), true); }
}

void FlowRun::step() {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->driving || state_->cancelled || state_->ready.empty()) return;
    state_->begin_driving();
  }
  const FlowPost* const outer = std::exchange(this_loop, &state_->post);
  const auto self = shared_from_this();  // its `post` is this_loop
  drive();
  this_loop = outer;
}

void end_frame(std::coroutine_handle<> frame) noexcept {
  if (frame) try_with_stack([&] { frame.destroy(); });
}

// -- for awaiting flows ----------------------------------------------------------------------------------------------

void FlowPromise::at_end() const noexcept {
  if (still_running != nullptr && --*still_running != 0) return;
  if (awaiter != nullptr)
    branch->run->resume_next(*awaiter);
  else
    branch->run->ended();
}

void FlowRun::resume_next(FlowPromise& flow) noexcept { flow.below = std::exchange(state_->next, &flow); }

void FlowRun::resume_after(std::coroutine_handle<> flow, std::vector<runtime::Ticket> work, SourceLocation where) {
  if (state_->mode == Mode::Blocking) {
    state_->waits.push_back({std::move(work), flow});
    return;
  }
  runtime::at_line(where, [&] { FlowWaiter::instance().add(shared_from_this(), flow, std::move(work)); });
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

bool FlowRun::of_parent_process() const noexcept { return state_->generation != tessera::fork_generation(); }

bool FlowRun::done(SourceLocation where) const {
  const auto lock = state_->lock();
  const bool done = state_->ended && !state_->driving;
  if (!done && of_parent_process())
    throw DeviceError(
        "this task was started by the process that this one was forked from, and had not ended then: it continues only "
        "there.\n  Wait for it before fork(), or spawn another one here.",
        where);
  return done;
}

/// True if this thread continues the flows: if it waited for them, it would wait for itself.
bool FlowRun::needs_this_thread() const {
  {
    const auto lock = state_->lock();
    if (state_->driving && state_->driver == std::this_thread::get_id()) return true;
  }
  if (state_->post) return this_loop != nullptr && this_loop->is(state_->post);
  return state_->mode == Mode::Asynchronous && FlowWaiter::instance().is_this_thread();
}

void FlowRun::wait(SourceLocation where) {
  if (done(where)) return;
  if (needs_this_thread())
    throw DeviceError(
        "get() of a task, called in a flow on the thread that would have to continue the task, would wait "
        "for ever.\n  Write co_await task.",
        where);
  std::unique_lock lock(state_->mutex);
  if (!state_->waiting.empty())
    throw BorrowError("get() of a task that a flow awaits: a task gives its result once.\n  Get it in one place.",
                      where);
  state_->changed.wait(lock, [&] { return state_->ended && !state_->driving; });
}

void FlowRun::claim_result(SourceLocation where) {
  const auto lock = state_->lock();
  if (state_->dropped)
    throw BorrowError(
        "the task that this flow awaits was destroyed, and its flow cancelled.\n  Keep a task until it has ended, or "
        "give it to the flow that awaits it.",
        where);
  if (state_->taken) throw_spent_task(where);
  state_->taken = true;
  if (state_->abandoned) runtime::at_line(where, [&] { std::rethrow_exception(state_->abandoned); });
  state_->taking = true;
  state_->taker = std::this_thread::get_id();
}

void FlowRun::end_claim() noexcept {
  std::shared_ptr<void> frame;  // ends outside the lock
  const auto lock = state_->lock();
  state_->taking = false;
  frame = std::move(state_->frame);
  state_->changed.notify_all();
}

bool FlowRun::taken() const {
  const auto lock = state_->lock();
  return state_->taken;
}

void FlowRun::wait_for_work() { state_->work.wait(); }

void FlowRun::hand_over_work() {
  if (runtime::SubmissionSink* const outer = runtime::SubmissionSink::innermost()) state_->work.hand_over(*outer);
}

/// True if this execution awaits `other`, or a task that does. Under mutex_of_all().
bool FlowRun::awaits(FlowRun& other) {
  for (auto run = other.shared_from_this(); run != nullptr;) {
    if (run.get() == this) return true;
    std::shared_ptr<FlowRun> next;
    {
      const auto lock = run->state_->lock();
      if (!run->state_->waiting.empty()) next = run->state_->waiting.front().run;
    }
    run = std::move(next);
  }
  return false;
}

bool FlowRun::notify_when_done(FlowRun& other, std::coroutine_handle<> flow, SourceLocation where) {
  std::lock_guard all(mutex_of_all());
  if (awaits(other))
    throw DeviceError(
        "co_await of a task that itself waits for this flow: neither could ever end.\n  Let one of them end first.",
        where);
  if (other.state_->mode == Mode::Blocking && needs_this_thread() && !done(where))
    throw DeviceError(
        "co_await of a task, in a flow that was run with sync() or on() on the thread that has to continue the task, "
        "would wait for ever.\n  Write co_await for the flow, too.",
        where);
  std::lock_guard lock(state_->mutex);
  if (state_->dropped || (state_->ended && !state_->driving)) return false;  // claim_result() says which
  if (!state_->waiting.empty())
    throw BorrowError(
        "another flow awaits this task already: a task gives its result once.\n  Await it in one flow, which passes "
        "the result on.",
        where);
  state_->waiting.push_back({other.shared_from_this(), flow});
  return true;
}

void FlowRun::stop_notifying(std::coroutine_handle<> flow) noexcept {
  const auto lock = state_->lock();
  std::erase_if(state_->waiting, [&](const State::Waiting& w) { return w.flow == flow; });
}

void FlowRun::cancel(std::shared_ptr<void> frame) noexcept {
  State& s = *state_;
  if (of_parent_process()) {  // its thread may have been in the middle of the flow: then the frame cannot be ended
    static auto& left = *new std::vector<std::shared_ptr<void>>;
    if (s.driving || s.taking) left.push_back(std::move(frame));
    return;
  }
  std::vector<State::Waiting> waiting;
  {
    std::unique_lock lock(s.mutex);
    s.dropped = true;
    if (!s.ended) s.cancelled = true;
    waiting = std::exchange(s.waiting, {});
    const auto here = std::this_thread::get_id();
    if ((s.driving && s.driver == here) || (s.taking && s.taker == here)) {
      s.frame = std::move(frame);  // a flow, or a result that is being moved, drops its own task
    } else {                       // the loop may be destroyed next: no other thread may still be inside its `post`
      const int inside = posting_here == this ? 1 : 0;
      s.changed.wait(lock, [&] { return !s.driving && !s.taking && s.posting == inside; });
    }
  }
  if (frame) FlowWaiter::instance().remove(*this);
  frame.reset();
  State::resume(std::move(waiting));
}

}  // namespace tessera::detail
