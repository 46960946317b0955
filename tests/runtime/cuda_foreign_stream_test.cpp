// Streams of other libraries: their work and ours in one order, both ends told what the other waits for, and handles
// that end before what was enqueued on them. And native handles and priorities of our own streams.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

class ForeignStream : public testing::Test {
 protected:
  Rig rig{2};
  FakeDriver& driver = rig.driver;
  const Driver& cu = rig.driver.table();

  ForeignStream() { cu.cuCtxSetCurrent(rig.backend.context().handle()); }
  ~ForeignStream() override { EXPECT_EQ(driver.violation(), ""); }
  Stream wrap(CUstream handle, std::shared_ptr<void> owner = nullptr) {
    return Stream::wrap(handle, rig.device(), std::move(owner));
  }
  static std::uint64_t* memory(const StorageRef& storage) { return reinterpret_cast<std::uint64_t*>(storage->data()); }
  template <class F>
  static std::string error_of(F f) {
    try {
      f();
    } catch (const DeviceError& error) { return error.what(); }
    return "no error";
  }
};

TEST_F(ForeignStream, ItsWorkAndOursAreInOneOrder) {
  const auto kernel = rig.load("mix");
  const CUstream foreign = driver.foreign_stream();
  const Stream stream = wrap(foreign);
  EXPECT_EQ(stream.native(), foreign);
  EXPECT_EQ(stream.device(), rig.device());
  const StorageRef y = rig.make(0), x = rig.make(1);
  driver.foreign_store(foreign, memory(y), 5);
  rig.mix(kernel, stream, y, x);  // 5 * 31 + 1
  driver.foreign_store(foreign, memory(x), 7);
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(rig.read(y), 156u * 31 + 7);
}

TEST_F(ForeignStream, WrappedTwiceItIsTheSameStreamAndANewStreamAtItsAddressIsAnother) {
  const CUstream foreign = driver.foreign_stream();
  const Stream a = wrap(foreign);
  EXPECT_EQ(a, wrap(foreign));
  EXPECT_FALSE(a == wrap(driver.foreign_stream()));
  const auto kernel = rig.load("mix");
  StorageRef y = rig.make(0), x = rig.make(1);
  rig.mix(kernel, a, y, x);
  driver.reuse_handle(foreign);  // destroyed, and made again by its owner
  const Stream b = wrap(foreign);
  EXPECT_FALSE(a == b);
  rig.mix(kernel, b, y, x);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 1) << "behind the work of the stream that is gone";
  EXPECT_EQ(rig.read(y), 32u);
}

TEST_F(ForeignStream, AHandleOfOursComesBackAsOurStream) {
  const Stream ours(rig.device());
  EXPECT_EQ(Stream::wrap(ours.native(), rig.device()), ours);
}

TEST_F(ForeignStream, TheLegacyDefaultStreamHasTwoNames) {
  const Stream legacy = wrap(nullptr);
  EXPECT_EQ(legacy, wrap(legacy_stream()));
  const auto kernel = rig.load("mix");
  const StorageRef y = rig.make(3), x = rig.make(1);
  driver.foreign_store(nullptr, memory(y), 5);
  rig.mix(kernel, legacy, y, x);
  EXPECT_EQ(rig.read(y), 156u);
}

TEST_F(ForeignStream, WhatCannotBeWrappedIsAnErrorThatSaysWhy) {
  EXPECT_NE(error_of([&] { wrap(per_thread_stream()); }).find("another stream on every thread"), std::string::npos);
  CudaBackend second(driver.table(), 1);
  cu.cuCtxSetCurrent(second.context().handle());
  const CUstream elsewhere = driver.foreign_stream();
  EXPECT_NE(error_of([&] { wrap(elsewhere); }).find("does not belong to the primary context of cuda:0"),
            std::string::npos);
  EXPECT_EQ(Stream::wrap(elsewhere, Device(second)).device(), Device(second)) << "the legal twin";
  cu.cuCtxSetCurrent(rig.backend.context().handle());
  const CUstream capturing = driver.foreign_stream();
  driver.capture(capturing, true);
  EXPECT_NE(error_of([&] { wrap(capturing); }).find("is capturing this stream"), std::string::npos);
  driver.capture(capturing, false);
  EXPECT_NO_THROW(wrap(capturing));
  EXPECT_NE(error_of([&] { Stream::wrap(capturing, Device::cpu()); }).find("only GPUs have such streams"),
            std::string::npos);
  EXPECT_NE(error_of([] { (void)Stream(Device::cpu()).native(); }).find("has no native handle"), std::string::npos);
}

