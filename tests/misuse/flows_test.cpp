// Misuse of flows, tasks and graphs: their operands, and the operations inside.
#include <cstdio>
#include <functional>

#include "misuse/kernels.hpp"
#include "misuse/misuse.hpp"

namespace tessera {
namespace {

using misuse::Outcome;
using misuse::saxpy;

MISUSE(FlowSync, "Flow::sync") {
  const auto flow = [](View<f32, 1> x) -> Flow<Tensor<f32, 1>> { co_return co_await clone(x); };
  c.result(flow(c.view<f32, 1>({5})).sync());
}
MISUSE(FlowSyncStream, "Flow::sync") {
  const auto flow = [](Tensor<f32, 1>& y, View<f32, 1> x) -> Flow<> { co_await kernel<saxpy<32>>(mut(y), 2.0f, x); };
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  flow(y, x).sync(c.stream());
  c.result(y);
}
MISUSE(FlowOn, "Flow::on") {
  const auto flow = [](View<f32, 1> x) -> Flow<Tensor<f32, 1>> { co_return co_await clone(x); };
  c.result(flow(c.view<f32, 1>({5})).on(c.stream()));
}
MISUSE(FlowOfFlows, "fork") {
  const auto part = [](View<f32, 1> x) -> Flow<Tensor<f32, 1>> { co_return co_await clone(x); };
  const auto both = [](Flow<Tensor<f32, 1>> a, Flow<Tensor<f32, 1>> b) -> Flow<Tensor<f32, 1>> {
    auto [p, q] = co_await fork(std::move(a), std::move(b));
    co_return co_await kernel<saxpy<32>>(std::move(p), 1.0f, q);
  };
  const auto x = c.view<f32, 1>({100}), z = c.view<f32, 1>({100});
  c.result(both(part(x), part(z)).sync());
}
MISUSE(TaskGet, "spawn") {
  const auto flow = [](View<f32, 1> x) -> Flow<Tensor<f32, 1>> {
    (void)co_await host(x);
    co_return co_await clone(x);
  };
  auto task = spawn(flow(c.view<f32, 1>({5})));
  c.result(task.get());
}
MISUSE(TaskGetStream, "Task::get") {
  const auto flow = [](Tensor<f32, 1>& y, View<f32, 1> x) -> Flow<> { co_await kernel<saxpy<32>>(mut(y), 2.0f, x); };
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  auto task = spawn(flow(y, x), c.stream());
  task.get();
  c.result(y);
}
MISUSE(TaskDone, "Task::done") {
  const auto flow = [](View<f32, 1> x) -> Flow<Tensor<f32, 1>> { co_return co_await clone(x); };
  auto task = spawn(flow(c.view<f32, 1>({5})));
  while (!task.done()) {}
  c.result(task.get());
}

// ---- graphs --------------------------------------------------------------------------------------------------------

MISUSE(Capture, "capture") {
  const auto add_twice = [](Tensor<f32, 1>& y, const View<f32, 1>& x) { return kernel<saxpy<32>>(mut(y), 2.0f, x); };
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  const auto graph = capture(add_twice, y, x);
  graph.replay().sync();
  c.result(y);
}
MISUSE(GraphReplay, "Graph::replay") {
  const auto add_twice = [](Tensor<f32, 1>& y, const View<f32, 1>& x) { return kernel<saxpy<32>>(mut(y), 2.0f, x); };
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  const auto graph = capture(add_twice, y, x);
  auto replay = graph.replay();
  std::move(replay).sync(c.stream(Outcome::Either));
  c.result(y);
}
MISUSE(GraphInput, "Graph::input") {
  const auto add_twice = [](Tensor<f32, 1>& y, const View<f32, 1>& x) { return kernel<saxpy<32>>(mut(y), 2.0f, x); };
  const auto x = c.view<f32, 1>({100});
  auto graph = capture(add_twice, zeros<f32>({100}).sync(), x);
  graph.replay().sync();
  c.result(graph.input<0>());
}
MISUSE(GraphOutput, "Graph::output") {
  const auto x = c.view<f32, 1>({100});
  const auto graph = capture([](const View<f32, 1>& t) { return clone(t); }, x);
  graph.replay().sync();
  c.result(graph.output());
}
MISUSE(GraphRelease, "Graph::release") {
  const auto add_twice = [](Tensor<f32, 1>& y, const View<f32, 1>& x) { return kernel<saxpy<32>>(mut(y), 2.0f, x); };
  const auto x = c.view<f32, 1>({100});
  auto graph = capture(add_twice, zeros<f32>({100}).sync(), x);
  graph.replay().sync();
  auto [y] = std::move(graph).release();
  c.result(y);
}
MISUSE(GraphSet, "Graph::set") {
  const auto add = [](Tensor<f32, 1>& y, const View<f32, 1>& x, const GraphScalar<f32>& a) {
    return kernel<saxpy<32>>(mut(y), a, x);
  };
  const auto x = c.view<f32, 1>({100});
  auto graph = capture(add, zeros<f32>({100}).sync(), x, GraphScalar(1.0f));
  graph.set<1>(2.0f);
  graph.replay().sync();
  c.result(graph.input<0>());
}
MISUSE(GraphWhile, "graph_while") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  const auto none = zeros<bool>({1}).sync();
  graph_while(none, [&] { return kernel<saxpy<32>>(mut(y), 2.0f, x); }).sync();
  kernel<saxpy<32>>(mut(y), 2.0f, x).sync();
  c.result(y);
}
MISUSE(GraphIf, "graph_if") {
  auto& y = c.out<f32, 1>({100});
  const auto x = c.view<f32, 1>({100});
  const auto yes = ones<bool>({1}).sync();
  graph_if(yes, [&] { return kernel<saxpy<32>>(mut(y), 2.0f, x); }).sync();
  c.result(y);
}
MISUSE(SaveGraph, "save_graph") {
  const auto add_twice = [](Tensor<f32, 1>& y, const View<f32, 1>& x) { return kernel<saxpy<32>>(mut(y), 2.0f, x); };
  const auto x = c.view<f32, 1>({100});
  auto graph = capture(add_twice, zeros<f32>({100}).sync(), x);
  const std::string path = misuse::path_of("graph.dot");
  save_graph(graph, path);
  std::remove(path.c_str());
  graph.replay().sync();
  c.result(graph.input<0>());
}

// ---- in the body of a kernel ---------------------------------------------------------------------------------------

/// What the body of `hooked` calls while it is recorded, once for each number.
std::function<void()>* hook = nullptr;
void hooked(Mut<f32, 32> y, Constant<int> n) {
  if (hook != nullptr) (*hook)();
  y.store(y.load() + static_cast<float>(n));
}
MISUSE(WorkInTheBodyOfAKernel, "Kernel::operator()") {
  const std::vector<std::string> says{"TraceError", "while kernel hooked is being recorded"};
  const int wrong = c.other({{"Op::sync", Outcome::Rejected, says},
                             {"Op::on", Outcome::Rejected, says},
                             {"Flow::sync", Outcome::Rejected, says},
                             {"spawn", Outcome::Rejected, says},
                             {"capture", Outcome::Rejected, says},
                             {"Graph::replay", Outcome::Rejected, says},
                             {"graph_while", Outcome::Rejected, says},
                             {"Op::then", Outcome::Rejected, says}});
  auto y = zeros<f32>({5}).sync();
  auto z = zeros<f32>({5}).sync();
  const auto flow = [](Tensor<f32, 1>& t) -> Flow<> { co_await copy_into(mut(t), ones<f32>(Dims(5))); };
  Stream stream(Device::cpu());
  const auto no = zeros<i32>({1}).sync();
  const auto graph = capture(flow, z);
  std::function<void()> calls = [&] {
    if (wrong == 0) (void)clone(z).sync();
    if (wrong == 1) (void)clone(z).on(stream);
    if (wrong == 2) flow(z).sync();
    if (wrong == 3) spawn(flow(z)).get();
    if (wrong == 4) (void)capture(flow(z));
    if (wrong == 5) graph.replay().sync();
    if (wrong == 6) graph_while(no, [&] { return flow(z); }).sync();
    if (wrong == 7) (void)clone(z).then([](const Tensor<f32, 1>& t) { return clone(t); }).sync();
  };
  static int number = 0;
  struct Restore {
    ~Restore() { hook = nullptr; }
  } restore;
  hook = &calls;
  kernel<hooked>(mut(y), ++number).sync();
  kernel<hooked>(mut(y), -number).sync();
  c.result(y);
}

}  // namespace
}  // namespace tessera
