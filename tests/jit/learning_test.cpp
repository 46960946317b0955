// Kernels that time several codes in their first launches: which one runs, how often, and what is found.
#include "jit/learn/learning_work.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "analysis/support.hpp"
#include "jit/compile/pipeline.hpp"
#include "jit/learn/background.hpp"
#include "jit/learn/learn.hpp"
#include "tessera/base/error.hpp"

namespace THIS_FILE {

using namespace tessera;
using jit::LearningWork;
using jit::LearntResult;

/// A device with a clock of its own: work takes the time that it says, and marks are reached when told.
struct Clock {
  double now = 0;
  bool reaches = true;
  int marks = 0;
};

class Mark final : public runtime::TimeMark {
 public:
  explicit Mark(Clock& clock) : clock_(clock) {}
  void launch(const runtime::LaunchContext&) const override { at_ = clock_.now, ++clock_.marks; }
  double seconds_since(const TimeMark& start) const override { return at_ - static_cast<const Mark&>(start).at_; }
  bool reached() const override { return clock_.reaches; }

 private:
  Clock& clock_;
  mutable double at_ = 0;
};

class Work final : public runtime::Launchable {
 public:
  Work(Clock& clock, double seconds) : clock_(clock), seconds_(seconds) {}
  void launch(const runtime::LaunchContext& c) const override {
    ++runs;
    if (fails) throw DeviceError("it fails");
    clock_.now += seconds_ * (c.args.empty() ? 1.0 : static_cast<double>(c.args[0]));
  }
  const void* native_kernel() const noexcept override { return this; }
  mutable int runs = 0;
  bool fails = false;

 private:
  Clock& clock_;
  double seconds_;
};

struct Rig {
  Clock clock;
  std::shared_ptr<Work> own = std::make_shared<Work>(clock, 10), fast = std::make_shared<Work>(clock, 7),
                        slow = std::make_shared<Work>(clock, 30);
  std::vector<LearntResult> found;
  std::unique_ptr<LearningWork> work = make();

