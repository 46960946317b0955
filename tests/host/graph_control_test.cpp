// Loops and branches of flows, blocking, spawned and captured; graphs in graphs; numbers; memory of temporaries; what
// can be captured.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace THIS_FILE {

using namespace tessera;

template <int B>
void add_scaled(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  require(a < 1000.0f, "the factor must be less than 1000");
  y.store(a * x.load_like(y) + y.load());
}
/// left: how many runs are left; go: whether there is one.
void count_down(Mut<i32, 1> left, Mut<bool, 1> go) {
  const auto n = left.load() - 1;
  left.store(n);
  go.store(n > 0);
}
void count_positive(Mut<i32, 1> left, In<f32, dyn> x) {
  auto t = x.load_at(shape<1>, 0);
  check(t >= 0.0f, "x must be positive");
  left.store(left.load() - 1);
}

constexpr std::int64_t kSize = 100;
std::vector<f32> all_equal(f32 value) { return std::vector<f32>(kSize, value); }

struct Loop {
  Tensor<f32, 1> y, x;
  Tensor<i32, 1> left;
  Tensor<bool, 1> go;
};
Loop loop_of(int runs) {
  return {zeros<f32>({kSize}).sync(), ones<f32>({kSize}).sync(), full<i32>({1}, runs).sync(),
          full<bool>({1}, runs > 0).sync()};
}
Flow<> once(Loop& s) {
  auto t = co_await clone(s.x);
  co_await kernel<add_scaled<64>>(mut(s.y), 2.0f, t);
  co_await kernel<count_down>(mut(s.left), mut(s.go));
}
Flow<> run_loop(Loop& s) {
  co_await graph_while(s.go, [&] { return once(s); });
}

class GraphControl : public testing::Test {
 protected:
  static void set(Loop& s, int runs) {
    copy_into(mut(s.left), full<i32>({1}, runs)).sync();
    copy_into(mut(s.go), full<bool>({1}, runs > 0)).sync();
  }
  static f32 first(const Tensor<f32, 1>& t) {
    const auto values = host(t).sync();
    EXPECT_EQ(values, all_equal(values[0]));
    return values[0];
  }
};

TEST_F(GraphControl, ALoopRunsTheSameEagerlySpawnedAndCaptured) {
  for (const int runs : {0, 1, 4}) {
    Loop a = loop_of(runs), b = loop_of(runs);
    run_loop(a).sync();
    EXPECT_EQ(first(a.y), 2.0f * static_cast<f32>(runs));
    const Stream stream;
    spawn(run_loop(b), stream).get();
    EXPECT_EQ(first(b.y), 2.0f * static_cast<f32>(runs));
  }
  auto graph = capture(run_loop, loop_of(3));
  EXPECT_EQ(first(graph.input<0>().y), 0) << "capturing runs nothing";
  f32 expected = 0;
  for (const int runs : {3, 0, 1, 5}) {
    set(graph.input<0>(), runs);
    graph.replay().sync();
    EXPECT_EQ(first(graph.input<0>().y), expected += 2.0f * static_cast<f32>(runs));
    EXPECT_EQ(host(graph.input<0>().left).sync()[0], runs > 0 ? 0 : runs);
  }
}

Flow<> branch(Loop& s) {
  co_await graph_if(
      s.left, [&] { return kernel<add_scaled<64>>(mut(s.y), 1.0f, s.x); },
      [&] { return kernel<add_scaled<64>>(mut(s.y), 100.0f, s.x); });
  co_await graph_if(s.go, [&] { return kernel<add_scaled<64>>(mut(s.y), 10.0f, s.x); });
}
TEST_F(GraphControl, ABranchTakesItsBody) {
  auto graph = capture(branch, loop_of(0));
  Loop eager = loop_of(0);
  f32 expected = 0;
  for (const int left : {0, 7, -1}) {
    copy_into(mut(graph.input<0>().left), full<i32>({1}, left)).sync();
    copy_into(mut(eager.left), full<i32>({1}, left)).sync();
    copy_into(mut(graph.input<0>().go), full<bool>({1}, left > 0)).sync();
    copy_into(mut(eager.go), full<bool>({1}, left > 0)).sync();
    graph.replay().sync();
    branch(eager).sync();
    expected += (left != 0 ? 1.0f : 100.0f) + (left > 0 ? 10.0f : 0.0f);
    EXPECT_EQ(first(graph.input<0>().y), expected);
    EXPECT_EQ(first(eager.y), expected);
  }
}

