// More stack: recursion of any depth, on threads of any size, with exceptions and results.
#include "tessera/base/stack.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/small_thread.hpp"
#include "tessera/base/sanitizers.hpp"

namespace tessera {
namespace {

/// The thread sanitizer keeps at most 65536 calls.
constexpr int kDepth = TESSERA_TSAN ? 5000 : TESSERA_ASAN ? 30000 : 300000;

int depth(int n) {
  if (n == 0) return 0;
  return 1 + with_stack([&] { return depth(n - 1); });
}
TEST(Stack, IsEnoughForRecursionOfAnyDepth) {
  const std::size_t before = stack_left(), size = stack_size();
  EXPECT_GT(before, kStackOfCalls) << "of the main thread";
  EXPECT_EQ(depth(kDepth), kDepth);
  EXPECT_EQ(stack_size(), size) << "back on the first stack";
  EXPECT_NEAR(static_cast<double>(stack_left()), static_cast<double>(before), 4096);
}

TEST(Stack, OfSmallThreadsGrows) {
  for (const std::size_t kib : {64, 128, 256, 512, 8192}) {
    int reached = 0;
    std::size_t left = 0;
    on_small_thread(kib, [&] {
      EXPECT_LE(stack_left(), stack_size());
      if (!TESSERA_ASAN && !TESSERA_TSAN) {  // which make it larger
        EXPECT_LE(stack_size(), std::max(kib, least_stack_kib()) << 10);
      }
      left = with_stack([] { return stack_left(); });
      reached = depth(kDepth);
    });
    EXPECT_EQ(reached, kDepth) << kib;
    EXPECT_GE(left, kStackOfCalls - 4096) << kib;
  }
}

int throws_at(int n) {
  if (n == 0) throw std::out_of_range("the end");
  const std::string alive(40, 'x');  // destroyed on the way
  return static_cast<int>(alive.size()) + with_stack([&] { return throws_at(n - 1); });
}
TEST(Stack, ExceptionsLeaveIt) {
  for (int i = 0; i < 3; ++i) {
    try {
      (void)throws_at(TESSERA_TSAN ? 2000 : 30000);
      FAIL();
    } catch (const std::out_of_range& error) { EXPECT_STREQ(error.what(), "the end"); }
  }
}

TEST(Stack, IsOfTheSameThread) {
  thread_local int here = 0;
  const std::thread::id id = std::this_thread::get_id();
  on_small_thread(64, [&] {
    const auto mine = std::this_thread::get_id();
    here = 7;
    with_stack([&] {
      EXPECT_EQ(std::this_thread::get_id(), mine);
      EXPECT_EQ(here, 7);
      here = 8;
    });
    EXPECT_EQ(here, 8);
  });
  EXPECT_EQ(std::this_thread::get_id(), id);
  EXPECT_EQ(here, 0);
}

TEST(Stack, ResultsNeedOnlyMoves) {
  on_small_thread(64, [] {
    const auto made = with_stack([] { return std::make_unique<int>(3); });
    EXPECT_EQ(*made, 3);
    bool called = false;
    EXPECT_TRUE(try_with_stack([&] { called = true; }));
    EXPECT_TRUE(called);
    EXPECT_GE(with_stack([] { return stack_left(); }, kStackOfRegions), kStackOfRegions - 4096);
  });
}

/// A list whose nodes own the next one.
struct Node {
  std::unique_ptr<Node> next;
  ~Node() {
    try_with_stack([&] { next.reset(); });
  }
};
TEST(Stack, IsEnoughForDestructors) {
  std::unique_ptr<Node> first;
  for (int i = 0; i < kDepth; ++i) {
    auto node = std::make_unique<Node>();
    node->next = std::move(first);
    first = std::move(node);
  }
  on_small_thread(64, [&] { first.reset(); });
  EXPECT_EQ(first, nullptr);
}

}  // namespace
}  // namespace tessera
