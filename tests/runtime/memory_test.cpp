// The account of a device's memory, limits, allocators of users, and memory that runs out: on the CPU and on the fake
// driver.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/memory.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime {
namespace {

/// Puts the account back.
struct Limit {
  Device device;
  Limit(Device d, std::size_t bytes) : device(d) { set_memory_limit(device, bytes); }
  ~Limit() { set_memory_limit(device, kNoMemoryLimit); }
};

class MemoryTest : public testing::TestWithParam<bool> {
 protected:
  cuda::fake::Rig rig;
  Device device() { return GetParam() ? rig.device() : Device::cpu(); }
};

TEST_P(MemoryTest, CountsWhatStoragesHold) {
  const MemoryStats before = memory_stats(device());
  StorageRef a = Storage::allocate(device(), 1 << 20);
  StorageRef b = Storage::allocate(device(), 1 << 20);
  MemoryStats now = memory_stats(device());
  EXPECT_EQ(now.in_use - before.in_use, std::size_t{2} << 20);
  EXPECT_EQ(now.allocations - before.allocations, 2u);
  EXPECT_GE(now.reserved, now.in_use);
  EXPECT_GE(now.peak, now.in_use);
  EXPECT_GT(now.total, 0u);
  a.reset();
  now = memory_stats(device());
  EXPECT_EQ(now.in_use - before.in_use, std::size_t{1} << 20);
  EXPECT_EQ(now.frees - before.frees, 1u);
  EXPECT_GE(now.peak - before.in_use, std::size_t{2} << 20);
  reset_memory_peak(device());
  EXPECT_EQ(memory_stats(device()).peak, now.in_use);
  b.reset();
  EXPECT_EQ(memory_stats(device()).in_use, before.in_use);
}

TEST_P(MemoryTest, BorrowedMemoryDoesNotCount) {
  const StorageRef own = Storage::allocate(device(), 64);
  const MemoryStats before = memory_stats(device());
  StorageRef borrowed = Storage::adopt(device(), own->data(), 64, nullptr);
  EXPECT_EQ(memory_stats(device()).in_use, before.in_use);
  borrowed.reset();
  EXPECT_EQ(memory_stats(device()).frees, before.frees);
}

TEST_P(MemoryTest, ALimitIsAnErrorWithAllSizesAndLeavesEverythingUsable) {
  const std::size_t used = memory_stats(device()).in_use;
  StorageRef held = Storage::allocate(device(), 4096);
  const Limit limit(device(), used + 10000);
  const MemoryStats before = memory_stats(device());
  try {
    Storage::allocate(device(), 8192);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.sizes().asked, 8192u);
    EXPECT_EQ(error.sizes().in_use, used + 4096);
    EXPECT_EQ(error.sizes().limit, used + 10000);
    EXPECT_GT(error.sizes().free, 0u);
    EXPECT_GT(error.sizes().total, 0u);
    EXPECT_NE(error.message().find("8192 bytes requested"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("raise the limit"), std::string::npos) << error.what();
  }
  const MemoryStats after = memory_stats(device());
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_EQ(after.peak, before.peak) << "what was not allocated is no peak";
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_NE(Storage::allocate(device(), 5904), nullptr) << "up to the limit";
  held.reset();
  EXPECT_NE(Storage::allocate(device(), 8192), nullptr);
}

TEST_P(MemoryTest, AnAllocationThatIsCaughtAsADeviceErrorKeepsItsLine) {
  const Limit limit(device(), 0);
  try {
    Storage::allocate(device(), 1, {.where = {"a.cpp", "", 7}});
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(dynamic_cast<const OutOfMemoryError*>(&error), nullptr);
    EXPECT_EQ(error.where().line, 7u);
  }
}

TEST_P(MemoryTest, ThreadsDoNotPassTheLimitTogether) {
  const std::size_t used = memory_stats(device()).in_use;
  const Limit limit(device(), used + 64 * 256);
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<StorageRef> kept;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 32; ++i) {
        try {
          StorageRef storage = Storage::allocate(device(), 256);
          ++made;
          const std::lock_guard lock(mutex);
          kept.push_back(std::move(storage));
        } catch (const OutOfMemoryError&) {}
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 64);
  EXPECT_EQ(memory_stats(device()).in_use, used + 64 * 256);
}

/// Aligned memory of the host, which is the fake driver's too; remembers what is out, and for which stream.
struct Counting final : Allocator {
  std::mutex mutex;
  std::map<void*, std::size_t> out;
  int allocated = 0, trimmed = 0;
  void *stream = nullptr, *freed_on = nullptr;
  std::size_t most = ~std::size_t{0};
  bool misaligned = false;

