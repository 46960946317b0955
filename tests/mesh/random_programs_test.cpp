// Random programs over meshes on the CPU, with one member and with a thread for each rank; and each exchange of such
// programs failing once. tests/gpu/mesh_test.cpp runs them on GPUs.
#include <gtest/gtest.h>

#include <atomic>

#include "base/rounds.hpp"
#include "mesh/exchange.hpp"
#include "mesh/programs.hpp"
#include "mesh/ranks.hpp"
#include "tessera/base/error.hpp"
#include "tessera/mesh.hpp"
#include "tessera/runtime/memory.hpp"

namespace tessera {
namespace THIS_FILE {

using test::on_ranks;
using test::rounds;
using test_programs::Program;

TEST(RandomMeshPrograms, ComputeWhatTheWholeDoes) {
  for (std::uint32_t seed = 0; seed < rounds(48) && !::testing::Test::HasFailure(); ++seed) {
    const int ranks = static_cast<int>(seed % 4) + 1;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Program(Mesh::cpu(ranks), seed).run(30);
    on_ranks(Mesh::threads(ranks, Device::cpu(), 60'000), [&](const Mesh& mesh) { Program(mesh, seed).run(30); });
  }
}

// -- failures
// ------------------------------------------------------------------------------------------------------------

/// An exchange of which one call fails: with an error of the exchange, or as a thread that ends.
class Failing final : public mesh::Exchange {
 public:
  Failing(std::shared_ptr<mesh::Exchange> inner, std::shared_ptr<std::atomic<int>> left)
      : inner_(std::move(inner)), left_(std::move(left)) {}
  int members() const noexcept override { return inner_->members(); }
  int me() const noexcept override { return inner_->me(); }
  const char* name() const noexcept override { return "failing"; }
  void all_to_all(std::span<const std::span<const std::byte>> to, std::span<const std::span<std::byte>> from) override {
    count();
    inner_->all_to_all(to, from);
  }
  void send(int member, std::span<const std::byte> bytes) override { count(), inner_->send(member, bytes); }
  void receive(int member, std::span<std::byte> bytes) override { count(), inner_->receive(member, bytes); }
  std::shared_ptr<mesh::Exchange> split(int colour) override { return inner_->split(colour); }
  std::shared_ptr<mesh::Exchange> companion() override { return inner_->companion(); }
  void abort(const mesh::GroupFailure& failure) noexcept override { inner_->abort(failure); }

 private:
  void count() {
    if (left_ && left_->fetch_sub(1) == 0) throw std::bad_alloc();
  }
  std::shared_ptr<mesh::Exchange> inner_;
  std::shared_ptr<std::atomic<int>> left_;  ///< calls until the one that fails; null: none fails
};

/// Runs a program on two threads, whose rank `failing` fails at exchange `n`; false if it has fewer exchanges.
bool fails_at(int n, int failing, std::uint32_t seed) {
  const auto left = std::make_shared<std::atomic<int>>(n);
  std::vector<Mesh> meshes;
  for (auto& exchange : mesh::thread_exchanges(2, 60'000)) {
    const bool fails = exchange->me() == failing;
    meshes.push_back(
        Mesh::over(mesh::host_communicator(std::make_shared<Failing>(std::move(exchange), fails ? left : nullptr), 1),
                   {Device::cpu()}));
  }
  std::atomic<int> failed{0};
  on_ranks(std::move(meshes), [&](const Mesh& mesh) {
    try {
      Program(mesh, seed).run(12);
    } catch (const DeviceError& e) {  // its own failure
      ++failed;
      EXPECT_EQ(mesh.first_rank(), failing) << e.what();
      EXPECT_NE(std::string(e.what()).find("out of host memory"), std::string::npos) << e.what();
    } catch (const MeshError& e) {
      ++failed;
      EXPECT_NE(std::string(e.what()).find("rank " + std::to_string(failing) + ": failed in"), std::string::npos)
          << e.what();
    }
  });
  EXPECT_TRUE(failed == 0 || failed == 2) << failed << " of two ranks noticed";
  return failed != 0;
}

TEST(RandomMeshPrograms, EachExchangeFailsOnceAndBothRanksEnd) {
  const std::size_t before = memory_stats(Device::cpu()).in_use;
  for (const int failing : {0, 1}) {
    int n = 0;
    while (fails_at(n, failing, 7)) ++n;
    EXPECT_GT(n, 10) << "the program has exchanges to fail";
  }
  EXPECT_EQ(memory_stats(Device::cpu()).in_use, before);
}

}  // namespace THIS_FILE
}  // namespace tessera
