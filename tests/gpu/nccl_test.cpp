// Collectives over NCCL on a GPU: with one rank every call is legal and right, alone and captured in graphs; with two
// ranks on one GPU, where NCCL allows it, so are sums. Speed means nothing here.
#include "gpu/gpu_test.hpp"
#include "mesh/nccl_gpu.hpp"

#include <chrono>

namespace gpu_test {
namespace {

using namespace nccl_gpu;

class GpuNccl : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    std::string why;
    nccl = library(&why);
    if (nccl == nullptr) GTEST_SKIP() << why;
    std::printf("NCCL %s from %s\n", mesh::nccl::version_text(nccl->version).c_str(), nccl->path.c_str());
  }
  /// True if the test goes on.
  bool allows_two_ranks() const { return nccl->version >= kSeveralRanksVersion; }
  const mesh::nccl::Library* nccl = nullptr;
};

constexpr std::size_t kNoWindow = 0, kWindow = std::size_t{1} << 20;

template <class T>
void check_all(const Member& m, std::size_t count) {
  const Device device = m.stream.device();
  const ElementType element = element_type<T>;
  const int n = m.communicator->size(), rank = m.communicator->first();
  const auto in = make(device, values_of<T>(rank, count)), out = make(device, std::vector<T>(count));
  const auto wide = make(device, std::vector<T>(count * static_cast<std::size_t>(n)));
  m.call(Collective::AllReduce, element, count, in, out);
  EXPECT_TRUE(read<T>(out) == sums<T>(n, count)) << "all_reduce of " << count;
  m.call(Collective::AllGather, element, count, in, wide);
  std::vector<T> all;
  for (int r = 0; r < n; ++r) {
    const auto part = values_of<T>(r, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(read<T>(wide) == all) << "all_gather of " << count;
  m.call(Collective::Broadcast, element, count, in, out, n - 1);
  EXPECT_TRUE(read<T>(out) == values_of<T>(n - 1, count)) << "broadcast of " << count;
  m.call(Collective::ReduceScatter, element, count, wide, out);
  std::vector<T> part = values_of<T>(rank, count);
  for (T& x : part) x = T(static_cast<float>(x) * static_cast<float>(n));
  EXPECT_TRUE(read<T>(out) == part) << "reduce_scatter of " << count;
  m.call(Collective::Barrier, element, 0, nullptr, nullptr);
  m.call(Collective::AllReduce, element, count, in, in);
  EXPECT_TRUE(read<T>(in) == sums<T>(n, count)) << "all_reduce in place of " << count;
}

/// Two dependent collectives in one graph, replayed.
void check_graph(const Member& m, std::size_t count, int replays) {
  const Device device = m.stream.device();
  const int n = m.communicator->size();
  const auto x = make(device, std::vector<float>(count, 1.0F)), y = make(device, std::vector<float>(count));
  auto recording = std::make_shared<runtime::GraphRecording>(device);
  {
    const runtime::CaptureScope scope(*recording, {});
    const Stream captured(scope.stream());
    m.call(Collective::AllReduce, ElementType::f32, count, x, y, 0, &captured);
    m.call(Collective::AllReduce, ElementType::f32, count, y, x, 0, &captured);
  }
  recording->finish();
  const auto graph = device.backend().make_graph(recording);
  float expected = 1;
  for (int i = 0; i < replays; ++i) {
    m.stream.core()->submit({graph, {}, {}, recording->accesses(), "a graph of collectives", {}});
    expected *= static_cast<float>(n * n);
  }
  EXPECT_TRUE(read<float>(x) == std::vector<float>(count, expected)) << count;
}

void run_ranks(const mesh::nccl::Library& nccl, int ranks, std::size_t window) {
  const auto id = mesh::nccl_id(nccl);
  EXPECT_EQ(in_threads(ranks,
                       [&](int rank) {
                         const Member m = join(nccl, id, ranks, rank, device_under_test(), window);
                         for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
                           check_all<float>(m, count);
                           check_all<bf16>(m, count);
                           check_all<std::int32_t>(m, count);
                         }
                         for (const std::size_t count : {std::size_t{5120}, std::size_t{1} << 20})
                           check_graph(m, count, 5);
                         const Member part{m.stream, m.communicator->split(0, {})};
                         check_all<float>(part, 777);
                         EXPECT_FALSE(m.communicator->failure());
                       }),
            "ok");
}

TEST_F(GpuNccl, OneRankIsLegalAndRight) {
  for (const std::size_t window : {kNoWindow, kWindow}) run_ranks(*nccl, 1, window);
}

TEST_F(GpuNccl, TwoRanksOfOneGpuAddAndGather) {
  if (!allows_two_ranks()) GTEST_SKIP() << "two ranks on one GPU need NCCL 2.30";
  for (const std::size_t window : {kNoWindow, kWindow}) run_ranks(*nccl, 2, window);
}

TEST_F(GpuNccl, TwoRanksOfOneGpuSendAndReceive) {
  if (!allows_two_ranks()) GTEST_SKIP() << "two ranks on one GPU need NCCL 2.30";
  const auto id = mesh::nccl_id(*nccl);
  EXPECT_EQ(in_threads(2,
                       [&](int rank) {
                         const Member m = join(*nccl, id, 2, rank, device_under_test(), kNoWindow);
                         const auto x = make(m.stream.device(), values_of<float>(0, 5000));
                         const auto y = make(m.stream.device(), std::vector<float>(5000));
                         if (rank == 0) return m.call(Collective::Send, ElementType::f32, 5000, x, nullptr, 1);
                         m.call(Collective::Receive, ElementType::f32, 5000, nullptr, y, 0);
                         EXPECT_TRUE(read<float>(y) == values_of<float>(0, 5000));
                       }),
            "ok");
}

/// Rank 1 never calls: the kernel of rank 0 spins until the group is aborted, and the host's wait ends.
TEST_F(GpuNccl, AnAbortEndsAKernelThatWaits) {
  if (!allows_two_ranks()) GTEST_SKIP() << "two ranks on one GPU need NCCL 2.30";
  const auto id = mesh::nccl_id(*nccl);
  EXPECT_EQ(in_threads(2,
                       [&](int rank) {
                         const Member m = join(*nccl, id, 2, rank, device_under_test(), kNoWindow);
                         if (rank == 1) {
                           std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                           return m.communicator->abort({1, "a test"});
                         }
                         const auto x = make(m.stream.device(), values_of<float>(0, 1000));
                         m.call(Collective::AllReduce, ElementType::f32, 1000, x, x);
                         std::this_thread::sleep_for(std::chrono::milliseconds(300));
                         m.communicator->abort({1, "a test"});
                         const auto start = std::chrono::steady_clock::now();
                         x->wait_written();
                         EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
                         EXPECT_THROW(m.call(Collective::AllReduce, ElementType::f32, 1000, x, x), MeshError);
                       }),
            "ok");
}

TEST_F(GpuNccl, AMemberThatDoesNotComeIsReported) {
  const Stream stream(device_under_test());
  EXPECT_THROW(mesh::nccl_communicator(*nccl, mesh::nccl_id(*nccl), 2, 0, {&stream, 1}, {.timeout_ms = 1000}),
               MeshError);
}

}  // namespace
}  // namespace gpu_test
