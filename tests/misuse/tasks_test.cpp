// Misuse of flows and tasks that are under way, and of operations that are kept: run twice, awaited twice, dropped,
// leaked, waited for where they could never end. Each variant of a row is one misuse.
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "host/far_device.hpp"
#include "misuse/misuse.hpp"
#include "runtime/gate.hpp"

namespace tessera {
namespace {

using misuse::Outcome;
using runtime::Gate;

/// Objects that are never destroyed; still reachable, so that no leak is reported.
template <class X>
X& leaked(X&& x) {
  static auto& all = *new std::vector<X*>;
  all.push_back(new X(std::move(x)));
  return *all.back();
}

constexpr auto copied = [](View<f32, 1> x) -> Flow<Tensor<f32, 1>> { co_return co_await clone(x); };
/// Its task waits for the gate of its stream.
constexpr auto gated = [](f32 value) -> Flow<f32> {
  auto t = co_await full<f32>(Dims(4), value);
  const auto values = co_await host(t);
  co_return values[0];
};

MISUSE(FlowRunTwice, "Flow::sync") {
  const auto tensor = arange<f32>({5}).sync();
  const auto x = tensor.view();
  const int wrong = c.other({{"it was run with sync", Outcome::Rejected},
                             {"it was run with on", Outcome::Rejected},
                             {"it was spawned", Outcome::Rejected},
                             {"it was moved", Outcome::Rejected}});
  auto flow = copied(x);
  std::optional<Flow<Tensor<f32, 1>>> other;
  if (wrong == 0) (void)std::move(flow).sync();
  if (wrong == 1) (void)std::move(flow).on(Stream(Device::cpu()));
  if (wrong == 2) (void)spawn(std::move(flow)).get();
  if (wrong == 3) other = std::move(flow);
  c.result(std::move(flow).sync());
}
MISUSE(FlowOnTwice, "Flow::on") {
  const auto tensor = arange<f32>({5}).sync();
  const auto x = tensor.view();
  const int wrong = c.other({{"it was run", Outcome::Rejected}, {"it was spawned", Outcome::Rejected}});
  auto flow = copied(x);
  if (wrong == 0) (void)std::move(flow).sync();
  if (wrong == 1) (void)spawn(std::move(flow)).get();
  c.result(std::move(flow).on(Stream(Device::cpu())));
}
MISUSE(SpawnTwice, "spawn") {
  const auto tensor = arange<f32>({5}).sync();
  const auto x = tensor.view();
  const int wrong = c.other({{"a flow that was run", Outcome::Rejected}, {"a spawned one", Outcome::Rejected}});
  auto flow = copied(x);
  if (wrong == 0) (void)std::move(flow).sync();
  if (wrong == 1) (void)spawn(std::move(flow)).get();
  c.result(spawn(std::move(flow)).get());
}
MISUSE(AwaitTwice, "fork") {
  const int wrong = c.other({{"a flow that was awaited", Outcome::Rejected},
                             {"a flow of a fork that was awaited", Outcome::Rejected},
                             {"an operation that was awaited", Outcome::Rejected},
                             {"an operation that was moved", Outcome::Rejected}});
  const auto outer = [](View<f32, 1> x, int n) -> Flow<Tensor<f32, 1>> {
    auto flow = copied(x);
    auto op = clone(x);
    (void)co_await std::move(flow);
    if (n == 0) (void)co_await std::move(flow);
    if (n == 1) auto both = co_await fork(copied(x), std::move(flow));
    if (n == 2) (void)co_await std::move(op);
    if (n == 3) auto other = std::move(op);
    co_return co_await std::move(op);
  };
  const auto tensor = arange<f32>({5}).sync();
  const auto x = tensor.view();
  c.result(outer(x, wrong).sync());
}
MISUSE(OpRunTwice, "Op::sync") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"it was run with sync", Outcome::Rejected},
                             {"it was run with on", Outcome::Rejected},
                             {"it was moved", Outcome::Rejected},
                             {"it is part of another", Outcome::Rejected}});
  auto op = clone(x);
  if (wrong == 0) (void)std::move(op).sync();
  if (wrong == 1) (void)std::move(op).on(Stream(Device::cpu()));
  if (wrong == 2) auto other = std::move(op);
  if (wrong == 3) auto other = std::move(op).then([](Tensor<f32, 1> t) { return clone(t); });
  c.result(std::move(op).sync());
}
MISUSE(ThenThatThrows, "Op::then") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"its function throws", Outcome::Rejected, {"no such step"}},
                             {"its function returns an operation that was run", Outcome::Rejected},
                             {"its function uses the given tensor again", Outcome::Rejected}});
  const auto where = SourceLocation::current();
  auto op = clone(x).then([&](Tensor<f32, 1> t) {
    if (wrong == 0) throw ShapeError("no such step", where);
    auto next = clone(t);
    if (wrong == 1) (void)std::move(next).sync();
    if (wrong == 2) auto other = std::move(t);
    return wrong == 2 ? clone(t) : std::move(next);
  });
  c.result(std::move(op).sync());
}
MISUSE(LeakedOperation, "host") {
  const auto& x = c.in<f32, 1>({5});
  const int wrong = c.other({{"a leaked operation reads the tensor", Outcome::Rejected},
                             {"a leaked operation writes it", Outcome::Rejected},
                             {"a leaked one has another tensor", Outcome::Same}});
  auto own = full<f32>({5}, 2.0f).sync();  // leaked with the leases of its operation
  if (wrong == 0) leaked(host(own));
  if (wrong == 1) leaked(copy_into(mut(own), zeros<f32>({5})));
  if (wrong == 2) leaked(host(zeros<f32>({5}).sync()));
  copy_into(mut(own), x).sync();
  c.result(own);
}

