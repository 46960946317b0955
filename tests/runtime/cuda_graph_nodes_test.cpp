// Which nodes and edges a recording becomes, and errors of the calls that add them.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graph_programs.hpp"
#include "tessera/base/error.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

struct CudaGraphNodes : ::testing::Test {
  std::unique_ptr<Rig> rig;
  std::vector<StorageRef> v;

  void start(int version = 13000) {
    v.clear();
    rig.reset();
    rig = std::make_unique<Rig>(1, version);
    for (std::uint64_t i = 0; i < 12; ++i) v.push_back(rig->make(i));
  }
  void TearDown() override { EXPECT_EQ(rig->driver.violation(), ""); }

  template <class F>
  std::shared_ptr<GraphRecording> record(F program) {
    auto recording = std::make_shared<GraphRecording>(rig->device());
    {
      const CaptureScope scope(*recording, {});
      program(Stream(scope.stream()));
    }
    recording->finish();
    return recording;
  }
  template <class F>
  std::string shape(F program) {
    (void)rig->backend.make_graph(record(program));
    return rig->driver.last_graph();
  }
  void copy(const Stream& s, std::size_t to, std::size_t from, std::uint32_t line = 0) const {
    submit(s, rig->backend.range_copy(), to, from, AccessMode::Write, {"a.cpp", "", line});
  }
  /// `y` and `x` are accesses of the work, whatever it does.
  void submit(const Stream& s, const std::shared_ptr<const Launchable>& work, std::size_t y, std::size_t x,
              AccessMode mode = AccessMode::ReadWrite, SourceLocation where = {}) const {
    const std::array<std::uint64_t, 3> args{0, 0, 8};
    const std::array<Access, 2> accesses{{{v[y], mode}, {v[x], AccessMode::Read}}};
    s.core()->submit({work, {1}, args, accesses, "a copy", where});
  }
};

TEST_F(CudaGraphNodes, IndependentWorkFollowsNothing) {
  start();
  const auto kernel = rig->load("mix");
  EXPECT_EQ(shape([&](const Stream& s) {
              rig->mix(kernel, s, v[0], v[1]);
              copy(s, 2, 1);
              rig->mix(kernel, s, v[3], v[1]);
              copy(s, 4, 2);
            }),
            "k c k c1");
  EXPECT_EQ(shape([&](const Stream& s) {
              for (std::size_t i = 0; i < 10; ++i) rig->mix(kernel, s, v[i], v[11]);
            }),
            "k k k k k k k k k0 k8")
      << "eight branches";
}

TEST_F(CudaGraphNodes, AnEdgeThatFollowsFromOthersIsLeftOut) {
  start();
  const auto kernel = rig->load("mix");
  EXPECT_EQ(shape([&](const Stream& s) {
              rig->mix(kernel, s, v[0], v[1]);
              rig->mix(kernel, s, v[2], v[0]);
              rig->mix(kernel, s, v[3], v[2]);
              rig->mix(kernel, s, v[0], v[3]);
            }),
            "k k0 k1 k2");
}

/// Time marks, for example, add no node to a graph.
TEST_F(CudaGraphNodes, WorkThatEnqueuesNothingEndsWithWhatItFollows) {
  start();
  const auto kernel = rig->load("mix");
  const auto nothing = host_work([](const LaunchContext&) {});
  EXPECT_EQ(shape([&](const Stream& s) {
              rig->mix(kernel, s, v[0], v[1]);
              submit(s, nothing, 2, 0);
              submit(s, nothing, 3, 0);
              submit(s, nothing, 2, 3);  // both end with the kernel
              rig->mix(kernel, s, v[4], v[2]);
            }),
            "k k0");
}

TEST_F(CudaGraphNodes, WorkOfSeveralNodesEndsWithItsLast) {
  start();
  const auto kernel = rig->load("mix");
  const auto fill = rig->backend.range_fill();
  const auto twice = host_work([fill](const LaunchContext& c) {
    fill->launch(c);
    fill->launch(c);
  });
  EXPECT_EQ(shape([&](const Stream& s) {
              rig->mix(kernel, s, v[0], v[1]);
              submit(s, twice, 0, 1);
              rig->mix(kernel, s, v[0], v[1]);
            }),
            "k s0 s1 k2");
}

