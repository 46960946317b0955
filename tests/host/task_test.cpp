// Tasks under misuse: awaited twice or in a circle, destroyed too early, waited for on the thread that has to continue
// them, left by their event loop or by their process. Work is held by gates, so that nothing depends on timing.
#include "tessera/host/task.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/expect_error.hpp"
#include "runtime/gate.hpp"
#include "runtime/in_child.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

using runtime::Gate;

/// Waits behind the gate of its stream, then ends.
Flow<float> waits(float value) {
  auto t = co_await full<f32>(Dims(4), value);
  const auto values = co_await host(t);
  co_return values[0];
}
Flow<float> awaits(Task<float>& task) { co_return co_await task; }
Flow<float> awaits_given(Task<float> task) { co_return co_await std::move(task); }

// ---- awaiting -------------------------------------------------------------------------------------------------------

Flow<int> one() { co_return 1; }
Flow<int> sum_of(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += co_await one();
  co_return sum;
}
Flow<int> sum_of_forks(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    auto [a, b] = co_await fork(one(), sum_of(2));
    sum += a + b;
  }
  co_return sum;
}
TEST(FlowLoops, OfAnyLengthNeedNoStack) {
  EXPECT_EQ(sum_of(200000).sync(), 200000);
  auto task = spawn(sum_of(200000));
  EXPECT_EQ(task.get(), 200000);
  EXPECT_EQ(sum_of_forks(20000).sync(), 60000);
}

Flow<float> both(Task<float>& task) {
  auto [a, b] = co_await fork(awaits(task), awaits(task));
  co_return a + b;
}
TEST(Tasks, GiveTheirResultToOneFlowOnly) {
  {
    Gate gate;
    auto task = spawn(waits(3), gate.stream);
    std::thread opens([&] { gate.open(); });
    EXPECT_ERROR(BorrowError, (void)both(task).sync(), "task_test.cpp", "gives its result once");
    opens.join();
  }
  Gate gate;
  auto task = spawn(waits(3), gate.stream);
  auto first = spawn(awaits(task)), second = spawn(awaits(task));
  EXPECT_ERROR(BorrowError, (void)second.get(), "another flow awaits this task already");
  EXPECT_ERROR(BorrowError, (void)task.get(), "get() of a task that a flow awaits");
  gate.open();
  EXPECT_EQ(first.get(), 3) << "the first one has it";
  EXPECT_ERROR(BorrowError, (void)task.get(), "task_test.cpp", "has been taken");
  EXPECT_ERROR(BorrowError, (void)awaits(task).sync(), "has been taken");
}

