// Structures that users nest as deep as they like: operations that are operands of each other, flows and tasks inside
// flows, tensors that went through DLPack. They run, fail and end on stacks of any size.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "base/small_thread.hpp"
#include "host/expect_error.hpp"
#include "runtime/gate.hpp"
#include "tessera/base/sanitizers.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

using runtime::Gate;

/// More than any stack has room for. The thread sanitizer keeps at most 65536 calls.
constexpr int kDepth = TESSERA_TSAN ? 2000 : TESSERA_ASAN ? 20000 : 100000;
constexpr int kStacks[] = {64, 128, 256, 512, 8192};  // KiB

template <int B>
void add_one(Mut<i32, B> y) {
  y.store(y.load() + 1);
}
using Chain = Op<Tensor<i32, 1>>;

// ---- operations -----------------------------------------------------------------------------------------------------

Chain longer(Chain op, int i) {
  if (i % 4 == 0) return std::move(op).then([](Tensor<i32, 1> t) { return kernel<add_one<8>>(std::move(t)); });
  if (i % 4 == 1) {
    return all(std::move(op)).then([](std::tuple<Tensor<i32, 1>> t) {
      return kernel<add_one<8>>(std::move(std::get<0>(t)));
    });
  }
  if (i % 4 == 2) return reshape(kernel<add_one<8>>(std::move(op)), Dims(8));
  return kernel<add_one<8>>(std::move(op));
}
Chain chain_of(int length) {
  Chain chain = zeros<i32>({8});
  for (int i = 0; i < length; ++i) chain = longer(std::move(chain), i);
  return chain;
}

TEST(Depth, OperationsRunAtAnyDepth) {
  constexpr int kLength = TESSERA_TSAN || TESSERA_ASAN ? 2000 : 30000;
  const Stream stream(Device::cpu());
  EXPECT_EQ(host(chain_of(kLength).on(stream)).sync(stream), std::vector<i32>(8, kLength));
  EXPECT_EQ(host(chain_of(kLength)).sync(), std::vector<i32>(8, kLength));
}

TEST(Depth, OperationsRunOnStacksOfAnySize) {
  for (const int kib : kStacks) {
    std::vector<i32> found;
    on_small_thread(kib, [&] { found = host(chain_of(2000)).sync(); });
    EXPECT_EQ(found, std::vector<i32>(8, 2000)) << kib;
  }
}

TEST(Depth, OperationsThatHaveNotRunEndAtAnyDepth) {
  for (const int kib : kStacks) {
    std::optional<Chain> chain = chain_of(kib == 64 ? kDepth : 3000);
    on_small_thread(kib, [&] { chain.reset(); });
  }
  { const auto dropped = chain_of(kDepth); }
}

TEST(Depth, TheFirstErrorOfAChainLeavesIt) {
  for (const int kib : kStacks) {
    Chain chain = zeros<i32>({8}).then([](Tensor<i32, 1>) -> Chain { throw std::out_of_range("first"); });
    for (int i = 0; i < 2000; ++i) chain = longer(std::move(chain), i);
    EXPECT_THROW(on_small_thread(kib, [&] { (void)std::move(chain).sync(); }), std::out_of_range) << kib;
  }
}

/// Each operation makes the next one when it has run.
Chain counts_down(Tensor<i32, 1> t, int n) {
  return kernel<add_one<8>>(std::move(t)).then([n](Tensor<i32, 1> made) {
    return n == 0 ? clone(std::move(made).view()) : counts_down(std::move(made), n - 1);
  });
}
TEST(Depth, OperationsThatMakeOperationsRunAtAnyDepth) {
  for (const int kib : {64, 8192}) {
    std::vector<i32> found;
    on_small_thread(kib, [&] { found = host(counts_down(zeros<i32>({8}).sync(), 2000)).sync(); });
    EXPECT_EQ(found, std::vector<i32>(8, 2001)) << kib;
  }
}

/// A readback that a flow waits for, at the end of a chain of readbacks.
Flow<int> reads(const Tensor<i32, 1>& x, int n) {
  Op<std::vector<i32>> op = host(x);
  for (int i = 0; i < n; ++i) op = std::move(op).then([&x](const std::vector<i32>&) { return host(x); });
  const std::vector<i32> values = co_await std::move(op);
  co_return static_cast<int>(values.size());
}
TEST(Depth, FlowsAwaitOperationsOfAnyDepth) {
  const auto x = zeros<i32>({8}).sync();
  const Stream stream(Device::cpu());
  int size = 0;
  on_small_thread(64, [&] { size = reads(x, 3000).sync(stream); });
  EXPECT_EQ(size, 8);
}

/// A kernel with loops inside loops, which recording, compiling and evaluating follow.
template <int N>
void add_in_loops(Tile<i32, 8>& t) {
  if constexpr (N == 0) {
    t = t + 1;
  } else {
    for (auto i : range(1)) {
      (void)i;
      add_in_loops<N - 1>(t);
    }
  }
}
template <int N>
void nested(Mut<i32, 8> y) {
  Tile<i32, 8> t = y.load();
  add_in_loops<N>(t);
  y.store(t);
}
TEST(Depth, KernelsCompileAndRunOnStacksOfAnySize) {
  std::vector<i32> found;
  on_small_thread(64, [&] { found = host(kernel<nested<60>>(zeros<i32>({8}))).sync(); });
  EXPECT_EQ(found, std::vector<i32>(8, 1));
}