TEST_F(ForeignStream, WhileItIsCapturedNothingIsEnqueuedAndNothingIsLost) {
  const auto kernel = rig.load("mix");
  const CUstream foreign = driver.foreign_stream();
  const Stream stream = wrap(foreign);
  StorageRef y = rig.make(0), x = rig.make(1);
  rig.mix(kernel, stream, y, x);
  driver.capture(foreign, true);
  EXPECT_NE(error_of([&] { rig.mix(kernel, stream, y, x); }).find("kernel mix: another library is capturing"),
            std::string::npos);
  EXPECT_THROW(Storage::allocate(stream.core(), 8), DeviceError);
  EXPECT_THROW(stream.core()->mark(), DeviceError);
  const int blocks = driver.live_blocks();
  x.reset();  // ends behind the work that uses it, on a stream that is not captured
  EXPECT_EQ(driver.live_blocks(), blocks);
  EXPECT_EQ(rig.read(y), 1u);
  EXPECT_EQ(rig.blocks_in_use(), blocks - 1);
  driver.capture(foreign, false);
  x = rig.make(1);
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(rig.read(y), 32u);
}

/// Although an event is there behind the library's own last work.
TEST_F(ForeignStream, SynchronizingWaitsForWhatOthersEnqueueOnAStreamOfOurs) {
  const Stream stream(rig.device());
  const StorageRef x = rig.make(0), host = Storage::allocate(Device::cpu(), 8);
  std::memset(host->data(), 0, 8);
  const auto handle = static_cast<CUstream>(stream.native());
  transfer(stream, {x}, {host}, 8, "copy_to", {});
  std::uint64_t word = 0;
  driver.foreign_store(handle, &word, 5);
  Stream(stream).synchronize();
  EXPECT_EQ(word, 5u);
}

/// A library that gives its memory to one operation after the other (an operator of PyTorch).
TEST_F(ForeignStream, MemoryIsAdoptedAgainBehindTheWorkThatIsStillInFlight) {
  const auto kernel = rig.load("mix");
  const CUstream foreign = driver.foreign_stream();
  const Stream theirs = wrap(foreign), ours(rig.device()), third(rig.device());
  const StorageRef memory_of_others = rig.make(2), x = rig.make(1);
  const StorageRef y = rig.make(0), z = rig.make(0);
  int released = 0;
  const auto adopt = [&] {
    return Storage::adopt(rig.device(), memory_of_others->data(), 8,
                          std::shared_ptr<void>(&released, [](int* count) { ++*count; }));
  };
  StorageRef first = adopt();
  EXPECT_THROW(adopt(), BorrowError) << "a handle is left";
  released = 0;
  rig.mix(kernel, theirs, y, first);  // reads 2
  rig.mix(kernel, third, z, first);   // the same
  first.reset();
  EXPECT_EQ(released, 0) << "the work has not run";
  StorageRef second = adopt();
  EXPECT_THROW(adopt(), BorrowError);
  released = 0;
  cu.cuStreamDestroy(foreign);
  rig.mix(kernel, ours, second, x);  // writes 2 * 31 + 1, behind both reads
  second.reset();
  StorageRef again = adopt();
  EXPECT_EQ(rig.read(again), 63u);
  EXPECT_EQ(rig.read(y), 2u);
  EXPECT_EQ(rig.read(z), 2u);
  again.reset();
  driver.run_all();
  const StorageRef next = adopt();
  EXPECT_EQ(released, 3) << "owners whose work has ended are released when memory is taken again";
}

TEST_F(ForeignStream, WithoutAnOwnerItMayEndBeforeWhatItWasGiven) {
  const auto kernel = rig.load("mix");
  const CUstream foreign = driver.foreign_stream();
  StorageRef y = rig.make(0), x = rig.make(1);
  std::unique_ptr<Stream> stream = std::make_unique<Stream>(wrap(foreign));
  rig.mix(kernel, *stream, y, x);
  StorageRef mine = Storage::allocate(stream->core(), 8);
  cu.cuStreamDestroy(foreign);
  mine.reset();
  const Stream other(rig.device());
  rig.mix(kernel, other, y, x);
  EXPECT_EQ(rig.read(y), 32u);
  stream.reset();
  y.reset();
  x.reset();
  EXPECT_EQ(rig.blocks_in_use(), 0);
}

