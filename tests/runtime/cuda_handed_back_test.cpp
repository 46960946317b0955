// Memory that another library returns while its own streams still use it: it is reused only after that work, and
// neither returning it nor waiting for it hangs, throws or leaks.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/sanitizers.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

/// As to_dlpack's: a storage and a lease of it.
struct Given final : HandedBack {
  StorageRef storage;
  LeaseLink lease;
  bool* ended;
  Given(StorageRef s, bool exclusive, bool& flag) : storage(std::move(s)), ended(&flag) {
    lease.take(*storage, exclusive, {.what = "to_dlpack"});
  }
  ~Given() override { *ended = true; }
  void end_lease() noexcept override { lease.release(); }
};

struct HandedBackTest : ::testing::Test {
  Rig rig;
  FakeDriver& driver = rig.driver;
  const Driver& cu = driver.table();
  CUstream theirs = nullptr;  ///< a stream of the other library, unknown to Tessera
  bool ended = false;

  HandedBackTest() {
    cu.cuCtxSetCurrent(rig.backend.context().handle());
    EXPECT_EQ(cu.cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING), 0);
  }
  ~HandedBackTest() override {
    cu.cuStreamDestroy(theirs);
    driver.run_all();
    EXPECT_EQ(driver.violation(), "");
  }
  /// Enqueues work of the other library on the storage, which has not run yet; then returns the storage.
  void use_and_give_back(StorageRef storage, bool exclusive = true) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage->data());
    const std::size_t bytes = storage->bytes();
    auto* given = new Given(std::move(storage), exclusive, ended);
    EXPECT_EQ(cu.cuMemsetD8Async(address, 0xFF, bytes, theirs), 0);
    const int calls = driver.calls();
    rig.backend.end_when_idle(given);
    EXPECT_EQ(driver.calls(), calls) << "the deleter may be called from the driver's callbacks";
  }
};

TEST_F(HandedBackTest, IsUsedAgainOnlyBehindTheirWork) {
  use_and_give_back(Storage::allocate(rig.device(), 64));
  const int blocks = driver.live_blocks();
  for (int i = 0; i < 3; ++i) rig.backend.poll();
  EXPECT_FALSE(ended) << "their memset has not run";
  EXPECT_EQ(driver.count(Fn::cuCtxRecordEvent), 1) << "one event covers it";
  EXPECT_EQ(driver.count(Fn::cuCtxSynchronize), 0) << "and nothing waits";
  EXPECT_GT(driver.pending_steps(), 0);
  driver.run_all();
  EXPECT_EQ(driver.violation(), "") << "the memset found its memory";
  Storage::allocate(rig.device(), 8);
  EXPECT_TRUE(ended);
  driver.run_all();
  EXPECT_LT(driver.live_blocks(), blocks);
}

TEST_F(HandedBackTest, WhoUsesItNextWaitsForTheirWork) {
  for (const bool exclusive : {true, false}) {
    const StorageRef kept = rig.make(5);
    ended = false;
    use_and_give_back(kept, exclusive);
    EXPECT_GT(driver.pending_steps(), 0);
    {
      const WriteLease lease(kept, {.what = "the next one"});
      EXPECT_EQ(driver.pending_steps(), 0);
      EXPECT_TRUE(ended);
    }
    EXPECT_EQ(rig.read(kept), ~std::uint64_t{0});
  }
}

TEST_F(HandedBackTest, ALeaseThatOthersHoldIsStillRejected) {
  const StorageRef storage = rig.make(5);
  const ReadLease reader(storage, {.what = "a reader"});
  use_and_give_back(rig.make(6));
  EXPECT_THROW(WriteLease(storage, {.what = "a writer"}), BorrowError);
  EXPECT_NO_THROW(ReadLease(storage, {.what = "a reader"}));
}

TEST_F(HandedBackTest, MemoryThatRunsOutIsFoundThere) {
#if TESSERA_TSAN
  GTEST_SKIP() << "the thread sanitizer needs minutes for gigabytes of the fake device";
#endif
  const std::size_t half = std::size_t{1} << 29;
  Stream stream(rig.device());
  use_and_give_back(Storage::allocate(rig.device(), half + 1));
  EXPECT_NE(Storage::allocate(stream.core(), half), nullptr);
  EXPECT_TRUE(ended);
  EXPECT_THROW(Storage::allocate(rig.device(), std::size_t{1} << 31), DeviceError) << "what there never was";
}

TEST_F(HandedBackTest, ADriverThatCannotRecordTheWholeContext) {
  driver.table().cuCtxRecordEvent = nullptr;  // before CUDA 12.5
  const StorageRef kept = rig.make(5);
  use_and_give_back(kept);
  Storage::allocate(rig.device(), 8);
  driver.run_all();
  Storage::allocate(rig.device(), 8);
  EXPECT_FALSE(ended) << "nothing says that they are done";
  EXPECT_NO_THROW(ReadLease(kept, {.what = "host"})) << "but waiting does";
  EXPECT_TRUE(ended);
}

TEST_F(HandedBackTest, AFailureOfTheDriverLosesNothing) {
  for (const Fn failing : {Fn::cuCtxRecordEvent, Fn::cuEventCreate, Fn::cuCtxSynchronize}) {
    const StorageRef kept = rig.make(5);
    ended = false;
    use_and_give_back(kept);
    driver.fail_next(failing, 900);  // a graph is being captured
    if (failing == Fn::cuCtxSynchronize) {
      EXPECT_THROW(ReadLease(kept, {.what = "host"}), DeviceError);
    } else {
      Storage::allocate(rig.device(), 8);
    }
    EXPECT_FALSE(ended);
    EXPECT_NO_THROW(ReadLease(kept, {.what = "host"}));
    EXPECT_TRUE(ended);
  }
}

TEST_F(HandedBackTest, ADeadDeviceUsesNothing) {
  const StorageRef kept = rig.make(5);
  use_and_give_back(kept);
  driver.poison(719);
  EXPECT_NO_THROW(ReadLease(kept, {.what = "host"}));
  EXPECT_TRUE(ended);
  driver.heal();
}

TEST_F(HandedBackTest, ManyThreadsAtATime) {
  std::vector<std::thread> threads;
  std::atomic<int> live{0};
  struct Counted final : HandedBack {
    std::atomic<int>& live;
    explicit Counted(std::atomic<int>& n) : live(n) { ++live; }
    ~Counted() override { --live; }
    void end_lease() noexcept override {}
  };
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        rig.backend.end_when_idle(new Counted(live));
        if (i % 3 == 0) Storage::allocate(rig.device(), 8);
        if (i % 7 == 0) rig.backend.end_handed_back();
      }
    });
  for (std::thread& thread : threads) thread.join();
  rig.backend.end_handed_back();
  EXPECT_EQ(live, 0);
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