// ---- tasks ---------------------------------------------------------------------------------------------------------

MISUSE(TaskGetTwice, "Task::get") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"its result was taken", Outcome::Rejected},
                             {"it was moved", Outcome::Rejected},
                             {"its flow has failed, and that was thrown", Outcome::Rejected},
                             {"a flow has awaited it", Outcome::Rejected}});
  const auto fails = [](View<f32, 1> v, bool fail) -> Flow<Tensor<f32, 1>> {
    auto t = co_await clone(v);
    if (fail) co_return co_await cast<f32>(Tensor<f32, 1>());
    co_return t;
  };
  const auto awaits = [](Task<Tensor<f32, 1>>& t) -> Flow<Tensor<f32, 1>> { co_return co_await t; };
  auto task = spawn(fails(x, wrong == 2));
  if (wrong == 0) (void)task.get();
  if (wrong == 1) auto other = std::move(task);
  if (wrong == 2) { EXPECT_THROW((void)task.get(), BorrowError); }
  if (wrong == 3) (void)awaits(task).sync();
  c.result(task.get());
}
MISUSE(TaskDoneAfterItsEnd, "Task::done") {
  const int wrong = c.other({{"its result was taken", Outcome::Rejected}, {"it was moved", Outcome::Rejected}});
  auto task = spawn(gated(3));
  if (wrong == 0) (void)task.get();
  if (wrong == 1) auto other = std::move(task);
  (void)task.done();
  c.result(task.get());
}
MISUSE(TaskAwaitedTwice, "spawn") {
  const int wrong = c.other({{"another flow awaits it", Outcome::Rejected},
                             {"another flow has awaited it", Outcome::Rejected},
                             {"get() has taken its result", Outcome::Rejected},
                             {"it was moved", Outcome::Rejected},
                             {"a flow that awaited it was dropped", Outcome::Same}});
  const auto awaits = [](Task<f32>& t) -> Flow<f32> { co_return co_await t; };
  Gate gate;
  auto task = spawn(gated(3), gate.stream);
  std::optional<Task<f32>> first;
  if (wrong == 0 || wrong == 4) first = spawn(awaits(task));
  if (wrong == 4) first.reset();
  if (wrong != 0) gate.open();
  if (wrong == 1) (void)awaits(task).sync();
  if (wrong == 2) (void)task.get();
  if (wrong == 3) auto other = std::move(task);
  c.result(awaits(task).sync());
}
MISUSE(TaskGetWhileAwaited, "Task::get") {
  const int wrong = c.other({{"a flow awaits it", Outcome::Rejected}});
  const auto awaits = [](Task<f32>& t) -> Flow<f32> { co_return co_await t; };
  Gate gate;
  auto task = spawn(gated(3), gate.stream);
  std::optional<Task<f32>> first;
  if (wrong == 0) first = spawn(awaits(task));
  if (wrong != 0) gate.open();
  c.result(task.get());
}
MISUSE(DroppedTask, "spawn") {
  const int wrong = c.other({{"the awaited task is destroyed", Outcome::Rejected},
                             {"the awaited task is assigned another", Outcome::Rejected},
                             {"another task is dropped in flight", Outcome::Same},
                             {"another task is leaked in flight", Outcome::Same}});
  const auto awaits = [](Task<f32>& t) -> Flow<f32> { co_return co_await t; };
  Gate gate;
  std::optional task(spawn(gated(3), gate.stream));
  auto waiting = spawn(awaits(*task));
  if (wrong == 0) task.reset();
  if (wrong == 1) task = spawn(gated(4), gate.stream);
  if (wrong == 2) auto other = spawn(gated(5), gate.stream);
  if (wrong == 3) leaked(spawn(gated(6), gate.stream));
  gate.open();
  c.result(waiting.get());
}
MISUSE(LeakedTask, "Flow::on") {
  const auto tensor = arange<f32>({5}).sync();
  const auto x = tensor.view();
  const int wrong =
      c.other({{"a leaked task reads the tensor", Outcome::Same}, {"a leaked flow that was never run", Outcome::Same}});
  const auto reads = [](View<f32, 1> v) -> Flow<> { (void)co_await host(v); };
  if (wrong == 0) leaked(spawn(reads(x)));
  if (wrong == 1) leaked(copied(x));
  c.result(copied(x).on(Stream(Device::cpu())));
}
MISUSE(TasksInACircle, "spawn") {
  const int wrong = c.other({{"it awaits itself", Outcome::Rejected}, {"two await each other", Outcome::Rejected}});
  const auto later = [](Task<f32>*& task) -> Flow<f32> {
    auto t = co_await zeros<f32>(Dims(4));
    (void)co_await host(t);
    co_return co_await *task;
  };
  Gate gate;
  Task<f32>*of_first = nullptr, *of_second = nullptr;
  auto last = spawn(gated(3), gate.stream);
  auto first = spawn(later(of_first), gate.stream), second = spawn(later(of_second), gate.stream);
  of_first = wrong == 0 ? &first : &second, of_second = wrong == 1 ? &first : &last;
  gate.open();
  c.result(first.get());
}
MISUSE(TaskWaitedForOnItsThread, "Task::get") {
  const int wrong = c.other({{"get() there", Outcome::Rejected}, {"sync() of a flow there", Outcome::Rejected}});
  const auto waits = [](Task<f32>& task, int n) -> Flow<f32> {
    constexpr auto awaits = [](Task<f32>& t) -> Flow<f32> { co_return co_await t; };
    auto t = co_await zeros<f32>(Dims(4));
    (void)co_await host(t);
    if (n == 0) co_return task.get();
    if (n == 1) co_return awaits(task).sync();
    co_return co_await awaits(task);
  };
  Gate of_task, of_flow;
  auto task = spawn(gated(3), of_task.stream);
  auto flow = spawn(waits(task, wrong), of_flow.stream);
  of_flow.open();
  if (wrong < 0) of_task.open();
  c.result(flow.get());
}
MISUSE(TaskWhoseStepsAreDropped, "spawn") {
  const int wrong = c.other({{"its event loop drops a step", Outcome::Rejected},
                             {"its event loop throws an error", Outcome::Rejected, {"the loop has ended"}},
                             {"its event loop calls a step twice", Outcome::Same}});
  const auto where = SourceLocation::current();
  Gate gate;
  auto task = spawn(gated(3), SpawnOptions{gate.stream, [wrong, where](const FlowStep& step) {
                                             if (wrong == 1) throw DeviceError("the loop has ended", where);
                                             if (wrong == 2) step();
                                             if (wrong != 0) step();
                                           }});
  gate.open();
  c.result(task.get());
}
MISUSE(FlowThatFails, "Flow::sync") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"an operation inside has an empty operand", Outcome::Rejected},
                             {"an operation inside has other extents", Outcome::Rejected},
                             {"an operation inside writes what another reads", Outcome::Rejected},
                             {"an operation inside fails behind a readback", Outcome::Rejected},
                             {"a part of a fork fails", Outcome::Rejected},
                             {"it catches the error", Outcome::Same}});
  const auto flow = [](View<f32, 1> v, int n) -> Flow<Tensor<f32, 1>> {
    constexpr auto part = [](View<f32, 1> w, bool fail) -> Flow<> {
      auto t = co_await clone(w);
      if (fail) co_await copy_into(mut(t), zeros<f32>(Dims(7)));
    };
    auto t = co_await clone(v);
    if (n == 0) (void)co_await clone(Tensor<f32, 1>());
    if (n == 1) co_await copy_into(mut(t), zeros<f32>(Dims(7)));
    const auto reader = n == 2 ? std::optional(host(t)) : std::nullopt;
    if (n == 2) co_await copy_into(mut(t), zeros<f32>(Dims(5)));
    if (n == 3) (void)co_await host(t);
    if (n == 3) co_await copy_into(mut(t), zeros<f32>(Dims(7)));
    if (n == 4) co_await fork(part(v, false), part(v, true));
    try {
      if (n == 5) co_await part(v, true);
    } catch (const ShapeError&) {}
    co_return t;
  };
  c.result(flow(x, wrong).sync());
}
MISUSE(TaskThatFails, "Task::get") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"an operation inside has an empty operand", Outcome::Rejected},
                             {"an operation behind a readback has other extents", Outcome::Rejected}});
  const auto flow = [](View<f32, 1> v, int n) -> Flow<Tensor<f32, 1>> {
    auto t = co_await clone(v);
    (void)co_await host(t);
    if (n == 0) (void)co_await clone(Tensor<f32, 1>());
    if (n == 1) co_await copy_into(mut(t), zeros<f32>(Dims(7)));
    co_return t;
  };
  auto task = spawn(flow(x, wrong), Stream(Device::cpu()));
  c.result(task.get());
}