TEST(Tasks, GiveTheirResultOnceToAThreadAndAFlow) {
  Gate gate;
  auto task = spawn(waits(3), gate.stream);
  int results = 0;
  std::thread thread([&] {
    try {
      results += task.get() == 3 ? 1 : 100;
    } catch (const BorrowError&) {}
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // now the thread waits, most likely
  auto flow = spawn(awaits(task));
  gate.open();
  int of_flow = 0;
  try {
    of_flow = flow.get() == 3 ? 1 : 100;
  } catch (const BorrowError&) {}
  thread.join();
  EXPECT_EQ(results + of_flow, 1);
}

TEST(Tasks, DestroyedWhileAFlowAwaitsThemAreAnErrorThere) {
  Gate gate;
  std::optional task(spawn(waits(3), gate.stream));
  auto waiting = spawn(awaits(*task));
  task.reset();
  EXPECT_ERROR(BorrowError, (void)waiting.get(), "task_test.cpp", "the task that this flow awaits was destroyed");
  auto other = spawn(waits(4), gate.stream);
  { auto dropped = spawn(awaits(other)); }  // the flow that awaits: the task is as before
  auto kept = spawn(awaits_given(std::move(other)));
  gate.open();
  EXPECT_EQ(kept.get(), 4);
}

Flow<float> awaits_later(Task<float>*& task) {
  auto t = co_await zeros<f32>(Dims(4));
  (void)co_await host(t);
  co_return co_await *task;
}
TEST(Tasks, ThatAwaitEachOtherAreAnError) {
  Gate gate;
  Task<float>*ours = nullptr, *theirs = nullptr, *own = nullptr, *plain = nullptr;
  auto first = spawn(awaits_later(theirs), gate.stream), second = spawn(awaits_later(ours), gate.stream);
  auto third = spawn(awaits_later(own), gate.stream);
  auto end = spawn(waits(5), gate.stream), last = spawn(awaits_later(plain), gate.stream);
  ours = &first, theirs = &second, own = &third, plain = &end;
  gate.open();
  EXPECT_ERROR(DeviceError, (void)first.get(), "neither could ever end");
  EXPECT_ERROR(DeviceError, (void)third.get(), "task_test.cpp", "itself waits for this flow");
  EXPECT_EQ(last.get(), 5) << "a chain without a circle";
}

Flow<int> counts(Task<int>& before) { co_return 1 + co_await before; }
Flow<int> first_of_a_chain() { co_return static_cast<int>(co_await waits(1)); }
TEST(Tasks, AChainOfAnyLengthNeedsNoStack) {
  Gate gate;
  std::vector<Task<int>> tasks;
  tasks.reserve(30000);  // flows refer to them
  tasks.push_back(spawn(first_of_a_chain(), gate.stream));
  while (tasks.size() < 30000) tasks.push_back(spawn(counts(tasks.back())));
  gate.open();
  EXPECT_EQ(tasks.back().get(), 30000);
}

// ---- waiting on the thread that continues ---------------------------------------------------------------------------

enum class How { Get, Sync, Await };
/// Continued by the library's thread, it waits for the task.
Flow<float> waits_for(Task<float>& task, How how) {
  auto t = co_await zeros<f32>(Dims(4));
  (void)co_await host(t);
  if (how == How::Get) co_return task.get();
  if (how == How::Sync) co_return awaits(task).sync();
  co_return co_await awaits(task);
}
TEST(Tasks, AreNotWaitedForOnTheThreadThatContinuesThem) {
  for (const How how : {How::Get, How::Sync, How::Await}) {
    Gate of_task, of_flow;
    auto task = spawn(waits(3), of_task.stream);
    auto flow = spawn(waits_for(task, how), of_flow.stream);
    of_flow.open();
    if (how == How::Get)
      EXPECT_ERROR(DeviceError, (void)flow.get(), "task_test.cpp", "would wait for ever.", "co_await task");
    if (how == How::Sync)
      EXPECT_ERROR(DeviceError, (void)flow.get(), "task_test.cpp", "would wait for ever.", "co_await for the flow");
    of_task.open();
    EXPECT_EQ(how == How::Await ? flow.get() : task.get(), 3);
  }
}

/// An event loop of one thread.
struct Loop {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<FlowStep> work;
  FlowPost post = [this](FlowStep step) {
    std::lock_guard lock(mutex);
    work.push_back(std::move(step));
    changed.notify_one();
  };
  FlowStep take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !work.empty(); });
    FlowStep step = std::move(work.front());
    work.pop_front();
    return step;
  }
};
TEST(Tasks, AreNotWaitedForOnTheLoopThatContinuesThem) {
  for (const How how : {How::Get, How::Sync, How::Await}) {
    Loop loop;
    Gate of_task, of_flow;
    auto task = spawn(waits(3), {of_task.stream, loop.post});
    auto flow = spawn(waits_for(task, how), {of_flow.stream, loop.post});
    of_flow.open();
    loop.take()();
    if (how != How::Await) EXPECT_ERROR(DeviceError, (void)flow.get(), "would wait for ever.");
    of_task.open();
    loop.take()();
    if (how == How::Await) loop.take()();
    EXPECT_EQ(how == How::Await ? flow.get() : task.get(), 3);
  }
}

// ---- event loops ----------------------------------------------------------------------------------------------------

TEST(Tasks, WhoseStepsAreDroppedEndWithAnError) {
  Loop loop;
  {
    Gate gate;
    auto task = spawn(waits(3), {gate.stream, loop.post});
    auto waiting = spawn(awaits(task), {{}, loop.post});
    gate.open();
    (void)loop.take();                  // and not called, as by a loop that is destroyed
    const FlowStep next = loop.take();  // of the flow that awaits the task, which has ended by then
    EXPECT_TRUE(task.done());
    next();
    EXPECT_ERROR(DeviceError, (void)waiting.get(), "task_test.cpp", "has dropped a step");
  }
  Gate gate;
  auto task = spawn(waits(4), {gate.stream, loop.post});
  gate.open();
  const FlowStep step = loop.take();
  const FlowStep copy = step;  // NOLINT(performance-unnecessary-copy-initialization): what loops do
  copy();
  step();  // once more: nothing is left to do
  EXPECT_EQ(task.get(), 4);
  step();
}

