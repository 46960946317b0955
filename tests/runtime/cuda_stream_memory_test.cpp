// Memory that was freed on a stream is used again on it without the driver: what is reused, for whom, and how it ends.
#include "runtime/cuda/stream_memory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

class StreamMemoryTest : public testing::Test {
 protected:
  int allocations() const { return rig.driver.count(Fn::cuMemAllocFromPoolAsync); }
  int frees() const { return rig.driver.count(Fn::cuMemFreeAsync); }
  /// The address of a tensor of so many bytes that ends at once.
  const void* use(const Stream& stream, std::size_t bytes) { return Storage::allocate(stream.core(), bytes)->data(); }
  void TearDown() override {
    rig.driver.run_all();
    EXPECT_EQ(rig.driver.violation(), "");
  }
  Rig rig;
};

TEST_F(StreamMemoryTest, TheSameStreamUsesMemoryOfTheSameSizeAgain) {
  const Stream stream(rig.device()), other(rig.device());
  const void* first = use(stream, 4096);
  const int allocated = allocations(), freed = frees();
  EXPECT_EQ(use(stream, 4096), first);
  EXPECT_EQ(allocations(), allocated) << "without the driver";
  EXPECT_NE(use(stream, 4095), first) << "another size";
  EXPECT_NE(use(other, 4096), first) << "another stream, which is not after the first one";
  EXPECT_EQ(allocations(), allocated + 2);
  EXPECT_EQ(frees(), freed);
}

TEST_F(StreamMemoryTest, MemoryInUseIsNotUsedAgain) {
  const Stream stream(rig.device());
  const StorageRef a = Storage::allocate(stream.core(), 64), b = Storage::allocate(stream.core(), 64);
  EXPECT_NE(a->data(), b->data());
  const StorageRef c = Storage::allocate(stream.core(), 64);
  EXPECT_NE(c->data(), a->data());
  EXPECT_NE(c->data(), b->data());
}

/// The work of the new tensor runs after all work of the old one, whatever stream had it: what the memory holds is
/// what the old work left there.
TEST_F(StreamMemoryTest, NewWorkComesAfterTheOldOnes) {
  const auto kernel = rig.load("mix"), early = rig.load_early();
  constexpr std::uint64_t kNew = 0xA5A5A5A5A5A5A5A5;  // new memory of the fake driver
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const Stream stream(rig.device()), other(rig.device());
    const StorageRef x = rig.make(7), kept = rig.make(1);
    StorageRef old = Storage::allocate(stream.core(), 8);
    const void* address = old->data();
    rig.mix(early, stream, old, x, 1);
    rig.mix(random() % 2 == 0 ? kernel : early, other, kept, old);
    old.reset();  // on `other`, which is after `stream`
    const bool again = random() % 2 == 0;
    const Stream& next = again ? other : stream;
    StorageRef fresh = Storage::allocate(next.core(), 8);
    EXPECT_EQ(fresh->data() == address, again);
    rig.mix(early, next, fresh, x, 5);
    rig.mix(kernel, again ? stream : other, kept, fresh, 3);
    fresh.reset();
    rig.driver.run_all(random);
    const std::uint64_t first = 31 * kNew + 7 + 1, second = 31 * (again ? first : kNew) + 7 + 5;
    EXPECT_EQ(rig.read(kept), 31 * (31 + first) + second + 3) << "seed " << seed;
  }
}

TEST_F(StreamMemoryTest, LargeTensorsAreTheDrivers) {
  const Stream stream(rig.device());
  use(stream, 33 * kMega);
  const int allocated = allocations();
  EXPECT_EQ(frees(), 1);
  use(stream, 33 * kMega);
  EXPECT_EQ(allocations(), allocated + 1);
}

