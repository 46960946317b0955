// Graphs: capture, replay, ownership, rejected captures.
#include "tessera/host/graph.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

namespace THIS_FILE {

using namespace tessera;

template <int B>
void axpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}
template <int B>
void add_positive(Mut<f32, B> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  check(t >= 0.0f, "x must be positive");  // outside the tensor it is 0
  y.store(y.load() + t);
}

constexpr std::int64_t kSize = 1000;
std::vector<f32> all_equal(f32 value) { return std::vector<f32>(kSize, value); }

struct Model {
  Tensor<f32, 1> w;
};
struct State {
  Tensor<f32, 1> x, sum;
};
struct Output {
  Tensor<f32, 1> y;
};

Flow<Tensor<f32, 1>> scaled(const Tensor<f32, 1>& x, f32 a) {
  auto y = co_await zeros<f32>(Dims(kSize));
  co_return co_await kernel<axpy<128>>(std::move(y), a, x);
}
/// sum += x + w; y = 2 sum + 3 x
Flow<Output> step(State& state, const Model& model) {
  co_await kernel<axpy<128>>(mut(state.sum), 1.0f, state.x);
  co_await kernel<axpy<128>>(mut(state.sum), 1.0f, model.w);
  auto [a, b] = co_await fork(scaled(state.sum, 2.0f), scaled(state.x, 3.0f));
  a = co_await kernel<axpy<128>>(std::move(a), 1.0f, b);
  co_return Output{std::move(a)};
}

class Graphs : public testing::Test {
 protected:
  Model model{full<f32>({kSize}, 10.0f).sync()};
  State state() { return {ones<f32>({kSize}).sync(), zeros<f32>({kSize}).sync()}; }
};

TEST_F(Graphs, ReplayDoesTheWorkOnceMore) {
  auto graph = capture(step, state(), model);
  static_assert(std::is_same_v<decltype(graph), Graph<Output, State>>);
  EXPECT_EQ(graph.work_count(), 7u);
  EXPECT_EQ(host(graph.input<0>().sum).sync(), all_equal(0)) << "capturing runs nothing";
  graph.replay().sync();
  EXPECT_EQ(host(graph.output().y).sync(), all_equal(2 * 11 + 3));
  copy_into(mut(graph.input<0>().x), full<f32>({kSize}, 2.0f)).sync();
  const Stream stream;
  graph.replay().on(stream);
  EXPECT_EQ(host(graph.output().y).sync(), all_equal(2 * 23 + 6));
  copy_into(mut(model.w), full<f32>({kSize}, 0.0f)).sync();  // referred to, not owned
  graph.replay().on(stream);
  graph.replay().sync();
  EXPECT_EQ(host(graph.output().y).sync(), all_equal(2 * 27 + 6));
  auto [back, output] = std::move(graph).release();
  EXPECT_EQ(host(back.sum).sync(), all_equal(27));
  EXPECT_EQ(host(output.y).sync(), all_equal(60));
  output.y = kernel<axpy<128>>(std::move(output.y), 1.0f, back.x).sync();
  EXPECT_EQ(host(output.y).sync(), all_equal(62));
}

Flow<f32> replays(const Graph<Output, State>& graph, int n) {
  f32 last = 0;
  for (int i = 0; i < n; ++i) {
    co_await graph.replay();
    const auto y = co_await host(graph.output().y);
    last = y.front();
  }
  co_return last;
}
TEST_F(Graphs, CanBeAwaited) {
  auto graph = capture(step, state(), model);
  EXPECT_EQ(replays(graph, 2).sync(), 2 * 22 + 3);
  const Stream stream;
  auto task = spawn(replays(graph, 3), stream);
  EXPECT_EQ(task.get(), 2 * 55 + 3);
}

TEST_F(Graphs, ReplaysOnManyStreamsAreOrdered) {
  auto graph = capture(step, state(), model);
  std::vector<Stream> streams(3);
  for (int i = 0; i < 60; ++i) graph.replay().on(streams[static_cast<std::size_t>(i) % 3]);
  EXPECT_EQ(host(graph.input<0>().sum).sync(), all_equal(660));
}

TEST_F(Graphs, MemoryIsKeptForReplays) {
  auto w = std::make_unique<Model>(Model{full<f32>({kSize}, 10.0f).sync()});
  auto graph = capture(step, state(), *w);
  w.reset();
  for (int i = 0; i < 10; ++i) {
    const auto other = full<f32>({kSize}, 1000.0f).sync();  // takes freed memory, if there is any
    graph.replay().sync();
  }
  EXPECT_EQ(host(graph.input<0>().sum).sync(), all_equal(110));
}