struct Nested {
  Loop outer, inner;
};
Flow<> nested_body(Nested& s) {
  co_await copy_into(mut(s.inner.left), full<i32>(Dims(1), 2));
  co_await copy_into(mut(s.inner.go), full<bool>(Dims(1), true));
  co_await run_loop(s.inner);
  co_await graph_if(s.outer.go, [&] { return kernel<add_scaled<64>>(mut(s.outer.y), 1.0f, s.inner.y); });
  co_await kernel<count_down>(mut(s.outer.left), mut(s.outer.go));
}
Flow<> nested(Nested& s) {
  co_await graph_while(s.outer.go, [&] { return nested_body(s); });
}
TEST_F(GraphControl, LoopsInLoops) {
  Nested eager{loop_of(3), loop_of(0)};
  nested(eager).sync();
  auto graph = capture(nested, Nested{loop_of(3), loop_of(0)});
  graph.replay().sync();
  EXPECT_EQ(first(eager.inner.y), 12);
  EXPECT_EQ(first(graph.input<0>().inner.y), 12);
  EXPECT_EQ(first(eager.outer.y), 4 + 8 + 12);
  EXPECT_EQ(first(graph.input<0>().outer.y), 4 + 8 + 12);
}

Flow<> checked_loop(Loop& s) {
  co_await graph_while(s.left, [&] { return kernel<count_positive>(mut(s.left), s.x); });
}
TEST_F(GraphControl, ABodyThatFails) {
  Loop eager = loop_of(2);
  copy_into(mut(eager.x), full<f32>({kSize}, -1.0f)).sync();
  EXPECT_ERROR(DeviceError, checked_loop(eager).sync(), "x must be positive");
  if (eager.y.device().kind() == DeviceKind::Cuda) return;  // kernels with checks cannot be captured there
  auto graph = capture(checked_loop, loop_of(2));
  graph.replay().sync();
  EXPECT_EQ(host(graph.input<0>().left).sync()[0], 0);
  copy_into(mut(graph.input<0>().x), full<f32>({kSize}, -1.0f)).sync();
  copy_into(mut(graph.input<0>().left), full<i32>({1}, 2)).sync();
  EXPECT_ERROR(DeviceError, graph.replay().sync(), "x must be positive");
  copy_into(mut(graph.input<0>().x), full<f32>({kSize}, 1.0f)).sync();
  copy_into(mut(graph.input<0>().left), full<i32>({1}, 3)).sync();
  graph.replay().sync();
  EXPECT_EQ(host(graph.input<0>().left).sync()[0], 0);
}

Flow<> replace(Loop& s) {
  s.y = co_await clone(s.x);
  co_await kernel<count_down>(mut(s.left), mut(s.go));
}
Flow<> keeps(Loop& s) {
  co_await graph_while(s.go, [&] { return replace(s); });
}
Flow<> swap_and_add(Loop& s) {
  std::swap(s.y, s.x);
  co_await kernel<add_scaled<64>>(mut(s.y), 2.0f, s.x);
  co_await kernel<count_down>(mut(s.left), mut(s.go));
}
Flow<> swaps(Loop& s) {
  co_await graph_while(s.go, [&] { return swap_and_add(s); });
}
Flow<> counts(Loop& s) {
  f32 run = 0;
  co_await graph_while(s.go, [&] { return kernel<add_scaled<64>>(mut(s.y), ++run, s.x); });
}
Flow<> read_left(Loop& s) { (void)co_await host(s.left); }
Flow<> reads(Loop& s) {
  co_await graph_while(s.go, [&] { return read_left(s); });
}
TEST_F(GraphControl, WhatAGraphCouldNotRepeatIsRejected) {
  auto s = loop_of(2);
  EXPECT_ERROR(DeviceError, (void)capture(keeps, std::move(s)), "a tensor that was made in the body");
  auto t = loop_of(2);
  EXPECT_ERROR(DeviceError, (void)capture(swaps, t), "does something else when it is called again");
  EXPECT_ERROR(DeviceError, (void)capture(counts, t), "does something else when it is called again");
  EXPECT_ERROR(DeviceError, (void)capture(reads, t), "reading elements on the host cannot be captured");
  const auto three = ones<i32>({3}).sync();
  EXPECT_ERROR(ShapeError, (void)graph_while(three, [&] { return once(t); }), "found 3");
  auto graph = capture(run_loop, std::move(t));  // the next one works
  graph.replay().sync();
  EXPECT_EQ(first(graph.input<0>().y), 4);
}

