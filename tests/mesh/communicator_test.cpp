// The collectives over threads: results against sums and copies made here, for every element type, any number of
// members and ranks; disagreement, absence and failure.
#include "tessera/mesh/communicator.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "host/expect_error.hpp"
#include "mesh/add_elements.hpp"
#include "mesh/exchange.hpp"
#include "mesh/host_collectives.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/float_types.hpp"

namespace tessera::mesh {
namespace THIS_FILE {

using Bytes = std::vector<std::byte>;

/// Runs f(exchange) on a thread for each member; the texts of what they threw, empty where nothing.
std::vector<std::string> on_members(const std::vector<std::shared_ptr<Exchange>>& members,
                                    const std::function<void(Exchange&)>& f) {
  std::vector<std::string> errors(members.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < members.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        f(*members[i]);
      } catch (const Error& e) { errors[i] = e.what(); }
    });
  for (auto& t : threads) t.join();
  return errors;
}

struct Case {
  int members, each;
};

class HostCollectives : public ::testing::TestWithParam<Case> {
 protected:
  int ranks() const { return GetParam().members * GetParam().each; }

  /// Small whole numbers, so that sums are exact in every type.
  template <class T>
  static std::vector<T> values(int rank, std::size_t n) {
    std::vector<T> v(n);
    for (std::size_t i = 0; i < n; ++i)
      v[i] = static_cast<T>(static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 8));
    return v;
  }

  /// Runs the collective on all members, with `in(rank)` and room for `out` elements; the results of all ranks.
  template <class T>
  std::vector<std::vector<T>> run(Collective kind, std::int64_t count, std::size_t out, int peer,
                                  const std::function<std::vector<T>(int)>& in) {
    std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks()), std::vector<T>(out));
    const int each = GetParam().each;
    const auto errors = on_members(thread_exchanges(GetParam().members, 60'000), [&](Exchange& exchange) {
      std::vector<std::vector<T>> given;
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to;
      for (int i = 0; i < each; ++i) {
        const int rank = exchange.me() * each + i;
        given.push_back(in(rank));
        from.push_back(reinterpret_cast<const std::byte*>(given.back().data()));
        to.push_back(reinterpret_cast<std::byte*>(results[static_cast<std::size_t>(rank)].data()));
      }
      const CollectiveHead head{kind, element_type<T>, count, peer, 1, text_of(kind), SourceLocation::current()};
      run_collective(exchange, each, head, from, to);
    });
    for (const std::string& e : errors) EXPECT_EQ(e, "");
    return results;
  }

  template <class T>
  void all() {
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{64}}) {
      SCOPED_TRACE(n);
      const auto count = static_cast<std::int64_t>(n);
      const auto r = static_cast<std::size_t>(ranks());
      const std::function<std::vector<T>(int)> one = [&](int rank) { return values<T>(rank, n); };
      const std::function<std::vector<T>(int)> each = [&](int rank) { return values<T>(rank, n * r); };
      std::vector<T> gathered;
      for (int k = 0; k < ranks(); ++k) {
        const auto v = values<T>(k, n);
        gathered.insert(gathered.end(), v.begin(), v.end());
      }
      for (const auto& got : run<T>(Collective::AllGather, count, n * r, 0, one)) EXPECT_EQ(bits(got), bits(gathered));
      for (int root = n == 5 ? 0 : ranks() - 1; root < ranks(); ++root)
        for (const auto& got : run<T>(Collective::Broadcast, count, n, root, one))
          EXPECT_EQ(bits(got), bits(values<T>(root, n)));
      if (!can_add(element_type<T>)) continue;
      const auto sum_of = [&](std::size_t length) {
        std::vector<T> sum(length);
        for (std::size_t i = 0; i < length; ++i) {
          float total = 0;
          for (int k = 0; k < ranks(); ++k) total += static_cast<float>(values<T>(k, length)[i]);
          sum[i] = static_cast<T>(total);
        }
        return sum;
      };
      if (n <= 64) {
        for (const auto& got : run<T>(Collective::AllReduce, count, n, 0, one)) EXPECT_EQ(bits(got), bits(sum_of(n)));
        const auto sums = sum_of(n * r);
        const auto parts = run<T>(Collective::ReduceScatter, count, n, 0, each);
        for (std::size_t k = 0; k < r; ++k)
          EXPECT_EQ(bits(parts[k]), bits(std::vector<T>(sums.begin() + static_cast<std::ptrdiff_t>(k * n),
                                                        sums.begin() + static_cast<std::ptrdiff_t>((k + 1) * n))));
      }
    }
  }

  template <class T>
  static Bytes bits(const std::vector<T>& v) {
    Bytes b(v.size() * sizeof(T));
    if (!v.empty()) std::memcpy(b.data(), v.data(), b.size());
    return b;
  }
};