/// Before CUDA 12.3, what is captured from a stream is a graph in the graph.
TEST_F(CudaGraphNodes, OldDrivers) {
  start(12020);
  const auto kernel = rig->load_eager();
  const auto recording = record([&](const Stream& s) {
    rig->mix(kernel, s, v[2], v[1]);
    rig->mix(kernel, s, v[2], v[1]);
    copy(s, 3, 2);
    copy(s, 4, 5u);
    rig->mix(kernel, s, v[3], v[4]);
  });
  const auto graph = rig->backend.make_graph(recording);
  EXPECT_EQ(rig->driver.last_graph(), "k k0 g1{c} g{c} k2,3");
  replay(graph, *recording, Stream(rig->device()));
  EXPECT_EQ(rig->read(v[3]), ((2u * 31 + 1) * 31 + 1) * 31 + 5);
  EXPECT_EQ(rig->driver.count(Fn::cuGraphAddNode), 0);
}

TEST_F(CudaGraphNodes, EveryCallThatFailsIsNamedWithItsLineAndLosesNothing) {
  struct Case {
    Fn fn;
    int version;
    std::uint32_t line = 0;  // of the error; 0: none
  };
  for (const Case& c : {Case{Fn::cuGraphCreate, 13000, 0}, Case{Fn::cuGraphAddKernelNode, 13000, 1},
                        Case{Fn::cuGraphAddNode, 13000, 2}, Case{Fn::cuStreamBeginCaptureToGraph, 13000, 3},
                        Case{Fn::cuStreamGetCaptureInfo, 13000, 3}, Case{Fn::cuStreamEndCapture, 13000, 3},
                        Case{Fn::cuMemcpyAsync, 13000, 3}, Case{Fn::cuGraphInstantiateWithFlags, 13000, 0},
                        Case{Fn::cuStreamBeginCapture, 12020, 3}, Case{Fn::cuGraphAddChildGraphNode, 12020, 3},
                        Case{Fn::cuStreamEndCapture, 12020, 3}, Case{Fn::cuMemcpyAsync, 12020, 3}}) {
    start(c.version);
    const auto kernel = rig->load_eager();
    const auto recording = record([&](const Stream& s) {
      const auto mix = [&](std::uint32_t line) {
        const auto address = [&](std::size_t i) {
          return std::uint64_t{reinterpret_cast<std::uintptr_t>(v[i]->data())};
        };
        const std::array<std::uint64_t, 3> args{address(0), address(1), 0};
        const std::array<Access, 2> accesses{{{v[0], AccessMode::ReadWrite}, {v[1], AccessMode::Read}}};
        s.core()->submit({kernel, {1}, args, accesses, "kernel mix", {"a.cpp", "", line}});
      };
      mix(1);
      mix(2);
      copy(s, 3, 0, 3);
    });
    (void)rig->backend.make_graph(recording);  // streams exist now
    const std::string leaks = rig->driver.leaks();
    rig->driver.fail_next(c.fn, 1);
    try {
      (void)rig->backend.make_graph(recording);
      FAIL() << name(c.fn);
    } catch (const DeviceError& error) {
      EXPECT_NE(error.message().find(name(c.fn)), std::string::npos) << error.message();
      EXPECT_EQ(error.where().line, c.line) << error.message();
    }
    EXPECT_EQ(rig->driver.leaks(), leaks) << name(c.fn);
    const auto graph = rig->backend.make_graph(recording);
    replay(graph, *recording, Stream(rig->device()));
    EXPECT_EQ(rig->read(v[3]), 0u * 31 * 31 + 31 + 1) << name(c.fn);
    EXPECT_EQ(rig->driver.violation(), "") << name(c.fn);
  }
}

TEST_F(CudaGraphNodes, AKernelThatCannotBeCapturedIsNamedWithItsLine) {
  start();
  const auto recording = record([&](const Stream& s) {
    submit(s, rig->load("checked"), 0, 1, AccessMode::ReadWrite, {"a.cpp", "", 7});
  });
  try {
    (void)rig->backend.make_graph(recording);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("cannot be captured"), std::string::npos) << error.message();
    EXPECT_EQ(error.where().line, 7u);
  }
}

/// A capture that fails for another reason than a call of its own: the driver has destroyed the graph.
TEST_F(CudaGraphNodes, AnInvalidatedCaptureHasNoGraph) {
  start();
  const Driver& driver = rig->driver.table();
  const auto wait = host_work(
      [&driver](const LaunchContext& c) { (void)driver.cuStreamSynchronize(static_cast<CUstream>(c.native_queue)); });
  const auto recording = record([&](const Stream& s) { submit(s, wait, 0, 1, AccessMode::Write, {"a.cpp", "", 5}); });
  try {
    (void)rig->backend.make_graph(recording);
    FAIL();
  } catch (const DeviceError& error) { EXPECT_EQ(error.where().line, 5); }
  EXPECT_EQ(rig->driver.leaks().find("graphs"), std::string::npos) << rig->driver.leaks();
  EXPECT_EQ(shape([&](const Stream& s) { copy(s, 0, 1); }), "c");
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
