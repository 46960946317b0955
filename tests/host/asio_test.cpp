// Flows continued by Boost.Asio: the example of another library's event loop (docs/guide/11-asynchrony.md). Skipped
// where its headers are not installed.
#include <gtest/gtest.h>

#include "tessera/base/sanitizers.hpp"
#if __has_include(<boost/asio.hpp>)
#if TESSERA_TSAN  // g++ rejects fences there; the loop's mutex orders what the tests share
#define BOOST_ASIO_DISABLE_FENCED_BLOCK 1
#endif
#include <atomic>
#include <boost/asio.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

namespace THIS_FILE {

using namespace tessera;
namespace asio = boost::asio;

template <int B>
void axpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}
template <int B>
void add_positive(Mut<f32, B> y, Scalar<f32> a) {
  check(a > 0.0f, "a must be positive");
  y.store(y.load() + a);
}

/// Keeps a loop running until the flow has ended: a wait for the device is no work that the loop knows of.
using Guard = asio::executor_work_guard<asio::any_io_executor>;

/// Where a flow was resumed.
struct Places {
  std::atomic<int> running{0}, resumed{0}, elsewhere{0}, at_once{0};
  std::atomic<std::thread::id> loop{};

  void enter() {
    ++resumed;
    if (++running > 1) ++at_once;
    if (loop != std::thread::id() && std::this_thread::get_id() != loop.load()) ++elsewhere;
  }
  void leave() { --running; }
};

Flow<f32> sum(Tensor<f32, 1> y, const Tensor<f32, 1>& x, int steps, Places& places) {
  f32 last = 0;
  for (int i = 0; i < steps; ++i) {
    y = co_await kernel<axpy<128>>(std::move(y), 1.0f, x);
    const auto values = co_await host(y);
    places.enter();
    last = values.front();
    places.leave();
  }
  co_return last;
}
Flow<f32> failing(Tensor<f32, 1> y) {
  y = co_await kernel<add_positive<128>>(std::move(y), -1.0f);
  const auto values = co_await host(y);
  co_return values.front();
}
/// A local variable: parameters of a flow live as long as its task, also after an exception.
Flow<> then_release(Flow<f32> flow, f32& result, Guard guard) {
  const Guard until_the_end = std::move(guard);
  result = co_await std::move(flow);
}

class Asio : public testing::Test {
 protected:
  Tensor<f32, 1> x = ones<f32>({1000}).sync();
  Tensor<f32, 1> zero() { return zeros<f32>({1000}).sync(); }
  static SpawnOptions on(const Stream& stream, asio::any_io_executor executor) {
    return {stream, [executor](FlowStep step) { asio::post(executor, std::move(step)); }};
  }
};

TEST_F(Asio, FlowsContinueOnTheThreadOfTheLoop) {
  asio::io_context io;
  Places places;
  places.loop = std::this_thread::get_id();
  const Stream a, b;
  // First: a flow may end while it is spawned, and a loop whose work has ended is stopped.
  int ticks = 0;
  asio::steady_timer timer(io, std::chrono::milliseconds(0));
  timer.async_wait([&](const boost::system::error_code&) { ++ticks; });
  f32 first = 0, second = 0;
  auto one = spawn(then_release(sum(zero(), x, 20, places), first, Guard(io.get_executor())), on(a, io.get_executor()));
  auto two =
      spawn(then_release(sum(zero(), x, 30, places), second, Guard(io.get_executor())), on(b, io.get_executor()));
  io.run();  // returns when both flows have ended
  EXPECT_TRUE(one.done());
  EXPECT_TRUE(two.done());
  one.get();
  two.get();
  EXPECT_EQ(first, 20);
  EXPECT_EQ(second, 30);
  EXPECT_EQ(ticks, 1) << "other work of the loop runs beside the flows";
  EXPECT_EQ(places.resumed, 50);
  EXPECT_EQ(places.elsewhere, 0);
}

TEST_F(Asio, AFlowRunsOnOneThreadAtATimeOfAPool) {
  asio::thread_pool pool(3);
  std::vector<Places> places(4);
  std::vector<Task<f32>> tasks;
  const Stream stream;
  for (Places& place : places) tasks.push_back(spawn(sum(zero(), x, 10, place), on(stream, pool.get_executor())));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(tasks[i].get(), 10);
    EXPECT_EQ(places[i].resumed, 10);
    EXPECT_EQ(places[i].at_once, 0);
  }
  pool.join();
}

TEST_F(Asio, ErrorsTravelToGetAndNotToTheLoop) {
  asio::io_context io;
  const Stream stream;
  f32 result = 0;
  auto task = spawn(then_release(failing(zero()), result, Guard(io.get_executor())), on(stream, io.get_executor()));
  EXPECT_NO_THROW(io.run());
  EXPECT_ERROR(DeviceError, task.get(), "a must be positive");
}

TEST_F(Asio, ALoopMayEndBeforeItsFlow) {
  Places places;
  const Stream stream;
  {
    asio::io_context io;
    auto task = spawn(sum(zero(), x, 1000, places), on(stream, io.get_executor()));
    io.run_one();
  }  // the task first, then the loop, which may hold a step of it
  EXPECT_LT(places.resumed, 1000);
  EXPECT_EQ(sum(zero(), x, 1, places).sync(stream), 1) << "the next flow works";
}

}  // namespace THIS_FILE

#else
TEST(Asio, FlowsContinueOnTheThreadOfTheLoop) { GTEST_SKIP() << "needs Boost.Asio: apt-get install libboost-dev"; }
#endif
