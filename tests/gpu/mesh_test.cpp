// Meshes of several GPUs: random programs, collectives in graphs, and the end of a group. Skipped with fewer than two.
#include "gpu/gpu_test.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "mesh/programs.hpp"
#include "mesh/ranks.hpp"
#include "tessera/mesh/thread_meshes.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/thread_device.hpp"

namespace gpu_test {
namespace {

using namespace tessera;
using tessera::test::on_ranks;

class GpuMesh : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    gpus = tessera::runtime::cuda::device_count();
    if (gpus < 2) GTEST_SKIP() << "one GPU: a mesh of several needs two";
  }
  static std::vector<Device> devices(int ranks) {
    std::vector<Device> all;
    for (int i = 0; i < ranks; ++i) all.push_back(Device::cuda(i));
    return all;
  }
  int gpus = 0;
};

TEST_F(GpuMesh, RandomProgramsComputeWhatTheWholeDoes) {
  for (std::uint32_t seed = 0; seed < 24 && !HasFailure(); ++seed) {
    const int ranks = std::min(gpus, static_cast<int>(seed % 4) + 1);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(ranks) + " GPUs");
    test_programs::Program(Mesh::of(devices(ranks)), seed).run(30);
    on_ranks(tessera::mesh::thread_meshes(devices(ranks), 60'000),
             [&](const Mesh& mesh) { test_programs::Program(mesh, seed).run(30); });
  }
}

/// Adds the ranks' tensors, twice: the second sum is of equal summands.
Flow<Tensor<f32, 1>> sums(Mesh mesh, Tensor<f32, 1> part) {
  for (int i = 0; i < 2; ++i) {
    std::vector<Tensor<f32, 1>> parts;
    parts.push_back(std::move(part));
    auto all = co_await all_reduce(detail::PlacedReach::make<Partial<f32, 1>>(mesh, std::move(parts)));
    part = co_await std::move(all).local(mesh.first_rank());
  }
  co_return part;
}

/// In a graph the input stays what it is.
Flow<Tensor<f32, 1>> sums_of_copy(Mesh mesh, View<f32, 1> whole) {
  auto part = co_await clone(whole);
  co_return co_await sums(std::move(mesh), std::move(part));
}

TEST_F(GpuMesh, CollectivesInGraphsGiveWhatTheyGiveAlone) {
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{2560}, std::int64_t{1} << 20}) {
    on_ranks(tessera::mesh::thread_meshes(devices(gpus), 60'000), [&](const Mesh& mesh) {
      const int rank = mesh.first_rank();
      std::vector<float> own(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < own.size(); ++i)
        own[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank)) % 13);
      std::vector<float> expected(own.size(), 0.0F);
      for (int r = 0; r < gpus; ++r)
        for (std::size_t i = 0; i < own.size(); ++i)
          expected[i] += static_cast<float>(gpus) * static_cast<float>((i * 7 + static_cast<std::size_t>(r)) % 13);
      const Stream stream = mesh.stream(rank);
      const auto made = [&] { return from(own, {n}).sync(stream); };
      EXPECT_EQ(host(sums(mesh, made()).sync(stream)).sync(stream), expected);
      const runtime::ThreadDevice device(stream.device());  // a graph is captured for the default device
      auto graph = capture([&](Tensor<f32, 1>& t) { return sums_of_copy(mesh, t.view()); }, made());
      for (int i = 0; i < 5; ++i) {
        copy_into(mut(graph.input<0>()), made()).sync(stream);
        graph.replay().sync(stream);
        EXPECT_EQ(host(graph.output()).sync(stream), expected) << "replay " << i;
      }
    });
  }
}

TEST_F(GpuMesh, ARankThatGivesUpEndsTheOthers) {
  std::vector<Mesh> meshes = tessera::mesh::thread_meshes(devices(gpus), 60'000);
  on_ranks(meshes, [&](const Mesh& mesh) {
    const Stream stream = mesh.stream(mesh.first_rank());
    if (mesh.first_rank() == gpus - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others wait in a collective
      return mesh.abort("the test gives up");
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
      (void)sums(mesh, zeros<f32>({std::int64_t{1024}}).sync(stream)).sync(stream);
    } catch (const MeshError&) {}
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    ASSERT_TRUE(mesh.failure().has_value());
    EXPECT_NE(mesh.failure()->find("the test gives up"), std::string::npos) << *mesh.failure();
  });
}

}  // namespace
}  // namespace gpu_test
