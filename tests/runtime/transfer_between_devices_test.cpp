// Copies between devices: GPU and GPU, GPU and CPU, devices that cannot; order, life of both ends, failures.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "runtime/fake_device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

class BetweenDevices : public testing::Test {
 protected:
  Rig rig{2};
  CudaBackend second{rig.driver.table(), 1};
  FakeDriver& driver = rig.driver;
  Device one = rig.device(), two{second};

  ~BetweenDevices() override { EXPECT_EQ(driver.violation(), ""); }
  static StorageRef make(Device device, std::uint64_t value) {
    StorageRef storage = Storage::allocate(device, sizeof value);
    copy_from_host(*storage, 0, &value, sizeof value);
    return storage;
  }
  static void move(const Stream& stream, const StorageRef& to, const StorageRef& from) {
    transfer(stream, {to}, {from}, 8, "copy_to", {"a.cpp", "", 3});
  }
};

TEST_F(BetweenDevices, GpuToGpuIsWorkInTheOrderOfBothEnds) {
  const auto kernel = rig.load("mix");
  const Stream a(one), b(two);
  const StorageRef x = make(one, 1), y = make(one, 2), z = make(two, 0), back = make(one, 0);
  rig.mix(kernel, a, y, x);  // 63
  move(b, z, y);
  rig.mix(kernel, a, y, x);  // behind the copy, which reads y
  move(a, back, z);
  EXPECT_EQ(driver.count(Fn::cuMemcpyPeerAsync), 2);
  EXPECT_EQ(rig.read(z), 63u);
  EXPECT_EQ(rig.read(back), 63u);
  EXPECT_EQ(rig.read(y), 63u * 31 + 1);
  EXPECT_EQ(driver.open_pools(), 4) << "each pool to the other GPU, once for each of the two that copy";
}

TEST_F(BetweenDevices, WithoutPeerAccessTheDriverStagesTheCopy) {
  driver.connect_peers(false);
  const StorageRef x = make(one, 7), y = make(two, 0);
  move(Stream(two), y, x);
  EXPECT_EQ(driver.open_pools(), 0);
  EXPECT_EQ(rig.read(y), 7u);
}

TEST_F(BetweenDevices, TheSourceEndsBehindTheCopyOnItsOwnDevice) {
  const Stream b(two);
  const StorageRef y = make(two, 0);
  StorageRef x = make(one, 7);
  move(b, y, x);
  x.reset();
  EXPECT_EQ(rig.read(y), 7u);
  EXPECT_EQ(rig.blocks_in_use(), 1);
}

/// A pipeline of batches: the host waits for the copy of a buffer, not for those that were enqueued after it.
TEST_F(BetweenDevices, TheHostWaitsForACopyOfItsMemoryAlone) {
  const Stream up(one), down(one);
  const StorageRef x = make(one, 1), y = make(one, 2), late = make(one, 3);
  const StorageRef in = make(Device::cpu(), 7), out = make(Device::cpu(), 0), later = make(Device::cpu(), 0);
  const auto kernel = rig.load("mix");
  move(up, x, in);
  for (int i = 0; i < 5; ++i) rig.mix(kernel, up, y, x);
  in->wait_unused();
  EXPECT_EQ(driver.pending_steps(), 5) << "the kernels have not run";
  driver.run_all();
  move(down, out, x);
  move(down, later, late);
  rig.mix(kernel, down, y, late);
  out->wait_written();
  EXPECT_GE(driver.pending_steps(), 2);
  EXPECT_EQ(std::memcmp(out->data(), in->data(), 8), 0);
}

