// Guest streams: one driver call for each piece of work, also while another library captures the stream; what is not a
// guest is kept apart; results are memory of the other library. And the CPU's, where work has ended when it is
// enqueued.
#include "tessera/runtime/guest.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

/// The other library's allocator: it counts, and its owner is a number.
struct Lender final : GuestMemory {
  Block allocate(Device device, std::size_t bytes) override {
    Backend& backend = device.backend();
    ++allocations;
    void* const memory = backend.allocate(bytes);
    return {memory, std::shared_ptr<int>(new int(allocations), [&backend, memory, bytes, this](int* owner) {
              delete owner;
              ++released;
              backend.free(memory, bytes);
            })};
  }
  int allocations = 0, released = 0;
};

StorageRef guest(Device device, void* memory, std::size_t bytes) {
  StorageOptions options;
  options.guest = true;
  return Storage::adopt(device, memory, bytes, nullptr, options);
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

class GuestStream : public testing::Test {
 protected:
  Rig rig;
  FakeDriver& driver = rig.driver;
  Lender lender;
  CUstream foreign = (rig.driver.table().cuCtxSetCurrent(rig.backend.context().handle()), rig.driver.foreign_stream());
  Stream stream = Stream(StreamCore::guest(rig.device(), foreign, lender));
  std::shared_ptr<const Launchable> kernel = rig.load("mix");

  ~GuestStream() override { EXPECT_EQ(driver.violation(), ""); }
  /// The same bytes as a guest.
  StorageRef as_guest(const StorageRef& storage) { return guest(rig.device(), storage->data(), storage->bytes()); }
};

TEST_F(GuestStream, OneDriverCallForEachPieceOfWorkAlsoWhileItIsCaptured) {
  const StorageRef y = rig.make(5), x = rig.make(1);
  const auto calls = [&] {
    int all = 0;
    for (int f = 0; f < static_cast<int>(Fn::count); ++f) all += driver.count(static_cast<Fn>(f));
    return all - driver.count(Fn::cuCtxGetCurrent);
  };
  for (const bool captured : {false, true}) {
    driver.capture(foreign, captured);
    const int before = calls(), launches = driver.count(Fn::cuLaunchKernel);
    {
      const StorageRef to = as_guest(y), from = as_guest(x);
      rig.mix(kernel, stream, to, from);
      rig.mix(kernel, stream, to, from);
    }
    EXPECT_EQ(driver.count(Fn::cuLaunchKernel) - launches, 2);
    EXPECT_EQ(calls() - before, 2) << "no event, no query, nothing at the end of the storages";
  }
  driver.capture(foreign, false);
  driver.run_all();
  EXPECT_EQ(rig.read(y), (((5u * 31 + 1) * 31 + 1) * 31 + 1) * 31 + 1);
}

TEST_F(GuestStream, ResultsAreTheOtherLibrarysAndTheirMemoryEndsWithThem) {
  std::shared_ptr<void> kept;
  {
    const StorageRef result = Storage::allocate(stream.core(), 8);
    EXPECT_TRUE(result->guest());
    const StorageRef none = Storage::allocate(stream.core(), 0);
    EXPECT_EQ(lender.allocations, 2);
    kept = result->owner();
  }
  EXPECT_EQ(lender.released, 1) << "the result's is kept";
  EXPECT_EQ(*std::static_pointer_cast<int>(kept), 1);
  kept.reset();
  EXPECT_EQ(lender.released, 2);
}

TEST_F(GuestStream, WhatIsNoGuestIsRejectedBeforeAnythingIsEnqueued) {
  const StorageRef mine = rig.make(1), other = rig.make(2), y = as_guest(other);
  const int launches = driver.count(Fn::cuLaunchKernel);
  EXPECT_NE(error_of([&] { rig.mix(kernel, stream, y, mine); }).find("neither its argument nor made by it"),
            std::string::npos);
  const Stream ours(rig.device());
  EXPECT_NE(error_of([&] { rig.mix(kernel, ours, mine, y); }).find("leave .sync() and .on(stream) out"),
            std::string::npos);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernel), launches);
  const StorageRef x = as_guest(mine);
  EXPECT_NO_THROW(rig.mix(kernel, stream, y, x)) << "the legal twin";
  EXPECT_NO_THROW(rig.mix(kernel, ours, mine, other));
  driver.run_all();
}

TEST_F(GuestStream, TheHostCannotWait) {
  const StorageRef mine = rig.make(1), y = as_guest(mine);
  EXPECT_NE(error_of([&] { y->wait_written(); }).find("reads elements of cuda:0 on the host"), std::string::npos);
  EXPECT_NE(error_of([&] { y->wait_unused(); }).find("operators only enqueue"), std::string::npos);
  EXPECT_NE(error_of([&] { stream.synchronize(); }).find("operators only enqueue"), std::string::npos);
  EXPECT_NO_THROW(mine->wait_written()) << "the legal twin";
}

TEST_F(GuestStream, AKernelWithChecksIsAnErrorThatSaysWhatToDo) {
  const auto checked = rig.load("checked");
  const StorageRef mine = rig.make(1), other = rig.make(2), y = as_guest(mine), x = as_guest(other);
  EXPECT_NE(error_of([&] { rig.mix(checked, stream, y, x); }).find("would not learn that a check failed"),
            std::string::npos);
  EXPECT_NO_THROW(rig.mix(kernel, stream, y, x)) << "and the stream works on";
  driver.run_all();
}

TEST_F(GuestStream, CodeIsLoadedInTheRelaxedModeOfCapture) {
  int mode = 0;  // of this thread: tests in which the driver fails may have left another one
  driver.table().cuThreadExchangeStreamCaptureMode(&mode);
  const int before = driver.count(Fn::cuThreadExchangeStreamCaptureMode);
  rig.load("mix");
  EXPECT_EQ(driver.count(Fn::cuThreadExchangeStreamCaptureMode) - before, 2) << "and the mode is put back";
  mode = 0;
  driver.table().cuThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(mode, 0);
}

TEST(GuestStreamOnCpu, WorkHasEndedAndItsFailureIsThrown) {
  Lender lender;
  const Device cpu = Device::cpu();
  Stream stream(StreamCore::guest(cpu, nullptr, lender));
  std::uint64_t number = 1;
  const StorageRef y = guest(cpu, &number, sizeof number);
  const auto work = host_work([&](const LaunchContext& c) {
    if (c.args[0] == 0) throw DeviceError("a check failed");
    number += c.args[0];
  });
  const auto run = [&](std::uint64_t add) {
    const std::uint64_t args[] = {add};
    const Access accesses[] = {{y, AccessMode::ReadWrite}};
    stream.core()->submit({work, {}, args, accesses});
  };
  run(4);
  EXPECT_EQ(number, 5u);
  EXPECT_NE(error_of([&] { run(0); }).find("a check failed"), std::string::npos);
  EXPECT_NO_THROW(stream.synchronize()) << "it was thrown";
  const StorageRef again = guest(cpu, &number, sizeof number);
  const std::uint64_t args[] = {2};
  const Access accesses[] = {{again, AccessMode::ReadWrite}};
  stream.core()->submit({work, {}, args, accesses});
  EXPECT_EQ(number, 7u) << "the failure ended with the storage that carried it";
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
