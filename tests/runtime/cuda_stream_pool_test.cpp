// Streams of the driver are used again, not destroyed: drivers crash later if there are graphs (StreamPool).
#include <gtest/gtest.h>

#include "runtime/graph_programs.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

using Kind = Statement::Kind;

/// A stream lives as long as memory that was used on it last.
void use_and_drop_a_stream(Rig& rig, const std::shared_ptr<const Launchable>& kernel) {
  const StorageRef y = rig.make(1), x = rig.make(2);
  const Stream stream(rig.device());
  rig.mix(kernel, stream, y, x);
}

TEST(StreamPool, DroppedStreamsAreUsedAgain) {
  Rig rig;
  const auto kernel = rig.load("mix");
  use_and_drop_a_stream(rig, kernel);
  rig.driver.run_all();
  const int made = rig.driver.count(Fn::cuStreamCreate);
  for (int i = 0; i < 10; ++i) {
    use_and_drop_a_stream(rig, kernel);
    rig.driver.run_all();
  }
  EXPECT_EQ(rig.driver.count(Fn::cuStreamCreate), made);
  EXPECT_EQ(rig.driver.count(Fn::cuStreamDestroy), 0);
  EXPECT_EQ(rig.driver.violation(), "");
}

/// A new stream must not wait for what a dropped one has left.
TEST(StreamPool, StreamsWithWorkAreNotUsedAgain) {
  Rig rig;
  const auto kernel = rig.load("mix");
  use_and_drop_a_stream(rig, kernel);
  const int made = rig.driver.count(Fn::cuStreamCreate);
  const Stream other(rig.device());
  EXPECT_EQ(rig.driver.count(Fn::cuStreamCreate), made + 1);
  rig.driver.run_all();
  const Stream third(rig.device());
  EXPECT_EQ(rig.driver.count(Fn::cuStreamCreate), made + 1) << "the first one's work has ended";
}

TEST(StreamPool, PrioritiesAreKeptApart) {
  Rig rig;
  { const Stream stream(rig.device(), {.priority = -1}); }
  const int plain = rig.driver.count(Fn::cuStreamCreate), urgent = rig.driver.count(Fn::cuStreamCreateWithPriority);
  const Stream first(rig.device()), second(rig.device(), {.priority = -1});
  EXPECT_EQ(rig.driver.count(Fn::cuStreamCreate), plain + 1);
  EXPECT_EQ(rig.driver.count(Fn::cuStreamCreateWithPriority), urgent);
}

/// Neither streams of the caller nor those of a capture.
TEST(StreamPool, NoStreamIsDestroyedWhileThereAreGraphs) {
  Rig rig;
  add_program_kernels(rig.driver);
  ProgramRecorder recorder(rig);
  const std::vector<StorageRef> v{rig.make(1), rig.make(2), rig.make(3)};
  const auto recording = recorder.record({{Kind::While, 2, 0, 0, 0, {{{Kind::Mix, 0, 1, 4}, {Kind::Down, 2}}}}}, v, 3);
  for (int i = 0; i < 5; ++i) {
    const auto graph = rig.backend.make_graph(recording);
    const Stream stream(rig.device());
    replay(graph, *recording, stream);
  }
  EXPECT_EQ(rig.driver.count(Fn::cuStreamDestroy), 0);
  EXPECT_EQ(rig.driver.violation(), "");
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