  std::unique_ptr<LearningWork> make() {
    auto made = std::make_unique<LearningWork>(
        own, jit::SizeSlots{0}, [this] { return std::make_shared<const Mark>(clock); },
        [this](const LearntResult& r) { found.push_back(r); });
    made->add("warps=2", slow);
    made->add("warps=8", fast);
    return made;
  }
  int runs() const { return own->runs + fast->runs + slow->runs; }
  void launch(std::uint64_t size = 1) const {
    const std::uint64_t args[] = {size, 77};
    work->launch({{4, 1, 1}, args, {}});
  }
  void launch_until_done(int most = 200) const {
    for (int i = 0; i < most && work->learns(); ++i) launch();
  }
};

TEST(Learning, TheFastestRunsInTheEnd) {
  Rig rig;
  rig.launch();
  EXPECT_EQ(rig.own->runs, 1) << "others are not there yet";
  EXPECT_EQ(rig.clock.marks, 0);
  rig.work->ready();
  int launches = 1;
  for (; rig.work->learns() && launches < 200; ++launches) rig.launch();
  EXPECT_EQ(rig.runs(), launches) << "each launch runs once";
  ASSERT_EQ(rig.found.size(), 1u);
  EXPECT_EQ(rig.found[0].best.hints, "warps=8");
  EXPECT_DOUBLE_EQ(rig.found[0].best.seconds, 7);
  EXPECT_DOUBLE_EQ(rig.found[0].own.seconds, 10);
  EXPECT_EQ(rig.found[0].runner_up.hints, "");
  EXPECT_LT(2 * rig.slow->runs, rig.fast->runs) << "what is far off is measured less";
  const int marks = rig.clock.marks, fast = rig.fast->runs;
  for (int i = 0; i < 5; ++i) rig.launch();
  EXPECT_EQ(rig.fast->runs, fast + 5);
  EXPECT_EQ(rig.clock.marks, marks) << "nothing is timed any more";
  EXPECT_EQ(rig.work->native_kernel(), rig.fast.get());
}

TEST(Learning, TheCompilersChoiceStaysUnlessAnotherIsFaster) {
  Rig rig;
  rig.fast = std::make_shared<Work>(rig.clock, 9.95);
  rig.work = rig.make();
  rig.work->ready();
  rig.launch_until_done();
  ASSERT_EQ(rig.found.size(), 1u);
  EXPECT_EQ(rig.found[0].best.hints, "") << "half a percent is noise";
  EXPECT_EQ(rig.work->native_kernel(), rig.own.get());
}

TEST(Learning, LaunchesOfOtherSizesAreNotCompared) {
  Rig rig;
  rig.work->ready();
  std::mt19937 random(1);
  // A program whose sizes vary: most launches have size 1, a quarter is up to 50 times as large.
  int launches = 0;
  for (; rig.work->learns() && launches < 1000; ++launches) rig.launch(random() % 4 == 0 ? 1 + random() % 50 : 1);
  EXPECT_EQ(rig.runs(), launches);
  ASSERT_EQ(rig.found.size(), 1u);
  EXPECT_EQ(rig.found[0].best.hints, "warps=8");
  EXPECT_DOUBLE_EQ(rig.found[0].best.seconds, 7);
}

TEST(Learning, TurnsToTheSizeThatKeepsComing) {
  Rig rig;
  rig.work->ready();
  rig.launch(5);  // never again
  for (int i = 0; i < 400 && rig.work->learns(); ++i) rig.launch(2);
  ASSERT_EQ(rig.found.size(), 1u);
  EXPECT_DOUBLE_EQ(rig.found[0].best.seconds, 14);
}

TEST(Learning, EndsWhereNoSizeComesTwice) {
  Rig rig;
  rig.work->ready();
  for (std::uint64_t i = 1; i < 6000 && rig.work->learns(); ++i) rig.launch(i);
  EXPECT_FALSE(rig.work->learns());
  EXPECT_TRUE(rig.found.empty());
  EXPECT_EQ(rig.work->native_kernel(), rig.own.get());
}

TEST(Learning, DoesNotWaitForTheDevice) {
  Rig rig;
  rig.clock.reaches = false;
  for (int i = 0; i < 30; ++i)
    rig.work->add("occupancy=" + std::to_string(i + 1), std::make_shared<Work>(rig.clock, 20));
  rig.work->ready();
  for (int i = 0; i < 500; ++i) rig.launch();
  EXPECT_TRUE(rig.found.empty());
  EXPECT_LE(rig.clock.marks, 2 * 32) << "the marks that are out are limited";
  rig.clock.reaches = true;
  rig.launch_until_done(1000);
  EXPECT_EQ(rig.found.size(), 1u);
}

TEST(Learning, NothingIsTimedInAGraph) {
  Rig rig;
  rig.work->ready();
  int node = 0;
  const std::uint64_t args[] = {1};
  for (int i = 0; i < 50; ++i)
    rig.work->launch({.grid = {4, 1, 1}, .args = args, .accesses = {}, .native_node = &node});
  EXPECT_EQ(rig.own->runs, 50);
  EXPECT_EQ(rig.clock.marks, 0);
}

TEST(Learning, AFailureOfTheWorkIsTheLaunchs) {
  Rig rig;
  rig.slow->fails = true;
  rig.work->ready();
  int failures = 0;
  for (int i = 0; i < 10; ++i) {
    try {
      rig.launch();
    } catch (const DeviceError&) { ++failures; }
  }
  EXPECT_GT(failures, 0);
  EXPECT_EQ(rig.runs(), 10) << "no launch ran twice";
}

TEST(Learning, ALaunchThatIsNotTimedRunsOnceToo) {
  Rig rig;
  rig.work->ready();
  rig.launch(1);
  rig.own->fails = true;
  int failures = 0;
  const int before = rig.runs();
  for (int i = 0; i < 20; ++i) {  // of another size: they are not timed
    try {
      rig.launch(2);
    } catch (const DeviceError&) { ++failures; }
  }
  EXPECT_EQ(failures, 20);
  EXPECT_EQ(rig.runs() - before, 20);
}

TEST(Learning, WithoutOthersThereIsNothingToLearn) {
  Rig rig;
  LearningWork alone(
      rig.own, {}, [] { return nullptr; }, [](const LearntResult&) {});
  alone.ready();
  EXPECT_FALSE(alone.learns());
}

TEST(Learning, ThreadsMayLaunchAtTheSameTime) {
  struct Counted final : runtime::Launchable {
    void launch(const runtime::LaunchContext&) const override { ++runs; }
    mutable std::atomic<int> runs{0};
  };
  struct Instant final : runtime::TimeMark {
    void launch(const runtime::LaunchContext&) const override {}
    double seconds_since(const TimeMark&) const override { return 1; }
    bool reached() const override { return true; }
  };
  const auto a = std::make_shared<Counted>(), b = std::make_shared<Counted>();
  std::atomic<int> reports{0};
  LearningWork work(
      a, {}, [] { return std::make_shared<const Instant>(); }, [&](const LearntResult&) { ++reports; });
  work.add("warps=2", b);
  std::vector<std::thread> threads;
  constexpr int kThreads = 4, kLaunches = 2000;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kLaunches; ++i) work.launch({});
    });
  work.ready();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(a->runs + b->runs, kThreads * kLaunches);
  while (work.learns()) work.launch({});
  EXPECT_EQ(reports, 1);
}

void doubled(Mut<f32, 1024> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f); }
void normalised(Mut<f32, 1, 1024> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t / sum(t, axis<1>));
}

/// The numbers of warps that would be tried.
template <auto K>
std::set<int> warps_tried(const std::vector<std::vector<std::int64_t>>& dims, jit::Form form) {
  const test::Recorded r = test::recorded<K>();
  jit::Prepared p = jit::prepare(*r.trace.module, r.facts, r.held(dims), {90, 132}, nullptr, form);
  std::set<int> warps;
  for (const passes::Tuning& t : jit::hints_to_try(p))
    warps.insert(t.warps.value_or(0) == p.choices.warps ? 0 : *t.warps);
  return warps;
}

TEST(HintsToTry, ChangeWarpsOnlyWhereNoOrderMatters) {
  const std::vector<std::vector<std::int64_t>> line{{1 << 20}, {1 << 20}}, rows{{64, 1024}, {64, 1024}};
  EXPECT_GT(warps_tried<&doubled>(line, jit::Form::Chosen).size(), 2u);
  EXPECT_EQ(warps_tried<&normalised>(rows, jit::Form::Chosen), std::set<int>{0}) << "the chosen number alone";
  EXPECT_GT(warps_tried<&doubled>(line, jit::Form::PlainStores).size(), 2u) << "no form changes its results";
  EXPECT_TRUE(warps_tried<&normalised>(rows, jit::Form::PlainStores).empty())
      << "another form may add in another order";
}

TEST(Background, JobsRunInOrderAndMayFail) {
  std::vector<int> order;
  std::atomic<bool> done{false};
  jit::in_background([&] { order.push_back(1); });
  jit::in_background([] { throw std::runtime_error("dropped"); });
  jit::in_background([&] { order.push_back(2), done = true; });
  while (!done) std::this_thread::yield();
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

}  // namespace THIS_FILE
