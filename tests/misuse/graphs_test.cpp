// Misuse of graphs: what a capture meets, what happens to its tensors afterwards, and the graph's own end.
#include <cstdio>
#include <optional>
#include <thread>

#include "misuse/kernels.hpp"
#include "misuse/misuse.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // uses of tensors that were given are what these rows are about
#endif

namespace tessera {
namespace {

using misuse::Outcome;
using misuse::saxpy;

MISUSE(CaptureOfAReadback, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"co_await host(...)", Outcome::Rejected},
                             {"host(...).sync()", Outcome::Rejected},
                             {"sync() of a flow that reads", Outcome::Rejected},
                             {"sync() of work", Outcome::Rejected},
                             {"printing", Outcome::Rejected},
                             {"saving", Outcome::Rejected},
                             {"an export", Outcome::Rejected},
                             {"HostBuffer::read", Outcome::Rejected},
                             {"HostBuffer::write", Outcome::Rejected}});
  HostBuffer<f32> buffer(4, Device::cpu());
  const auto flow = [](Tensor<f32, 1>& t, HostBuffer<f32>& b, int n) -> Flow<> {
    constexpr auto inner = [](Tensor<f32, 1>& u) -> Flow<> { (void)co_await host(u); };
    if (n == 0) (void)co_await host(t);
    if (n == 1) (void)host(t).sync();
    if (n == 2) inner(t).sync();
    if (n == 3) copy_into(mut(t), ones<f32>({5})).sync();
    if (n == 4) (void)to_string(t);
    if (n == 5) save_npy(misuse::path_of("captured.npy"), t);
    if (n == 6) (void)to_dlpack(t.view());
    if (n == 7) (void)b.read();
    if (n == 8) (void)b.write();
    co_await copy_into(mut(t), full<f32>(Dims(5), 2.0f));
  };
  auto graph = capture(flow, y, buffer, wrong);
  graph.replay().sync();
  c.result(y);
}
MISUSE(CaptureOfAnotherStream, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"an operation on another stream", Outcome::Rejected},
                             {"a flow on another stream", Outcome::Rejected},
                             {"a spawned flow", Outcome::Rejected},
                             {"a replay of another graph on its stream", Outcome::Rejected}});
  auto z = zeros<f32>({5}).sync();
  const auto fill = [](Tensor<f32, 1>& u) -> Flow<> { co_await copy_into(mut(u), full<f32>(Dims(5), 3.0f)); };
  auto other = capture(fill, z);
  const auto flow = [](Tensor<f32, 1>& t, const Graph<void>& g, int n) -> Flow<> {
    constexpr auto part = [](Tensor<f32, 1>& u) -> Flow<> { co_await copy_into(mut(u), full<f32>(Dims(5), 3.0f)); };
    const Stream s(Device::cpu());
    if (n == 0) copy_into(mut(t), ones<f32>({5})).on(s);
    if (n == 1) part(t).on(s);
    if (n == 2) spawn(part(t), s).get();
    if (n == 3) g.replay().on(s);
    co_await copy_into(mut(t), full<f32>(Dims(5), 2.0f));
  };
  auto graph = capture(flow, y, other, wrong);
  graph.replay().sync();
  c.result(y);
}
MISUSE(CaptureOfASynchronize, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"Stream::synchronize", Outcome::Rejected},
                             {"Stream::wait_for", Outcome::Rejected},
                             {"Stream::wait_for of a lent tensor", Outcome::Rejected},
                             {"Stream::record_read", Outcome::Rejected},
                             {"Stream::record_write", Outcome::Rejected}});
  Stream stream(Device::cpu());
  const auto flow = [](Tensor<f32, 1>& t, Stream& s, int n) -> Flow<> {
    if (n == 0) s.synchronize();
    if (n == 1) s.wait_for(t);
    if (n == 2) s.wait_for(mut(t));
    if (n == 3) s.record_read(t);
    if (n == 4) s.record_write(mut(t));
    co_await copy_into(mut(t), full<f32>(Dims(5), 2.0f));
  };
  auto graph = capture(flow, y, stream, wrong);
  graph.replay().sync();
  c.result(y);
}
MISUSE(CaptureOfHostWork, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"an upload", Outcome::Rejected},
                             {"awaiting a task", Outcome::Rejected},
                             {"a capture inside", Outcome::Rejected}});
  auto task = spawn([]() -> Flow<> { co_return; }());
  const auto flow = [](Tensor<f32, 1>& t, Task<>& k, int n) -> Flow<> {
    constexpr auto part = [](Tensor<f32, 1>& u) -> Flow<> { co_await copy_into(mut(u), full<f32>(Dims(5), 3.0f)); };
    const std::vector<f32> values(5, 1.0f);
    if (n == 0) (void)co_await from(values, Dims(5));
    if (n == 1) co_await k;
    if (n == 2) auto inner = capture(part, t);
    co_await copy_into(mut(t), full<f32>(Dims(5), 2.0f));
  };
  std::optional<Graph<void>> graph;
  try {
    graph = capture(flow, y, task, wrong);
  } catch (const DeviceError& error) {
    // capture() ends with a pack, so the capture inside has no line of the user's.
    if (wrong != 2 || error.where().known()) throw;
    throw DeviceError(error.message(), SourceLocation::current());
  }
  graph->replay().sync();
  c.result(y);
}
MISUSE(CaptureThatThrows, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"an error of the user's", Outcome::Rejected, {"not today"}},
                             {"a wrong shape", Outcome::Rejected},
                             {"an empty tensor", Outcome::Rejected},
                             {"a tensor that is given and used again", Outcome::Rejected}});
  const auto flow = [](Tensor<f32, 1>& t, int n) -> Flow<> {
    auto u = co_await clone(t);
    if (n == 0) throw ShapeError("not today", SourceLocation::current());
    if (n == 1) co_await copy_into(mut(t), zeros<f32>(Dims(7)));
    if (n == 2) (void)co_await clone(Tensor<f32, 1>());
    if (n == 3) auto other = std::move(u);
    co_await kernel<saxpy<32>>(mut(t), 2.0f, u);
  };
  auto graph = capture(flow, y, wrong);
  graph.replay().sync();
  c.result(y);
}
MISUSE(CaptureOnTwoThreads, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other(
      {{"another thread captures meanwhile", Outcome::Same}, {"another thread runs work meanwhile", Outcome::Same}});
  const auto flow = [](Tensor<f32, 1>& t, int n) -> Flow<> {
    constexpr auto part = [](Tensor<f32, 1>& u) -> Flow<> { co_await copy_into(mut(u), full<f32>(Dims(5), 3.0f)); };
    std::thread([&] {
      auto z = zeros<f32>({5}).sync();
      if (n == 0) capture(part, z).replay().sync();
      if (n == 1) part(z).sync();
    }).join();
    co_await copy_into(mut(t), full<f32>(Dims(5), 2.0f));
  };
  auto graph = capture(flow, y, wrong);
  graph.replay().sync();
  c.result(y);
}