TEST_P(HostCollectives, EveryElementType) {
  all<f64>(), all<f32>(), all<f16>(), all<bf16>(), all<i64>(), all<i32>(), all<i16>(), all<i8>(), all<u64>(),
      all<u32>(), all<u16>(), all<u8>(), all<f8e4m3>(), all<f8e5m2>(), all<tf32>();
}

INSTANTIATE_TEST_SUITE_P(MembersAndRanks, HostCollectives,
                         ::testing::Values(Case{1, 1}, Case{1, 4}, Case{2, 1}, Case{3, 1}, Case{2, 3}, Case{5, 2}));

// Numbers whose sum depends on the order: the order of the ranks, whichever member adds them.
TEST(HostCollectivesOrder, TheSameBitsHoweverRanksAreSpread) {
  constexpr int kRanks = 12;
  constexpr std::size_t kCount = 203;
  std::vector<std::vector<f32>> in(kRanks, std::vector<f32>(kCount));
  std::mt19937 random(3);
  for (auto& v : in)
    for (f32& x : v)
      x = std::ldexp(std::uniform_real_distribution<f32>(-1, 1)(random), static_cast<int>(random() % 30));
  std::vector<f32> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    f32 sum = in[0][i];
    for (int k = 1; k < kRanks; ++k) sum += in[static_cast<std::size_t>(k)][i];
    expected[i] = sum;
  }
  for (const int members : {1, 2, 3, 4, 6, 12}) {
    const int each = kRanks / members;
    std::vector<std::vector<f32>> out(kRanks, std::vector<f32>(kCount));
    const auto errors = on_members(thread_exchanges(members, 60'000), [&](Exchange& exchange) {
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to;
      for (int i = 0; i < each; ++i) {
        const auto rank = static_cast<std::size_t>(exchange.me() * each + i);
        from.push_back(reinterpret_cast<const std::byte*>(in[rank].data()));
        to.push_back(reinterpret_cast<std::byte*>(out[rank].data()));
      }
      run_collective(exchange, each, {Collective::AllReduce, ElementType::f32, kCount, 0, 1, "all_reduce", {}}, from,
                     to);
    });
    for (const auto& e : errors) EXPECT_EQ(e, "");
    for (const auto& o : out) EXPECT_EQ(o, expected) << members << " members";
  }
}

TEST(HostCollectivesOrder, ZerosKeepTheirSignAndNaNsStay) {
  const f32 in[2][3] = {{-0.0F, 1.0F, std::nanf("")}, {-0.0F, -1.0F, 1.0F}};
  f32 out[2][3] = {};
  on_members(thread_exchanges(2, 60'000), [&](Exchange& e) {
    const std::byte* const from[] = {reinterpret_cast<const std::byte*>(in[e.me()])};
    std::byte* const to[] = {reinterpret_cast<std::byte*>(out[e.me()])};
    run_collective(e, 1, {Collective::AllReduce, ElementType::f32, 3, 0, 1, "all_reduce", {}}, from, to);
  });
  for (const auto& o : out) {
    EXPECT_TRUE(o[0] == 0 && std::signbit(o[0]));
    EXPECT_EQ(o[1], 0);
    EXPECT_TRUE(std::isnan(o[2]));
  }
}

// A sum of 16-bit numbers that would stay where it is if it were rounded after each rank.
TEST(AddElements, RoundOnce) {
  std::vector<bf16> big{bf16(256.0F)}, small{bf16(1.0F)};
  const std::byte* const parts[] = {reinterpret_cast<const std::byte*>(big.data()),
                                    reinterpret_cast<const std::byte*>(small.data()),
                                    reinterpret_cast<const std::byte*>(small.data())};
  bf16 sum{};
  add_elements(ElementType::bf16, parts, 1, reinterpret_cast<std::byte*>(&sum));
  EXPECT_EQ(static_cast<float>(sum), 258.0F) << "256 + 1 is rounded to 256";
}

// -- what goes wrong
// -----------------------------------------------------------------------------------------------------

/// Every member calls the collective of its head.
std::vector<std::string> call(const std::vector<CollectiveHead>& heads, int timeout_ms = 60'000) {
  std::vector<std::byte> room(4096);
  return on_members(thread_exchanges(static_cast<int>(heads.size()), timeout_ms), [&](Exchange& e) {
    const CollectiveHead& head = heads[static_cast<std::size_t>(e.me())];
    if (head.label == nullptr) return;  // does not call
    std::vector<std::byte> own(4096);
    const std::byte* const from[] = {room.data()};
    std::byte* const to[] = {own.data()};
    run_collective(e, 1, head, from, to);
  });
}