TEST_F(ForeignStream, AnOwnerIsKeptAsLongAsAnythingMayUseTheHandle) {
  const auto kernel = rig.load("mix");
  const CUstream foreign = driver.foreign_stream();
  bool ended = false;
  StorageRef y = rig.make(0);
  {
    std::shared_ptr<void> owner(foreign, [&](void* handle) {
      cu.cuStreamDestroy(static_cast<CUstream>(handle));
      ended = true;
    });
    const Stream stream = wrap(foreign, std::move(owner));
    rig.mix(kernel, stream, y, y);
  }
  EXPECT_FALSE(ended) << "the tensor remembers its last writer";
  EXPECT_EQ(rig.read(y), 0u);
  y.reset();
  EXPECT_TRUE(ended);
}

TEST_F(ForeignStream, BothEndsAreTold) {
  const auto kernel = rig.load("mix");
  const CUstream foreign = driver.foreign_stream();
  const Stream theirs = wrap(foreign), ours(rig.device());
  const StorageRef y = rig.make(0), x = rig.make(1), z = rig.make(0);
  // Elements that are ready behind their stream.
  driver.foreign_store(foreign, memory(x), 5);
  x->record(theirs.core(), AccessMode::Write);
  rig.mix(kernel, ours, y, x);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 1);
  // Their stream waits for our elements, and says that it has read them.
  y->order(theirs.core(), AccessMode::Read);
  y->forget(AccessMode::Read);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 2);
  y->record(theirs.core(), AccessMode::Read);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 2) << "it waits already";
  rig.mix(kernel, ours, y, z);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 3) << "a write behind their read";
  EXPECT_EQ(rig.read(y), 5u * 31);
}

TEST_F(ForeignStream, SynchronizingWaitsForItsOwnersWorkToo) {
  const CUstream foreign = driver.foreign_stream();
  Stream stream = wrap(foreign);
  const StorageRef x = rig.make(1);
  driver.foreign_store(foreign, memory(x), 5);
  stream.synchronize();
  EXPECT_EQ(driver.pending_steps(), 0);
}

TEST_F(ForeignStream, AKernelBehindUnknownWorkIsNoDependentLaunch) {
  const auto early = rig.load_early();
  const Stream ours(rig.device()), foreign = wrap(driver.foreign_stream());
  const StorageRef y = rig.make(0), x = rig.make(1);
  for (int i = 0; i < 2; ++i) rig.mix(early, foreign, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 0);
  for (int i = 0; i < 3; ++i) rig.mix(early, ours, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 2) << "a stream that is ours alone";
  (void)ours.native();
  for (int i = 0; i < 3; ++i) rig.mix(early, ours, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 2);
}

TEST_F(ForeignStream, EveryCallOfWrappingMayFailOnce) {
  const auto kernel = rig.load("mix");
  const CUstream foreign = driver.foreign_stream();
  const StorageRef y = rig.make(0), x = rig.make(1);
  std::uint64_t runs = 0;
  for (int k = 0;; ++k) {
    driver.fail_at(k);
    try {
      const Stream stream = wrap(foreign);
      rig.mix(kernel, stream, y, x);
      ++runs;
      x->record(stream.core(), AccessMode::Read);
    } catch (const DeviceError&) {}
    const bool happened = driver.fault_happened();
    driver.heal();
    if (!happened) break;
    ASSERT_LT(k, 100);
  }
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < runs; ++i) expected = expected * 31 + 1;
  EXPECT_EQ(rig.read(y), expected);
}

TEST_F(ForeignStream, PrioritiesAreTheDriversAndChecked) {
  const PriorityRange range = Stream::priorities(rig.device());
  EXPECT_EQ(range.least, 0);
  EXPECT_EQ(range.greatest, -5);
  const Stream urgent(rig.device(), {.priority = -5});
  EXPECT_EQ(driver.priority(static_cast<CUstream>(urgent.native())), -5);
  EXPECT_NE(error_of([&] { Stream(rig.device(), {.priority = -6}); }).find("its priorities are -5 (most urgent) to 0"),
            std::string::npos);
  EXPECT_THROW(Stream(rig.device(), {.priority = 1}), DeviceError);
  EXPECT_NO_THROW(Stream(Device::cpu(), {.priority = -100}));
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