Flow<> deep(Loop& s, int depth, int& innermost) {
  if (depth == 0) {
    ++innermost;
    co_await kernel<add_scaled<64>>(mut(s.y), 2.0f, s.x);
    co_return;
  }
  co_await graph_if(s.go, [&s, depth, &innermost] { return deep(s, depth - 1, innermost); });
}
TEST_F(GraphControl, NestedBodiesAreCalledOnceMoreForEachLevel) {
  int innermost = 0;
  auto graph = capture([&](Loop& s) { return deep(s, 12, innermost); }, loop_of(1));
  EXPECT_EQ(innermost, 13) << "not 2^12";
  EXPECT_EQ(graph.work_count(), 1u);
  graph.replay().sync();
  EXPECT_EQ(first(graph.input<0>().y), 2);
  auto s = loop_of(1);
  int run = 0;
  const auto counts_inside = [&](Loop& t) { return deep(t, 3, run); };
  EXPECT_NO_THROW((void)capture(counts_inside, std::move(s))) << "the count is not used";
}

// -- graphs in graphs ------------------------------------------------------------------------------------------------

using Inner = Graph<Tensor<f32, 1>, Tensor<f32, 1>>;
Flow<Tensor<f32, 1>> doubled(Tensor<f32, 1>& x) {
  auto t = co_await clone(x);
  auto y = co_await clone(t);
  co_return co_await kernel<add_scaled<64>>(std::move(y), 1.0f, t);
}
Flow<Tensor<f32, 1>> twice(const Inner& inner, const Tensor<f32, 1>& first, const Tensor<f32, 1>& second) {
  auto sum = co_await zeros<f32>(Dims(kSize));
  co_await inner.replay();
  co_await kernel<add_scaled<64>>(mut(sum), 1.0f, inner.output());
  co_await kernel<add_scaled<64>>(mut(sum), 10.0f, first);
  co_await inner.replay();
  co_await kernel<add_scaled<64>>(mut(sum), 100.0f, inner.output());
  co_await kernel<add_scaled<64>>(mut(sum), 1000.0f - 1.0f, second);
  co_return sum;
}
TEST_F(GraphControl, AReplayInACapturedFlowIsAPartOfItsGraph) {
  const auto one = ones<f32>({kSize}).sync(), zero = zeros<f32>({kSize}).sync();
  auto inner = capture(doubled, full<f32>({kSize}, 3.0f).sync());
  auto outer = capture(twice, inner, one, zero);
  EXPECT_EQ(outer.work_count(), 2 * inner.work_count() + 5);
  outer.replay().sync();
  EXPECT_EQ(first(outer.output()), 6 + 10 + 600);
  copy_into(mut(inner.input<0>()), full<f32>({kSize}, 5.0f)).sync();
  inner.replay().sync();
  outer.replay().sync();
  EXPECT_EQ(first(outer.output()), 10 + 10 + 1000);
  const auto pending = outer.replay();
  EXPECT_ERROR(BorrowError, (void)inner.replay(), "replay of a graph");
}
TEST_F(GraphControl, AGraphKeepsWhatItsPartsNeed) {
  const auto one = ones<f32>({kSize}).sync(), zero = zeros<f32>({kSize}).sync();
  auto inner = std::make_unique<Inner>(capture(doubled, full<f32>({kSize}, 3.0f).sync()));
  auto outer = capture(twice, *inner, one, zero);
  inner.reset();
  for (int i = 0; i < 5; ++i) {
    const auto other = full<f32>({kSize}, 1000.0f).sync();  // takes freed memory, if there is any
    outer.replay().sync();
    EXPECT_EQ(first(outer.output()), 6 + 10 + 600);
  }
  auto second = capture(doubled, full<f32>({kSize}, 3.0f).sync());
  auto around = capture(twice, second, one, zero);
  auto [x, y] = std::move(second).release();
  const auto moved = std::move(y);
  EXPECT_ERROR(BorrowError, around.replay().sync(), "moved, given, shared or replaced");
  EXPECT_EQ(first(x), 3);
}