CollectiveHead head(Collective kind, ElementType element, std::int64_t count, int peer, unsigned line) {
  SourceLocation where = SourceLocation::current();
  where.file = "user.cpp";
  where.line = static_cast<decltype(where.line)>(line);
  return {kind, element, count, peer, 1, text_of(kind), where};
}

TEST(HostCollectivesDisagree, TheErrorNamesBothCallsOnEveryRank) {
  const auto gather = head(Collective::AllGather, ElementType::f32, 16, 0, 10);
  struct {
    CollectiveHead other;
    const char* text;
  } const cases[] = {
      {head(Collective::AllReduce, ElementType::f32, 16, 0, 20),
       "called all_reduce of 16 elements of f32 at user.cpp:20"},
      {head(Collective::AllGather, ElementType::f32, 17, 0, 21),
       "called all_gather of 17 elements of f32 at user.cpp:21"},
      {head(Collective::AllGather, ElementType::i32, 16, 0, 22),
       "called all_gather of 16 elements of i32 at user.cpp:22"},
      {head(Collective::Barrier, ElementType::u8, 0, 0, 23), "called barrier at user.cpp:23"},
  };
  for (const auto& c : cases) {
    for (const auto& error : call({gather, gather, c.other})) {
      EXPECT_NE(error.find("rank 2: "), std::string::npos) << error;
      EXPECT_NE(error.find(c.text), std::string::npos) << error;
      EXPECT_NE(error.find("where rank 0 called all_gather of 16 elements of f32 at user.cpp:10"), std::string::npos)
          << error;
    }
  }
  for (const auto& error : call({gather, gather, gather})) EXPECT_EQ(error, "");
  for (const auto& error : call({head(Collective::Broadcast, ElementType::f32, 4, 0, 1),
                                 head(Collective::Broadcast, ElementType::f32, 4, 1, 2)}))
    EXPECT_NE(error.find("from rank 1 at user.cpp:2"), std::string::npos) << error;
}

TEST(HostCollectivesDisagree, ARankThatDoesNotCallIsNamed) {
  const auto gather = head(Collective::AllGather, ElementType::f32, 16, 0, 10);
  CollectiveHead absent = gather;
  absent.label = nullptr;
  const auto errors = call({gather, absent, gather}, 200);
  EXPECT_EQ(errors[1], "");
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_NE(errors[rank].find("rank 1: did not call the collective that the others are in for 200 ms"),
              std::string::npos)
        << errors[rank];
  }
}

TEST(HostCollectivesDisagree, AGroupThatHasFailedStaysFailed) {
  const auto exchanges = thread_exchanges(2, 60'000);
  std::atomic<int> waiting{0};
  const auto errors = on_members(exchanges, [&](Exchange& e) {
    if (e.me() == 1) {
      while (waiting == 0) std::this_thread::yield();
      e.abort({1, "ran out of memory"});
    }
    ++waiting;
    const std::byte* const from[] = {nullptr};
    std::byte* const to[] = {nullptr};
    run_collective(e, 1, {Collective::Barrier, ElementType::u8, 0, 0, 1, "barrier", {}}, from, to);
  });
  for (const auto& error : errors) EXPECT_NE(error.find("rank 1: ran out of memory"), std::string::npos) << error;
  EXPECT_ERROR(MeshError, exchanges[0]->send(1, {}), "rank 1: ran out of memory");
}

TEST(ThreadExchange, MessagesArriveInOrderAndSplitGroupsAreNumberedByRank) {
  const auto errors = on_members(thread_exchanges(6, 60'000), [](Exchange& e) {
    for (int round = 0; round < 50; ++round) {
      const int next = (e.me() + 1) % 6, before = (e.me() + 5) % 6;
      for (int k = 0; k < 3; ++k) {
        const int message = e.me() * 100 + k;
        e.send(next, std::as_bytes(std::span(&message, 1)));
      }
      for (int k = 0; k < 3; ++k) {
        int got = 0;
        e.receive(before, std::as_writable_bytes(std::span(&got, 1)));
        EXPECT_EQ(got, before * 100 + k);
      }
      const auto part = e.split(e.me() % 2);
      ASSERT_EQ(part->members(), 3);
      EXPECT_EQ(part->me(), e.me() / 2);
      const int mine = e.me();
      std::array<int, 3> all{};
      const std::vector<std::span<const std::byte>> to(3, std::as_bytes(std::span(&mine, 1)));
      std::vector<std::span<std::byte>> from;
      for (int& a : all) from.push_back(std::as_writable_bytes(std::span(&a, 1)));
      part->all_to_all(to, from);
      EXPECT_EQ(all, (std::array<int, 3>{e.me() % 2, e.me() % 2 + 2, e.me() % 2 + 4}));
    }
  });
  for (const auto& e : errors) EXPECT_EQ(e, "");
}

}  // namespace THIS_FILE
}  // namespace tessera::mesh
