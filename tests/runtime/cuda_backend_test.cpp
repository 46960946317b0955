// CudaBackend on the fake driver: copies, order, memory that is freed after its last use, foreign memory, random
// programs, the cost of a launch.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {

namespace {

void run_mix(const Call& call) {
  auto* y = static_cast<std::uint64_t*>(call.memory(0, 8));
  const auto* x = static_cast<const std::uint64_t*>(call.memory(1, 8));
  if (y != nullptr && x != nullptr) *y = *y * 31 + *x + call.args[2];
}

void run_checked(const Call& call) {
  run_mix(call);
  if (call.args[2] % 2 == 0) return;
  auto* record = reinterpret_cast<volatile std::int32_t*>(call.args[3]);
  if (record[0] == 0) record[0] = static_cast<std::int32_t>(call.args[2] / 2) + 1;
}

void run_fault(const Call& call) { call.driver.poison(static_cast<CUresult>(call.args[2])); }

/// Memory that one stream has written and another one reads, as in a pipeline of batches: when it ends, the writer does
/// not wait for the reader, whose stream is after the writer's already.
TEST(CudaMemoryEnd, OrdersNothingThatIsNotOrderedAlready) {
  Rig rig;
  const auto kernel = rig.load("mix");
  const Stream up(rig.device()), compute(rig.device());
  const StorageRef source = rig.make(1), result = rig.make(2);
  StorageRef batch = rig.make(3);
  rig.mix(kernel, up, batch, source);
  rig.mix(kernel, compute, result, batch);
  const int waits = rig.driver.count(Fn::cuStreamWaitEvent);
  batch.reset();
  EXPECT_EQ(rig.driver.count(Fn::cuStreamWaitEvent), waits);
  // Two readers that do not depend on each other: one of them waits, not the writer.
  batch = rig.make(4);
  const Stream other(rig.device());
  rig.mix(kernel, up, batch, source);
  rig.mix(kernel, compute, result, batch);
  rig.mix(kernel, other, rig.make(5), batch);
  const int before = rig.driver.count(Fn::cuStreamWaitEvent);
  batch.reset();
  EXPECT_EQ(rig.driver.count(Fn::cuStreamWaitEvent), before + 1);
  rig.driver.run_all();
  EXPECT_EQ(rig.driver.violation(), "");
}

}  // namespace

/// y.
void start_eager(Call& call) {
  call.kept.assign(2, 0);
  for (std::size_t bit = 0; bit < 2; ++bit) {
    if ((call.args[3] >> bit & 1) == 0) continue;
    const auto* early = static_cast<const std::uint64_t*>(call.memory(1 - bit, 8));
    if (early != nullptr) call.kept[bit] = *early;
  }
}
void run_eager(const Call& call) {
  auto* y = static_cast<std::uint64_t*>(call.memory(0, 8));
  const auto* x = static_cast<const std::uint64_t*>(call.memory(1, 8));
  if (y == nullptr || x == nullptr) return;
  const std::uint64_t at_last[] = {*x, *y};
  const auto value = [&](std::size_t bit) {
    const bool early = !call.kept.empty() && (call.args[3] >> bit & 1) != 0;
    return early ? call.kept[bit] : at_last[bit];
  };
  *y = value(1) * 31 + value(0) + call.args[2];
}

void add_kernels(FakeDriver& driver) {
  driver.add_kernel("mix", {3, run_mix});
  driver.add_kernel("checked", {4, run_checked});
  driver.add_kernel("fault", {3, run_fault});
  driver.add_kernel("eager", {4, run_eager, start_eager});
}

std::shared_ptr<const Launchable> Rig::load(const std::string& kernel) {
  const auto bytes = FakeDriver::image(kernel);
  KernelImage image;
  image.cubin = bytes;
  image.abi.entry = kernel;
  image.label = "kernel " + kernel;
  image.abi.num_args = 3;
  if (kernel == "checked") image.abi.checks = {{"first", {"a.cpp", "", 10}}, {"second", {"b.cpp", "", 20}}};
  return load_kernel(device(), image);
}

std::shared_ptr<const Launchable> Rig::load_early() {
  const auto bytes = FakeDriver::image("mix", true);
  return load_kernel(device(), {bytes, "kernel mix", {.entry = "mix", .num_args = 3, .programmatic_launch = true}});
}