TEST_F(Graphs, OperationsCanBeCapturedToo) {
  auto y = zeros<f32>({kSize}).sync();
  auto graph = capture([](Tensor<f32, 1>& t, const Tensor<f32, 1>& x) { return kernel<axpy<128>>(mut(t), 2.0f, x); },
                       std::move(y), model.w);
  static_assert(std::is_same_v<decltype(graph), Graph<void, Tensor<f32, 1>>>);
  for (int i = 0; i < 3; ++i) graph.replay().sync();
  auto [back] = std::move(graph).release();
  EXPECT_EQ(host(back).sync(), all_equal(60));
}

TEST_F(Graphs, InputsAndOutputsAreLeased) {
  auto graph = capture(step, state(), model);
  graph.replay().sync();
  {
    const auto pending = host(graph.output().y);
    EXPECT_ERROR(BorrowError, (void)graph.replay(), "replay of a graph");
  }
  {
    const auto replay = graph.replay();
    EXPECT_ERROR(BorrowError, (void)host(graph.output().y), "replay of a graph");
    EXPECT_ERROR(BorrowError, (void)graph.replay(), "built and not enqueued");
    EXPECT_ERROR(BorrowError, (void)std::move(graph).release(), "built and not enqueued");
    EXPECT_ERROR(BorrowError, (void)kernel<axpy<128>>(mut(model.w), 1.0f, model.w), "same storage");
  }
  // NOLINTNEXTLINE(bugprone-use-after-move): a rejected operation takes nothing
  graph.replay().sync();  // dropped ones have given their leases back
  EXPECT_EQ(host(graph.input<0>().sum).sync(), all_equal(22));
}

TEST_F(Graphs, WhatTheyWriteMustStayWithItsTensor) {
  auto graph = capture(step, state(), model);
  graph.replay().sync();
  const auto shared = share(std::move(graph.input<0>().sum));
  EXPECT_ERROR(BorrowError, graph.replay().sync(), "moved, given, shared or replaced");
  EXPECT_EQ(host(shared).sync(), all_equal(11)) << "what is shared does not change";
  auto y = zeros<f32>({kSize}).sync();
  auto writes = capture([&](const Tensor<f32, 1>& x) { return kernel<axpy<128>>(mut(y), 1.0f, x); }, model.w);
  writes.replay().sync();
  auto moved = std::move(y);
  EXPECT_ERROR(BorrowError, writes.replay().sync(), "moved, given, shared or replaced");
  EXPECT_EQ(host(moved).sync(), all_equal(10));
}

TEST_F(Graphs, DoNotWriteWhatTheirBodyShares) {
  Shared<f32, 1> kept;
  auto x = ones<f32>({kSize}).sync();
  const auto shares = [&](const Stream& stream, Tensor<f32, 1>& t) {
    kernel<axpy<128>>(mut(t), 1.0f, model.w).on(stream);
    kept = share(std::move(t));
  };
  EXPECT_ERROR(BorrowError, (void)capture(shares, x), "is shared when the capture ends");
  EXPECT_EQ(host(kept).sync(), all_equal(1)) << "nothing was run";
  const auto returns = [](Tensor<f32, 1>& t, const Model& m) -> Flow<Shared<f32, 1>> {
    t = co_await kernel<axpy<128>>(std::move(t), 1.0f, m.w);
    co_return share(std::move(t));
  };
  EXPECT_ERROR(BorrowError, (void)capture(returns, zeros<f32>({kSize}).sync(), model),
               "is shared when the capture ends");

  // What ends in the body has no owner, and what nothing writes may be shared.
  auto out = zeros<f32>({kSize}).sync();
  const auto reads = [&](const Stream& stream, const Shared<f32, 1>& s, Tensor<f32, 1>& y) {
    const auto passing = share(kernel<axpy<128>>(full<f32>({kSize}, 2.0f), 1.0f, s).on(stream));
    kernel<axpy<128>>(mut(y), 1.0f, passing).on(stream);
    return s;
  };
  auto graph = capture(reads, std::move(kept), std::move(out));
  graph.replay().sync();
  graph.replay().sync();
  EXPECT_EQ(host(graph.input<1>()).sync(), all_equal(6));
  EXPECT_EQ(host(graph.output()).sync(), all_equal(1));
  // A handle that is the last one becomes a tensor again, which a graph may write.
  auto back = share(ones<f32>({kSize}).sync());
  const auto unshares = [&](const Stream& stream, Shared<f32, 1>& s) {
    return kernel<axpy<128>>(*try_unshare(std::move(s)), 1.0f, model.w).on(stream);
  };
  auto writes = capture(unshares, std::move(back));
  writes.replay().sync();
  EXPECT_EQ(host(writes.output()).sync(), all_equal(11));
}

