// Flow<T>: a coroutine that is a device program. co_await of an operation enqueues it and goes on; only a readback,
// co_await host(t), waits for the device. docs/flows.md.
#pragma once
#include <array>
#include <coroutine>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/host/flow_run.hpp"
#include "tessera/host/op.hpp"

namespace tessera {

template <class T = void>
class Flow;
template <class T = void>
class Task;
template <class... T>
class Fork;

namespace detail {

template <class>
inline constexpr bool is_flow = false;
template <class T>
inline constexpr bool is_flow<Flow<T>> = true;

/// An operation that a flow awaits.
template <class T>
class OpAwaiter : private OpWait {
 public:
  OpAwaiter(Op<T>&& op, FlowBranch& branch, SourceLocation where) : OpAwaiter(Reach::take(op, where), branch, where) {}
  using OpWait::await_suspend;
  bool await_ready() { return ready(*node_); }
  T await_resume() {
    const auto node = std::move(node_);
    try {
      return run_node(*node, stream());
    } catch (const std::bad_alloc&) { throw_no_memory_to_run(where()); }
  }

 private:
  OpAwaiter(OwnedOp<OpNode<T>> node, FlowBranch& branch, SourceLocation where)
      : OpWait(*node, branch, where), node_(std::move(node)) {}
  OwnedOp<OpNode<T>> node_;
};

/// An operation that the library's own flows await on behalf of the user's line.
template <class T>
struct OpAt {
  Op<T> op;
  SourceLocation where;
  OpAt(Op<T>&& o, SourceLocation w) noexcept : op(std::move(o)), where(w) {}  // g++ 12 destroys aggregates twice
};

/// A flow that another flow awaits: it runs as a part of that one.
template <class T>
class FlowAwaiter {
 public:
  FlowAwaiter(Flow<T>&& flow, FlowBranch& branch) : flow_(std::move(flow)), branch_(branch) {}
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> awaiter) noexcept {
    FlowPromise& flow = Reach::coroutine(flow_).promise();
    flow.branch = &branch_;
    flow.awaiter = &awaiter.promise();
    branch_.run->resume_next(flow);
  }
  T await_resume() { return Reach::coroutine(flow_).promise().take(); }

 private:
  Flow<T> flow_;
  FlowBranch& branch_;
};

/// Returns control to the flow that awaits the one that has ended.
struct FlowEnd {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) const noexcept {
    handle.promise().at_end();
  }
  void await_resume() const noexcept {}
};

/// co_await of it: the stream of the flow if it is being captured into a graph, else null.
struct CapturedStream {};
struct CapturedStreamAwaiter {
  const FlowBranch& branch;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  const Stream* await_resume() const noexcept { return captured_stream(branch); }
};

template <class X>
concept Awaitable = is_op<std::remove_cvref_t<X>> || is_flow<std::remove_cvref_t<X>>;

/// True for the closure type of a lambda, by its name: the language has no other way to tell it from other classes.
template <class X>
consteval bool is_lambda() {
  const std::string_view name = __PRETTY_FUNCTION__;
  return name.find("<lambda") != std::string_view::npos || name.find("(lambda") != std::string_view::npos;
}
/// Rejects what a flow would refer to after it has ended. `First` is the first parameter; of the operator() of a
/// lambda, the closure. A function, because a closure's type is incomplete in its body, where std::coroutine_traits is
/// looked up.
template <class First = int, class... Rest>
void reject_closure() {
  if constexpr (std::is_class_v<First> && std::is_const_v<First>) {
    if constexpr (is_lambda<First>())
      static_assert(
          std::is_empty_v<First>,
          "a lambda with captures cannot be a flow: the flow refers to the closure, which usually ends before it. "
          "Pass the values as parameters");
  }
}

template <class T>
class FlowPromiseOf;

