// Graphs on the GPU: loops and branches that the device decides (the driver's nodes with conditions, and the PTX kernel
// that sets them), numbers that change while replays are in flight, temporaries that share memory. The same flows run
// without a graph, where the host decides.
#include "gpu/gpu_test.hpp"

#include <vector>

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace gpu_test {
namespace {

using namespace tessera;

constexpr std::int64_t kSize = 1 << 16;

class GpuGraphs : public Gpu {};

template <int B>
void advance(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(0.5f * y.load() + a * x.load_like(y));
}
/// flags[0]: runs that are left; flags[1]: whether that is odd.
void count_down(Mut<i32, 2> flags) {
  auto i = iota<i32, 2>();
  const auto left = sum(where(i == 0, flags.load(), 0), axis<0>) - 1;
  flags.store(where(i == 0, broadcast(left, shape<2>), broadcast(left % 2, shape<2>)));
}
void set_go(Mut<bool, 1> go, In<i32, dyn> flags) { go.store(flags.load_at(shape<1>, 0) > 0); }

struct State {
  Tensor<f32, 1> y, x;
  Tensor<i32, 1> flags;
  Tensor<bool, 1> go;
};
State state(int runs) {
  return {ones<f32>({kSize}).sync(), arange<f32>(kSize, 0, 0.001).sync(),
          from(std::vector<i32>{runs, runs % 2}, {2}).sync(), full<bool>({1}, runs > 0).sync()};
}
void set_runs(State& s, int runs) {
  copy_into(mut(s.flags), from(std::vector<i32>{runs, runs % 2}, {2})).sync();
  copy_into(mut(s.go), full<bool>({1}, runs > 0)).sync();
}

/// One run: a branch on an element of i32, temporaries, and the condition of the loop, a bool.
Flow<> odd(State& s, const GraphScalar<f32>& a) {
  auto t = co_await clone(s.x);
  auto u = co_await zeros<f32>(Dims(kSize));
  u = co_await kernel<advance<256>>(std::move(u), 2.0f, t);
  co_await kernel<advance<256>>(mut(s.y), a, u);
}
Flow<> run(State& s, const GraphScalar<f32>& a) {
  co_await graph_if(
      s.flags.view().slice<0>(1, 2), [&] { return odd(s, a); },
      [&] { return kernel<advance<256>>(mut(s.y), 3.0f, s.x); });
  co_await kernel<count_down>(mut(s.flags));
  co_await kernel<set_go>(mut(s.go), s.flags);
}
Flow<> loop(State& s, const GraphScalar<f32>& a) {
  co_await graph_while(s.go, [&] { return run(s, a); });
}

TEST_F(GpuGraphs, LoopsAndBranchesRunOnTheDevice) {
  auto graph = capture(loop, state(0), GraphScalar(1.0f));
  GraphScalar a(1.0f);
  State eager = state(0);
  for (const int runs : {7, 0, 1, 200}) {
    set_runs(graph.input<0>(), runs);
    set_runs(eager, runs);
    graph.replay().sync();
    loop(eager, a).sync();
    EXPECT_EQ(host(graph.input<0>().flags).sync()[0], runs > 0 ? 0 : runs);
    EXPECT_EQ(exact(host(eager.y).sync(), host(graph.input<0>().y).sync()), "") << runs;
  }
}

TEST_F(GpuGraphs, NumbersChangeInBodiesWhileReplaysAreInFlight) {
  auto graph = capture(loop, state(0), GraphScalar(1.0f));
  State eager = state(0);
  const Stream streams[2] = {Stream(), Stream()};
  for (int i = 0; i < 20; ++i) {
    const auto value = static_cast<f32>(i) + 0.25f;
    set_runs(graph.input<0>(), 31);
    set_runs(eager, 31);
    graph.set<1>(value);
    graph.replay().on(streams[i % 2]);
    graph.set<1>(-1000.0f);  // not for the replay in flight
    loop(eager, GraphScalar(value)).sync();
  }
  EXPECT_EQ(exact(host(eager.y).sync(), host(graph.input<0>().y).sync()), "");
}

/// Kernels with the number, each before one without, which may start before it has ended (a programmatic edge).
Flow<> straight(State& s, const GraphScalar<f32>& a) {
  for (int i = 0; i < 25; ++i) {
    co_await kernel<advance<256>>(mut(s.y), a, s.x);
    co_await kernel<advance<256>>(mut(s.y), 0.5f, s.x);
  }
}
TEST_F(GpuGraphs, NumbersChangeWhileReplaysAreInFlight) {
  auto graph = capture(straight, state(0), GraphScalar(1.0f));
  State eager = state(0);
  const Stream stream;
  for (int i = 0; i < 50; ++i) {
    const auto value = static_cast<f32>(i % 7) + 0.25f;
    graph.set<1>(value);
    graph.replay().on(stream);
    straight(eager, GraphScalar(value)).sync();
  }
  EXPECT_EQ(exact(host(eager.y).sync(), host(graph.input<0>().y).sync()), "");
}

Flow<Tensor<f32, 1>> chain(const Tensor<f32, 1>& x) {
  auto t = co_await clone(x);
  for (int i = 0; i < 20; ++i) {
    auto next = co_await zeros<f32>(Dims(kSize));
    next = co_await kernel<advance<256>>(std::move(next), 1.5f, t);
    t = std::move(next);
  }
  co_return std::move(t);
}
Flow<Tensor<f32, 1>> chains(const Tensor<f32, 1>& x) {
  auto [a, b] = co_await fork(chain(x), chain(x));
  co_return co_await kernel<advance<256>>(std::move(a), 1.0f, b);
}
TEST_F(GpuGraphs, TemporariesShareMemoryAlsoWhereBranchesRunAtTheSameTime) {
  const auto x = arange<f32>(kSize, 0, 0.001).sync();
  const auto expected = host(chains(x).sync()).sync();
  auto graph = capture(chains, x);
  EXPECT_LE(graph.memory().planned_bytes, graph.memory().temporary_bytes / 6);
  const Stream streams[3] = {Stream(), Stream(), Stream()};
  for (int i = 0; i < 60; ++i) graph.replay().on(streams[i % 3]);
  EXPECT_EQ(exact(expected, host(graph.output()).sync()), "");
}

using Inner = Graph<Tensor<f32, 1>>;
Flow<Tensor<f32, 1>> around(const Inner& inner) {
  co_await inner.replay();
  auto y = co_await clone(inner.output());
  co_await inner.replay();
  co_return co_await kernel<advance<256>>(std::move(y), 1.0f, inner.output());
}
TEST_F(GpuGraphs, GraphsInGraphs) {
  const auto x = arange<f32>(kSize, 0, 0.001).sync();
  auto inner = capture(chains(x));
  const auto expected = host(around(inner).sync()).sync();
  auto outer = capture(around, inner);
  for (int i = 0; i < 10; ++i) outer.replay().sync();
  EXPECT_EQ(exact(expected, host(outer.output()).sync()), "");
}

}  // namespace
}  // namespace gpu_test
