// Ordering on the fake device: which waits and events are inserted, that a single stream gets none, and that random
// programs run in program order however the streams are interleaved.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/rounds.hpp"
#include "runtime/fake_device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime {
namespace {

using fake::Call;
using fake::FakeDevice;

StorageRef make(FakeDevice& device, std::uint64_t value) {
  StorageRef storage = Storage::allocate(Device(device), sizeof value);
  copy_from_host(*storage, 0, &value, sizeof value);
  return storage;
}

std::uint64_t number_in(const StorageRef& storage) {
  std::uint64_t value = 0;
  copy_to_host(&value, *storage, 0, sizeof value);
  return value;
}

Ticket mix(const Stream& stream, const StorageRef& y, const StorageRef& x, std::uint64_t addend = 0) {
  const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
  return stream.core()->submit({fake::mix_work(), {}, {&addend, 1}, accesses, "mix", {}});
}

struct Ordering : ::testing::Test {
  FakeDevice device;
  Stream a{Device(device)}, b{Device(device)}, c{Device(device)};
  int events() const { return device.count(Call::Record); }
  int waits() const { return device.count(Call::Wait); }
};

TEST_F(Ordering, OneStreamRecordsAndWaitsForNothing) {
  StorageRef x = make(device, 1), y = make(device, 2);
  for (int i = 0; i < 100; ++i) {
    mix(a, y, x);
    mix(a, x, y);
  }
  EXPECT_EQ(events(), 0);
  EXPECT_EQ(waits(), 0);
}

TEST_F(Ordering, ReadAfterWrite) {
  StorageRef x = make(device, 1), y = make(device, 2), z = make(device, 3);
  mix(a, y, x);
  mix(b, z, y);
  EXPECT_EQ(events(), 1) << "recorded when b needs it";
  EXPECT_EQ(waits(), 1);
  mix(b, z, y);
  EXPECT_EQ(waits(), 1) << "b has waited already";
  mix(a, y, x);  // write after b's reads
  EXPECT_EQ(events(), 2);
  EXPECT_EQ(waits(), 2);
  EXPECT_EQ(number_in(z), fake::mix(fake::mix(3, fake::mix(2, 1, 0), 0), fake::mix(2, 1, 0), 0));
}

TEST_F(Ordering, ReadersDoNotWaitForEachOther) {
  StorageRef x = make(device, 1), y = make(device, 2), z = make(device, 3);
  mix(a, y, x);
  mix(b, z, x);
  EXPECT_EQ(events(), 0);
  mix(c, x, y);  // writes x, which a and b read, and reads y, which a wrote
  EXPECT_EQ(waits(), 2);
  EXPECT_EQ(events(), 2) << "one event of a covers its read and its write";
  EXPECT_EQ(number_in(x), fake::mix(1, fake::mix(2, 1, 0), 0));
}

TEST_F(Ordering, WriteAfterWriteWithoutReaders) {
  StorageRef x = make(device, 1), y = make(device, 2);
  mix(a, y, x, 1);
  mix(b, y, x, 2);
  EXPECT_EQ(waits(), 1);
  EXPECT_EQ(number_in(y), fake::mix(fake::mix(2, 1, 1), 1, 2));
}

TEST_F(Ordering, AWriterThatHasWaitedForReadersStandsForThem) {
  StorageRef x = make(device, 1), y = make(device, 2), z = make(device, 3);
  mix(b, y, x);
  mix(a, x, z);
  EXPECT_EQ(waits(), 1) << "a waits for b's read";
  mix(c, x, z);
  EXPECT_EQ(waits(), 2) << "c waits for a only";
}

TEST_F(Ordering, ManyReadersAtOnceAreAllWaitedFor) {
  StorageRef x = make(device, 1), z = make(device, 3);
  std::vector<StorageRef> outputs;
  std::vector<Stream> streams;
  for (int i = 0; i < 12; ++i) {
    streams.emplace_back(Device(device));
    outputs.push_back(make(device, 5));
    mix(streams.back(), outputs.back(), x);
  }
  mix(a, x, z);
  while (device.step(1)) {  // a's queue first if it is not blocked
  }
  for (const StorageRef& output : outputs) EXPECT_EQ(number_in(output), fake::mix(5, 1, 0));
}

TEST_F(Ordering, AnotherDeviceOfTheSameProgramIsRejected) {
  FakeDevice other(1);
  StorageRef x = make(other, 1), y = make(device, 2);
  try {
    mix(a, y, x);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("is on device fake:1, the stream is on fake:0"), std::string::npos) << error.what();
  }
  EXPECT_EQ(device.count(Call::Launch), 0);
}

TEST_F(Ordering, HostReadsAndWritesWait) {
  StorageRef x = make(device, 1), y = make(device, 2);
  mix(a, y, x);
  EXPECT_EQ(device.pending_steps(), 1);
  const std::uint64_t next = 9;
  copy_from_host(*x, 0, &next, sizeof next);  // a still reads x
  EXPECT_EQ(number_in(y), fake::mix(2, 1, 0));
}

