// The order of a graph's nodes, compared with all pairs of entries that a recording orders.
#include "base/rounds.hpp"
#include "runtime/cuda/graph_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tessera::runtime::cuda {
namespace {

/// For each entry, which entries come before it.
using Before = std::vector<std::vector<bool>>;

/// `follows(i)`: what entry `i` follows directly.
template <class F>
Before closure(std::size_t count, F follows) {
  Before before(count, std::vector<bool>(count, false));
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::size_t other : follows(i)) {
      before[i][other] = true;
      for (std::size_t k = 0; k < other; ++k) before[i][k] = before[i][k] || before[other][k];
    }
  }
  return before;
}

GraphRecording::Work random_work(std::mt19937_64& random) {
  GraphRecording::Work work(1 + random() % 40);
  const std::size_t one_in = 1 + random() % 8;
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other)
      if (random() % one_in == 0) work[i].after.push_back(other);
  }
  return work;
}

TEST(CudaGraphOrder, OrdersWhatConflictsAndWhatSharesALaneAndNothingTwice) {
  for (std::uint64_t seed = 0; seed < test::rounds(300); ++seed) {
    std::mt19937_64 random(seed);
    const GraphRecording::Work work = random_work(random);
    const std::size_t count = work.size(), most = seed % 3 == 0 ? 1 : GraphOrder::kMaxLanes;
    const GraphOrder order(work, most);
    EXPECT_LE(order.lanes(), most);
    const Before expected = closure(count, [&](std::size_t i) {
      std::vector<std::size_t> follows(work[i].after.begin(), work[i].after.end());
      if (order.previous(i) != kNoEntry) follows.push_back(order.previous(i));
      return follows;
    });
    const Before found = closure(count, [&](std::size_t i) { return order.follows(i); });
    EXPECT_EQ(found, expected) << seed;
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t a : order.follows(i)) {
        for (const std::size_t b : order.follows(i)) EXPECT_FALSE(found[a][b]) << seed << ' ' << i;
      }
    }
  }
}

TEST(CudaGraphOrder, ALaneIsALineAndIsLeftForNothingElseToFollow) {
  for (std::uint64_t seed = 0; seed < test::rounds(100); ++seed) {
    std::mt19937_64 random(seed);
    const GraphRecording::Work work = random_work(random);
    const GraphOrder order(work, GraphOrder::kMaxLanes);
    std::vector<std::size_t> last(order.lanes(), kNoEntry);
    for (std::size_t i = 0; i < work.size(); ++i) {
      std::size_t& before = last[order.lane(i)];
      EXPECT_EQ(order.previous(i), before);
      if (before != kNoEntry) { EXPECT_EQ(order.next(before), i); }
      const auto follows = order.follows(i);
      const bool alone = follows.size() == 1 && follows[0] == before;
      EXPECT_EQ(order.follows_previous_alone(i), alone);
      before = i;
    }
    EXPECT_TRUE(std::equal(last.begin(), last.end(), order.last().begin(), order.last().end()));
  }
}

TEST(CudaGraphOrder, IndependentEntriesHaveLanesOfTheirOwnWhileThereAreAny) {
  const GraphRecording::Work work(10);
  const GraphOrder order(work, GraphOrder::kMaxLanes);
  EXPECT_EQ(order.lanes(), GraphOrder::kMaxLanes);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(order.follows(i).empty());
  for (std::size_t i = 8; i < 10; ++i) EXPECT_EQ(order.lane(i), 0u);
}

}  // namespace
}  // namespace tessera::runtime::cuda