TEST_F(StreamMemoryTest, AStreamKeepsALimitedNumberOfBytesAndBlocks) {
  const Stream stream(rig.device());
  {
    std::vector<StorageRef> large;
    for (int i = 0; i < 6; ++i) large.push_back(Storage::allocate(stream.core(), 32 * kMega));
  }
  EXPECT_EQ(frees(), 2) << "128 MiB are kept";
  rig.backend.trim_memory();
  const int before = frees();
  {
    std::vector<StorageRef> small;
    for (std::size_t i = 0; i < 100; ++i) small.push_back(Storage::allocate(stream.core(), 8 + i));
  }
  EXPECT_EQ(frees(), before + 36) << "64 blocks are kept";
}

TEST_F(StreamMemoryTest, ItReturnsWhenMemoryRunsOut) {
  const Stream stream(rig.device()), other(rig.device());
  rig.driver.limit_memory(8192);
  use(stream, 4096);
  use(other, 2048);
  EXPECT_NE(Storage::allocate(rig.device(), 8192), nullptr);
  rig.driver.run_all();
  EXPECT_EQ(rig.driver.live_blocks(), 0);
}

TEST_F(StreamMemoryTest, ItReturnsWhenItIsTrimmed) {
  const Stream stream(rig.device()), other(rig.device());
  const auto kernel = rig.load("mix");
  const StorageRef x = rig.make(1), y = rig.make(2);
  rig.driver.run_all();
  use(stream, 64);
  use(other, 64);
  rig.driver.run_all();
  rig.mix(kernel, other, y, x);
  const int live = rig.driver.live_blocks();
  rig.backend.trim_memory();
  EXPECT_LE(rig.driver.live_blocks(), live - 1) << "the idle stream's is free on return";
  EXPECT_EQ(rig.blocks_in_use(), live - 2);
}

TEST_F(StreamMemoryTest, TrimmingDoesNotWaitForWork) {
  const Stream stream(rig.device());
  const auto kernel = rig.load("mix");
  const StorageRef x = rig.make(1), y = rig.make(2);
  use(stream, 64);
  rig.driver.run_all();
  rig.mix(kernel, stream, y, x);
  rig.backend.trim_memory();
  EXPECT_GT(rig.driver.pending_steps(), 0);
}

TEST_F(StreamMemoryTest, ItReturnsWhenTheStreamEnds) {
  {
    const Stream stream(rig.device());
    use(stream, 64);
  }
  rig.driver.run_all();
  EXPECT_EQ(rig.driver.live_blocks(), 0);
}

/// The handle may be dropped while another thread gives it memory.
TEST_F(StreamMemoryTest, ItsEndReturnsWhatItKeeps) {
  const Stream stream(rig.device());
  const auto handle = static_cast<CUstream>(stream.core()->native_handle());
  {
    StreamMemory kept(rig.backend.memory(), handle);
    EXPECT_TRUE(kept.keep(rig.backend.memory().allocate_on(handle, 64), 64));
  }
  rig.driver.run_all();
  EXPECT_EQ(rig.driver.live_blocks(), 0);
}

TEST_F(StreamMemoryTest, NothingIsKeptForAStreamWithoutHandle) {
  const auto kernel = rig.load("mix");
  const StorageRef x = rig.make(1), y = rig.make(2);
  StorageRef late;
  std::weak_ptr<StreamCore> core;
  {
    const Stream stream(rig.device());
    core = stream.core();
    late = Storage::allocate(stream.core(), 64);
    rig.mix(kernel, stream, y, x);
  }
  const int freed = frees();
  late.reset();
  EXPECT_EQ(frees(), freed + 1);
  EXPECT_FALSE(core.expired()) << "y and x remember it";
}

/// If it cannot be enqueued behind the stream's work, the host waits for that.
TEST_F(StreamMemoryTest, AFreeThatFailsWaitsForTheStream) {
  const auto kernel = rig.load("mix");
  const StorageRef x = rig.make(1), y = rig.make(2);
  {
    const Stream stream(rig.device());
    use(stream, 64);
    rig.mix(kernel, stream, y, x);
    rig.driver.fail_next(Fn::cuMemFreeAsync, 1);
  }
  EXPECT_EQ(rig.read(y), 63u);
  EXPECT_EQ(rig.blocks_in_use(), 2);
}

