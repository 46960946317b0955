// Recordings as graphs of the CUDA backend, on the fake driver, which runs the branches of a graph in any legal order.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/graph_programs.hpp"
#include "tessera/base/error.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

struct Mix {
  std::size_t y, x;
  std::uint64_t addend;
};

/// Captures `program` over `storages`.
std::shared_ptr<GraphRecording> record(Rig& rig, const std::vector<Mix>& program,
                                       const std::vector<StorageRef>& storages) {
  auto recording = std::make_shared<GraphRecording>(rig.device());
  const CaptureScope scope(*recording, {});
  const Stream stream(scope.stream());
  const auto mix = rig.load("mix");
  for (const Mix& m : program) rig.mix(mix, stream, storages[m.y], storages[m.x], m.addend);
  return recording;
}

TEST(CudaGraph, BranchesRunInAnyOrderAndGiveTheResultsOfTheProgram) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    std::mt19937_64 random(seed);
    Rig rig(1, seed % 4 == 0 ? 12020 : 13000);
    const std::size_t count = 2 + random() % 6;
    std::vector<StorageRef> storages;
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < count; ++i) {
      expected.push_back(random() % 1000);
      storages.push_back(rig.make(expected.back()));
    }
    std::vector<Mix> program;
    for (std::size_t i = 0; i < 1 + random() % 30; ++i) {
      const std::size_t y = random() % count, x = (y + 1 + random() % (count - 1)) % count;
      program.push_back({y, x, random() % 100});
    }
    const auto recording = record(rig, program, storages);
    const auto graph = rig.backend.make_graph(recording);
    const Stream a(rig.device()), b(rig.device());
    const std::size_t replays = random() % 4;
    for (std::size_t i = 0; i < replays; ++i) {
      replay(graph, *recording, i % 2 == 0 ? a : b);
      for (const Mix& m : program) expected[m.y] = expected[m.y] * 31 + expected[m.x] + m.addend;
    }
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(rig.read(storages[i]), expected[i]) << seed << ' ' << i;
    EXPECT_EQ(rig.driver.violation(), "") << seed;
  }
}

TEST(CudaGraph, EveryFailingCallOfACaptureLosesNothing) {
  for (int k = 0;; ++k) {
    Rig rig;
    std::vector<StorageRef> storages;
    for (std::uint64_t i = 0; i < 4; ++i) storages.push_back(rig.make(i));
    const std::vector<Mix> program{{0, 1, 1}, {2, 3, 2}, {0, 2, 3}, {3, 1, 4}};
    const auto recording = record(rig, program, storages);
    const std::size_t streams = rig.backend.streams().in_use();
    const std::string leaks = rig.driver.leaks();
    rig.driver.fail_at(k);
    bool made = false;
    try {
      const auto graph = rig.backend.make_graph(recording);
      made = true;
    } catch (const DeviceError&) {}
    const bool failed = rig.driver.fault_happened();
    rig.driver.heal();
    EXPECT_EQ(rig.backend.streams().in_use(), streams) << k;
    if (!failed) {
      EXPECT_TRUE(made);
      break;
    }
    const auto graph = rig.backend.make_graph(recording);  // the next one works
    const Stream stream(rig.device());
    replay(graph, *recording, stream);
    EXPECT_EQ(rig.read(storages[0]), (0u * 31 + 1 + 1) * 31 + (2u * 31 + 3 + 2) + 3) << k;
    EXPECT_EQ(rig.driver.violation(), "") << k;
  }
}

/// A kernel during whose capture another thread drops a graph, which waits for the device.
class DropsAGraph final : public Launchable {
 public:
  DropsAGraph(std::shared_ptr<const Launchable> kernel, std::shared_ptr<const GraphWork> graph)
      : kernel_(std::move(kernel)), graph_(std::move(graph)) {}
  ~DropsAGraph() override {
    if (dropper_.joinable()) dropper_.join();
  }
  void launch(const LaunchContext& context) const override {
    if (graph_) {
      dropper_ = std::thread([graph = std::move(graph_)]() mutable { graph.reset(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    kernel_->launch(context);
  }

 private:
  std::shared_ptr<const Launchable> kernel_;
  mutable std::shared_ptr<const GraphWork> graph_;
  mutable std::thread dropper_;
};

TEST(CudaGraph, ACaptureIsNotDisturbedByAnotherThreadThatDropsAGraph) {
  Rig rig;
  const auto y = rig.make(1), x = rig.make(2);
  auto old = rig.backend.make_graph(record(rig, {{0, 1, 0}}, {y, x}));
  auto recording = std::make_shared<GraphRecording>(rig.device());
  {
    const CaptureScope scope(*recording, {});
    rig.mix(std::make_shared<DropsAGraph>(rig.load("mix"), std::move(old)), Stream(scope.stream()), y, x);
  }
  const auto graph = rig.backend.make_graph(recording);
  replay(graph, *recording, Stream(rig.device()));
  EXPECT_EQ(rig.read(y), 31u + 2);
  EXPECT_EQ(rig.driver.violation(), "");
}

TEST(CudaGraph, KernelsWithChecksAreRejected) {
  Rig rig;
  const auto y = rig.make(1), x = rig.make(2);
  auto recording = std::make_shared<GraphRecording>(rig.device());
  {
    const CaptureScope scope(*recording, {});
    rig.mix(rig.load("checked"), Stream(scope.stream()), y, x);
  }
  EXPECT_THROW((void)rig.backend.make_graph(recording), DeviceError);
  EXPECT_EQ(rig.driver.violation(), "");
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