struct Repeated {
  Tensor<f32, 1> sum;
  Tensor<i32, 1> left;
  Tensor<bool, 1> go;
};
Flow<> add_inner(const Inner& inner, Repeated& s) {
  co_await inner.replay();
  co_await kernel<add_scaled<64>>(mut(s.sum), 1.0f, inner.output());
  co_await kernel<count_down>(mut(s.left), mut(s.go));
}
Flow<> repeat(const Inner& inner, Repeated& s) {
  co_await graph_while(s.go, [&] { return add_inner(inner, s); });
  co_await inner.replay();
  co_await kernel<add_scaled<64>>(mut(s.sum), 100.0f, inner.output());
}
TEST_F(GraphControl, AReplayInALoop) {
  auto inner = capture(doubled, full<f32>({kSize}, 3.0f).sync());
  auto outer =
      capture(repeat, inner, Repeated{zeros<f32>({kSize}).sync(), full<i32>({1}, 4).sync(), ones<bool>({1}).sync()});
  const Stream stream;
  for (int i = 0; i < 3; ++i) outer.replay().on(stream);
  EXPECT_EQ(first(outer.input<0>().sum), 4 * 6 + 3 * 600);
}

// -- numbers ---------------------------------------------------------------------------------------------------------

struct Scaled {
  Tensor<f32, 1> y;
  GraphScalar<f32> b{1.0f};
};
Flow<> scaled(Scaled& s, GraphScalar<f32>& a, const Tensor<f32, 1>& x) {
  co_await kernel<add_scaled<64>>(mut(s.y), a, x);
  auto t = co_await clone(x);
  co_await kernel<add_scaled<64>>(mut(s.y), s.b, t);
}
TEST_F(GraphControl, NumbersChangeForLaterReplays) {
  const auto one = ones<f32>({kSize}).sync();
  auto graph = capture(scaled, Scaled{zeros<f32>({kSize}).sync()}, GraphScalar(2.0f), one);
  static_assert(std::is_same_v<decltype(graph), Graph<void, Scaled, GraphScalar<f32>>>);
  const Stream stream;
  graph.replay().on(stream);
  graph.set<1>(10.0f);
  graph.replay().on(stream);
  graph.set<1>(100.0f);
  graph.set(graph.input<0>().b, 5);
  EXPECT_EQ(graph.input<1>().value(), 100.0f);
  graph.replay().on(stream);
  EXPECT_EQ(first(graph.input<0>().y), 3 + 11 + 105);
  EXPECT_ERROR(ShapeError, graph.set<1>(2000.0f), "the factor must be less than 1000");
  EXPECT_ERROR(ShapeError, graph.set<1>(1e300), "does not fit");
  GraphScalar<f32> other(1.0f);
  EXPECT_ERROR(DeviceError, graph.set(other, 3.0f), "no launch of this graph uses");
  {
    const auto pending = graph.replay();
    EXPECT_ERROR(BorrowError, graph.set<1>(1.0f), "built and not enqueued");
  }
  EXPECT_EQ(graph.input<1>().value(), 100.0f) << "nothing has changed";
  graph.replay().sync();
  EXPECT_EQ(first(graph.input<0>().y), 119 + 105);
  Scaled eager{zeros<f32>({kSize}).sync()};
  GraphScalar<f32> a(4.0f);
  scaled(eager, a, one).sync();
  EXPECT_EQ(first(eager.y), 5) << "an ordinary number outside of graphs";
}
Flow<> frozen(Scaled& s, GraphScalar<f32>& a, const Tensor<f32, 1>& x) {
  co_await kernel<add_scaled<64>>(mut(s.y), 2.0f * a.value(), x);
}
TEST_F(GraphControl, AHostCannotComputeWithThem) {
  const auto one = ones<f32>({kSize}).sync();
  EXPECT_ERROR(DeviceError, (void)capture(frozen, Scaled{zeros<f32>({kSize}).sync()}, GraphScalar(2.0f), one),
               "reading a GraphScalar on the host cannot be captured");
}