std::shared_ptr<const Launchable> Rig::load_eager(std::vector<int> early_reads, bool raw_writes, int early_alone) {
  const auto bytes = FakeDriver::image("eager", true);
  KernelImage image;
  image.cubin = bytes;
  image.abi.entry = "eager";
  image.label = "kernel eager";
  image.abi.num_args = 3;
  image.abi.programmatic_launch = true;
  image.abi.launch_flags = true;
  image.abi.early_reads = std::move(early_reads);
  image.raw_writes = raw_writes;
  image.abi.early_alone = early_alone;
  return load_kernel(device(), image);
}

StorageRef Rig::make(std::uint64_t value) {
  StorageRef storage = Storage::allocate(device(), sizeof value);
  copy_from_host(*storage, 0, &value, sizeof value);
  return storage;
}

std::uint64_t Rig::read(const StorageRef& storage) {
  std::uint64_t value = 0;
  copy_to_host(&value, *storage, 0, sizeof value);
  return value;
}

Ticket Rig::mix(const std::shared_ptr<const Launchable>& kernel, const Stream& stream, const StorageRef& y,
                const StorageRef& x, std::uint64_t addend, const char* label, AccessMode mode) {
  const std::array<std::uint64_t, 3> args{reinterpret_cast<std::uintptr_t>(y->data()),
                                          reinterpret_cast<std::uintptr_t>(x->data()), addend};
  const std::array<Access, 2> accesses{{{y, mode}, {x, AccessMode::Read}}};
  return stream.core()->submit({kernel, {}, args, accesses, label, {"user.cpp", "", 7}});
}

namespace {

struct CudaBackendTest : ::testing::Test {
  Rig rig;
  FakeDriver& driver = rig.driver;
  ~CudaBackendTest() override { EXPECT_EQ(driver.violation(), ""); }
};

TEST_F(CudaBackendTest, CopiesAndFillsRoundTrip) {
  const StorageRef storage = Storage::allocate(rig.device(), 10, {.poison = true});
  std::array<unsigned char, 10> bytes{};
  copy_to_host(bytes.data(), *storage, 0, 10);
  for (const unsigned char byte : bytes) EXPECT_EQ(byte, 0xFF);
  copy_from_host(*storage, 3, "abc", 3);
  copy_to_host(bytes.data(), *storage, 2, 5);
  EXPECT_EQ(std::memcmp(bytes.data(),
                        "\xFF"
                        "abc"
                        "\xFF",
                        5),
            0);
  EXPECT_FALSE(rig.backend.host_accessible());
}

TEST_F(CudaBackendTest, FillsWithAPatternInStreamOrder) {
  const StorageRef storage = Storage::allocate(rig.device(), 24);
  Stream stream(rig.device());
  for (const std::uint64_t size : {1u, 2u, 4u}) {
    const std::array<std::uint64_t, 2> args{0x04030201, size};
    const Access access{storage, AccessMode::Write};
    stream.core()->submit({rig.backend.pattern_fill(), {}, args, {&access, 1}, "fill", {}});
    std::array<unsigned char, 24> bytes{};
    copy_to_host(bytes.data(), *storage, 0, 24);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(bytes[i], i % size + 1);
  }
}

TEST_F(CudaBackendTest, CopiesRangesInStreamOrder) {
  const StorageRef x = rig.make(0x0807060504030201), y = rig.make(0);
  Stream stream(rig.device());
  const std::array<std::uint64_t, 3> args{1, 4, 2};
  const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
  stream.core()->submit({rig.backend.range_copy(), {}, args, accesses, "copy", {}});
  EXPECT_EQ(rig.read(y), 0x060500u);
}

TEST_F(CudaBackendTest, OneStreamRecordsAndWaitsForNothing) {
  const auto kernel = rig.load("mix");
  Stream stream(rig.device());
  const StorageRef x = rig.make(1), y = rig.make(2);
  const int before = driver.calls();
  for (int i = 0; i < 100; ++i) rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuEventRecord), 0);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 0);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernel), 100);
  EXPECT_EQ(driver.calls() - before, 200) << "the launch, and asking which context is current";
}

TEST_F(CudaBackendTest, StreamsWaitForEachOtherByEvents) {
  const auto kernel = rig.load("mix");
  Stream a(rig.device()), b(rig.device());
  const StorageRef x = rig.make(1), y = rig.make(2), z = rig.make(3);
  rig.mix(kernel, a, y, x);
  rig.mix(kernel, b, z, y);
  EXPECT_EQ(driver.count(Fn::cuEventRecord), 1);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 1);
  while (driver.step(3)) {}
  EXPECT_EQ(rig.read(z), 3u * 31 + (2 * 31 + 1));
}