// ---- flows and tasks ------------------------------------------------------------------------------------------------

enum class End { Returns, Throws, Waits };
/// Each flow holds an object that its end has to destroy.
Flow<int> recurs(int n, End end, const std::shared_ptr<int>& held) {
  const std::shared_ptr<int> own = held;
  if (n > 0) co_return 1 + co_await recurs(n - 1, end, held);
  if (end == End::Throws) throw std::out_of_range("deep");
  if (end == End::Waits) {
    auto t = co_await zeros<i32>(Dims(4));
    (void)co_await host(t);
  }
  co_return 0;
}
Flow<int> around(Flow<int> inner) { co_return 1 + co_await std::move(inner); }

TEST(Depth, FlowsRunAndThrowAtAnyDepth) {
  const auto held = std::make_shared<int>();
  for (const int kib : {64, 8192}) {
    int found = 0;
    on_small_thread(kib, [&] { found = recurs(kDepth, End::Returns, held).sync(); });
    EXPECT_EQ(found, kDepth);
    EXPECT_THROW(on_small_thread(kib, [&] { (void)recurs(kDepth, End::Throws, held).sync(); }), std::out_of_range);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Depth, FlowsAreCancelledAtAnyDepth) {
  const auto held = std::make_shared<int>();
  for (const int kib : kStacks) {
    Gate gate;
    std::optional<Task<int>> task;
    on_small_thread(kib, [&] { task = spawn(recurs(kDepth, End::Waits, held), gate.stream); });
    EXPECT_EQ(held.use_count(), kDepth + 2);
    on_small_thread(kib, [&] { task.reset(); });
    EXPECT_EQ(held.use_count(), 1) << kib;
  }
}

Flow<int> holds(std::shared_ptr<int> held) {
  (void)held;
  co_return 0;
}
TEST(Depth, FlowsThatWereNotStartedEndAtAnyDepth) {
  const auto held = std::make_shared<int>();
  for (const int kib : {64, 512, 8192}) {
    std::optional<Flow<int>> flow = holds(held);
    for (int i = 0; i < kDepth; ++i) flow = around(*std::move(flow));
    on_small_thread(kib, [&] { flow.reset(); });
    EXPECT_EQ(held.use_count(), 1) << kib;
  }
  Flow<int> flow = holds(held);
  for (int i = 0; i < kDepth; ++i) flow = around(std::move(flow));
  EXPECT_EQ(std::move(flow).sync(), kDepth);
}

Flow<int> owns(Task<int> task) { co_return 1 + co_await std::move(task); }
TEST(Depth, TasksInsideTasksEndAtAnyDepth) {
  constexpr int kTasks = TESSERA_TSAN ? 1000 : 20000;
  const auto held = std::make_shared<int>();
  for (const bool cancelled : {true, false}) {
    Gate gate;
    std::optional<Task<int>> task = spawn(recurs(0, End::Waits, held), gate.stream);
    for (int i = 0; i < kTasks; ++i) task = spawn(owns(*std::move(task)));
    if (!cancelled) {
      gate.open();
      EXPECT_EQ(task->get(), kTasks);
    }
    on_small_thread(64, [&] { task.reset(); });
    EXPECT_EQ(held.use_count(), 1);
  }
}

// ---- tensors --------------------------------------------------------------------------------------------------------

TEST(Depth, TensorsGoThroughDlpackAnyNumberOfTimes) {
  auto t = full<i32>({8}, 3).sync();
  for (int i = 0; i < kDepth / 4; ++i) t = from_dlpack<i32, 1>(to_dlpack(std::move(t)));
  EXPECT_EQ(host(t).sync(), std::vector<i32>(8, 3));
  on_small_thread(64, [&] { t = Tensor<i32, 1>(); });
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

struct Counted {
  Tensor<bool, 1> condition;
  Tensor<i32, 1> count;
};
Flow<> branches(Counted& s, int n) {
  co_await kernel<add_one<8>>(mut(s.count));
  if (n > 0) co_await graph_if(s.condition, [&s, n] { return branches(s, n - 1); });
}
TEST(Depth, GraphsHaveALimitOfBranchesInsideEachOther) {
  Counted s{full<bool>({1}, true).sync(), zeros<i32>({8}).sync()};
  auto graph = capture(branches, std::move(s), 64);
  graph.replay().sync();
  EXPECT_EQ(host(graph.input<0>().count).sync(), std::vector<i32>(8, 65));
  EXPECT_FALSE(graph.work_count() == 0);
  Counted other{full<bool>({1}, true).sync(), zeros<i32>({8}).sync()};
  EXPECT_ERROR(DeviceError, (void)capture(branches, std::move(other), 65), "depth_test.cpp", "more than 64 loops");
}

}  // namespace THIS_FILE
}  // namespace tessera