Flow<int> waits_often(const std::shared_ptr<int>& held, int depth) {
  const std::shared_ptr<int> copy = held;
  int sum = 0;
  for (int i = 0; i < 2; ++i) {
    auto t = co_await zeros<f32>(Dims(4));
    (void)co_await host(t);
    if (depth > 0) {
      auto [a, b] = co_await fork(waits_often(copy, depth - 1), waits_often(copy, 0));
      sum += a + b;
    }
  }
  co_return sum + 1;
}
TEST(Tasks, MayBeDroppedAtEachSuspension) {
  Loop loop;
  const auto held = std::make_shared<int>(0);
  bool ended = false;
  for (int steps = 0; !ended; ++steps) {
    ASSERT_LT(steps, 1000);
    Gate gate;
    auto task = spawn(waits_often(held, 2), {gate.stream, loop.post});
    gate.open();
    for (int i = 0; i < steps && !task.done(); ++i) loop.take()();
    ended = task.done();
    const int result = ended ? task.get() : 13;
    EXPECT_EQ(result, 13);
    { const auto dropped = std::move(task); }
    EXPECT_EQ(held.use_count(), 1) << "after " << steps << " steps";
    const std::lock_guard lock(loop.mutex);
    loop.work.clear();
  }
}

TEST(Tasks, MayGoBeforeTheirSteps) {
  Loop loop;
  {
    Gate gate;
    auto task = spawn(waits(3), {gate.stream, loop.post});
    gate.open();
    while (true) {
      std::lock_guard lock(loop.mutex);
      if (!loop.work.empty()) break;
    }
  }
  loop.take()();
}

// ---- the library's thread -------------------------------------------------------------------------------------------

/// A device whose events ask a function whether they are done.
bool (*event_is_done)() = nullptr;
class AskedDevice final : public runtime::Backend {
 public:
  ~AskedDevice() override { close_default_stream(); }
  DeviceKind kind() const noexcept override { return DeviceKind::Fake; }
  int ordinal() const noexcept override { return 0; }
  const std::string& name() const noexcept override { return name_; }
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
  void free(void* memory, std::size_t) noexcept override { std::free(memory); }
  std::unique_ptr<runtime::Queue> make_queue(bool, std::shared_ptr<runtime::QueueObserver>) override {
    return std::make_unique<Queue>(*this);
  }
  bool queues_hold_storages() const noexcept override { return false; }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override { std::memset(to, value, bytes); }
  bool host_accessible() const noexcept override { return true; }