TEST_F(CudaBackendTest, EventsAreUsedAgain) {
  const auto kernel = rig.load("mix");
  const StorageRef x = rig.make(1);
  Stream stream(rig.device());
  for (int i = 0; i < 50; ++i) {
    const StorageRef y = rig.make(0);
    rig.mix(kernel, stream, y, x);
    EXPECT_EQ(rig.read(y), 1u);
  }
  EXPECT_LE(driver.count(Fn::cuEventCreate), 10) << "a stream remembers eight";
  EXPECT_GE(driver.count(Fn::cuEventRecord), 50);
}

TEST_F(CudaBackendTest, MemoryEndsBehindItsLastUse) {
  const auto kernel = rig.load("mix");
  Stream a(rig.device()), b(rig.device());
  StorageRef x = rig.make(1), y = rig.make(2), z = rig.make(3);
  rig.mix(kernel, a, y, x);
  rig.mix(kernel, b, z, x);
  x.reset();
  y.reset();
  EXPECT_EQ(driver.live_blocks(), 3) << "nothing has run yet";
  EXPECT_EQ(rig.blocks_in_use(), 1);
  EXPECT_EQ(rig.read(z), 94u);
}

TEST_F(CudaBackendTest, MemoryOfAStreamIsReadyThereAtOnceAndElsewhereInOrder) {
  const auto kernel = rig.load("mix");
  Stream a(rig.device()), b(rig.device());
  const StorageRef x = rig.make(1);
  const int waits = driver.count(Fn::cuStreamSynchronize);
  StorageRef y = Storage::allocate(a.core(), 8);
  const std::array<std::uint64_t, 2> args{0, 4};
  const Access access{y, AccessMode::Write};
  a.core()->submit({rig.backend.pattern_fill(), {}, args, {&access, 1}, "fill", {}});
  EXPECT_EQ(driver.count(Fn::cuStreamSynchronize), waits) << "nothing waited";
  EXPECT_EQ(driver.count(Fn::cuEventRecord), 0);
  rig.mix(kernel, b, y, x);
  EXPECT_EQ(driver.count(Fn::cuStreamWaitEvent), 1);
  EXPECT_EQ(rig.read(y), 1u);
  y = Storage::allocate(a.core(), 8);  // never used by work
  const std::uint64_t value = 9;
  copy_from_host(*y, 0, &value, sizeof value);
  EXPECT_EQ(rig.read(y), 9u);
  y = Storage::allocate(a.core(), 8);
  y.reset();
  EXPECT_EQ(rig.blocks_in_use(), 2) << "x, and what `access` holds";
}

TEST_F(CudaBackendTest, MemoryThatRunsOutIsWaitedForAndThenAnErrorWithFigures) {
  const auto kernel = rig.load("mix");
  Stream stream(rig.device());
  driver.limit_memory(4096);
  for (int i = 0; i < 20; ++i) {  // each tensor is destroyed while its kernel waits to run
    const StorageRef big = Storage::allocate(rig.device(), 1024);
    rig.mix(kernel, stream, big, big);
  }
  try {
    Storage::allocate(rig.device(), 5000);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("out of memory on cuda:0: 5000 bytes requested"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("of the device's 4096 bytes are free"), std::string::npos) << error.what();
  }
  EXPECT_EQ(driver.hoarded(), 0u) << "other processes need it";
  EXPECT_NE(Storage::allocate(rig.device(), 4096), nullptr);
}

/// As above, with memory that is available once the device has caught up; each of its calls fails once.
TEST_F(CudaBackendTest, WhatAFailedAttemptTookIsGivenBackWhateverComesOfIt) {
  const auto kernel = rig.load("mix");
  Stream stream(rig.device());
  driver.limit_memory(4096);
  for (const Fn failing : {Fn::count, Fn::cuCtxSynchronize, Fn::cuMemPoolTrimTo}) {
    {
      const StorageRef big = Storage::allocate(rig.device(), 3000);
      rig.mix(kernel, stream, big, big);
    }
    if (failing != Fn::count) driver.fail_next(failing, 1);
    try {
      EXPECT_NE(Storage::allocate(rig.device(), 2000), nullptr);
      EXPECT_NE(failing, Fn::cuCtxSynchronize);
    } catch (const DeviceError& error) { EXPECT_EQ(failing, Fn::cuCtxSynchronize) << error.what(); }
    if (failing != Fn::cuMemPoolTrimTo) { EXPECT_EQ(driver.hoarded(), 0u); }
    stream.synchronize();
  }
}

