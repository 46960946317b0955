// Programmatic dependent launch: when a kernel may start before its predecessor has ended, and what it may read before
// it waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

struct CudaDependentLaunch : ::testing::Test {
  Rig rig;
  FakeDriver& driver = rig.driver;
  ~CudaDependentLaunch() override { EXPECT_EQ(driver.violation(), ""); }
};

/// The launch flags of the last launches of "eager".
struct CudaEarlyReads : CudaDependentLaunch {
  static inline std::vector<std::uint64_t> bits;
  Stream stream{rig.device()};
  StorageRef x = rig.make(1), y = rig.make(2), z = rig.make(3);
  CudaEarlyReads() {
    bits.clear();
    driver.add_kernel("eager", {4,
                                [](const Call& call) {
                                  bits.push_back(call.args[3]);
                                  run_eager(call);
                                },
                                start_eager});
  }
  static constexpr std::uint64_t kTrigger = std::uint64_t{1} << calling::kTriggerBit;
  /// The flags of tensors without in-flight writer.
  std::vector<std::uint64_t> seen() {
    driver.run_all();
    for (std::uint64_t& flags : bits) flags &= ~kTrigger;
    return std::exchange(bits, {});
  }
  /// The launches whose flags ask for an early trigger.
  std::vector<bool> triggers() {
    driver.run_all();
    std::vector<bool> trigger;
    for (const std::uint64_t flags : std::exchange(bits, {})) trigger.push_back((flags & kTrigger) != 0);
    return trigger;
  }
  /// With the given number of blocks: the fake GPU has 160 SMs.
  void mix_large(const std::shared_ptr<const Launchable>& kernel, const StorageRef& to, const StorageRef& from,
                 std::uint32_t blocks = 161) {
    const std::array<std::uint64_t, 3> args{reinterpret_cast<std::uintptr_t>(to->data()),
                                            reinterpret_cast<std::uintptr_t>(from->data()), 0};
    const std::array<Access, 2> accesses{{{to, AccessMode::ReadWrite}, {from, AccessMode::Read}}};
    stream.core()->submit({kernel, {blocks}, args, accesses, "kernel mix", {}});
  }
};

TEST_F(CudaEarlyReads, OfTensorsWithoutInFlightWriter) {
  const auto kernel = rig.load_eager();
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{3}))
      << "no dependent launch: nothing that it reads has an in-flight writer";
  rig.mix(kernel, stream, y, x);
  rig.mix(kernel, stream, z, y);
  rig.mix(kernel, stream, z, x);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{1, 2, 1})) << "y, then y, then z, have just been written";
  EXPECT_EQ(rig.read(z), (3u * 31 + rig.read(y)) * 31 + 1);
}

TEST_F(CudaEarlyReads, OfWhatWasWrittenBeforeALaunchThatBeganAfterAll) {
  const auto kernel = rig.load_eager(), plain = rig.load("mix");
  rig.mix(plain, stream, y, x);
  rig.mix(kernel, stream, z, y);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{2})) << "y is written by the kernel before";
  rig.mix(plain, stream, z, x);  // begins when everything before it has ended
  rig.mix(kernel, stream, z, y);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{1}));
  const std::uint64_t expected = ((3u * 31 + 63u) * 31 + 1) * 31 + 63;
  EXPECT_EQ(rig.read(z), expected);
}

TEST_F(CudaEarlyReads, OfWhatTheHostHasWaitedFor) {
  const auto kernel = rig.load_eager();
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(rig.read(y), 63u);
  rig.mix(kernel, stream, z, y);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 1);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{3, 3}));
}

TEST_F(CudaEarlyReads, OfWhatAnotherStreamWroteAndThisOneHasWaitedFor) {
  const auto kernel = rig.load_eager();
  Stream second(rig.device());
  rig.mix(kernel, second, y, x);
  rig.mix(kernel, stream, z, y);  // after a wait: no dependent launch
  rig.mix(kernel, stream, z, y);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{3, 3, 1}));
}

TEST_F(CudaEarlyReads, NotAfterAKernelThatWritesThroughRawPointers) {
  const auto kernel = rig.load_eager(), raw = rig.load_eager({1, 0}, true);
  rig.mix(kernel, stream, y, x);
  rig.mix(raw, stream, y, x);
  rig.mix(kernel, stream, z, x);
  rig.mix(kernel, stream, z, x);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{3, 1, 0, 0})) << "it may have written x";
  rig.mix(rig.load("mix"), stream, y, x);
  rig.mix(kernel, stream, z, x);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{3})) << "before this one it has ended";
}

TEST_F(CudaEarlyReads, NotOfForeignMemory) {
  const auto kernel = rig.load_eager();
  const StorageRef f = Storage::adopt(rig.device(), z->data(), 8, z);
  rig.mix(kernel, stream, y, f);
  rig.mix(kernel, stream, y, f);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{3, 0})) << "its owner may write it in the same stream";
  rig.mix(kernel, stream, z, f);
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{0})) << "nor where the launch names its owner, too";
}

