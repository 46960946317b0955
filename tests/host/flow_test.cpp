// Flows: what co_await does, how they end, and that nothing is lost when they are dropped.
#include "tessera/host/flow.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
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
void add_positive(Mut<f32, B> y, Scalar<f32> a) {
  check(a > 0.0f, "a must be positive");
  y.store(y.load() + a);
}

constexpr std::int64_t kSize = 1000;
std::vector<f32> all_equal(f32 value) { return std::vector<f32>(kSize, value); }

Flow<Tensor<f32, 1>> add_twice(Tensor<f32, 1> y, const Tensor<f32, 1>& x) {
  y = co_await kernel<axpy<128>>(std::move(y), 2.0f, x);
  co_return co_await kernel<axpy<128>>(std::move(y), 3.0f, x);
}
/// Waits for the device in each step.
Flow<std::vector<f32>> sums(Tensor<f32, 1> y, const Tensor<f32, 1>& x, int steps) {
  std::vector<f32> found;
  for (int i = 0; i < steps; ++i) {
    y = co_await add_twice(std::move(y), x);
    const auto values = co_await host(y);
    found.push_back(values.front());
  }
  co_return found;
}
Flow<> write(Tensor<f32, 1>& y, f32 value) { co_await copy_into(mut(y), full<f32>(Dims(kSize), value)); }
Flow<f32> failing(Tensor<f32, 1> y) {
  y = co_await kernel<add_positive<128>>(std::move(y), -1.0f);
  const auto values = co_await host(y);
  co_return values.front();
}

class Flows : public testing::Test {
 protected:
  Tensor<f32, 1> x = ones<f32>({kSize}).sync();
  Tensor<f32, 1> zero() { return zeros<f32>({kSize}).sync(); }
};

TEST_F(Flows, RunBlocking) {
  EXPECT_EQ(host(add_twice(zero(), x).sync()).sync(), all_equal(5));
  const Stream stream;
  EXPECT_EQ(host(add_twice(zero(), x).sync(stream)).sync(), all_equal(5));
  EXPECT_EQ(host(add_twice(zero(), x).on(stream)).sync(), all_equal(5));
  EXPECT_EQ(sums(zero(), x, 3).sync(stream), (std::vector<f32>{5, 10, 15}));
  auto y = zero();
  write(y, 7).sync();
  EXPECT_EQ(host(y).sync(), all_equal(7));
}

TEST_F(Flows, RunAsynchronously) {
  const Stream a, b;
  auto first = spawn(sums(zero(), x, 20), a);
  auto second = spawn(sums(zero(), x, 30), b);
  auto plain = spawn(add_twice(zero(), x));
  EXPECT_EQ(second.get().back(), 150);
  EXPECT_EQ(first.get().back(), 100);
  EXPECT_EQ(host(plain.get()).sync(), all_equal(5));
  EXPECT_ERROR(BorrowError, (void)first.get(), "a task gives its result once");
}

Flow<f32> outer(const Tensor<f32, 1>& x, Task<std::vector<f32>>& task) {
  const auto found = co_await task;
  auto y = co_await full<f32>(Dims(kSize), found.back());
  y = co_await add_twice(std::move(y), x);
  const auto values = co_await host(y);
  co_return values.back();
}
TEST_F(Flows, AwaitTasks) {
  for (const bool blocking : {true, false}) {
    const Stream a, b;
    auto task = spawn(sums(zero(), x, 10), a);
    if (blocking) {
      EXPECT_EQ(outer(x, task).sync(b), 55);
    } else {
      auto waiting = spawn(outer(x, task), b);
      EXPECT_EQ(waiting.get(), 55);
    }
  }
}

Flow<f32> forked(const Tensor<f32, 1>& x) {
  auto y = co_await zeros<f32>(Dims(kSize));
  auto z = co_await zeros<f32>(Dims(kSize));
  auto w = co_await zeros<f32>(Dims(kSize));
  auto [a, found, b] = co_await fork(add_twice(std::move(y), x), sums(std::move(z), x, 5), add_twice(std::move(w), x));
  a = co_await kernel<axpy<128>>(std::move(a), found.back(), b);
  co_await fork(write(b, 1), write(a, 30));
  const auto values = co_await host(a);
  co_return values.front() + found.back();
}
TEST_F(Flows, Fork) {
  const Stream stream;
  EXPECT_EQ(forked(x).sync(), 55);
  EXPECT_EQ(forked(x).sync(stream), 55);
  auto task = spawn(forked(x), stream);
  EXPECT_EQ(task.get(), 55);
}