TEST_F(CudaBackendTest, WhatNoDeviceOfItsSizeHoldsIsNotTried) {
  const int before = driver.count(Fn::cuMemAllocFromPoolAsync);
  try {
    Storage::allocate(rig.device(), (std::size_t{1} << 30) + 1);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("out of memory on cuda:0: 1073741825 bytes requested"), std::string::npos);
  }
  EXPECT_EQ(driver.count(Fn::cuMemAllocFromPoolAsync), before);
  EXPECT_NE(Storage::allocate(rig.device(), std::size_t{1} << 20), nullptr) << "the next one works";
}

/// The driver does not say whether an event is done: then the work is taken to run.
TEST_F(CudaBackendTest, AQueryThatFailsReleasesNoOwner) {
  const auto kernel = rig.load("mix");
  Stream stream(rig.device());
  const StorageRef memory = rig.make(5), y = rig.make(0);
  bool released = false;
  StorageRef foreign = Storage::adopt(rig.device(), memory->data(), 8,
                                      std::shared_ptr<void>(memory->data(), [&](void*) { released = true; }));
  rig.mix(kernel, stream, y, foreign);
  foreign.reset();
  driver.fail_next(Fn::cuEventQuery, 1);
  Storage::allocate(rig.device(), 8);
  EXPECT_FALSE(released);
  EXPECT_EQ(rig.read(y), 5u);
  Storage::allocate(rig.device(), 8);
  EXPECT_TRUE(released);
}

TEST_F(CudaBackendTest, ForeignMemoryIsVerifiedAndItsOwnerReleasedAfterTheLastUse) {
  const auto kernel = rig.load("mix");
  Stream stream(rig.device());
  const StorageRef memory = rig.make(5), y = rig.make(0);
  int host = 0;
  EXPECT_THROW(Storage::adopt(rig.device(), &host, 4, nullptr), DeviceError);
  EXPECT_THROW(Storage::adopt(rig.device(), memory->data(), 9, nullptr), DeviceError);
  bool released = false;
  StorageRef foreign = Storage::adopt(rig.device(), memory->data(), 8,
                                      std::shared_ptr<void>(memory->data(), [&](void*) { released = true; }));
  rig.mix(kernel, stream, y, foreign);
  foreign.reset();
  Storage::allocate(rig.device(), 8);
  EXPECT_FALSE(released) << "the kernel has not run";
  EXPECT_EQ(rig.read(y), 5u);
  driver.run_all();
  Storage::allocate(rig.device(), 8);
  EXPECT_TRUE(released);
}

TEST_F(CudaBackendTest, AnotherLibrarysContextIsPutBack) {
  const Driver& cu = driver.table();
  const auto other = reinterpret_cast<CUcontext>(std::uintptr_t{77});
  cu.cuCtxSetCurrent(other);
  rig.make(1);
  CUcontext now = nullptr;
  cu.cuCtxGetCurrent(&now);
  EXPECT_EQ(now, other);
  cu.cuCtxSetCurrent(nullptr);
}

TEST_F(CudaBackendTest, TheDriversDescription) {
  const DeviceInfo& info = device_info(rig.device());
  EXPECT_EQ(info.name, "Fake GPU 0");
  EXPECT_EQ(info.sm(), 90);
  EXPECT_EQ(info.num_sms, 160);
  EXPECT_EQ(info.clock_khz, 130);
  EXPECT_EQ(info.memory_khz, 360);
  EXPECT_EQ(info.memory_bus_bits, 370);
  EXPECT_EQ(info.driver_version, 13000);
  EXPECT_THROW(device_info(Device::cpu()), InternalError);
}

/// Programs over a few storages and streams that come and go in flight, against the sequential program.
struct RandomProgram {
  Rig& rig;
  std::mt19937_64& random;
  std::vector<std::shared_ptr<const Launchable>> kernels;
  std::vector<StorageRef> storages;
  std::vector<std::uint64_t> expected;
  std::vector<Stream> streams;