// -- memory ----------------------------------------------------------------------------------------------------------

Flow<Tensor<f32, 1>> chain(const Tensor<f32, 1>& x) {
  auto t = co_await clone(x);
  for (int i = 0; i < 6; ++i) {
    auto next = co_await zeros<f32>(Dims(kSize));
    next = co_await kernel<add_scaled<64>>(std::move(next), 2.0f, t);
    t = std::move(next);
  }
  co_return std::move(t);
}
Flow<Tensor<f32, 1>> two_chains(const Tensor<f32, 1>& x) {
  auto [a, b] = co_await fork(chain(x), chain(x));
  co_return co_await kernel<add_scaled<64>>(std::move(a), 1.0f, b);
}
TEST_F(GraphControl, TemporariesShareMemory) {
  const auto x = ones<f32>({kSize}).sync();
  constexpr std::size_t kOne = (kSize * sizeof(f32) + 255) / 256 * 256;
  auto graph = capture(chain, x);
  EXPECT_EQ(graph.memory().temporaries, 6u);
  EXPECT_EQ(graph.memory().temporary_bytes, 6 * kSize * sizeof(f32));
  EXPECT_EQ(graph.memory().planned_bytes, 2 * kOne);
  auto both = capture(two_chains, x);
  EXPECT_EQ(both.memory().temporaries, 13u);
  EXPECT_LE(both.memory().planned_bytes, 5 * kOne);
  EXPECT_GE(both.memory().planned_bytes, 4 * kOne) << "branches may run at the same time";
  for (int i = 0; i < 3; ++i) {
    graph.replay().sync();
    EXPECT_EQ(first(graph.output()), 64);
    both.replay().sync();
    EXPECT_EQ(first(both.output()), 128);
  }
}

// -- what can be captured --------------------------------------------------------------------------------------------

TEST_F(GraphControl, OperationsFlowsAndScopes) {
  auto y = zeros<f32>({kSize}).sync();
  const auto x = ones<f32>({kSize}).sync();
  auto op = capture(kernel<add_scaled<64>>(mut(y), 1.0f, x));
  static_assert(std::is_same_v<decltype(op), Graph<void>>);
  auto flow = capture(chain(x));
  static_assert(std::is_same_v<decltype(flow), Graph<Tensor<f32, 1>>>);
  auto scope = capture(
      [&](const Stream& stream, Tensor<f32, 1>& sum) {
        kernel<add_scaled<64>>(mut(sum), 1.0f, x).on(stream);
        return kernel<add_scaled<64>>(zeros<f32>({kSize}), 3.0f, sum).on(stream);
      },
      zeros<f32>({kSize}).sync());
  static_assert(std::is_same_v<decltype(scope), Graph<Tensor<f32, 1>, Tensor<f32, 1>>>);
  for (int i = 1; i < 3; ++i) {
    op.replay().sync();
    EXPECT_EQ(first(y), static_cast<f32>(i));
    flow.replay().sync();
    EXPECT_EQ(first(flow.output()), 64);
    scope.replay().sync();
    EXPECT_EQ(first(scope.output()), 3.0f * static_cast<f32>(i));
  }
  EXPECT_ERROR(DeviceError, (void)capture([&](const Stream&) { (void)host(x).sync(); }), "cannot be captured");
  EXPECT_ERROR(DeviceError, (void)capture(host(x)), "reading elements on the host cannot be captured");
}