TEST_F(Ordering, ManyReadersOfWeightsAreForgotten) {
  StorageRef weights = make(device, 7), y = make(device, 0);
  for (int i = 0; i < 50; ++i) {
    Stream temporary{Device(device)};
    StorageRef out = make(device, 0);
    mix(temporary, out, weights);
    device.run_all();
  }
  EXPECT_LT(device.live_queues(), 16) << "streams that only read long ago are not kept";
  mix(a, weights, y);
  EXPECT_EQ(number_in(weights), fake::mix(7, 0, 0));
}

TEST_F(Ordering, CaptureTakesWorkUnordered) {
  struct Sink final : CaptureSink {
    int added = 0;
    void add(const Submission&) override { ++added; }
  } sink;
  StorageRef x = make(device, 1), y = make(device, 2);
  mix(b, y, x);
  a.core()->begin_capture(sink);
  EXPECT_THROW(a.core()->begin_capture(sink), DeviceError);
  mix(a, y, x);
  EXPECT_EQ(sink.added, 1);
  EXPECT_EQ(waits(), 0);
  a.core()->end_capture();
  mix(a, y, x);
  EXPECT_EQ(waits(), 1);
}

/// Between two recordings its work would run at once, and be missing in the graph.
TEST_F(Ordering, AStreamIsCapturedThroughoutWhenTheBodyOfALoopBeginsAndEnds) {
  GraphRecording outer(b.device()), body(b.device());
  const CaptureScope scope(outer, {});
  const std::shared_ptr<StreamCore> stream = scope.stream();
  std::atomic<bool> ready{false}, end{false}, seen_open{false};
  std::thread other([&] {
    for (ready = true; !end;) {
      if (!stream->capturing()) seen_open = true;
    }
  });
  while (!ready) std::this_thread::yield();
  const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (!seen_open && std::chrono::steady_clock::now() < last) const BodyScope inside(body);
  end = true;
  other.join();
  EXPECT_FALSE(seen_open);
}

/// Random programs over a few storages and streams, which are created and destroyed in flight.
struct RandomProgram {
  FakeDevice& device;
  std::mt19937_64& random;
  std::vector<StorageRef> storages;
  std::vector<std::uint64_t> expected;
  std::vector<Stream> streams;

  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random() % n); }

  void step() {
    const std::size_t y = pick(storages.size()), x = pick(storages.size());
    const std::uint64_t addend = random();
    switch (pick(12)) {
      case 0:  // a tensor is destroyed while it is used, another is created
        expected[y] = random();
        storages[y] = make(device, expected[y]);
        break;
      case 1: streams[pick(streams.size())] = Stream(Device(device)); break;
      case 2: ASSERT_EQ(number_in(storages[y]), expected[y]); break;
      case 3:
        for (std::size_t n = pick(6); n > 0; --n) device.step(random());
        break;
      default:
        if (x == y) break;
        mix(streams[pick(streams.size())], storages[y], storages[x], addend);
        expected[y] = fake::mix(expected[y], expected[x], addend);
    }
  }
};

TEST(OrderingAtRandom, EveryInterleavingGivesTheProgramsOrder) {
  for (std::uint64_t seed = 0; seed < test::rounds(200); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    FakeDevice device;
    {
      RandomProgram program{device, random, {}, {}, {}};
      for (int i = 0; i < 5; ++i) {
        program.expected.push_back(random());
        program.storages.push_back(make(device, program.expected.back()));
      }
      for (int i = 0; i < 7; ++i) program.streams.emplace_back(Device(device));
      for (int i = 0; i < 120 && !HasFatalFailure(); ++i) program.step();
      device.run_all(random);
      for (std::size_t i = 0; i < program.storages.size(); ++i)
        ASSERT_EQ(number_in(program.storages[i]), program.expected[i]);
    }
    device.run_all(random);
    ASSERT_EQ(device.violation(), "");
    ASSERT_EQ(device.live_blocks(), 0);
    ASSERT_EQ(device.live_queues(), 0);
    ASSERT_EQ(device.pending_steps(), 0);
  }
}

TEST(OrderingAtRandom, TheSameWithAThreadThatRunsTheDevice) {
  std::mt19937_64 random(7);
  FakeDevice device;
  device.start_thread();
  {
    RandomProgram program{device, random, {}, {}, {}};
    for (int i = 0; i < 5; ++i) {
      program.expected.push_back(random());
      program.storages.push_back(make(device, program.expected.back()));
    }
    for (int i = 0; i < 7; ++i) program.streams.emplace_back(Device(device));
    for (int i = 0; i < 1500 && !HasFatalFailure(); ++i) program.step();
    for (std::size_t i = 0; i < program.storages.size(); ++i)
      ASSERT_EQ(number_in(program.storages[i]), program.expected[i]);
  }
  while (device.pending_steps() > 0) std::this_thread::yield();
  EXPECT_EQ(device.violation(), "");
  EXPECT_EQ(device.live_blocks(), 0);
}

}  // namespace
}  // namespace tessera::runtime