// ---- tensors of a graph afterwards
// -----------------------------------------------------------------------------------

MISUSE(CaptureOfDroppedWeights, "Graph::replay") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"the weights are destroyed", Outcome::Same},
                             {"the weights are given to other work", Outcome::Same},
                             {"the weights are shared", Outcome::Same},
                             {"the weights are exported for reading", Outcome::Same}});
  const auto add = [](Tensor<f32, 1>& t, const Tensor<f32, 1>& w) { return kernel<saxpy<32>>(mut(t), 2.0f, w); };
  std::optional weights(full<f32>({5}, 2.0f).sync());
  auto graph = capture(add, y, *weights);
  dlpack::Ptr<dlpack::ManagedTensorVersioned> exported;
  std::optional<Shared<f32, 1>> shared;
  if (wrong == 0) weights.reset();
  if (wrong == 1) weights = kernel<saxpy<32>>(std::move(*weights), 0.0f, zeros<f32>({5})).sync();
  if (wrong == 2) shared = share(std::move(*weights));
  if (wrong == 3) exported = to_dlpack(weights->view());
  const auto others = full<f32>({5}, 100.0f).sync();  // takes memory that was freed
  graph.replay().sync();
  c.result(y);
}
MISUSE(ReplayOfMoved, "Graph::replay") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"what it writes was moved away", Outcome::Rejected},
                             {"what it writes was given to other work", Outcome::Rejected},
                             {"what it writes was lent to other work", Outcome::Either}});
  const auto add = [](Tensor<f32, 1>& t, const View<f32, 1>& v) { return kernel<saxpy<32>>(mut(t), 2.0f, v); };
  auto graph = capture(add, zeros<f32>({5}).sync(), x);
  auto& sum = graph.input<0>();
  Tensor<f32, 1> other;
  if (wrong == 0) other = std::move(sum);
  if (wrong == 1) sum = kernel<saxpy<32>>(std::move(sum), 1.0f, zeros<f32>({5})).sync();
  if (wrong == 2) kernel<saxpy<32>>(mut(sum), 1.0f, ones<f32>({5})).sync();
  graph.replay().sync();
  c.result(graph.input<0>());
}
MISUSE(ReplayOfShared, "Graph::replay") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"what it writes is shared", Outcome::Rejected},
                             {"what it writes was exported", Outcome::Rejected},
                             {"what it writes is exported for reading", Outcome::Rejected}});
  const auto add = [](Tensor<f32, 1>& t, const View<f32, 1>& v) { return kernel<saxpy<32>>(mut(t), 2.0f, v); };
  auto y = zeros<f32>({5}).sync();
  auto graph = capture(add, y, x);
  dlpack::Ptr<dlpack::ManagedTensorVersioned> exported;
  std::optional<Shared<f32, 1>> shared;
  if (wrong == 0) shared = share(std::move(y));
  if (wrong == 1) exported = to_dlpack(std::move(y));
  if (wrong == 2) exported = to_dlpack(y.view());
  graph.replay().sync();
  c.result(y);
}
MISUSE(ReplayWhileRead, "Graph::replay") {
  auto w = ones<f32>({5}).sync();
  const int wrong = c.other({{"an operation reads what it writes", Outcome::Rejected},
                             {"an operation writes what it writes", Outcome::Rejected},
                             {"an operation writes what it reads", Outcome::Rejected},
                             {"an operation reads what it reads", Outcome::Same},
                             {"another replay was built", Outcome::Rejected},
                             {"another graph's replay writes what it writes", Outcome::Rejected}});
  const auto add = [](Tensor<f32, 1>& t, const Tensor<f32, 1>& v) { return kernel<saxpy<32>>(mut(t), 2.0f, v); };
  auto y = zeros<f32>({5}).sync();
  auto graph = capture(add, y, w), second = capture(add, y, w);
  std::optional<Op<std::vector<f32>>> reader;
  std::optional<Op<void>> writer;
  if (wrong == 0) reader = host(y);
  if (wrong == 1) writer = copy_into(mut(y), zeros<f32>({5}));
  if (wrong == 2) writer = copy_into(mut(w), zeros<f32>({5}));
  if (wrong == 3) reader = host(w);
  if (wrong == 4) writer = graph.replay();
  if (wrong == 5) writer = second.replay();
  graph.replay().sync();
  c.result(y);
}
MISUSE(UseWhileAReplayIsBuilt, "Graph::replay") {
  const int wrong = c.other({{"reading what it writes", Outcome::Rejected},
                             {"writing what it writes", Outcome::Rejected},
                             {"writing what it reads", Outcome::Rejected},
                             {"reading what it reads", Outcome::Same},
                             {"giving away what it writes", Outcome::Rejected}});
  const auto add = [](Tensor<f32, 1>& t, const Tensor<f32, 1>& v) { return kernel<saxpy<32>>(mut(t), 2.0f, v); };
  auto y = zeros<f32>({5}).sync();
  auto w = ones<f32>({5}).sync();
  auto graph = capture(add, y, w);
  auto replay = graph.replay();
  if (wrong == 0) (void)host(y).sync();
  if (wrong == 1) copy_into(mut(y), w).sync();
  if (wrong == 2) copy_into(mut(w), zeros<f32>({5})).sync();
  if (wrong == 3) (void)host(w).sync();
  if (wrong == 4) y = kernel<saxpy<32>>(std::move(y), 1.0f, zeros<f32>({5})).sync();
  std::move(replay).sync();
  c.result(y);
}

