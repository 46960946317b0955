// The CPU's memory: reuse of freed blocks, its limits, and that blocks in use never overlap.
#include "runtime/cpu/block_cache.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tessera/runtime/backend.hpp"

namespace tessera::runtime {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

TEST(BlockCache, BlocksAreAtMostAnEighthTooLarge) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const std::size_t bytes = 1 + random() % (kMega << (random() % 12));
    const std::size_t size = BlockCache::block_size(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_LE(size - bytes, bytes / 8);
    ASSERT_EQ(BlockCache::block_size(size), size);
  }
}

TEST(BlockCache, ReusesTheYoungestBlockOfTheSize) {
  BlockCache cache(64 * kMega);
  void* a = cache.take(4 * kMega);
  void* b = cache.take(4 * kMega);
  cache.give(a, 4 * kMega);
  cache.give(b, 4 * kMega);
  EXPECT_EQ(cache.kept(), 8 * kMega);
  EXPECT_EQ(cache.take(4 * kMega - 100), b) << "the same block size";
  void* other = cache.take(5 * kMega);
  EXPECT_NE(other, a) << "another size";
  EXPECT_EQ(cache.kept(), 4 * kMega);
  cache.give(b, 4 * kMega);
  cache.give(other, 5 * kMega);
  cache.trim();
  EXPECT_EQ(cache.kept(), 0u);
}

TEST(BlockCache, KeepsNoMoreThanItsLimit) {
  BlockCache cache(8 * kMega);
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(cache.take(kMega));
  for (void* block : blocks) {
    cache.give(block, kMega);
    EXPECT_LE(cache.kept(), 8 * kMega);
  }
  EXPECT_EQ(cache.kept(), 8 * kMega);
  cache.give(cache.take(9 * kMega), 9 * kMega);
  EXPECT_EQ(cache.kept(), 8 * kMega) << "a block above the limit is not kept, and drives nothing out";
  for (int i = 0; i < 8; ++i) blocks[static_cast<std::size_t>(i)] = cache.take(kMega);
  EXPECT_EQ(cache.kept(), 0u);
  for (int i = 0; i < 8; ++i) cache.give(blocks[static_cast<std::size_t>(i)], kMega);
  BlockCache none(0);
  none.give(none.take(kMega), kMega);
  EXPECT_EQ(none.kept(), 0u);
}

TEST(BlockCache, ManySmallSizesAreBounded) {
  BlockCache cache(std::numeric_limits<std::size_t>::max() / 2);
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < BlockCache::kMaxBlocks + 100; ++i) blocks.push_back(cache.take(kMega));
  for (void* block : blocks) cache.give(block, kMega);
  EXPECT_EQ(cache.kept(), BlockCache::kMaxBlocks * kMega);
}

TEST(BlockCache, BlocksInUseDoNotOverlap) {
  BlockCache cache(32 * kMega);
  std::mt19937_64 random(2);
  struct Live {
    unsigned char* memory;
    std::size_t bytes;
    unsigned char tag;
  };
  std::vector<Live> live;
  auto ends = [](const Live& block) {
    return block.memory[0] == block.tag && block.memory[block.bytes - 1] == block.tag;
  };
  for (int i = 0; i < 2000; ++i) {
    if (live.size() < 8 && random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (6 * kMega);
      auto* memory = static_cast<unsigned char*>(cache.take(bytes));
      ASSERT_NE(memory, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % kStorageAlignment, 0u);
      live.push_back({memory, bytes, static_cast<unsigned char>(i)});
      memory[0] = memory[bytes - 1] = live.back().tag;
    } else if (!live.empty()) {
      const std::size_t k = random() % live.size();
      ASSERT_TRUE(ends(live[k]));
      cache.give(live[k].memory, live[k].bytes);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  for (const Live& block : live) {
    EXPECT_TRUE(ends(block));
    cache.give(block.memory, block.bytes);
  }
}

}  // namespace
}  // namespace tessera::runtime