Flow<f32> catches(Tensor<f32, 1> y) {
  try {
    co_return co_await failing(std::move(y));
  } catch (const DeviceError&) {}
  co_return -1;
}
Flow<f32> forks_a_failure(const Tensor<f32, 1>& x) {
  auto y = co_await zeros<f32>(Dims(kSize));
  auto z = co_await zeros<f32>(Dims(kSize));
  auto [a, b] = co_await fork(failing(std::move(y)), sums(std::move(z), x, 4));
  co_return a + b.front();
}
TEST_F(Flows, ErrorsTravelToWhoeverWaits) {
  const Stream stream;
  EXPECT_ERROR(DeviceError, (void)failing(zero()).sync(), "a must be positive");
  EXPECT_ERROR(DeviceError, (void)failing(zero()).sync(stream), "a must be positive");
  EXPECT_ERROR(DeviceError, (void)forks_a_failure(x).sync(stream), "a must be positive");
  auto task = spawn(failing(zero()), stream);
  EXPECT_ERROR(DeviceError, (void)task.get(), "a must be positive");
  auto forks = spawn(forks_a_failure(x), stream);
  EXPECT_ERROR(DeviceError, (void)forks.get(), "a must be positive");
  EXPECT_EQ(catches(zero()).sync(stream), -1);
  EXPECT_EQ(host(add_twice(zero(), x).sync(stream)).sync(), all_equal(5)) << "the next flow works";
}

/// A failure that no readback of the flow meets.
Flow<> fails_unseen(Tensor<f32, 1>& y) { co_await kernel<add_positive<128>>(mut(y), -1.0f); }
TEST_F(Flows, SyncAndGetThrowWhatTheWorkThrew) {
  const Stream stream;
  auto y = zero();
  EXPECT_ERROR(DeviceError, fails_unseen(y).sync(stream), "a must be positive");
  auto z = zero();
  auto task = spawn(fails_unseen(z), stream);
  EXPECT_ERROR(DeviceError, task.get(), "a must be positive");
}

Flow<> wrong_shape(Tensor<f32, 1>& y) {
  const auto other = co_await ones<f32>(Dims(kSize + 1));
  co_await copy_into(mut(y), other);  // the line that the error names
}
TEST_F(Flows, ErrorsHaveTheLineOfTheOperation) {
  auto y = zero();
  constexpr int kLine = __LINE__ - 4;
  try {
    wrong_shape(y).sync();
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.where().line, static_cast<std::uint32_t>(kLine)) << error.what();
  }
}

TEST_F(Flows, AreRunOnce) {
  auto flow = add_twice(zero(), x);
  auto moved = std::move(flow);
  EXPECT_EQ(host(std::move(moved).sync()).sync(), all_equal(5));
  // NOLINTNEXTLINE(bugprone-use-after-move): a moved flow says so
  EXPECT_ERROR(BorrowError, (void)std::move(moved).sync(), "this flow has been run or moved already");
  // NOLINTNEXTLINE(bugprone-use-after-move): a moved flow says so
  EXPECT_ERROR(BorrowError, (void)spawn(std::move(flow)), "this flow has been run or moved already");
}

TEST_F(Flows, ThatNeverRunHoldTheirArgumentsOnly) {
  auto y = zero();
  { const auto flow = add_twice(std::move(y), x); }
  {
    auto y2 = zero();
    const auto flow = write(y2, 2);
  }
  EXPECT_EQ(host(x).sync(), all_equal(1));
}