// ---- the end -------------------------------------------------------------------------------------------------------

MISUSE(ReleaseWhilePending, "Graph::release") {
  const int wrong = c.other({{"a replay was built and not run", Outcome::Rejected},
                             {"replays are in flight", Outcome::Either},
                             {"it was released", Outcome::Rejected},
                             {"it was moved", Outcome::Rejected}});
  const auto add = [](Tensor<f32, 1>& t) { return kernel<saxpy<32>>(mut(t), 2.0f, ones<f32>({5})); };
  auto graph = capture(add, zeros<f32>({5}).sync());
  const Stream stream(Device::cpu());
  std::optional<Op<void>> pending;
  if (wrong == 0) pending = graph.replay();
  if (wrong == 1) graph.replay().on(stream);
  if (wrong == 2) (void)std::move(graph).release();
  if (wrong == 3) auto other = std::move(graph);
  auto [y] = std::move(graph).release();
  c.result(y);
}
MISUSE(ReleasedGraph, "Graph::output") {
  const int wrong = c.other({{"replay()", Outcome::Rejected},
                             {"input()", Outcome::Rejected},
                             {"output()", Outcome::Rejected},
                             {"device()", Outcome::Rejected},
                             {"save_graph", Outcome::Rejected},
                             {"release()", Outcome::Rejected}});
  const int moved = c.other({{"moved: replay()", Outcome::Rejected},
                             {"moved: input()", Outcome::Rejected},
                             {"moved: output()", Outcome::Rejected},
                             {"moved: device()", Outcome::Rejected},
                             {"moved: save_graph", Outcome::Rejected}});
  const auto copy = [](Tensor<f32, 1>& t) { return clone(t); };
  auto graph = capture(copy, ones<f32>({5}).sync());
  graph.replay().sync();
  c.result(graph.output());
  std::optional<Graph<Tensor<f32, 1>, Tensor<f32, 1>>> other;
  if (wrong >= 0) (void)std::move(graph).release();
  if (moved >= 0) other = std::move(graph);
  const int use = std::max(wrong, moved);
  if (use == 0) (void)graph.replay();
  if (use == 1) (void)graph.input<0>();
  if (use == 2) (void)graph.output();
  if (use == 3) (void)graph.device();
  if (use == 4) save_graph(graph, misuse::path_of("released.svg"));
  if (use == 5) (void)std::move(graph).release();
  c.done();
}
MISUSE(SaveGraphPath, "save_graph") {
  const int wrong = c.other({{"another format", Outcome::Rejected},
                             {"a folder that does not exist", Outcome::Rejected},
                             {"no name", Outcome::Rejected}});
  const auto copy = [](Tensor<f32, 1>& t) { return clone(t); };
  auto graph = capture(copy, ones<f32>({5}).sync());
  const std::string good = misuse::path_of("path.svg");
  const std::string paths[] = {misuse::path_of("path.png"), "/nonexistent/misuse.svg", ""};
  save_graph(graph, wrong < 0 ? good : paths[wrong]);
  std::remove(good.c_str());
  c.done();
}

}  // namespace
}  // namespace tessera
