// graph_while and graph_if: loops and branches of a flow whose condition is on the device. docs/graphs.md.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/host/flow.hpp"
#include "tessera/host/transfer.hpp"

namespace tessera {

namespace runtime {
class GraphRecording;
}

namespace detail {

/// A loop or a branch of a flow that is being captured. Nothing is recorded unless record() is called.
class ControlCapture {
 public:
  /// Takes a lease on the condition while the object lives. Throws BorrowError.
  ControlCapture(const Stream& stream, const ArgRef& condition, int rank, const char* what, SourceLocation where);
  ~ControlCapture();
  ControlCapture(const ControlCapture&) = delete;
  ControlCapture& operator=(const ControlCapture&) = delete;
  /// How often each body is called: twice, to see whether it repeats itself; once within the second call of a body
  /// around it, which is compared as a whole. So nested bodies are not called 2^depth times.
  int calls() const noexcept;
  /// What is captured from now on goes to a body, until end_body() or the destructor.
  void begin_body(bool second_call);
  /// Throws DeviceError if a tensor that was made in the body is held outside of it.
  void end_body();
  /// Throws DeviceError unless the last two bodies, of two calls of one function, did the same; drops the second one.
  /// Nothing if each is called once.
  void check_repeats();
  void record(bool loop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws ShapeError unless the condition has one element.
void check_condition(std::int64_t size, const char* what, SourceLocation where);

template <class T>
inline constexpr bool is_condition = std::is_same_v<T, bool> || std::is_same_v<T, i32>;

/// What a body is: a function without parameters that returns a Flow<> or an Op<void>.
template <class Body>
constexpr bool check_body() {
  static_assert(std::is_invocable_v<Body&>,
                "the body of graph_while or graph_if is a function without parameters: [&] { return f(state); }");
  if constexpr (std::is_invocable_v<Body&>) {
    using Made = std::invoke_result_t<Body&>;
    static_assert(std::is_same_v<Made, Flow<>> || std::is_same_v<Made, Op<void>>,
                  "the body of graph_while or graph_if returns a Flow<> or an operation without a result: what it "
                  "computes, it writes into tensors that were made outside, with mut(...) or copy_into(...)");
  }
  return true;
}

/// An operation as a flow; `where` is the line that awaits it.
Flow<> flow_of(Op<void> op, SourceLocation where);

/// The function that makes the flows of a body. Not a template, so that the loop's coroutine does not depend on the
/// type of a closure: g++ 12 warns of such frames (-Wsubobject-linkage).
class GraphBody {
 public:
  GraphBody() noexcept = default;
  template <class F>
  explicit GraphBody(F f) : function_(std::make_unique<Function<F>>(std::move(f))) {}
  explicit operator bool() const noexcept { return function_ != nullptr; }
  /// The flow of one run. Throws what the function throws, and BorrowError if its flow or operation was run before.
  Flow<> operator()(SourceLocation where) const { return function_->call(where); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Flow<> call(SourceLocation where) = 0;
  };
  template <class F>
  struct Function final : Base {
    F f;
    explicit Function(F&& g) : f(std::move(g)) {}
    Flow<> call(SourceLocation where) override {
      auto made = f();
      Reach::check_live(made, where);
      if constexpr (is_op<decltype(made)>) {
        return flow_of(std::move(made), where);
      } else {
        return made;
      }
    }
  };
  std::unique_ptr<Base> function_;
};

template <class T, int R>
Flow<> run_while(Read<T, R> condition, GraphBody body, SourceLocation where) {
  if (const Stream* stream = co_await CapturedStream()) {
    ControlCapture capture(*stream, condition.arg(), R, "graph_while", where);
    for (int call = 0; call < capture.calls(); ++call) {
      capture.begin_body(call == 1);
      co_await body(where);
      capture.end_body();
    }
    capture.check_repeats();
    capture.record(true);
    co_return;
  }
  for (;;) {
    const auto holds = co_await OpAt{host_op<T, R>(condition, where), where};
    if (!holds[0]) co_return;
    co_await body(where);
  }
}

/// `else_body` may be empty.
template <class T, int R>
Flow<> run_if(Read<T, R> condition, GraphBody then_body, GraphBody else_body, SourceLocation where) {
  if (const Stream* stream = co_await CapturedStream()) {
    ControlCapture capture(*stream, condition.arg(), R, "graph_if", where);
    const GraphBody* const bodies[] = {&then_body, &else_body};
    for (int i = 0; i < (else_body ? 2 : 1); ++i) {
      for (int call = 0; call < capture.calls(); ++call) {
        capture.begin_body(call == 1);
        co_await (*bodies[i])(where);
        capture.end_body();
      }
      capture.check_repeats();
    }
    capture.record(false);
    co_return;
  }
  const auto holds = co_await OpAt{host_op<T, R>(condition, where), where};
  if (holds[0]) {
    co_await then_body(where);
  } else if (else_body) {
    co_await else_body(where);
  }
}

/// A tensor or a view that a condition may be.
template <class C>
struct ConditionArg {
  static constexpr bool ok = false;
};
template <Element T, int R>
struct ConditionArg<Tensor<T, R>> : ReadableAs<T, R> {};
template <Element T, int R>
struct ConditionArg<View<T, R>> : ReadableAs<T, R> {};
template <Element T, int R>
struct ConditionArg<Shared<T, R>> : ReadableAs<T, R> {};

template <class C>
constexpr bool check_condition_type() {
  static_assert(ConditionArg<C>::ok, "the condition is a tensor of one element: a Tensor, a View or a Shared");
  if constexpr (ConditionArg<C>::ok) {
    static_assert(is_condition<typename ConditionArg<C>::element>,
                  "the condition is a tensor of bool or i32: not 0 means true");
  }
  return true;
}
template <class C>
auto condition_read(const C& condition) {
  return Read<typename ConditionArg<C>::element, ConditionArg<C>::rank>(condition);
}

/// With a condition that is a temporary, which the flow keeps.
template <class C>
Flow<> run_while_owning(C condition, GraphBody body, SourceLocation where) {
  co_await run_while(condition_read(condition), std::move(body), where);
}
template <class C>
Flow<> run_if_owning(C condition, GraphBody then_body, GraphBody else_body, SourceLocation where) {
  co_await run_if(condition_read(condition), std::move(then_body), std::move(else_body), where);
}
template <class C>
Flow<> make_while(C&& condition, GraphBody body, SourceLocation where) {
  check_condition(condition.size(where), "graph_while", where);
  if constexpr (std::is_lvalue_reference_v<C>) {
    return run_while(condition_read(condition), std::move(body), where);
  } else {
    return run_while_owning<C>(std::move(condition), std::move(body), where);
  }
}
template <class C>
Flow<> make_if(C&& condition, GraphBody then_body, GraphBody else_body, SourceLocation where) {
  check_condition(condition.size(where), "graph_if", where);
  if constexpr (std::is_lvalue_reference_v<C>) {
    return run_if(condition_read(condition), std::move(then_body), std::move(else_body), where);
  } else {
    return run_if_owning<C>(std::move(condition), std::move(then_body), std::move(else_body), where);
  }
}

}  // namespace detail

/// Runs `body` as long as the condition, read before each run, is not 0. The condition is a tensor of one element, bool
/// or i32, on the flow's device; the body has to change it. The body is a function that returns a Flow<> or an
/// Op<void>. It is called for each run, and the host reads the condition before, and waits for it. While a graph is
/// captured it is called twice (within another body up to depth + 1 times), whatever the condition is; the graph then
/// loops on the device. The tensors that
/// `condition` and `body` refer to must live until the flow has ended; a condition that is a temporary is kept. Throws
/// ShapeError if the condition has not one element, DeviceError in a capture if a tensor that is made in the body is
/// kept outside, if the two calls differ in what they do, if more than 64 loops and branches are inside each other, or
/// if the driver has no loops in graphs.
template <class C, class Body>
Flow<> graph_while(C&& condition, Body body, SourceLocation where = SourceLocation::current()) {
  if constexpr (detail::check_condition_type<std::remove_cvref_t<C>>() && detail::check_body<Body>()) {
    detail::check_function(body, "graph_while", where);
    return detail::make_while(std::forward<C>(condition), detail::GraphBody(std::move(body)), where);
  }
}

/// Runs `body` if the condition is not 0. Conditions and bodies are those of graph_while(): while a graph is captured,
/// each body is called twice, too.
template <class C, class Body>
Flow<> graph_if(C&& condition, Body body, SourceLocation where = SourceLocation::current()) {
  if constexpr (detail::check_condition_type<std::remove_cvref_t<C>>() && detail::check_body<Body>()) {
    detail::check_function(body, "graph_if", where);
    return detail::make_if(std::forward<C>(condition), detail::GraphBody(std::move(body)), {}, where);
  }
}
/// The same with a second body for the case that the condition is 0.
template <class C, class Then, class Else>
  requires(!std::is_convertible_v<Else, SourceLocation>)
Flow<> graph_if(C&& condition, Then then_body, Else else_body, SourceLocation where = SourceLocation::current()) {
  if constexpr (detail::check_condition_type<std::remove_cvref_t<C>>() && detail::check_body<Then>() &&
                detail::check_body<Else>()) {
    detail::check_function(then_body, "graph_if", where);
    detail::check_function(else_body, "graph_if", where);
    return detail::make_if(std::forward<C>(condition), detail::GraphBody(std::move(then_body)),
                           detail::GraphBody(std::move(else_body)), where);
  }
}

}  // namespace tessera