struct CountsDown {
  std::atomic<int>* left;
  explicit CountsDown(std::atomic<int>& n) : left(&n) {}
  CountsDown(CountsDown&& other) noexcept : left(std::exchange(other.left, nullptr)) {}
  ~CountsDown() {
    if (left != nullptr) --*left;
  }
};
Flow<> waits_often(Tensor<f32, 1> y, const Tensor<f32, 1>& x, CountsDown, int steps) {
  for (int i = 0; i < steps; ++i) {
    y = co_await add_twice(std::move(y), x);
    (void)co_await host(y);
  }
}
TEST_F(Flows, DroppedTasksEndTheirFrames) {
  std::atomic<int> left{0};
  const Stream stream;
  for (int i = 0; i < 50; ++i) {
    ++left;
    auto task = spawn(waits_often(zero(), x, CountsDown(left), 1000), stream);
    if (i % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
    if (i % 3 == 2) {
      auto other = std::move(task);
      ++left;
      other = spawn(waits_often(zero(), x, CountsDown(left), 2), stream);  // cancels the first
      other.get();
    }
  }
  EXPECT_EQ(left, 0);
  EXPECT_EQ(sums(zero(), x, 1).sync(stream), std::vector<f32>{5});
}

/// An event loop of one thread.
struct Loop {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<FlowStep> work;
  FlowPost poster() {
    return [this](FlowStep step) {
      std::lock_guard lock(mutex);
      work.push_back(std::move(step));
      changed.notify_one();
    };
  }
  void run_one() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !work.empty(); });
    const FlowStep step = std::move(work.front());
    work.pop_front();
    lock.unlock();
    step();
  }
};
Flow<bool> stays_here(Tensor<f32, 1> y, const Tensor<f32, 1>& x, std::thread::id here) {
  bool same = true;
  for (int i = 0; i < 10; ++i) {
    y = co_await add_twice(std::move(y), x);
    (void)co_await host(y);
    same = same && std::this_thread::get_id() == here;
  }
  co_return same;
}
TEST_F(Flows, ContinueOnAnEventLoop) {
  Loop loop;
  const Stream stream;
  auto task = spawn(stays_here(zero(), x, std::this_thread::get_id()), SpawnOptions{stream, loop.poster()});
  while (!task.done()) loop.run_one();
  EXPECT_TRUE(task.get());
}
Flow<> awaits(Task<>& task) { co_await task; }
TEST_F(Flows, DroppedBeforeTheLoopContinuesThem) {
  Loop loop;
  std::atomic<int> left{1};
  {
    const Stream stream;
    auto task = spawn(waits_often(zero(), x, CountsDown(left), 1000), SpawnOptions{stream, loop.poster()});
    loop.run_one();
  }
  EXPECT_EQ(left, 0);
  while (!loop.work.empty()) loop.run_one();  // what was posted does nothing
}

TEST_F(Flows, AnEventLoopThatTakesNothingIsAnErrorOfTheTask) {
  const Stream stream;
  std::atomic<int> left{2};
  const FlowPost closed = [](const FlowStep&) { throw std::runtime_error("the loop is closed"); };
  auto task = spawn(waits_often(zero(), x, CountsDown(left), 1000), SpawnOptions{stream, closed});
  EXPECT_THROW(task.get(), std::runtime_error);
  auto inner = spawn(waits_often(zero(), x, CountsDown(left), 1000), SpawnOptions{stream, closed});
  EXPECT_THROW(awaits(inner).sync(), std::runtime_error);
  { const auto drop_both = std::pair(std::move(task), std::move(inner)); }
  EXPECT_EQ(left, 0);
  EXPECT_EQ(sums(zero(), x, 1).sync(stream), std::vector<f32>{5}) << "the next flow works";
}

Flow<int> nested(int depth) {
  if (depth == 0) co_return 0;
  co_return 1 + co_await nested(depth - 1);
}
TEST_F(Flows, NestDeeplyAndAwaitOften) {
  EXPECT_EQ(nested(2000).sync(), 2000);
  auto task = spawn(nested(2000));
  EXPECT_EQ(task.get(), 2000);
}

Flow<> many(TESSERA_ARG_LIVE Tensor<f32, 1>& y, const Tensor<f32, 1>& x) {
  for (int i = 0; i < 5000; ++i) co_await kernel<axpy<128>>(mut(y), 1.0f, x);
}
TEST_F(Flows, ManyOperationsFromManyThreadsOnOneStream) {
  const Stream stream;
  std::vector<std::thread> threads;
  std::vector<Tensor<f32, 1>> ys;
  for (int i = 0; i < 4; ++i) ys.push_back(zero());
  for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { many(ys[static_cast<std::size_t>(i)], x).sync(stream); });
  for (std::thread& t : threads) t.join();
  for (const auto& y : ys) EXPECT_EQ(host(y).sync(), all_equal(5000));
}

template <class X>
concept CanBeAwaitedByName = requires(X x) { std::move(x).sync(); };
static_assert(CanBeAwaitedByName<Flow<int>>);
static_assert(!std::is_copy_constructible_v<Flow<int>> && !std::is_copy_constructible_v<Task<int>>);

}  // namespace THIS_FILE