Flow<> uploads(Tensor<f32, 1>& x) {
  const std::vector<f32> values(kSize, 3.0f);
  auto t = co_await from(values, Dims(kSize));
  co_await copy_into(mut(x), t);
}
Flow<> waits(Tensor<f32, 1>& x) {
  copy_into(mut(x), zeros<f32>(Dims(kSize))).sync();
  co_return;
}
Flow<> elsewhere(Tensor<f32, 1>& x, const Stream& stream) {
  copy_into(mut(x), zeros<f32>(Dims(kSize))).on(stream);
  co_return;
}
Flow<> synchronizes(Tensor<f32, 1>&, Stream& stream) {
  stream.synchronize();
  co_return;
}
Flow<> reads_it(Tensor<f32, 1>& x) { (void)co_await host(x); }
Flow<> awaits(Tensor<f32, 1>&, Task<>& task) { co_await task; }
Flow<> nothing() { co_return; }
TEST_F(GraphControl, RejectedCapturesNameTheLine) {
  auto x = ones<f32>({kSize}).sync();
  Stream stream;
  auto task = spawn(nothing());
  const auto line_of = [](auto capture_it) -> unsigned {
    try {
      capture_it();
    } catch (const DeviceError& error) {
      EXPECT_NE(error.message().find("cannot be captured into a graph.\n  "), std::string::npos) << error.message();
      return error.where().line;
    }
    ADD_FAILURE() << "was captured";
    return 0;
  };
  const unsigned first = line_of([&] { (void)capture(uploads, x); });
  EXPECT_GT(first, 0u);
  EXPECT_EQ(line_of([&] { (void)capture(waits, x); }), first + 4);
  EXPECT_EQ(line_of([&] { (void)capture(elsewhere, x, stream); }), first + 8);
  EXPECT_EQ(line_of([&] { (void)capture(synchronizes, x, stream); }), first + 12);
  EXPECT_EQ(line_of([&] { (void)capture(reads_it, x); }), first + 15);
  EXPECT_EQ(line_of([&] { (void)capture(awaits, x, task); }), first + 16);
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
TEST_F(GraphControl, Pictures) {
  const auto one = ones<f32>({kSize}).sync(), zero = zeros<f32>({kSize}).sync();
  auto inner = capture(doubled, full<f32>({kSize}, 3.0f).sync());
  auto outer = capture(twice, inner, one, zero);
  auto loops = capture(nested, Nested{loop_of(3), loop_of(0)});
  auto branches = capture(branch, loop_of(0));
  const std::string own = testing::TempDir() + "control-" + std::to_string(getpid()), dot = own + ".dot",
                    svg = own + ".svg";
  save_graph(loops, dot);
  const std::string text = contents(dot);
  EXPECT_NE(text.find("graph_while\\ngraph_control_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find("label=\"body\""), std::string::npos) << text;
  EXPECT_NE(text.find("kernel count_down"), std::string::npos) << text;
  save_graph(branches, dot);
  EXPECT_NE(contents(dot).find("label=\"else\""), std::string::npos) << contents(dot);
  save_graph(outer, dot);
  EXPECT_NE(contents(dot).find("label=\"graph, replayed at graph_control_test.cpp:"), std::string::npos)
      << contents(dot);
  for (const auto& save : {std::function<void()>([&] { save_graph(loops, svg); }), {[&] { save_graph(outer, svg); }}}) {
    save();
    const std::string picture = contents(svg);
    EXPECT_EQ(picture.rfind("</svg>\n"), picture.size() - 7);
    EXPECT_NE(picture.find("kernel add_scaled"), std::string::npos);
    EXPECT_NE(picture.find("class=\"group\""), std::string::npos);
  }
  std::remove(dot.c_str());
  std::remove(svg.c_str());
}

}  // namespace THIS_FILE