 private:
  struct Event final : runtime::Event {
    explicit Event(const Backend& device) : backend_(device) {}
    bool done() const override { return event_is_done(); }
    void wait() const override {}
    const Backend& backend() const noexcept override { return backend_; }
    const Backend& backend_;
  };
  struct Queue final : runtime::Queue {
    explicit Queue(AskedDevice& device) : device_(device) {}
    void launch(const runtime::Submission&, std::uint64_t) override {}
    runtime::EventRef record() override { return std::make_shared<Event>(device_); }
    void wait(const runtime::EventRef&) override {}
    void release(runtime::Retired& memory) override { std::free(memory.memory); }
    void synchronize() override {}
    AskedDevice& device_;
  };
  std::string name_ = "asked";
};
std::thread::id test_thread;
std::atomic<bool> asked, answer, later;
bool waiter_asks() {
  if (std::this_thread::get_id() == test_thread) return false;
  if (!answer) {
    asked = true;
    while (!answer) std::this_thread::yield();
    return true;
  }
  return later;
}
Flow<> reads(const Tensor<f32, 1>& x, const void** frame) {
  int here = 0;
  *frame = &here;
  (void)co_await host(x);
}
TEST(Tasks, AWaitOfAFrameAtTheAddressOfOneThatHasEndedIsItsOwn) {
  static AskedDevice& device = *new AskedDevice;
  test_thread = std::this_thread::get_id();
  asked = answer = later = false;
  event_is_done = waiter_asks;
  const Stream stream{Device(device)};
  const auto x = zeros<f32>({4}).on(stream);
  const void *first = nullptr, *second = nullptr;
  std::optional task(spawn(reads(x, &first), stream));
  while (!asked) std::this_thread::yield();  // the library's thread has taken the wait, and looks at its event
  task.reset();
  auto other = spawn(reads(x, &second), stream);
  answer = true;  // the work of the first has ended
  later = true;
  for (int i = 0; i < 5000 && !other.done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(other.done()) << "frames at " << first << " and " << second;
}

struct AtTheEnd {
  ~AtTheEnd() {
    try {
      Gate gate;
      auto task = spawn(waits(3), gate.stream);
      gate.open();
      (void)task.get();
    } catch (const Error& error) { std::fprintf(stderr, "%s\n", error.what()); }
  }
};
TEST(TasksDeathTest, AreAnErrorWhenStaticVariablesAreDestroyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto program = [](bool waits_first) {
    static const AtTheEnd at_the_end;
    Gate gate;
    auto task = spawn(waits(3), gate.stream);
    gate.open();
    if (waits_first) (void)task.get();
    std::exit(0);
  };
  EXPECT_EXIT(program(true), ::testing::ExitedWithCode(0), "task_test.cpp:.*static variables are destroyed");
}

// ---- fork() ---------------------------------------------------------------------------------------------------------

TEST(Tasks, OfTheParentAreAnErrorInAChildOfFork) {
  Gate gate;
  auto task = spawn(waits(3), gate.stream), ended = spawn(waits(4), Stream::default_of(Device::cpu()));
  const std::string text = in_child([&] {
    std::string found = outcome<DeviceError>([&] { (void)task.get(); });
    found += outcome<DeviceError>([&] { (void)task.done(); });
    found += outcome<DeviceError>([&] { (void)awaits(task).sync(); });
    found += outcome<DeviceError>([&] { EXPECT_EQ(ended.get(), 4); });
    { auto dropped = std::move(task); }
    auto own = spawn(waits(5), Stream::default_of(Device::cpu()));
    return found + std::to_string(own.get());
  });
  std::size_t errors = 0;
  for (std::size_t at = 0; (at = text.find("this task was started by the process", at)) != text.npos; ++at) ++errors;
  EXPECT_EQ(errors, 3u) << text;
  EXPECT_NE(text.find("ok5.000000"), std::string::npos) << text;
  gate.open();
  EXPECT_EQ(task.get(), 3) << "the parent goes on";
}

// ---- runs inside flows ----------------------------------------------------------------------------------------------

template <int B>
void roots(Mut<f32, B> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  check(t >= 0.0f, "negative");
  y.store(sqrt(t));
}
Flow<> inner(Tensor<f32, 1>& y, const Tensor<f32, 1>& x) { co_await kernel<roots<64>>(mut(y), x); }
Flow<> outer(Tensor<f32, 1>& y, const Tensor<f32, 1>& x, const Stream& stream) {
  inner(y, x).on(stream);
  co_return;
}
TEST(FlowRuns, InsideAFlowAreItsWork) {
  const Stream stream(Device::cpu());
  auto y = zeros<f32>({64}).sync();
  const auto bad = full<f32>({64}, -1.0f).sync(), good = full<f32>({64}, 4.0f).sync();
  EXPECT_ERROR(DeviceError, outer(y, bad, stream).sync(), "negative");
  y = zeros<f32>({64}).sync();  // without the failure
  outer(y, good, stream).sync();
  EXPECT_EQ(host(y).sync()[0], 2);
}

Flow<int> forks_moved(Flow<int> flow) {
  auto taken = std::move(flow);
  (void)co_await std::move(taken);
  // NOLINTNEXTLINE(bugprone-use-after-move): a moved flow says so
  auto [a, b] = co_await fork(std::move(taken), one());
  co_return a + b;
}
TEST(FlowRuns, AMovedFlowInAForkIsAnErrorWithTheLine) {
  EXPECT_ERROR(BorrowError, (void)forks_moved(one()).sync(), "task_test.cpp:", "this flow has been run or moved");
}

}  // namespace THIS_FILE
}  // namespace tessera