/// A stream that waits for another one waits for the event behind what it needs, if there is one.
TEST_F(BetweenDevices, AStreamWaitsForTheEarliestEvent) {
  const Stream up(one), first(one), second(one);
  const StorageRef x = make(one, 1), y = make(one, 2), a = make(one, 0), b = make(one, 0);
  const StorageRef in = make(Device::cpu(), 7);
  const auto kernel = rig.load("mix");
  move(up, x, in);
  for (int i = 0; i < 20; ++i) move(up, y, in);
  rig.mix(kernel, first, a, x);
  const int records = driver.count(Fn::cuEventRecord);
  rig.mix(kernel, second, b, x);
  EXPECT_EQ(driver.count(Fn::cuEventRecord), records);
  // The streams take turns, so few of the later copies run before the work of `second`.
  std::uint64_t found = 0, turn = 0;
  for (; found == 0; std::memcpy(&found, b->data(), sizeof found)) ASSERT_TRUE(driver.step(turn++));
  EXPECT_EQ(found, 7u);
  EXPECT_GT(driver.pending_steps(), 0) << "later copies";
}

TEST_F(BetweenDevices, CopiesOfHostMemoryAreCapturedAndReplayed) {
  const auto kernel = rig.load("mix");
  const StorageRef x = make(one, 0), y = make(one, 0);
  const StorageRef in = make(Device::cpu(), 0), out = make(Device::cpu(), 0), far = make(two, 0);
  auto recording = std::make_shared<GraphRecording>(one);
  {
    const CaptureScope scope(*recording, {});
    const Stream stream(scope.stream());
    move(stream, x, in);
    rig.mix(kernel, stream, y, x);
    move(stream, out, y);
    EXPECT_THROW(move(Stream(one), x, in), DeviceError) << "on another stream";
    EXPECT_THROW(move(stream, far, x), DeviceError) << "to another GPU";
  }
  const auto graph = rig.backend.make_graph(recording);
  std::uint64_t expected = 0;
  for (const std::uint64_t value : {5u, 7u}) {
    copy_from_host(*in, 0, &value, sizeof value);  // waits until the replay before has read it
    Stream(one).core()->submit({graph, {}, {}, recording->accesses(), "graph", {}, true});
    expected = expected * 31 + value;
    std::uint64_t found = 0;
    copy_to_host(&found, *out, 0, sizeof found);
    EXPECT_EQ(found, expected);
  }
}

TEST_F(BetweenDevices, CpuToGpuAndBackIsWorkOfTheGpu) {
  const auto kernel = rig.load("mix");
  const Stream a(one);
  const StorageRef x = make(one, 1), y = make(one, 0);
  StorageRef host = make(Device::cpu(), 5), out = make(Device::cpu(), 0);
  const int waits = driver.count(Fn::cuEventSynchronize);
  move(a, y, host);
  rig.mix(kernel, a, y, x);
  move(Stream::default_of(Device::cpu()), out, y);  // on the GPU's default stream
  EXPECT_EQ(driver.count(Fn::cuEventSynchronize), waits) << "nothing has waited";
  out->wait_written();
  std::uint64_t value = 0;
  std::memcpy(&value, out->data(), 8);
  EXPECT_EQ(value, 156u);
}

TEST_F(BetweenDevices, HostMemoryLivesUntilTheGpuHasReadIt) {
  const Stream a(one);
  const StorageRef y = make(one, 0);
  const std::size_t before = memory_stats(Device::cpu()).in_use;
  bool ended = false;
  std::uint64_t value = 9;
  StorageRef borrowed = Storage::adopt(Device::cpu(), &value, 8, std::shared_ptr<void>(&value, [&](void*) {
                                         ended = true;
                                         value = 0;
                                       }));
  move(a, y, borrowed);
  borrowed.reset();
  EXPECT_FALSE(ended);
  StorageRef own = make(Device::cpu(), 11);
  move(a, y, own);
  own.reset();
  EXPECT_EQ(rig.read(y), 11u);
  EXPECT_TRUE(ended);
  EXPECT_EQ(memory_stats(Device::cpu()).in_use, before);
}