MISUSE(ForkThatWasAwaited, "fork") {
  const std::vector<std::string> says{"BorrowError", "has been run or moved already"};
  const int wrong = c.other({{"it is awaited again", Outcome::Rejected, says},
                             {"it was moved", Outcome::Rejected, says},
                             {"it has one flow twice", Outcome::Rejected, says}});
  const auto outer = [](View<f32, 1> x, int n) -> Flow<Tensor<f32, 1>> {
    auto both = fork(copied(x), copied(x));
    auto flow = copied(x);
    std::optional<decltype(both)> other;
    if (n == 0) (void)co_await std::move(both);
    if (n == 1) other = std::move(both);
    if (n == 2) {
      auto one = fork(std::move(flow), copied(x));
      auto two = co_await fork(std::move(flow), copied(x));
    }
    auto [a, b] = co_await std::move(both);
    co_return std::move(a);
  };
  const auto tensor = arange<f32>({5}).sync();
  c.result(outer(tensor.view(), wrong).sync());
}
MISUSE(TaskOfTwoForks, "fork") {
  const int wrong = c.other({{"two flows of a fork await one task", Outcome::Rejected, {"BorrowError", "result once"}},
                             {"one awaits it, one gets it", Outcome::Rejected, {"BorrowError", "a flow awaits"}}});
  const auto waits = [](Task<f32>& t, bool gets) -> Flow<f32> {
    if (gets) co_return t.get();
    co_return co_await t;
  };
  const auto both = [waits](Task<f32>& t, Task<f32>& u, int n) {
    return [](auto part, Task<f32>& a, Task<f32>& b, int how) -> Flow<f32> {
      auto [p, q] = co_await fork(part(a, false), part(how < 0 ? b : a, how == 1));
      co_return p + q;
    }(waits, t, u, n);
  };
  Gate gate;
  auto task = spawn(gated(3), gate.stream), second = spawn(gated(4), gate.stream);
  auto flow = spawn(both(task, second, wrong));
  gate.open();
  c.result(flow.get());
}
MISUSE(TaskThatEndsItself, "spawn") {
  const int wrong = c.other({{"its flow destroys it", Outcome::Rejected, {"BorrowError", "was destroyed"}},
                             {"its flow assigns another", Outcome::Rejected, {"BorrowError", "was destroyed"}}});
  using Own = std::shared_ptr<std::optional<Task<f32>>>;  // which another thread changes
  const auto flow = [](Own own, int n) -> Flow<f32> {
    auto t = co_await zeros<f32>(Dims(4));
    (void)co_await host(t);
    if (n == 0) own->reset();
    if (n == 1) *own = spawn(gated(5));
    co_return 3;
  };
  const auto awaits = [](Task<f32>& t) -> Flow<f32> { co_return co_await t; };
  const auto task = std::make_shared<std::optional<Task<f32>>>();
  Gate gate;
  *task = spawn(flow(task, wrong), gate.stream);
  auto waiting = spawn(awaits(**task));
  gate.open();
  c.result(waiting.get());
  task->reset();
}
MISUSE(EventLoopThatIsNone, "spawn") {
  const std::vector<std::string> says{"BorrowError", "FlowPost", "null function"};
  const int wrong = c.other({{"a null pointer", Outcome::Rejected, says},
                             {"an empty std::function", Outcome::Rejected, says},
                             {"no FlowPost", Outcome::Same}});
  void (*const pointer)(FlowStep) = nullptr;
  const std::function<void(FlowStep)> empty, inline_loop = [](const FlowStep& step) { step(); };
  SpawnOptions options;
  options.post = wrong == 0 ? FlowPost(pointer) : wrong == 1 ? FlowPost(empty) : FlowPost(inline_loop);
  if (wrong == 2) options.post = FlowPost();
  auto task = spawn(gated(3), std::move(options));
  c.result(task.get());
}
MISUSE(StepThatComesLate, "spawn") {
  const int wrong =
      c.other({{"after the task has ended", Outcome::Same},
               {"after the task was destroyed", Outcome::Same},
               {"its copies are called on two threads", Outcome::Same},
               {"the loop has ended before", Outcome::Rejected, {"DeviceError", "event loop", "running"}}});
  std::vector<FlowStep> steps;
  std::mutex mutex;
  const auto post = [&](const FlowStep& step) {
    const std::lock_guard lock(mutex);
    steps.push_back(step);
  };
  const auto take = [&] {
    for (;;) {
      const std::lock_guard lock(mutex);
      if (!steps.empty()) return steps.back();
    }
  };
  Gate gate, next;
  std::optional task(spawn(gated(3), SpawnOptions{gate.stream, post}));
  gate.open();
  auto step = std::optional(take());
  if (wrong == 1) {
    task.reset();
    (*step)();
    steps.clear();
    task = spawn(gated(3), SpawnOptions{next.stream, post});
    next.open();
    step = take();
  }
  if (wrong == 3) {
    steps.clear();
    step.reset();
  } else if (wrong == 2) {
    std::thread other([copy = *step] { copy(); });
    (*step)();
    other.join();
  } else {
    (*step)();
  }
  while (wrong != 3 && !task->done()) {}
  if (wrong == 0) (*step)();
  c.result(task->get());
}
MISUSE(FlowOfAnotherDevice, "Flow::on") {
  const std::vector<std::string> says{"DeviceError", "far", "cpu"};
  const int wrong = c.other({{"its stream is of another device", Outcome::Rejected, says},
                             {"a part of a fork is", Outcome::Rejected, says},
                             {"the condition of its loop is", Outcome::Rejected, says},
                             {"an operation of then() is", Outcome::Rejected, says}});
  static runtime::FarDevice& device = *new runtime::FarDevice;
  const Stream far{Device(device)}, near(Device::cpu());
  const auto there = zeros<f32>({5}).sync(far);
  const auto no = zeros<i32>({1}).sync(far);
  const auto tensor = arange<f32>({5}).sync();
  const auto flow = [](View<f32, 1> x, View<f32, 1> y, const Tensor<i32, 1>& n, int how) -> Flow<Tensor<f32, 1>> {
    constexpr auto part = [](View<f32, 1> v) -> Flow<Tensor<f32, 1>> { co_return co_await clone(v); };
    if (how == 1) auto both = co_await fork(part(x), part(y));
    if (how == 2) co_await graph_while(n, [] { return []() -> Flow<> { co_return; }(); });
    if (how == 3) (void)co_await clone(x).then([y](const Tensor<f32, 1>&) { return clone(y); });
    co_return co_await clone(x);
  };
  c.result(flow(tensor.view(), there.view(), no, wrong).on(wrong == 0 ? far : near));
}

}  // namespace
}  // namespace tessera
