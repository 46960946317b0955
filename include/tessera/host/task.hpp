// spawn(flow): runs a flow asynchronously. Task<T>: its result to come. docs/flows.md.
#pragma once
#include <memory>
#include <utility>

#include "tessera/host/flow.hpp"

namespace tessera {

/// How a flow is spawned.
struct SpawnOptions {
  std::optional<Stream> stream;  ///< of its operations; empty: the default stream of each operation's device
  /// Continues the flow, after each wait, on the thread of an event loop: called with a function that is to be called
  /// there once. Empty: on a thread of the library. The loop has to run until the flow has ended.
  FlowPost post;
};

namespace detail {

/// A flow and its execution; a reference keeps both.
template <class T>
struct TaskState {
  std::shared_ptr<FlowRun> run;
  Flow<T> flow;  // ends first: it refers to the execution
};

/// Resumes the awaiting flow when the task's flow has ended. Keeps the execution and not the flow, whose frame ends
/// with the task.
template <class T>
class TaskAwaiter {
 public:
  TaskAwaiter(TaskState<T>& state, FlowBranch& branch, SourceLocation where)
      : state_(state), run_(state.run), branch_(branch), where_(where) {}
  TaskAwaiter(TaskAwaiter&&) = delete;
  ~TaskAwaiter() {
    if (waiting_) run_->stop_notifying(flow_);
  }
  bool await_ready() const {
    runtime::check_not_capturing("awaiting a task", "Await it before the capture, and pass its result.", where_);
    return run_->done(where_);
  }
  bool await_suspend(std::coroutine_handle<> flow) {
    flow_ = flow;
    waiting_ = run_->notify_when_done(*branch_.run, flow, where_);
    return waiting_;
  }
  T await_resume() {
    const ResultClaim claim(run_, where_);  // throws if the task, and state_ with it, was destroyed
    return Reach::coroutine(state_.flow).promise().take();
  }

 private:
  TaskState<T>& state_;
  std::shared_ptr<FlowRun> run_;
  FlowBranch& branch_;
  SourceLocation where_;
  std::coroutine_handle<> flow_;
  bool waiting_ = false;
};

[[noreturn]] void throw_spent_task(SourceLocation where);

}  // namespace detail

/// A flow that has been started. Move-only. Destroying it before the flow has ended cancels the flow: it is not resumed
/// any more, what it has enqueued runs to its end. The destructor waits while a flow on another thread takes the
/// result. Use by one thread at a time.
template <class T>
class [[nodiscard("dropping a task cancels its flow: keep it, and call get()")]] Task {
 public:
  using value_type = T;
  Task(Task&&) noexcept = default;
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      cancel();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  ~Task() { cancel(); }

  /// True once the flow has ended, by a result or an error. Its work on the device may still run.
  bool done(SourceLocation where = SourceLocation::current()) const { return live(where).run->done(where); }
  /// Waits for the flow and for the work that it has enqueued, and returns its result, once. Throws what the flow
  /// threw, and the DeviceError of work that failed.
  T get(SourceLocation where = SourceLocation::current()) {
    detail::TaskState<T>& state = live(where);
    const std::shared_ptr<detail::FlowRun> run = state.run;
    run->wait(where);
    const auto take = [&] {
      const detail::ResultClaim claim(run, where);
      return detail::Reach::coroutine(state.flow).promise().take();
    };
    if constexpr (std::is_void_v<T>) {
      take();
      run->wait_for_work();
    } else {
      T out = take();
      run->wait_for_work();
      return out;
    }
  }

  // -- for promises and spawn() --
  detail::TaskAwaiter<T> awaiter(detail::FlowBranch& branch, SourceLocation where) {
    return {live(where), branch, where};
  }
  explicit Task(std::shared_ptr<detail::TaskState<T>> state) noexcept : state_(std::move(state)) {}

 private:
  detail::TaskState<T>& live(SourceLocation where) const {
    if (!state_ || state_->run->taken()) [[unlikely]] { detail::throw_spent_task(where); }
    return *state_;
  }
  void cancel() noexcept {
    if (!state_) return;
    const auto run = state_->run;
    run->cancel(std::move(state_));
  }
  std::shared_ptr<detail::TaskState<T>> state_;
};

/// Starts a flow: runs it on this thread until it waits for the device for the first time; it goes on without this
/// thread. What it refers to has to live until the task has ended or is destroyed. Throws DeviceError if no
/// thread can be created; errors of the flow are thrown by get().
template <class T>
Task<T> spawn(Flow<T> flow, SpawnOptions options, SourceLocation where = SourceLocation::current()) {
  detail::Reach::check_live(flow, where);
  auto run = detail::make_flow_run(detail::FlowRun::Mode::Asynchronous, std::move(options.stream),
                                   std::move(options.post), where);
  auto state = std::make_shared<detail::TaskState<T>>(detail::TaskState<T>{std::move(run), std::move(flow)});
  const auto handle = detail::Reach::coroutine(state->flow);
  handle.promise().branch = &state->run->branch();
  Task<T> task(state);
  state->run->start(handle);
  return task;
}
template <class T>
Task<T> spawn(Flow<T> flow, SourceLocation where = SourceLocation::current()) {
  return spawn(std::move(flow), SpawnOptions{}, where);
}
/// The same on a stream of the caller's.
template <class T>
Task<T> spawn(Flow<T> flow, const Stream& stream, SourceLocation where = SourceLocation::current()) {
  return spawn(std::move(flow), SpawnOptions{stream, {}}, where);
}

}  // namespace tessera