template <class T>
class FlowPromiseBase : public FlowPromise {
 public:
  template <class... Parameters>
  explicit FlowPromiseBase(Parameters&...) noexcept {
    reject_closure<Parameters...>();
  }
  Flow<T> get_return_object() noexcept;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FlowEnd final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }

  template <class U>
  OpAwaiter<U> await_transform(Op<U>&& op, SourceLocation where = SourceLocation::current()) {
    return OpAwaiter<U>(std::move(op), *branch, where);
  }
  template <class U>
  OpAwaiter<U> await_transform(OpAt<U>&& op) {
    return OpAwaiter<U>(std::move(op.op), *branch, op.where);
  }
  template <class U>
  FlowAwaiter<U> await_transform(Flow<U>&& flow, SourceLocation where = SourceLocation::current()) {
    Reach::check_live(flow, where);
    return FlowAwaiter<U>(std::move(flow), *branch);
  }
  CapturedStreamAwaiter await_transform(CapturedStream) noexcept { return {*branch}; }
  template <class... U>
  auto await_transform(Fork<U...>&& fork, SourceLocation where = SourceLocation::current()) {
    return std::move(fork).awaiter(*branch, where);
  }
  template <class U>
  auto await_transform(Task<U>& task, SourceLocation where = SourceLocation::current()) {
    return task.awaiter(*branch, where);
  }
  template <class U>
  auto await_transform(Task<U>&& task, SourceLocation where = SourceLocation::current()) {
    return task.awaiter(*branch, where);
  }
  template <class X>
  void await_transform(X&&) {
    static_assert(!Awaitable<X>,
                  "awaiting an operation or a flow that has a name consumes it: write co_await std::move(x)");
    static_assert(Awaitable<X>, "a flow awaits operations, flows, fork(...) and tasks");
  }
};

template <class T>
class FlowPromiseOf final : public FlowPromiseBase<T> {
 public:
  using FlowPromiseBase<T>::FlowPromiseBase;
  template <class U = T>
    requires std::is_constructible_v<T, U&&>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  /// The result, once. Throws what the flow threw.
  T take() {
    if (this->error) std::rethrow_exception(std::exchange(this->error, nullptr));
    T out = std::move(*value_);
    value_.reset();
    return out;
  }

 private:
  std::optional<T> value_;
};
template <>
class FlowPromiseOf<void> final : public FlowPromiseBase<void> {
 public:
  using FlowPromiseBase<void>::FlowPromiseBase;
  void return_void() const noexcept {}
  void take() {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
};

}  // namespace detail

