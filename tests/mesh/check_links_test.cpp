// The check of the links between ranks: silent where all is well, and with a name for what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mesh/exchange.hpp"
#include "mesh/ranks.hpp"
#include "tessera/base/error.hpp"
#include "tessera/mesh.hpp"
#include "tessera/mesh/communicator.hpp"
#include "tessera/runtime/memory.hpp"

namespace tessera {
namespace THIS_FILE {

using test::on_ranks;
using testing::HasSubstr;

/// An exchange that changes a byte of what arrives from another member, if it is at least `least` bytes; with `only`,
/// in one exchange alone, the one of that number.
class Damaging final : public mesh::Exchange {
 public:
  Damaging(std::shared_ptr<mesh::Exchange> inner, std::size_t least, int only)
      : inner_(std::move(inner)), least_(least), only_(only) {}
  int members() const noexcept override { return inner_->members(); }
  int me() const noexcept override { return inner_->me(); }
  const char* name() const noexcept override { return inner_->name(); }
  void all_to_all(std::span<const std::span<const std::byte>> to, std::span<const std::span<std::byte>> from) override {
    inner_->all_to_all(to, from);
    for (int i = 0; i < members(); ++i) {
      const auto bytes = from[static_cast<std::size_t>(i)];
      if (i == me() || bytes.size() < least_) continue;
      if (only_ < 0 || seen_++ == only_) bytes[bytes.size() / 2 | 3] ^= std::byte{0x40};  // the exponent of a number
    }
  }
  void send(int member, std::span<const std::byte> bytes) override { inner_->send(member, bytes); }
  void receive(int member, std::span<std::byte> bytes) override { inner_->receive(member, bytes); }
  std::shared_ptr<mesh::Exchange> split(int colour) override { return inner_->split(colour); }
  std::shared_ptr<mesh::Exchange> companion() override { return inner_->companion(); }
  void abort(const mesh::GroupFailure& failure) noexcept override { inner_->abort(failure); }

 private:
  std::shared_ptr<mesh::Exchange> inner_;
  std::size_t least_;
  int only_, seen_ = 0;
};

/// What the members say of links where member 1 gets damaged messages of at least `least` bytes.
std::vector<std::string> said(std::size_t least, int only = -1) {
  std::vector<Mesh> meshes;
  for (auto& exchange : mesh::thread_exchanges(2, 20'000)) {
    std::shared_ptr<mesh::Exchange> used = std::move(exchange);
    if (used->me() == 1) used = std::make_shared<Damaging>(std::move(used), least, only);
    meshes.push_back(Mesh::over(mesh::host_communicator(std::move(used), 1), {Device::cpu()}));
  }
  std::vector<std::string> texts(2);
  on_ranks(meshes, [&](const Mesh& mesh) {
    try {
      mesh.check_links();
    } catch (const MeshError& error) { texts[static_cast<std::size_t>(mesh.first_rank())] = error.what(); }
  });
  for (const Mesh& mesh : meshes) EXPECT_EQ(mesh.failure().has_value(), !texts[1].empty());
  return texts;
}

TEST(MeshLinks, SoundOnesAreAccepted) {
  const std::size_t before = memory_stats(Device::cpu()).in_use;
  for (const int ranks : {1, 2, 3, 4}) {
    const Mesh one = Mesh::cpu(ranks);
    one.check_links();
    on_ranks(Mesh::threads(ranks, Device::cpu(), 20'000), [](const Mesh& mesh) { mesh.check_links(); });
  }
  EXPECT_EQ(memory_stats(Device::cpu()).in_use, before);
  EXPECT_EQ(said(std::size_t{1} << 40), (std::vector<std::string>{"", ""})) << "nothing is damaged";
}

TEST(MeshLinks, DamageIsNamedByItsSize) {
  const auto all = said(1);
  EXPECT_THAT(all[1], HasSubstr("check_links_test.cpp"));
  EXPECT_THAT(all[1], HasSubstr("rank 0 of 2 ranks (threads) runs another version of Tessera than rank 1"));
  EXPECT_THAT(said(64)[1], HasSubstr("of 256 bytes over 2 ranks (threads): expected"));
  EXPECT_THAT(said(std::size_t{30} << 10)[1], HasSubstr("of 65536 bytes"));
  const auto large = said(std::size_t{1} << 20);
  EXPECT_THAT(large[1], HasSubstr("of 4194304 bytes"));
  EXPECT_THAT(large[1], HasSubstr("NCCL_P2P_DISABLE"));
  EXPECT_THAT(large[0], HasSubstr("of 4194304 bytes")) << "the other member hears of it";
}

// Gathers and sums are all compared: whatever one exchange does to the data is found.
TEST(MeshLinks, DamageInAnyExchangeIsFound) {
  constexpr std::size_t kData = 129;  // more than what ranks tell each other about a call
  int n = 0;
  while (!said(kData, n)[1].empty()) ++n;
  EXPECT_GE(n, 6) << "of the larger sizes, a gather, summands and sums";
  EXPECT_EQ(said(kData, n + 1)[1], "") << "all exchanges were damaged";
}

}  // namespace THIS_FILE
}  // namespace tessera