  void* allocate(std::size_t bytes, void* on) override {
    const std::lock_guard lock(mutex);
    stream = on;
    if (bytes > most) return nullptr;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256));
    if (misaligned) memory += 8;
    out[memory] = bytes;
    ++allocated;
    return memory;
  }
  void deallocate(void* memory, std::size_t bytes, void* on) noexcept override {
    const std::lock_guard lock(mutex);
    freed_on = on;
    EXPECT_EQ(out[memory], bytes);
    out.erase(memory);
    std::free(misaligned ? static_cast<std::byte*>(memory) - 8 : memory);
  }
  void trim() noexcept override { ++trimmed; }
};
struct Using {
  Device device;
  Using(Device d, std::shared_ptr<Allocator> a) : device(d) { set_allocator(device, std::move(a)); }
  ~Using() { set_allocator(device, nullptr); }
};

TEST_P(MemoryTest, AnAllocatorGivesTheMemoryAndTakesItBack) {
  const auto counting = std::make_shared<Counting>();
  StorageRef before = Storage::allocate(device(), 64), kept, other;
  const Stream stream(device());
  const std::size_t used = memory_stats(device()).in_use;
  {
    const Using with(device(), counting);
    kept = Storage::allocate(device(), 100);
    other = Storage::allocate(stream.core(), 200);
    EXPECT_EQ(counting->out.size(), 2u);
    EXPECT_EQ(counting->stream, GetParam() ? stream.core()->native_handle() : nullptr);
    before.reset();
    EXPECT_EQ(counting->out.size(), 2u) << "that one is the library's";
  }
  EXPECT_EQ(memory_stats(device()).in_use, used - 64 + 300);
  EXPECT_NE(Storage::allocate(device(), 64), nullptr);
  EXPECT_EQ(counting->allocated, 2);
  kept.reset();
  other.reset();
  EXPECT_TRUE(counting->out.empty());
  EXPECT_EQ(memory_stats(device()).in_use, used - 64);
}

TEST_P(MemoryTest, AnAllocatorThatHasNothingLeftIsTrimmedAndAskedAgain) {
  const auto counting = std::make_shared<Counting>();
  const Using with(device(), counting);
  counting->most = 1000;
  try {
    Storage::allocate(device(), 2000);
    FAIL();
  } catch (const OutOfMemoryError& error) { EXPECT_EQ(error.sizes().asked, 2000u); }
  EXPECT_EQ(counting->trimmed, 1);
  EXPECT_NE(Storage::allocate(device(), 1000), nullptr);
  trim_memory(device());
  EXPECT_EQ(counting->trimmed, 2);
}

TEST_P(MemoryTest, AnAddressThatIsNotAlignedIsGivenBackAndAnError) {
  const auto counting = std::make_shared<Counting>();
  const Using with(device(), counting);
  counting->misaligned = true;
  const std::size_t used = memory_stats(device()).in_use;
  EXPECT_THROW(Storage::allocate(device(), 10), DeviceError);
  EXPECT_TRUE(counting->out.empty());
  EXPECT_EQ(memory_stats(device()).in_use, used);
  counting->misaligned = false;
  EXPECT_NE(Storage::allocate(device(), 10), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "FakeDriver" : "Cpu"; });

/// Memory of an allocator ends on a stream that waits for all other uses.
TEST(MemoryOfAnAllocator, EndsBehindAllUses) {
  cuda::fake::Rig rig;
  const auto kernel = rig.load("mix");
  const auto counting = std::make_shared<Counting>();
  const StorageRef y = rig.make(1);
  const Stream a(rig.device()), b(rig.device());
  {
    const Using with(rig.device(), counting);
    StorageRef x = rig.make(2);
    rig.driver.table().cuCtxSetCurrent(rig.backend.context().handle());
    const int waits = rig.driver.count(cuda::fake::Fn::cuStreamWaitEvent);
    {
      const std::array<Access, 1> reads{Access{std::move(x), AccessMode::Read}};
      const auto nothing = host_work([](const LaunchContext&) {});
      a.core()->submit({nothing, {}, {}, reads, "read", {}});
      b.core()->submit({nothing, {}, {}, reads, "read", {}});
    }
    EXPECT_EQ(rig.driver.count(cuda::fake::Fn::cuStreamWaitEvent), waits + 1);
  }
  EXPECT_TRUE(counting->freed_on == a.core()->native_handle() || counting->freed_on == b.core()->native_handle());
  EXPECT_TRUE(counting->out.empty());
}

TEST(MemoryOfAGpu, IsTrimmedAndReported) {
  cuda::fake::Rig rig;
  rig.driver.limit_memory(1 << 20);
  StorageRef a = Storage::allocate(rig.device(), 4096);
  try {
    Storage::allocate(rig.device(), 1 << 20);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.sizes().in_use, 4096u);
    EXPECT_EQ(error.sizes().free, (std::size_t{1} << 20) - 4096);
    EXPECT_EQ(error.sizes().total, std::size_t{1} << 20);
    EXPECT_EQ(error.sizes().limit, kNoMemoryLimit);
  }
  const int trims = rig.driver.count(cuda::fake::Fn::cuMemPoolTrimTo);
  trim_memory(rig.device());
  EXPECT_EQ(rig.driver.count(cuda::fake::Fn::cuMemPoolTrimTo), trims + 1);
  EXPECT_EQ(memory_stats(rig.device()).reserved, 4096u);
}

}  // namespace
}  // namespace tessera::runtime
