// Copies to other devices, and tensors between Tessera's streams and work that it does not know, on the CPU and on a
// device whose memory the host cannot access.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <tessera/tessera.hpp>
#include <thread>
#include <vector>

#include "host/far_device.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera {
namespace THIS_FILE {

using Values = std::vector<f32>;

TEST(CopyTo, MovesElementsBothWays) {
  runtime::FarDevice far;
  const Device device(far);
  const auto x = from(Values{1, 2, 3, 4, 5, 6}, {2, 3}).sync(Stream::default_of(Device::cpu()));
  const auto y = copy_to(x, device).sync();
  EXPECT_EQ(y.device(), device);
  EXPECT_EQ(host(y).sync(), (Values{1, 2, 3, 4, 5, 6}));
  const auto z = copy_to(x.permute<1, 0>(), device).sync();
  EXPECT_EQ(host(z).sync(), (Values{1, 4, 2, 5, 3, 6}));
  const auto back = copy_to(y.slice<1>(1, 3), Device::cpu()).sync();
  EXPECT_EQ(back.device(), Device::cpu());
  EXPECT_TRUE(back.contiguous());
  EXPECT_EQ(host(back).sync(), (Values{2, 3, 5, 6}));
}

TEST(CopyTo, TheSameDeviceIsACopyToo) {
  auto x = ones<f32>({4}).sync(Stream::default_of(Device::cpu()));
  const auto y = copy_to(x, Device::cpu()).sync();
  copy_into(mut(x), zeros<f32>({4})).sync();
  EXPECT_EQ(host(y).sync(), Values(4, 1));
}

TEST(CopyTo, AnOperandThatHasNotRunRunsWhereItsOperandsAre) {
  runtime::FarDevice far;
  const auto x = ones<f32>({4}).sync(Stream::default_of(Device::cpu()));
  const auto y = copy_to(cast<i32>(x), Device(far)).sync();
  EXPECT_EQ(host(y).sync(), std::vector<i32>(4, 1));
}

TEST(CopyTo, TheHostReadsAResultOnAnotherDeviceThanItsStreams) {
  runtime::FarDevice far;
  const auto x = copy_to(from(Values{1, 2, 3, 4}, {2, 2}), Device(far)).sync();
  EXPECT_EQ(host(copy_to(x.permute<1, 0>(), Device::cpu())).sync(), (Values{1, 3, 2, 4}));
  EXPECT_THROW((void)host(x).sync(Stream(Device::cpu())), DeviceError);
}

TEST(CopyTo, ATensorWithoutElements) {
  runtime::FarDevice far;
  const auto y = copy_to(zeros<f32>({0, 3}), Device(far)).sync();
  EXPECT_EQ(y.size(), 0);
}

TEST(CopyTo, AStreamOfAThirdDeviceIsRejected) {
  runtime::FarDevice one, two;
  const auto x = ones<f32>({4}).sync(Stream::default_of(Device(one)));
  EXPECT_THROW((void)copy_to(x, Device(two)).on(Stream(Device::cpu())), DeviceError);
  EXPECT_EQ(host(copy_to(x, Device(two)).on(Stream(Device(two)))).sync(), Values(4, 1));
}

TEST(CopyInto, TakesElementsOfAnotherDevice) {
  runtime::FarDevice far;
  auto y = zeros<f32>({2, 3}).sync(Stream::default_of(Device(far)));
  const auto x = from(Values{1, 2}, {2, 1}).sync(Stream::default_of(Device::cpu()));
  copy_into(mut(y).slice<1>(1, 2), x).sync();
  EXPECT_EQ(host(y).sync(), (Values{0, 1, 0, 0, 2, 0}));
}

/// Keeps a stream busy until it is released.
struct Gate {
  std::atomic<bool> open{false};
  void close(const Stream& stream, const runtime::StorageRef& storage, runtime::AccessMode mode) {
    const runtime::Access access{storage, mode};
    const auto work = runtime::host_work([this](const runtime::LaunchContext&) {
      while (!open) std::this_thread::yield();
    });
    stream.core()->submit({work, {}, {}, {&access, 1}, "gate", {}});
  }
};

TEST(StreamUse, ReadsAndWritesOfOthersAreOrdered) {
  auto t = zeros<f32>({4}).sync(Stream::default_of(Device::cpu()));
  const runtime::StorageRef storage = detail::Reach::layout(t).storage,
                            other = runtime::Storage::allocate(Device::cpu(), 4);
  Stream theirs(Device::cpu()), ours(Device::cpu());
  Gate gate;
  theirs.wait_for(mut(t));
  gate.close(theirs, other, runtime::AccessMode::ReadWrite);  // what they do with t is not known here
  theirs.record_write(mut(t));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open = true;
  });
  const Values got = host(t).sync();  // waits for their work
  EXPECT_TRUE(gate.open);
  EXPECT_EQ(got, Values(4, 0));
  opener.join();
  Gate second;
  second.close(theirs, other, runtime::AccessMode::ReadWrite);
  theirs.record_read(t);
  EXPECT_NO_THROW((void)host(t).sync()) << "two readers";
  EXPECT_FALSE(storage->last_write().stream == nullptr);
  second.open = true;
  copy_into(mut(t), ones<f32>({4})).sync(ours);
  EXPECT_EQ(host(t).sync(), Values(4, 1));
}