/// A device program that has not been run. Move-only; every way of running it consumes it. Its body runs on one thread
/// at a time, from the moment it is run.
template <class T>
class [[nodiscard("a flow does nothing until it is run: write .sync(), co_await it, or spawn(...) it")]] Flow {
 public:
  using promise_type = detail::FlowPromiseOf<T>;
  using value_type = T;
  Flow(Flow&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Flow& operator=(Flow&& other) noexcept {
    if (this != &other) {
      detail::end_frame(handle_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Flow() { detail::end_frame(handle_); }

  /// Runs the flow and waits for all work that it enqueues. Throws what the flow throws, and the DeviceError of work
  /// that failed. Operations run on the default stream of their device.
  [[nodiscard("the result owns the tensors that were given")]] T sync(
      SourceLocation where = SourceLocation::current()) && {
    return run({}, true, where);
  }
  /// The same on a stream of the caller's.
  [[nodiscard("the result owns the tensors that were given")]] T sync(
      const Stream& stream, SourceLocation where = SourceLocation::current()) && {
    return run(stream, true, where);
  }
  /// Runs the flow, which enqueues its work on `stream`, and returns without waiting for it (readbacks of the flow
  /// excepted). A tensor in the result can be used immediately, on any stream.
  [[nodiscard("the result owns the tensors that were given")]] T on(
      const Stream& stream, SourceLocation where = SourceLocation::current()) && {
    return run(stream, false, where);
  }
  template <class X = T>
  T sync() & {
    static_assert(detail::never_true<X>, "running a flow consumes it: write std::move(flow).sync()");
  }
  template <class X = T>
  T on(const Stream&) & {
    static_assert(detail::never_true<X>, "running a flow consumes it: write std::move(flow).on(stream)");
  }

 private:
  friend detail::Reach;
  friend detail::FlowPromiseBase<T>;
  explicit Flow(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  void live(SourceLocation where) const {
    if (!handle_) [[unlikely]] { detail::throw_empty_flow("this flow", where); }
  }
  T run(std::optional<Stream> stream, bool wait, SourceLocation where) {
    live(where);
    if (wait && stream) detail::check_can_wait(*stream, where);
    const auto run = detail::make_flow_run(detail::FlowRun::Mode::Blocking, std::move(stream), {}, where);
    const Flow flow = std::move(*this);  // ends before the execution
    flow.handle_.promise().branch = &run->branch();
    run->start(flow.handle_);
    if (!wait) {
      run->hand_over_work();
      return flow.handle_.promise().take();
    }
    if constexpr (std::is_void_v<T>) {
      flow.handle_.promise().take();
      run->wait_for_work();
    } else {
      T out = flow.handle_.promise().take();
      run->wait_for_work();
      return out;
    }
  }
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

template <class T>
Flow<T> FlowPromiseBase<T>::get_return_object() noexcept {
  const auto handle = std::coroutine_handle<FlowPromiseOf<T>>::from_promise(static_cast<FlowPromiseOf<T>&>(*this));
  self = handle;
  return Flow<T>(handle);
}

/// Flows that run beside each other; the awaiter is resumed by the last that ends.
template <class... T>
class ForkAwaiter {
 public:
  ForkAwaiter(std::tuple<Flow<T>...>&& flows, FlowBranch& parent) : flows_(std::move(flows)), parent_(parent) {}
  ForkAwaiter(ForkAwaiter&&) = delete;  // branches_ is referred to
  ~ForkAwaiter() {
    for (std::size_t i = 1; i < sizeof...(T); ++i)
      if (branches_[i].stream) parent_.run->give_stream(std::move(*branches_[i].stream));
  }
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> awaiter) {
    std::size_t i = 0;
    for (FlowBranch& branch : branches_) {
      branch.run = parent_.run;
      branch.stream = i++ == 0 ? parent_.stream : std::optional(parent_.run->take_stream(parent_));
    }
    std::array<FlowPromise*, sizeof...(T)> flows = std::apply(
        [](auto&... flow) { return std::array<FlowPromise*, sizeof...(T)>{&Reach::coroutine(flow).promise()...}; },
        flows_);
    while (i-- > 0) {  // the first is resumed first
      flows[i]->branch = &branches_[i];
      flows[i]->awaiter = &awaiter.promise();
      flows[i]->still_running = &running_;
      parent_.run->resume_next(*flows[i]);
    }
  }
  auto await_resume() {
    std::exception_ptr first;
    std::apply([&](auto&... flow) { ((first = first ? first : Reach::coroutine(flow).promise().error), ...); }, flows_);
    if (first) std::rethrow_exception(first);
    return std::apply(
        [](auto&... flow) {
          std::tuple<ResultTuple<T>...> parts{take(flow)...};
          return std::apply([](auto&... part) { return std::tuple_cat(std::move(part)...); }, parts);
        },
        flows_);
  }

 private:
  template <class U>
  static ResultTuple<U> take(Flow<U>& flow) {
    if constexpr (std::is_void_v<U>) {
      Reach::coroutine(flow).promise().take();
      return {};
    } else {
      return ResultTuple<U>(Reach::coroutine(flow).promise().take());
    }
  }
  std::tuple<Flow<T>...> flows_;
  FlowBranch& parent_;
  std::array<FlowBranch, sizeof...(T)> branches_;
  std::size_t running_ = sizeof...(T);
};

}  // namespace detail

/// What fork() returns; for co_await.
template <class... T>
class [[nodiscard("fork(...) does nothing until it is awaited: write co_await fork(...)")]] Fork {
 public:
  explicit Fork(std::tuple<Flow<T>...>&& flows) : flows_(std::move(flows)) {}
  detail::ForkAwaiter<T...> awaiter(detail::FlowBranch& branch, SourceLocation where) && {
    std::apply([&](const auto&... flow) { (detail::Reach::check_live(flow, where), ...); }, flows_);
    return {std::move(flows_), branch};
  }

 private:
  std::tuple<Flow<T>...> flows_;
};

/// auto [a, b] = co_await fork(f(...), g(...)): runs the flows beside each other, the first on the stream of the flow
/// that awaits, each other one on a stream of its own, and resumes when all have ended. The results are a tuple in
/// order; flows without a result drop out. Throws the first error in the order of the flows.
template <class... T>
Fork<T...> fork(Flow<T>... flows) {
  return Fork<T...>(std::tuple<Flow<T>...>(std::move(flows)...));
}

}  // namespace tessera

/// Rejects coroutines whose parameters are known to end before the flow.
template <class T, class... Args>
struct std::coroutine_traits<tessera::Flow<T>, Args...> {
  static_assert(
      !(std::is_rvalue_reference_v<Args> || ...),
      "a flow's parameter of type T&& refers to a temporary of the caller, which ends before the flow: take it by "
      "value");
  using promise_type = typename tessera::Flow<T>::promise_type;
};