TEST_F(CudaEarlyReads, TriggersWhereTheSuccessorReadAllEarlyTheLastTime) {
  const auto kernel = rig.load_eager({1});  // x alone: y is written by each launch
  for (int i = 0; i < 4; ++i) mix_large(kernel, y, x);
  EXPECT_EQ(triggers(), (std::vector<bool>{false, false, true, true})) << "the second is the first successor";
  for (int i = 0; i < 2; ++i) mix_large(kernel, z, y), mix_large(kernel, y, z);
  EXPECT_EQ(triggers(), (std::vector<bool>{true, false, false, false})) << "each reads what the one before wrote";
}

TEST_F(CudaEarlyReads, TriggersWhereTheSuccessorReadTheFirstTensorEarlyTheLastTime) {
  for (const bool alone : {false, true}) {
    const int count = alone ? 1 : 0;
    const auto x_first = rig.load_eager({1, 0}, false, count), y_first = rig.load_eager({0, 1}, false, count);
    for (int i = 0; i < 4; ++i) mix_large(x_first, y, x);
    EXPECT_EQ(triggers(), (std::vector<bool>{false, false, alone, alone})) << "y is written by each launch, x is not";
    for (int i = 0; i < 4; ++i) mix_large(y_first, y, x);
    EXPECT_EQ(triggers(), std::vector<bool>(4, false)) << "the first tensor is the one that has a writer";
  }
}

TEST_F(CudaEarlyReads, SmallKernelsOverlapWithoutReadingEarly) {
  const auto part = rig.load_eager({1}), sum = rig.load_eager({1});
  const auto round = [&](std::uint32_t blocks) {
    mix_large(part, y, x);
    mix_large(sum, z, y, blocks);
  };
  for (int i = 0; i < 3; ++i) round(160);
  EXPECT_EQ(triggers(), (std::vector<bool>{false, false, true, true, true, true}))
      << "the next part runs concurrently with the small sum";
  for (int i = 0; i < 3; ++i) round(161);
  EXPECT_EQ(triggers(), (std::vector<bool>{true, true, false, true, false, true}));
}

TEST_F(CudaEarlyReads, OnlyDependentLaunchesAreTriggered) {
  const auto kernel = rig.load_eager({1}), plain = rig.load("mix");
  const StorageRef other = rig.make(4);
  for (const std::uint32_t blocks : {1u, 161u}) {
    for (int i = 0; i < 3; ++i) mix_large(kernel, y, x), mix_large(plain, z, x, blocks);
    EXPECT_EQ(triggers(), (std::vector<bool>{false, false, false})) << "its code does not wait";
  }
  for (int i = 0; i < 3; ++i) {
    mix_large(kernel, y, x);
    rig.read(other);  // nothing on the stream
    stream.synchronize();
  }
  EXPECT_EQ(triggers(), (std::vector<bool>{false, false, true}))
      << "the host's waiting does not make it another stream";
}

TEST_F(CudaEarlyReads, LargeKernelsThatReadNothingEarlyDoNotTrigger) {
  const auto kernel = rig.load_eager({}), small = rig.load_eager({1});
  for (const std::uint32_t blocks : {161u, 160u}) {
    for (int i = 0; i < 3; ++i) mix_large(kernel, y, x, blocks);
    mix_large(small, z, x, 1);
    mix_large(kernel, y, x, blocks);
    const std::vector<bool> trigger = triggers();
    EXPECT_EQ(trigger[4], blocks <= 160) << blocks;
  }
}

TEST_F(CudaEarlyReads, KernelsThatShareAnEntryAreNotTakenForEachOther) {
  const auto kernel = rig.load_eager({1});
  std::vector<std::shared_ptr<const Launchable>> others;
  for (int i = 0; i < 64; ++i) others.push_back(rig.load_eager({1}));
  for (int i = 0; i < 3; ++i) mix_large(kernel, y, x);
  EXPECT_EQ(triggers(), (std::vector<bool>{false, false, true}));
  for (const auto& other : others) mix_large(other, y, x);
  EXPECT_EQ(triggers(), std::vector<bool>(64, false)) << "none of them has been launched before";
}

