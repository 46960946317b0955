// The cached launch path on one stream allocates nothing: every operator new of the process is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/count_allocations.hpp"
#include "runtime/cuda_rig.hpp"
#include "runtime/fake_device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {
namespace {

/// Four tensors and their leases, as a kernel call takes them; returns the allocations of `rounds` launches.
long allocations_of(const Stream& stream, int rounds) {
  std::array<StorageRef, 4> storages;
  for (StorageRef& storage : storages) storage = Storage::allocate(stream.device(), 64);
  const auto work =
      host_work([](const LaunchContext& context) { context.accesses[0].storage->data()[0] = std::byte{1}; });
  const std::array<std::uint64_t, 12> args{};
  auto launch = [&] {
    int operation = 0;
    const Holder holder{"kernel k", 1, "Mut<f32, 128>", {}, &operation};
    const WriteLease y(storages[0], holder);
    const ReadLease a(storages[1], holder), b(storages[2], holder), c(storages[3], holder);
    const std::array<Access, 4> accesses{{{storages[0], AccessMode::ReadWrite},
                                          {storages[1], AccessMode::Read},
                                          {storages[2], AccessMode::Read},
                                          {storages[3], AccessMode::Read}}};
    return stream.core()->submit({work, {}, args, accesses, "k", {}});
  };
  wait(launch(), {});
  const long before = allocations;
  for (int i = 0; i < rounds; ++i) launch();
  const long made = allocations - before;
  Stream(stream).synchronize();
  return made;
}

TEST(Cost, ALaunchOnTheDefaultStreamAllocatesNothing) {
  EXPECT_EQ(allocations_of(Stream::default_of(Device::cpu()), 1000), 0);
}

TEST(Cost, AStreamThreadAllocatesOnlyToLengthenItsQueue) { EXPECT_LE(allocations_of(Stream(Device::cpu()), 1000), 40); }

/// The driver's launch and query functions are replaced: the fake ones store their arguments and so allocate.
TEST(Cost, ALaunchOnAGpuAllocatesNothing) {
  cuda::fake::Rig rig;
  static int driver_launches = 0;
  const auto kernel = rig.load("mix");
  const Stream stream{rig.device()};
  const StorageRef y = rig.make(1), x = rig.make(2);
  rig.driver.table().cuLaunchKernel = [](cuda::CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                         unsigned, cuda::CUstream, void**, void**) -> cuda::CUresult {
    ++driver_launches;
    return 0;
  };
  rig.mix(kernel, stream, y, x);
  const long before = allocations;
  for (int i = 0; i < 1000; ++i) rig.mix(kernel, stream, y, x);
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(driver_launches, 1001);
}

/// What many streams read (weights) is not asked again and again whether it has been read.
TEST(Cost, ManyReadersOfOneStorageTakeNoEvents) {
  cuda::fake::Rig rig;
  const auto kernel = rig.load("mix");
  const StorageRef weights = rig.make(3);
  std::vector<Stream> streams;
  std::vector<StorageRef> results;
  for (int i = 0; i < 24; ++i) {
    streams.emplace_back(rig.device());
    results.push_back(rig.make(1));
  }
  const auto round = [&] {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      rig.mix(kernel, streams[i], results[i], weights);
      rig.driver.run_all();  // the streams are idle when they read again
    }
  };
  for (int i = 0; i < 8; ++i) round();
  const int records = rig.driver.count(cuda::fake::Fn::cuEventRecord);
  const int queries = rig.driver.count(cuda::fake::Fn::cuEventQuery);
  for (int i = 0; i < 50; ++i) round();
  EXPECT_EQ(rig.driver.count(cuda::fake::Fn::cuEventRecord), records);
  EXPECT_EQ(rig.driver.count(cuda::fake::Fn::cuEventQuery), queries);
  rig.driver.run_all();
  EXPECT_EQ(rig.driver.violation(), "");
}

/// Streams that have ended are not kept for having read it.
TEST(Cost, ReadersThatHaveEndedAreDropped) {
  cuda::fake::Rig rig;
  const auto kernel = rig.load("mix");
  const StorageRef weights = rig.make(3);
  std::vector<std::weak_ptr<StreamCore>> cores;
  for (int i = 0; i < 500; ++i) {
    const StorageRef result = rig.make(1);
    const Stream stream(rig.device());
    cores.push_back(stream.core());
    rig.mix(kernel, stream, result, weights);
    rig.driver.run_all();
    const auto alive = std::count_if(cores.begin(), cores.end(), [](const auto& core) { return !core.expired(); });
    ASSERT_LE(alive, 12) << "after " << i + 1 << " streams";
  }
}

/// Looking for them may fail without failing the launch.
TEST(Cost, ReadersThatCannotBeAskedStay) {
  cuda::fake::Rig rig;
  const auto kernel = rig.load("mix");
  const StorageRef weights = rig.make(3);
  for (int i = 0; i < 60; ++i) {
    const Stream stream(rig.device());
    const StorageRef result = rig.make(1);
    rig.driver.fail_next(cuda::fake::Fn::cuEventRecord, 1);
    EXPECT_NO_THROW(rig.mix(kernel, stream, result, weights)) << i;
    rig.driver.heal();
    rig.driver.run_all();
  }
}

/// The same beside streams that go on reading it.
TEST(Cost, ReadersThatHaveEndedAreDroppedBesideOthers) {
  cuda::fake::Rig rig;
  const auto kernel = rig.load("mix");
  const StorageRef weights = rig.make(3);
  std::vector<Stream> workers;
  for (int i = 0; i < 16; ++i) workers.emplace_back(rig.device());
  std::vector<std::weak_ptr<StreamCore>> cores;
  const StorageRef result = rig.make(1);
  for (int i = 0; i < 1000; ++i) {
    const Stream stream(rig.device());
    cores.push_back(stream.core());
    rig.mix(kernel, stream, rig.make(1), weights);
    rig.mix(kernel, workers[static_cast<std::size_t>(i) % workers.size()], rig.make(1), weights);
    rig.driver.run_all();
  }
  const auto alive = std::count_if(cores.begin(), cores.end(), [](const auto& core) { return !core.expired(); });
  EXPECT_LE(alive, 64);
}

TEST(Cost, SubmissionsThatFailReserveNothingForGood) {
  fake::FakeDevice device;
  const Stream stream{Device(device)};
  const StorageRef y = Storage::allocate(stream.device(), 8), x = Storage::allocate(stream.device(), 8);
  const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
  for (int i = 0; i < 128; ++i) {  // a power of two: one more would grow a list that kept them
    device.fail_at(0);
    EXPECT_THROW(stream.core()->submit({fake::mix_work(), {}, {}, accesses, "mix", {}}), DeviceError);
  }
  const long before = allocations;
  x->order(stream.core(), AccessMode::Read);
  x->forget(AccessMode::Read);
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace tessera::runtime