TEST_F(BetweenDevices, TheHostWaitsBeforeItWritesWhatAGpuStillReads) {
  const Stream a(one);
  const StorageRef y = make(one, 0), host = make(Device::cpu(), 5);
  move(a, y, host);
  EXPECT_GT(driver.pending_steps(), 0);
  const std::uint64_t later = 6;
  copy_from_host(*host, 0, &later, 8);
  EXPECT_EQ(rig.read(y), 5u);
}

TEST_F(BetweenDevices, AFailureComesAlong) {
  const auto checked = rig.load("checked");
  const Stream a(one), b(two);
  const StorageRef x = make(one, 1), y = make(one, 2), z = make(two, 0), host = make(Device::cpu(), 0);
  rig.mix(checked, a, y, x, 1, "kernel checked");
  move(b, z, y);
  EXPECT_THROW(z->wait_written(), DeviceError);
  const StorageRef again = make(one, 2);
  rig.mix(checked, a, again, x, 1, "kernel checked");
  move(a, host, again);
  EXPECT_THROW(host->wait_written(), DeviceError) << "known when the copy has ended";
}

/// Random copies and kernels over a GPU and the host, captured and replayed on two streams, while the host writes and
/// other work changes the same memory: the values are those of the same work in order.
TEST_F(BetweenDevices, RandomProgramsWithHostMemoryAreReplayed) {
  const auto kernel = rig.load("mix");
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    constexpr std::size_t kCount = 6, kOnGpu = 3;  // the first ones
    std::vector<StorageRef> values;
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < kCount; ++i) {
      expected.push_back(seed + i);
      values.push_back(make(i < kOnGpu ? one : Device::cpu(), expected.back()));
    }
    std::vector<std::pair<std::size_t, std::size_t>> program;  // target, source
    while (program.size() < 1 + seed % 20) {
      const std::size_t to = pick(kCount), from = pick(kCount);
      if (to != from && (to < kOnGpu || from < kOnGpu)) program.emplace_back(to, from);
    }
    auto recording = std::make_shared<GraphRecording>(one);
    {
      const CaptureScope scope(*recording, {});
      const Stream stream(scope.stream());
      for (const auto& [to, from] : program) {
        if (to < kOnGpu && from < kOnGpu)
          rig.mix(kernel, stream, values[to], values[from]);
        else
          move(stream, values[to], values[from]);
      }
    }
    const auto graph = rig.backend.make_graph(recording);
    const Stream streams[] = {Stream(one), Stream(one)};
    for (int step = 0; step < 6; ++step) {
      const std::size_t on_host = kOnGpu + pick(kCount - kOnGpu), on_gpu = pick(kOnGpu);
      if (pick(2) == 0) {
        expected[on_host] = random() % 1000;
        copy_from_host(*values[on_host], 0, &expected[on_host], 8);
      }
      if (pick(2) == 0) {
        move(streams[pick(2)], values[on_gpu], values[on_host]);
        expected[on_gpu] = expected[on_host];
      }
      streams[pick(2)].core()->submit({graph, {}, {}, recording->accesses(), "graph", {}, true});
      for (const auto& [to, from] : program)
        expected[to] = to < kOnGpu && from < kOnGpu ? expected[to] * 31 + expected[from] : expected[from];
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      std::uint64_t found = 0;
      copy_to_host(&found, *values[i], 0, 8);
      EXPECT_EQ(found, expected[i]) << seed << ' ' << i;
    }
    ASSERT_EQ(driver.violation(), "") << seed;
  }
}

/// Work of another GPU has no outcome that the graph's queue knows.
TEST_F(BetweenDevices, AReplayWaitsForTheOutcomeOfTheHostMemoryThatItReads) {
  const auto checked = rig.load("checked");
  const StorageRef in = make(Device::cpu(), 0), y = make(two, 0);
  auto recording = std::make_shared<GraphRecording>(two);
  {
    const CaptureScope scope(*recording, {});
    move(Stream(scope.stream()), y, in);
  }
  const auto graph = second.make_graph(recording);
  const StorageRef x = make(one, 1), failed = make(one, 2);
  const Stream a(one);
  rig.mix(checked, a, failed, x, 1, "kernel checked");
  move(a, in, failed);
  Stream(two).core()->submit({graph, {}, {}, recording->accesses(), "graph", {}, true});
  EXPECT_THROW(y->wait_written(), DeviceError);
}