/// Arguments, launch flags, error record, in this order, with the largest number of arguments.
TEST_F(CudaEarlyReads, TheFlagsFollowTheArgumentsAndPrecedeTheRecord) {
  static std::vector<std::uint64_t> given;
  driver.add_kernel("eager", {calling::kMaxArguments + 2, [](const Call& call) { given = call.args; }});
  const auto bytes = FakeDriver::image("eager", true);
  KernelImage image;
  image.cubin = bytes;
  image.abi.entry = image.label = "eager";
  image.abi.num_args = calling::kMaxArguments;
  image.abi.programmatic_launch = image.abi.launch_flags = true;
  image.abi.early_reads = {0, 1};
  image.abi.checks = {{"first", {"a.cpp", "", 10}}};
  const auto kernel = load_kernel(rig.device(), image);
  std::vector<std::uint64_t> args(calling::kMaxArguments, 7);
  args[0] = reinterpret_cast<std::uintptr_t>(x->data()), args[1] = reinterpret_cast<std::uintptr_t>(y->data());
  const std::array<Access, 2> accesses{{{x, AccessMode::ReadWrite}, {y, AccessMode::Read}}};
  for (int i = 0; i < 2; ++i) stream.core()->submit({kernel, {}, args, accesses, "kernel", {}});
  stream.synchronize();
  ASSERT_EQ(given.size(), args.size() + 2);
  EXPECT_TRUE(std::equal(args.begin(), args.end(), given.begin()));
  EXPECT_EQ(given[calling::kMaxArguments] & ~kTrigger, 2u) << "x has just been written";
  EXPECT_GT(given[calling::kMaxArguments + 1], 4096u) << "an address";
  image.abi.num_args = calling::kMaxArguments + 1;
  EXPECT_THROW(load_kernel(rig.device(), image), CompileError);
}

TEST_F(CudaEarlyReads, ArgumentsThatAreNone) {
  for (const int slot : {-1, 3}) EXPECT_THROW(rig.load_eager({slot}), CompileError);
  EXPECT_NO_THROW(rig.load_eager({2}));
  EXPECT_THROW(rig.load_eager(std::vector<int>(calling::kMaxEarlyReads + 1, 0)), CompileError);
  for (const int alone : {-1, 3}) EXPECT_THROW(rig.load_eager({1, 0}, false, alone), CompileError);
  EXPECT_NO_THROW(rig.load_eager({1, 0}, false, 2));
}

TEST_F(CudaDependentLaunch, AKernelRightAfterAnother) {
  const auto kernel = rig.load_early();
  Stream stream(rig.device());
  const StorageRef x = rig.make(1), y = rig.make(2);
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 0) << "nothing precedes the first";
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 1);
  const auto other = rig.load("mix");
  rig.mix(other, stream, y, x);
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 2) << "also after a kernel without dependent launch";
  EXPECT_EQ(rig.read(y), (((2u * 31 + 1) * 31 + 1) * 31 + 1) * 31 + 1);
  EXPECT_EQ(kernel_resources(*kernel).registers, 104);
}

TEST_F(CudaDependentLaunch, NotForCodeThatDoesNotWait) {
  Stream stream(rig.device());
  const StorageRef x = rig.make(1), y = rig.make(2);
  for (const bool waits : {false, true}) {
    const auto bytes = FakeDriver::image("mix", waits);
    const auto kernel = load_kernel(
        rig.device(), {bytes, "kernel mix", {.entry = "mix", .num_args = 3, .programmatic_launch = !waits}});
    for (int i = 0; i < 2; ++i) rig.mix(kernel, stream, y, x);
    EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 0) << (waits ? "not requested" : "the code does not wait");
  }
}

TEST_F(CudaDependentLaunch, NotAfterCopiesAndWaits) {
  const auto kernel = rig.load_early();
  Stream stream(rig.device()), second(rig.device());
  const StorageRef x = rig.make(1), y = rig.make(2);
  const std::array<std::uint64_t, 2> seven{7, 1};
  const Access fill{x, AccessMode::Write};
  rig.mix(kernel, stream, y, x);
  stream.core()->submit({rig.backend.pattern_fill(), {}, seven, {&fill, 1}, "fill", {}});
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 0) << "after a fill";
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 1);
  rig.mix(kernel, second, x, y);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 1) << "the second stream begins with a wait";
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 1) << "after a wait for the second stream";
  rig.mix(kernel, stream, y, x);
  EXPECT_EQ(driver.count(Fn::cuLaunchKernelEx), 2);
  rig.read(y);
}

/// Kernels of many streams that wait for their predecessors would hold each other back.
TEST_F(CudaDependentLaunch, NotWhereMoreThanTwoStreamsTakeTurns) {
  const auto kernel = rig.load_early();
  std::vector<Stream> streams;
  std::vector<StorageRef> results;
  const StorageRef x = rig.make(1);
  for (int i = 0; i < 3; ++i) {
    streams.emplace_back(rig.device());
    results.push_back(rig.make(2));
  }
  const auto take_turns = [&](std::size_t count) {
    const int before = driver.count(Fn::cuLaunchKernelEx);
    for (std::size_t i = 0; i < 10 * count; ++i) rig.mix(kernel, streams[i % count], results[i % count], x);
    return driver.count(Fn::cuLaunchKernelEx) - before;
  };
  EXPECT_EQ(take_turns(2), 18) << "all but the first of each stream";
  EXPECT_EQ(take_turns(3), 2) << "before the third stream begins";
  EXPECT_EQ(take_turns(1), 10 - 1) << "the third stream was the last";
  rig.read(results[0]);
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