/// Although storages remember it as a reader.
TEST_F(StreamMemoryTest, AStreamWithoutHandleKeepsNothing) {
  const auto kernel = rig.load("mix");
  const StorageRef x = rig.make(1), y = rig.make(2);
  std::weak_ptr<StreamCore> core;
  {
    const Stream stream(rig.device());
    core = stream.core();
    rig.mix(kernel, stream, y, x);
    use(stream, 64);
  }
  EXPECT_FALSE(core.expired());
  rig.driver.run_all();
  EXPECT_EQ(rig.driver.live_blocks(), 2);
}

/// Streams of several threads, some dropped meanwhile, while another thread trims.
TEST_F(StreamMemoryTest, ThreadsMayTrimMeanwhile) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const Stream stream(rig.device());
        StorageRef last;
        for (std::size_t i = 0; i < 20; ++i) last = Storage::allocate(stream.core(), 64 + i % 3);
      }
    });
  }
  std::thread trimmer([&] {
    while (!end) rig.backend.trim_memory();
  });
  for (std::thread& thread : threads) thread.join();
  end = true;
  trimmer.join();
  EXPECT_EQ(rig.blocks_in_use(), 0);
}

TEST_F(StreamMemoryTest, ADeadDeviceGivesNoMemory) {
  const Stream stream(rig.device());
  use(stream, 64);
  rig.driver.poison(700);
  EXPECT_THROW(rig.make(1), DeviceError);
  EXPECT_THROW(Storage::allocate(stream.core(), 64), DeviceError);
}

TEST_F(StreamMemoryTest, TheDefaultStreamIsNeverDropped) {
  const void* first = use(Stream::default_of(rig.device()), 64);
  const int allocated = allocations();
  EXPECT_EQ(use(Stream::default_of(rig.device()), 64), first);
  EXPECT_EQ(allocations(), allocated);
}

/// What is allocated for every stream at once would never take it.
TEST_F(StreamMemoryTest, MemoryOfNoStreamIsNotKept) {
  const auto kernel = rig.load("mix");
  const Stream stream(rig.device());
  const StorageRef x = rig.make(1);
  StorageRef y = rig.make(2);
  rig.mix(kernel, stream, y, x);
  const int freed = frees();
  y.reset();
  EXPECT_EQ(frees(), freed + 1);
}

/// Others may capture it: then nothing but the program's own work may go there.
TEST_F(StreamMemoryTest, AStreamWhoseHandleOthersHaveKeepsNothing) {
  Stream stream(rig.device());
  use(stream, 64);
  const int freed = frees();
  (void)stream.native();
  EXPECT_EQ(frees(), freed + 1);
  use(stream, 64);
  EXPECT_EQ(frees(), freed + 2);
}

TEST_F(StreamMemoryTest, AnothersStreamKeepsNothing) {
  const Stream wrapped = Stream::wrap(rig.driver.foreign_stream(), rig.device());
  const int freed = frees();
  use(wrapped, 64);
  const int allocated = allocations();
  use(wrapped, 64);
  EXPECT_EQ(allocations(), allocated + 1) << "nothing was kept there";
  rig.driver.run_all();
  EXPECT_EQ(frees() - freed + rig.driver.live_blocks(), 2) << "they end on a stream of the library";
  EXPECT_EQ(rig.blocks_in_use(), 0);
}

TEST(StreamMemoryOff, EveryTensorIsTheDrivers) {
  setenv("TESSERA_KEEP_MEMORY", "0", 1);
  {
    Rig rig;
    const Stream stream(rig.device());
    for (int i = 0; i < 3; ++i) (void)Storage::allocate(stream.core(), 64);
    EXPECT_EQ(rig.driver.count(Fn::cuMemAllocFromPoolAsync), 3);
    EXPECT_EQ(rig.driver.count(Fn::cuMemFreeAsync), 3);
  }
  unsetenv("TESSERA_KEEP_MEMORY");
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