TEST(StreamUse, ConflictsAreErrors) {
  auto t = zeros<f32>({4}).sync(Stream::default_of(Device::cpu()));
  Stream stream(Device::cpu());
  {
    const auto writer = copy_into(mut(t), ones<f32>({4}));
    EXPECT_THROW(stream.wait_for(t.view()), BorrowError);
    EXPECT_THROW(stream.record_read(t.view()), BorrowError);
    EXPECT_THROW(stream.record_write(mut(t)), BorrowError);
  }
  {
    const auto reader = host(t);
    EXPECT_NO_THROW(stream.wait_for(t));
    EXPECT_THROW(stream.wait_for(mut(t)), BorrowError);
  }
  auto lend = mut(t);
  auto moved = std::move(t);
  EXPECT_THROW(stream.wait_for(lend), BorrowError);
  EXPECT_NO_THROW(stream.wait_for(mut(moved)));
  EXPECT_THROW(stream.wait_for(View<f32, 1>()), BorrowError);
}

TEST(StreamUse, DlpackAndBorrowedMemoryWithStreams) {
  Stream theirs(Device::cpu());
  auto t = from(Values{1, 2, 3, 4}, {4}).sync(Stream::default_of(Device::cpu()));
  auto exported = to_dlpack(std::move(t), theirs);
  auto back = from_dlpack<f32, 1>(std::move(exported), theirs);
  EXPECT_EQ(host(back).sync(), (Values{1, 2, 3, 4}));
  auto again = to_dlpack(back.view(), theirs);
  EXPECT_THROW(copy_into(mut(back), zeros<f32>({4})).sync(), BorrowError) << "it is being read";
  const auto shared = shared_from_dlpack<f32, 1>(again.release(), theirs);
  EXPECT_EQ(host(shared).sync(), (Values{1, 2, 3, 4}));

  Values memory{5, 6};
  Gate gate;
  const runtime::StorageRef other = runtime::Storage::allocate(Device::cpu(), 4);
  gate.close(theirs, other, runtime::AccessMode::ReadWrite);
  const auto borrowed = borrow<f32, 1>(memory.data(), {2}, {1}, nullptr, theirs);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    memory[0] = 7;
    gate.open = true;
  });
  EXPECT_EQ(host(borrowed).sync(), (Values{7, 6})) << "complete behind their stream";
  opener.join();
}

}  // namespace THIS_FILE
}  // namespace tessera