TEST_F(BetweenDevices, DevicesThatCannotAreServedByTheHost) {
  runtime::fake::FakeDevice far_a(0), far_b(1);
  const Device a(far_a), b(far_b);
  const StorageRef x = make(a, 3), y = make(b, 0), host = make(Device::cpu(), 0);
  move(Stream(b), y, x);
  move(Stream(b), host, y);
  std::uint64_t value = 0;
  copy_to_host(&value, *host, 0, 8);
  EXPECT_EQ(value, 3u);
}

TEST_F(BetweenDevices, AStreamOfAThirdDeviceIsAnError) {
  const StorageRef x = make(one, 7), y = make(two, 0);
  try {
    move(Stream(Device::cpu()), y, x);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.where().line, 3u);
    EXPECT_NE(error.message().find("Use a stream of one of the two devices"), std::string::npos) << error.what();
  }
  move(Stream(one), y, x);
  EXPECT_EQ(rig.read(y), 7u);
}

TEST_F(BetweenDevices, EveryCallMayFailOnce) {
  for (int k = 0;; ++k) {
    ASSERT_LT(k, 300);
    driver.fail_at(k);
    std::uint64_t got = 0;
    try {
      const Stream a(one), b(two);
      StorageRef x = make(one, 7), y = make(two, 0), host = make(Device::cpu(), 0);
      move(b, y, x);
      x.reset();
      move(b, host, y);
      y.reset();
      host->wait_written();
      std::memcpy(&got, host->data(), 8);
    } catch (const DeviceError&) { got = 7; }
    const bool happened = driver.fault_happened();
    driver.heal();
    EXPECT_EQ(got, 7u) << "fault " << k;
    driver.run_all();
    if (!happened) break;
  }
}

/// Random copies and kernels over three devices, tensors that come and go, any legal order of the queues: the values
/// are those of the same program run in order.
TEST_F(BetweenDevices, RandomPrograms) {
  const auto kernel = rig.load("mix");
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const Device devices[] = {one, two, Device::cpu()};
    std::vector<Stream> streams;
    for (int i = 0; i < 2; ++i) streams.emplace_back(one), streams.emplace_back(two);
    streams.push_back(Stream::default_of(Device::cpu()));
    struct Value {
      StorageRef storage;
      std::uint64_t expected = 0;
    };
    std::vector<Value> values;
    for (std::size_t i = 0; i < 6; ++i) values.push_back({make(devices[i % 3], i), i});
    for (int step = 0; step < 40; ++step) {
      Value& to = values[pick(values.size())];
      Value& from = values[pick(values.size())];
      if (&to == &from) continue;
      if (pick(6) == 0) {
        const Device device = devices[pick(3)];
        to = {make(device, seed), seed};
      } else if (to.storage->device() != from.storage->device()) {
        Stream on = streams[pick(streams.size())];
        while (on.device() != to.storage->device() && on.device() != from.storage->device())
          on = streams[pick(streams.size())];
        move(on, to.storage, from.storage);
        to.expected = from.expected;
      } else if (to.storage->device() == one) {
        rig.mix(kernel, streams[2 * pick(2)], to.storage, from.storage);
        to.expected = to.expected * 31 + from.expected;
      }
      for (std::size_t i = pick(4); i-- > 0;) driver.step(random());
    }
    for (const Value& value : values) EXPECT_EQ(rig.read(value.storage), value.expected) << "seed " << seed;
    values.clear();
    driver.run_all(random);
    ASSERT_EQ(driver.violation(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
