// Random programs over meshes: every tensor of the program has the elements that the same program gives on the host,
// with one member and with a thread for each rank. And each exchange of such programs failing once.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <variant>

#include "base/rounds.hpp"
#include "mesh/exchange.hpp"
#include "mesh/ranks.hpp"
#include "tessera/base/error.hpp"
#include "tessera/mesh.hpp"
#include "tessera/runtime/memory.hpp"

namespace tessera {
namespace THIS_FILE {

using test::on_ranks;
using test::rounds;

constexpr std::int64_t kSide = 12;  // divisible by 1 to 4 ranks

void add_scaled(Mut<i32, 4, 4> y, Scalar<i32> a, In<i32, dyn, dyn> x) { y.store(y.load() + a * x.load_like(y)); }
void scale(Mut<i32, 4, 4> y, Scalar<i32> a) { y.store(a * y.load()); }
void made(Mut<i32, 4, 4> y, Scalar<i32> a, In<i32, dyn, dyn> x) { y.store(x.load_like(y) - a); }

using Rows = Sharded<i32, 2, 0>;
using Columns = Sharded<i32, 2, 1>;
using Whole = Replicated<i32, 2>;
using Summands = Partial<i32, 2>;

/// A tensor of the program, and what the elements of the whole (the sums of the summands) have to be.
struct Value {
  std::variant<Rows, Columns, Whole, Summands> placed;
  std::vector<std::uint32_t> expected;  // unsigned: wraps
};

class Program {
 public:
  Program(const Mesh& mesh, std::uint32_t seed) : mesh_(mesh), random_(seed) {
    for (int i = 0; i < mesh.local_ranks(); ++i) streams_.push_back(mesh.stream(mesh.first_rank() + i));
    streams_.emplace_back(Device::cpu());
    streams_.emplace_back(Device::cpu());
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!values_.empty()) check(take());
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  const Stream& stream() { return streams_[static_cast<std::size_t>(below(static_cast<int>(streams_.size())))]; }

  Value take() {
    const auto i = static_cast<std::size_t>(below(static_cast<int>(values_.size())));
    Value v = std::move(values_[i]);
    values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(i));
    return v;
  }
  template <class P>
  void add(P&& placed, std::vector<std::uint32_t> expected) {
    values_.push_back({std::forward<P>(placed), std::move(expected)});
  }

  Tensor<i32, 2> source(std::vector<std::uint32_t>& expected) {
    std::vector<i32> elements(kSide * kSide);
    for (i32& e : elements) e = below(1000) - 500;
    expected.assign(elements.begin(), elements.end());
    return from(elements, Dims<2>(kSide, kSide)).sync();
  }

  void make() {
    std::vector<std::uint32_t> expected;
    auto x = source(expected);
    switch (below(4)) {
      case 0: return add(shard(x, axis<0>, mesh_).on(stream()), expected);
      case 1: return add(shard(x, axis<1>, mesh_).on(stream()), expected);
      case 2: return add(replicate(x, mesh_).on(stream()), expected);
      default: {
        const int root = below(mesh_.size());
        return add(broadcast(x, root, mesh_).on(stream()), expected);
      }
    }
  }

  /// Writes it, lent or given, reading another one of the same placement or a replicated one where that fits.
  template <class P>
  void write(Value v, P placed) {
    const int a = below(5) + 1;
    if (below(2) == 0) {
      placed = kernel<scale>(std::move(placed), a).on(stream());
    } else {
      kernel<scale>(mut(placed), a).on(stream());
    }
    for (auto& e : v.expected) e *= static_cast<std::uint32_t>(a);
    for (const Value& other : values_) {
      if (!std::holds_alternative<P>(other.placed)) continue;
      kernel<add_scaled>(mut(placed), a, std::get<P>(other.placed)).on(stream());
      for (std::size_t i = 0; i < v.expected.size(); ++i)
        v.expected[i] += static_cast<std::uint32_t>(a) * other.expected[i];
      break;
    }
    if (below(3) == 0) {
      auto fresh = kernel<made>(empty_like(placed), a, placed).on(stream());
      auto expected = v.expected;
      for (auto& e : expected) e -= static_cast<std::uint32_t>(a);
      add(std::move(fresh), std::move(expected));
    }
    add(std::move(placed), std::move(v.expected));
  }

  void use(Value v, Whole whole) {
    const int a = below(5);
    const auto n = static_cast<std::uint32_t>(mesh_.size());
    switch (below(3)) {
      case 0: {
        auto expected = v.expected;
        for (auto& e : expected) e -= static_cast<std::uint32_t>(a);
        add(kernel<made>(empty_like(whole), a, whole).on(stream()), expected);
        return add(std::move(whole), std::move(v.expected));
      }
      case 1: {  // every rank has the same summand
        auto p = partial_zeros<i32>({kSide, kSide}, mesh_).on(stream());
        p = kernel<add_scaled>(std::move(p), a, whole).on(stream());
        auto expected = v.expected;
        for (auto& e : expected) e *= static_cast<std::uint32_t>(a) * n;
        add(std::move(p), std::move(expected));
        return add(std::move(whole), std::move(v.expected));
      }
      default: {
        auto mine = std::move(whole).local(mesh_.first_rank()).on(stream());
        return add(shard(mine, axis<0>, mesh_).on(stream()), std::move(v.expected));
      }
    }
  }

  void use(Value v, Rows placed) { sharded(std::move(v), std::move(placed)); }
  void use(Value v, Columns placed) { sharded(std::move(v), std::move(placed)); }
  template <class P>
  void sharded(Value v, P placed) {
    switch (below(3)) {
      case 0: {
        auto whole = all_gather(placed).on(stream());
        add(std::move(whole), v.expected);
        return add(std::move(placed), std::move(v.expected));
      }
      case 1: return add(all_gather(std::move(placed)).on(stream()), std::move(v.expected));
      default: return write(std::move(v), std::move(placed));
    }
  }

  void use(Value v, Summands p) {
    switch (below(3)) {
      case 0: return add(all_reduce(std::move(p)).on(stream()), std::move(v.expected));
      case 1: return add(reduce_scatter(std::move(p), axis<0>).on(stream()), std::move(v.expected));
      default: return add(reduce_scatter(std::move(p), axis<1>).on(stream()), std::move(v.expected));
    }
  }

  void step() {
    if (values_.size() < 2 || below(5) == 0) return make();
    Value v = take();
    auto placed = std::move(v.placed);
    std::visit([&](auto& p) { use(std::move(v), std::move(p)); }, placed);
  }

  void check(Value v) {
    Whole whole = std::visit(
        [&](auto& p) -> Whole {
          using P = std::remove_cvref_t<decltype(p)>;
          if constexpr (std::is_same_v<P, Whole>)
            return p;
          else if constexpr (std::is_same_v<P, Summands>)
            return all_reduce(std::move(p)).sync();
          else
            return all_gather(std::move(p)).sync();
        },
        v.placed);
    for (int i = 0; i < mesh_.local_ranks(); ++i) {
      const std::vector<i32> got = host(whole.part(mesh_.first_rank() + i)).sync();
      ASSERT_EQ(std::vector<std::uint32_t>(got.begin(), got.end()), v.expected) << "rank " << mesh_.first_rank() + i;
    }
  }

  Mesh mesh_;
  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::vector<Value> values_;
};

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