  RandomProgram(Rig& on, std::mt19937_64& numbers)
      : rig(on), random(numbers), kernels{rig.load("mix"), rig.load_early(), rig.load_eager(), rig.load_eager()} {
    for (int i = 0; i < 5; ++i) {
      expected.push_back(random());
      storages.push_back(rig.make(expected.back()));
    }
    for (int i = 0; i < 4; ++i) streams.emplace_back(rig.device());
  }
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random() % n); }
  /// Memory of one stream, filled on another.
  StorageRef made_in_order(std::uint64_t value) {
    StorageRef storage = Storage::allocate(streams[pick(streams.size())].core(), 8);
    const std::array<std::uint64_t, 2> args{value, 1};
    const Access access{storage, AccessMode::Write};
    streams[pick(streams.size())].core()->submit({rig.backend.pattern_fill(), {}, args, {&access, 1}, "fill", {}});
    return storage;
  }
  /// Events on a storage that kernels in flight use, after which later kernels must not assume that it has no in-flight
  /// writer.
  void change(std::size_t y, std::size_t x) {
    const auto stream = streams[pick(streams.size())].core();
    const std::array<Access, 2> accesses{{{storages[y], AccessMode::ReadWrite}, {storages[x], AccessMode::Read}}};
    switch (pick(4)) {
      case 0: expected[y] = random(); return copy_from_host(*storages[y], 0, &expected[y], sizeof expected[y]);
      case 1: {
        expected[y] = random() % 256 * 0x0101010101010101;
        const std::array<std::uint64_t, 2> args{expected[y], 1};
        const Access access{storages[y], AccessMode::Write};
        stream->submit({rig.backend.pattern_fill(), {}, args, {&access, 1}, "fill", {}});
        return;
      }
      case 2: {
        if (x == y) return;
        const std::array<std::uint64_t, 3> args{0, 0, 8};
        stream->submit({rig.backend.range_copy(), {}, args, accesses, "copy", {}});
        expected[y] = expected[x];
        return;
      }
      default: {  // rejected: nothing has happened
        if (x == y) return;
        rig.driver.fail_next(Fn::cuLaunchKernelEx, 1);
        const std::array<std::uint64_t, 3> args{reinterpret_cast<std::uintptr_t>(storages[y]->data()),
                                                reinterpret_cast<std::uintptr_t>(storages[x]->data()), 5};
        try {
          stream->submit({kernels[2], {}, args, accesses, "kernel", {}});
          expected[y] = expected[y] * 31 + expected[x] + 5;  // it waited for its predecessor
        } catch (const DeviceError&) {}
        rig.driver.heal();
      }
    }
  }
  void step() {
    const std::size_t y = pick(storages.size()), x = pick(storages.size());
    const std::uint64_t addend = random();
    switch (pick(14)) {
      case 0:
        expected[y] = random() % 256 * 0x0101010101010101;
        storages[y] = random() % 2 == 0 ? rig.make(expected[y]) : made_in_order(expected[y]);
        break;
      case 1: streams[pick(streams.size())] = Stream(rig.device()); break;
      case 2: ASSERT_EQ(rig.read(storages[y]), expected[y]); break;
      case 3:
        for (std::size_t n = pick(6); n > 0; --n) rig.driver.step(random());
        break;
      case 4: change(y, x); break;
      default:
        if (x == y) break;
        rig.mix(kernels[pick(kernels.size())], streams[pick(streams.size())], storages[y], storages[x], addend);
        expected[y] = expected[y] * 31 + expected[x] + addend;
    }
  }
};

TEST(CudaAtRandom, EveryInterleavingGivesTheProgramsOrder) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Rig rig;
    {
      RandomProgram program(rig, random);
      for (int i = 0; i < 120 && !::testing::Test::HasFatalFailure(); ++i) program.step();
      rig.driver.run_all(random);
      for (std::size_t i = 0; i < program.storages.size(); ++i)
        ASSERT_EQ(rig.read(program.storages[i]), program.expected[i]);
    }
    rig.driver.run_all(random);
    ASSERT_EQ(rig.driver.live_blocks(), 0);
    rig.owned.reset();
    ASSERT_EQ(rig.driver.violation(), "");
    ASSERT_EQ(rig.driver.leaks(), "");
  }
}

TEST(CudaThreads, LaunchAndReadAtTheSameTime) {
  Rig rig;
  const auto kernel = rig.load("mix");
  const StorageRef shared = rig.make(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Stream stream(rig.device());
      for (int i = 0; i < 50; ++i) {
        const StorageRef y = rig.make(static_cast<std::uint64_t>(i));
        rig.mix(kernel, stream, y, shared);
        EXPECT_EQ(rig.read(y), static_cast<std::uint64_t>(i) * 31 + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rig.driver.violation(), "");
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