TEST_F(Graphs, CopyHostMemoryInEachReplay) {
  struct Buffers {
    HostBuffer<f32> in, out;
    Tensor<f32, 1> sum;
  };
  const auto adds = [](const Stream& stream, Buffers& state) {
    const Tensor<f32, 1> x = from(state.in, {kSize}).on(stream);
    kernel<axpy<128>>(mut(state.sum), 1.0f, x).on(stream);
    state.out = host(state.sum, std::move(state.out)).on(stream);
  };
  auto graph = capture(adds, Buffers{HostBuffer<f32>(kSize), HostBuffer<f32>(kSize), zeros<f32>({kSize}).sync()});
  const Stream stream;
  float sum = 0;
  for (const float next : {1.0f, 2.0f, 3.0f}) {
    Buffers& state = graph.input<0>();
    for (float& value : state.in.write()) value = next;
    graph.replay().on(stream);
    sum += next;
    for (const float value : state.out.read()) ASSERT_EQ(value, sum);
  }
}

TEST_F(Graphs, DoNotWriteABufferThatHasLeftThem) {
  struct Readback {
    Tensor<f32, 1> x;
    HostBuffer<f32> values;
  };
  const auto adds = [&](const Stream& stream, Readback& state) {
    kernel<axpy<128>>(mut(state.x), 1.0f, model.w).on(stream);
    state.values = host(state.x, std::move(state.values)).on(stream);
  };
  const auto fresh = [] { return Readback{zeros<f32>({kSize}).sync(), HostBuffer<f32>(kSize)}; };
  auto graph = capture(adds, fresh());
  graph.replay().sync();
  EXPECT_EQ(graph.input<0>().values.read()[0], 10.0f);
  graph.replay().sync();
  EXPECT_EQ(graph.input<0>().values.read()[kSize - 1], 20.0f);
  auto moved = std::move(graph.input<0>().values);
  EXPECT_ERROR(BorrowError, graph.replay().sync(), "moved, given, shared or replaced");
  EXPECT_EQ(moved.read()[0], 20.0f);
  auto other = capture(adds, fresh());
  other.input<0>().values = HostBuffer<f32>(kSize);
  EXPECT_ERROR(BorrowError, other.replay().sync(), "moved, given, shared or replaced");
}

TEST_F(Graphs, ARejectedCaptureReturnsWhatItWasGiven) {
  State kept = state();
  const auto waits_for_it = [](State& s, const Model& m) -> Flow<> {
    co_await kernel<axpy<128>>(mut(s.sum), 1.0f, m.w);
    (void)co_await host(s.sum);
  };
  auto number = std::make_unique<int>(7);
  const auto call = [&](State& s, const std::unique_ptr<int>&) { return waits_for_it(s, model); };
  EXPECT_ERROR(DeviceError, (void)capture(call, std::move(kept), std::move(number)), "cannot be captured");
  // NOLINTNEXTLINE(bugprone-use-after-move): given back
  EXPECT_EQ(number ? *number : 0, 7);
  // NOLINTNEXTLINE(bugprone-use-after-move): given back
  auto graph = capture(step, std::move(kept), model);
  graph.replay().sync();
  EXPECT_EQ(host(graph.output().y).sync(), all_equal(25));
}

TEST_F(Graphs, AreUsedAfterReleaseOnlyByMistake) {
  auto graph = capture(step, state(), model);
  auto other = std::move(graph);
  auto [back, output] = std::move(other).release();
  // NOLINTNEXTLINE(bugprone-use-after-move): a moved graph says so
  EXPECT_ERROR(BorrowError, (void)other.replay(), "released or moved");
  EXPECT_ERROR(BorrowError, (void)other.output(), "released or moved");
  EXPECT_ERROR(BorrowError, (void)other.input<0>(), "released or moved");
  // NOLINTNEXTLINE(bugprone-use-after-move): a released graph says so
  EXPECT_ERROR(BorrowError, (void)graph.replay(), "released or moved");
  EXPECT_ERROR(BorrowError, (void)graph.device(), "released or moved");
  EXPECT_EQ(graph.work_count(), 0u);
  back.sum = kernel<axpy<128>>(std::move(back.sum), 1.0f, back.x).sync();
}

