// What the server watches besides its clients: its own queues, the host's memory, the engine's steps, the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <thread>

#include "mortar/engine/test_engine.hpp"
#include "mortar/eventually.hpp"
#include "mortar/server/server_test.hpp"
#include "server/answer_thread.hpp"
#include "server/host_memory.hpp"
#include "server/metrics.hpp"
#include "server/watchdog.hpp"
#include "server/workers.hpp"

namespace mortar::server {
namespace THIS_FILE {

using namespace std::chrono_literals;
using test::eventually;
using ::testing::DoubleNear;
using ::testing::Optional;

TEST(MortarServerWorkers, TheQueueIsBounded) {
  std::promise<void> begun, go;
  std::atomic<int> done{0};
  Workers workers(1);
  ASSERT_TRUE(workers.post([&] {
    begun.set_value();
    go.get_future().wait();
  }));
  begun.get_future().wait();
  int taken = 0;
  while (taken < 10'000 && workers.post([&] { ++done; })) ++taken;
  EXPECT_EQ(taken, 512);
  go.set_value();
  EXPECT_TRUE(eventually([&] { return done == taken; }));
  EXPECT_TRUE(workers.post([&] { ++done; })) << "there is room again";
  EXPECT_TRUE(eventually([&] { return done == taken + 1; }));
}

TEST(MortarServerWorkers, TheEndWaitsForWhatHasBegunAndTakesNoMore) {
  std::promise<void> begun;
  std::atomic<bool> ended{false}, second{false};
  Workers workers(1);
  workers.post([&] {
    begun.set_value();
    std::this_thread::sleep_for(50ms);
    ended = true;
  });
  const auto held = std::make_shared<int>(0);
  workers.post([&second, held] { second = true; });
  begun.get_future().wait();
  workers.stop();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(second);
  EXPECT_EQ(held.use_count(), 1) << "what was dropped is let go";
  EXPECT_FALSE(workers.post([&] { second = true; }));
  EXPECT_FALSE(second);
}

TEST(MortarServerMemory, ShareThatIsAvailable) {
  EXPECT_THAT(
      available_share("MemTotal:       24678016 kB\nMemFree: 1 kB\nMemAvailable:    2467801 kB\nBuffers: 5 kB\n"),
      Optional(DoubleNear(0.1, 1e-6)));
  for (const char* text : {"", "MemTotal: 5 kB\n", "MemAvailable: 5 kB\n", "MemTotal: 0 kB\nMemAvailable: 0 kB\n",
                           "MemTotal: x\nMemAvailable: 5 kB\n", "MemTotal:\nMemAvailable:", "MemTotal", "\n\n\n"})
    EXPECT_EQ(available_share(text), std::nullopt) << text;
}

TEST(MortarServerMemory, IsReadAnew) {
  const std::string path = std::filesystem::temp_directory_path() / ("meminfo-" + std::to_string(::getpid()));
  const auto write = [&](int available) {
    std::ofstream(path) << "MemTotal: 1000 kB\nMemAvailable: " << available << " kB\n";
  };
  HostMemory memory(path, 0.05), any(path, 0), missing(path + "-none", 0.05);
  write(49);
  EXPECT_TRUE(memory.low());
  EXPECT_FALSE(any.low());
  EXPECT_FALSE(missing.low());
  write(51);
  std::this_thread::sleep_for(150ms);
  EXPECT_FALSE(memory.low());
  std::filesystem::remove(path);
}

TEST(MortarServerMemory, ThisHostSays) {
  std::ifstream file("/proc/meminfo");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto share = available_share(text);
  ASSERT_TRUE(share);
  EXPECT_GT(*share, 0);
  EXPECT_LE(*share, 1);
}

class Steps {
 public:
  explicit Steps(double limit) : watch_(limit) {}
  /// Asks after so many seconds.
  bool late(double after, std::int64_t steps, bool works = true) {
    pass(after);
    EngineStats s;
    s.steps = steps;
    s.waiting = works ? 1 : 0;
    return watch_.overdue(s, now_).has_value();
  }
  /// Steps of so many seconds, beyond the first ones.
  std::int64_t go(double seconds) {
    for (std::int64_t i = 0; i < 100; ++i) EXPECT_FALSE(late(seconds, i));
    return 99;
  }

  void resume(double after) {
    pass(after);
    watch_.resume(now_);
  }

 private:
  void pass(double seconds) {
    now_ += std::chrono::duration_cast<StepWatch::Time::duration>(std::chrono::duration<double>(seconds));
  }
  StepWatch watch_;
  StepWatch::Time now_{std::chrono::hours(1)};
};

TEST(MortarServerWatchdog, AStepThatDoesNotEndIsLate) {
  Steps quick(30);
  const std::int64_t last = quick.go(0.01);
  EXPECT_FALSE(quick.late(29, last));
  EXPECT_TRUE(quick.late(2, last));
  EXPECT_FALSE(quick.late(1, last + 1)) << "it has ended after all";
  EXPECT_FALSE(quick.late(29, last + 1));
}

TEST(MortarServerWatchdog, SlowModelsHaveMoreTime) {
  Steps slow(30);
  const std::int64_t last = slow.go(10);
  EXPECT_FALSE(slow.late(290, last));
  EXPECT_TRUE(slow.late(20, last));
}

TEST(MortarServerWatchdog, TheFirstStepsHaveMoreTime) {
  Steps first(30);
  EXPECT_FALSE(first.late(0, 0));
  EXPECT_FALSE(first.late(299, 0));
  EXPECT_TRUE(first.late(2, 0));
}

TEST(MortarServerWatchdog, NothingIsLateWhereNothingIsToBeDone) {
  Steps idle(30);
  const std::int64_t last = idle.go(0.01);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(idle.late(100, last, false));
  EXPECT_FALSE(idle.late(29, last));
  EXPECT_TRUE(idle.late(2, last));
}

TEST(MortarServerWatchdog, TimeInWhichTheProcessWasStoppedIsNone) {
  Steps stopped(30);
  const std::int64_t last = stopped.go(0.01);
  stopped.resume(1000);
  EXPECT_FALSE(stopped.late(29, last));
  EXPECT_TRUE(stopped.late(2, last));
}

TEST(MortarServerWatchdog, CallsOnceFromItsThread) {
  std::atomic<int> calls{0};
  EngineStats stuck;
  stuck.running = 1;
  {
    Watchdog dog(
        0.01, [&] { return stuck; },
        [&](double seconds, const EngineStats& s) {
          EXPECT_GT(seconds, 0.1);
          EXPECT_EQ(s.running, 1);
          ++calls;
        });
    EXPECT_TRUE(eventually([&] { return calls == 1; }));
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_EQ(calls, 1);
  Watchdog none(
      0, [&] { return ++calls, stuck; }, [&](double, const EngineStats&) { ++calls; });
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(calls, 1);
}

/// Keeps what it is told.
struct Told {
  std::atomic<int> begun{0}, failed{0};
  std::string code;
};
class Teller final : public AnswerWriter {
 public:
  explicit Teller(Told& told) : told_(told) {}
  void begin() override { ++told_.begun; }
  void piece(std::size_t, const Choice&, const Usage&) override {}
  void finished(std::size_t, const Choice&, const Usage&, const Speed*) override {}
  void done(const std::vector<Choice>&, const Usage&, const Speed&) override {}
  void failed(const ApiError& error) override {
    told_.code = error.code;
    ++told_.failed;
  }

 private:
  Told& told_;
};

class MortarServerRuns : public ::testing::Test {
 protected:
  std::shared_ptr<server::Run> make_run() {
    std::vector<RunPrompt> prompts(1);
    prompts[0].request = test::some_request(5, 10);
    return std::make_shared<server::Run>(plain_text().tokenizer(), std::move(prompts), std::make_unique<Teller>(told_),
                                         metrics_);
  }
  Told told_;
  ServerMetrics metrics_{"model", MetricNames::Mortar};
  AnswerThread answers_{0};
};

TEST_F(MortarServerRuns, OneThatComesAfterTheFailureFails) {
  const auto before = make_run(), after = make_run();
  answers_.watch(before);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(told_.failed, 0);
  answers_.fail_all({500, "the engine has failed", "", "engine_failed"});
  EXPECT_EQ(told_.failed, 1);
  answers_.watch(after);
  EXPECT_TRUE(eventually([&] { return told_.failed == 2; }));
  EXPECT_EQ(told_.code, "engine_failed");
  EXPECT_TRUE(after->ended());
}

/// Between watch() and submit() the engine may fail, and the client may leave.
TEST_F(MortarServerRuns, OneThatHasEndedLeavesNothingInTheEngine) {
  Engine engine(test::load_test_model("dense-tied"), {.max_batch = 2, .max_queue = 1});
  const auto run = make_run(), rejected = make_run(), other = make_run();
  run->fail({500, "the engine has failed", "", "engine_failed"});
  run->submit(engine, [](const server::Run::Arrived&) { ADD_FAILURE() << "no request waits for tokens"; });
  other->submit(engine, [](const server::Run::Arrived&) {});
  rejected->abandon();
  EXPECT_NO_THROW(rejected->submit(engine, {})) << "the queue is full, but no client waits for that answer";
  other->abandon();
  engine.run();
  EXPECT_EQ(engine.stats().waiting + engine.stats().running, 0);
  EXPECT_EQ(engine.stats().cancelled, 2);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
  const ServerMetrics::Totals totals = metrics_.totals();
  EXPECT_EQ(totals.received, 3U);
  EXPECT_EQ(totals.failed, 1U);
  EXPECT_EQ(totals.cancelled, 2U);
  const auto full = make_run();
  engine.submit(test::some_request(5, 10), {});
  EXPECT_ANY_THROW(full->submit(engine, {})) << "the twin, which waits";
}

}  // namespace THIS_FILE
}  // namespace mortar::server