Flow<> reads_back(Tensor<f32, 1>& x) {
  co_await copy_into(mut(x), full<f32>(Dims(kSize), 2.0f));
  (void)co_await host(x);
}
Flow<> waits(Tensor<f32, 1>& x) {
  copy_into(mut(x), full<f32>(Dims(kSize), 2.0f)).sync();
  co_return;
}
Flow<> uploads(Tensor<f32, 1>& x) {
  const std::vector<f32> values(kSize, 3.0f);
  auto t = co_await from(values, Dims(kSize));
  co_await copy_into(mut(x), t);
}
Flow<> other_stream(Tensor<f32, 1>& x, const Stream& stream) {
  copy_into(mut(x), full<f32>(Dims(kSize), 2.0f)).on(stream);
  co_return;
}
Flow<> synchronizes(Tensor<f32, 1>&, Stream& stream) {
  stream.synchronize();
  co_return;
}
Flow<> captures(Tensor<f32, 1>& x) {
  auto inner = capture(reads_back, x);
  co_return;
}
Flow<> awaits_a_task(Tensor<f32, 1>& x, Task<>& task) {
  co_await task;
  co_await copy_into(mut(x), full<f32>(Dims(kSize), 2.0f));
}
Flow<> nothing() { co_return; }
TEST_F(Graphs, WhatCannotBeCapturedIsRejectedAndNothingIsLost) {
  auto x = ones<f32>({kSize}).sync();
  Stream stream;
  auto task = spawn(nothing());
  EXPECT_ERROR(DeviceError, (void)capture(reads_back, x), "reading elements on the host cannot be captured");
  EXPECT_ERROR(DeviceError, (void)capture(waits, x), "cannot be captured");
  EXPECT_ERROR(DeviceError, (void)capture(uploads, x), "from() cannot be captured");
  EXPECT_ERROR(DeviceError, (void)capture(other_stream, x, stream), "work on another stream cannot be captured");
  EXPECT_ERROR(DeviceError, (void)capture(synchronizes, x, stream), "waiting for a stream cannot be captured");
  EXPECT_ERROR(DeviceError, (void)capture(captures, x), "capture() inside a flow");
  EXPECT_ERROR(DeviceError, (void)capture(awaits_a_task, x, task), "awaiting a task cannot be captured");
  EXPECT_EQ(host(x).sync(), all_equal(1)) << "nothing was run";
  copy_into(mut(x), full<f32>({kSize}, 5.0f)).sync();
  auto graph = capture(step, state(), model);
  graph.replay().sync();
  EXPECT_EQ(host(graph.output().y).sync(), all_equal(25));
}

Flow<> adds_checked(Tensor<f32, 1>& y, const Tensor<f32, 1>& x) { co_await kernel<add_positive<128>>(mut(y), x); }
TEST_F(Graphs, AFailedReplayIsTold) {
  auto x = full<f32>({kSize}, 2.0f).sync();
  auto y = zeros<f32>({kSize}).sync();
  if (y.device().kind() == DeviceKind::Cuda) {
    EXPECT_ERROR(DeviceError, (void)capture(adds_checked, y, x), "with check(...) cannot be captured");
    return;
  }
  auto graph = capture(adds_checked, y, x);
  graph.replay().sync();
  copy_into(mut(x), full<f32>({kSize}, -1.0f)).sync();
  EXPECT_ERROR(DeviceError, graph.replay().sync(), "x must be positive");
  copy_into(mut(x), full<f32>({kSize}, 3.0f)).sync();
  copy_into(mut(y), full<f32>({kSize}, 1.0f)).sync();
  graph.replay().sync();
  EXPECT_EQ(host(y).sync(), all_equal(4));
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
TEST_F(Graphs, Pictures) {
  auto graph = capture(step, state(), model);
  const std::string own = testing::TempDir() + "graph-" + std::to_string(getpid()), dot = own + ".dot",
                    svg = own + ".svg";
  save_graph(graph, dot);
  save_graph(graph, svg);
  EXPECT_NE(contents(dot).find("kernel axpy\\ngraph_test.cpp:"), std::string::npos) << contents(dot);
  EXPECT_NE(contents(dot).find("n0 -> n1"), std::string::npos) << contents(dot);
  EXPECT_NE(contents(svg).find("kernel axpy"), std::string::npos);
  EXPECT_EQ(contents(svg).rfind("</svg>\n"), contents(svg).size() - 7);
  EXPECT_ERROR(IoError, save_graph(graph, "graph.png"), "ends with .svg or .dot");
  std::remove(dot.c_str());
  std::remove(svg.c_str());
}

}  // namespace THIS_FILE
