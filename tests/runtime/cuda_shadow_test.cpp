// The shadow of a GPU's storage, which records writes in checked mode: its lifetime is that of the storage, host and
// stream mark it, kernels that use it are passed the right address, and no failure leaks anything.
#include <gtest/gtest.h>

#include <array>

#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

std::vector<std::uint64_t> seen;  // the arguments of the last "watched"
void run_watched(const Call& call) {
  seen = call.args;
  for (const std::size_t i : {2, 3}) {
    if (seen[i] != 0) call.memory(i, 2);
  }
}

struct CudaShadow : ::testing::Test {
  Rig rig;
  Stream stream{rig.device()};

  ~CudaShadow() override {
    rig.driver.run_all();
    EXPECT_EQ(rig.driver.violation(), "");
  }
  StorageRef watched(std::size_t bytes, std::size_t element_bytes) {
    return Storage::allocate(rig.device(), bytes,
                             {.track_writes = true, .element_bytes = element_bytes, .poison = true});
  }
  /// One letter for each element: w written, - not.
  std::string marks(const Storage& storage) {
    stream.synchronize();
    std::vector<unsigned char> bytes(storage.bytes() / storage.shadow_element_bytes());
    rig.backend.copy(bytes.data(), storage.shadow(), bytes.size());
    std::string text;
    for (const unsigned char b : bytes) text += b == 0 ? 'w' : b == calling::kNeverWritten ? '-' : '?';
    return text;
  }
  std::shared_ptr<const Launchable> load(std::vector<calling::WatchedArgument> arguments) {
    rig.driver.add_kernel("watched", {2 + arguments.size(), run_watched});
    const auto bytes = FakeDriver::image("watched");
    KernelImage image;
    image.cubin = bytes;
    image.abi.entry = "watched";
    image.label = "kernel watched";
    image.abi.num_args = 2;
    image.abi.watched = std::move(arguments);
    return load_kernel(rig.device(), image);
  }
  void launch(const std::shared_ptr<const Launchable>& kernel, const StorageRef& y, std::size_t y_at,
              const StorageRef& x, std::size_t x_at) {
    const std::array<std::uint64_t, 2> args{reinterpret_cast<std::uintptr_t>(y->data() + y_at),
                                            reinterpret_cast<std::uintptr_t>(x->data() + x_at)};
    const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
    stream.core()->submit({kernel, {}, args, accesses, "kernel watched", {"user.cpp", "", 7}});
    stream.synchronize();
  }
  static std::uint64_t shadow(const StorageRef& storage, std::size_t element) {
    return reinterpret_cast<std::uintptr_t>(storage->shadow() + element);
  }
};

TEST_F(CudaShadow, IsThereForStoragesThatTrackWritesOnly) {
  const StorageRef x = watched(24, 4);
  EXPECT_EQ(x->written_map(), nullptr);
  EXPECT_GE(x->shadow(), x->data() + 24);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x->shadow()) % kStorageAlignment, 0u);
  EXPECT_EQ(marks(*x), "------");
  std::array<unsigned char, 24> elements{};
  copy_to_host(elements.data(), *x, 0, 24);
  for (const unsigned char byte : elements) EXPECT_EQ(byte, 0xFF) << "poisoned as well";
  EXPECT_EQ(Storage::allocate(rig.device(), 24)->shadow(), nullptr);
  EXPECT_EQ(Storage::allocate(rig.device(), 24, {.poison = true})->shadow(), nullptr);
  EXPECT_EQ(watched(0, 4)->shadow(), nullptr);
  const StorageRef memory = rig.make(1);
  EXPECT_EQ(Storage::adopt(rig.device(), memory->data(), 8, nullptr, {.track_writes = true})->shadow(), nullptr)
      << "foreign memory counts as written";
  const StorageRef on_host = Storage::allocate(Device::cpu(), 8, {.track_writes = true, .poison = true});
  EXPECT_EQ(on_host->shadow(), nullptr);
  EXPECT_NE(on_host->written_map(), nullptr);
}

TEST_F(CudaShadow, OfAStorageThatIsMadeOnAStream) {
  const StorageRef x = Storage::allocate(stream.core(), 8, {.track_writes = true, .element_bytes = 2});
  EXPECT_EQ(marks(*x), "----");
}

TEST_F(CudaShadow, TheHostMarksWhatItWrites) {
  const StorageRef x = watched(24, 4);
  copy_from_host(*x, 8, "abcdefgh", 8);
  EXPECT_EQ(marks(*x), "--ww--");
  copy_from_host(*x, 0, "", 0);
  copy_from_host(*x, 23, "z", 1);
  EXPECT_EQ(marks(*x), "--ww-w");
  const std::array<char, 24> all{};
  copy_from_host(*x, 0, all.data(), 24);
  EXPECT_EQ(x->shadow(), nullptr) << "all is written";
  const StorageRef y = watched(8, 8);
  y->count_as_written();
  EXPECT_EQ(y->shadow(), nullptr);
}

TEST_F(CudaShadow, AStreamMarksInItsOrder) {
  const StorageRef x = watched(16, 2);
  const Storage::Range range = x->shadow_range(4, 6);
  const std::array<std::uint64_t, 3> args{range.offset, range.bytes, 0};
  const Access access{x, AccessMode::ReadWrite};
  stream.core()->submit({rig.backend.range_fill(), {}, args, {&access, 1}, "mark", {}});
  EXPECT_EQ(marks(*x), "--www---");
}

TEST_F(CudaShadow, AKernelIsGivenTheByteOfItsElement) {
  const auto kernel = load({{0, 0, 4}, {1, 1, 2}});
  const StorageRef y = watched(32, 4), x = watched(16, 2), plain = rig.make(1);
  launch(kernel, y, 0, x, 0);
  EXPECT_EQ(seen[2], shadow(y, 0));
  EXPECT_EQ(seen[3], shadow(x, 0));
  launch(kernel, y, 20, x, 6);
  EXPECT_EQ(seen[2], shadow(y, 5));
  EXPECT_EQ(seen[3], shadow(x, 3));
  launch(kernel, y, 4, plain, 2);
  EXPECT_EQ(seen[2], shadow(y, 1));
  EXPECT_EQ(seen[3], 0u) << "counts as written";
  y->count_as_written();
  launch(kernel, y, 4, x, 2);
  EXPECT_EQ(seen[2], 0u);
  EXPECT_EQ(seen[3], shadow(x, 1));
}

TEST_F(CudaShadow, WhatDoesNotFitIsRejected) {
  const StorageRef y = watched(32, 4), x = watched(16, 2);
  const auto wide = load({{0, 0, 4}, {1, 1, 8}});
  EXPECT_THROW(launch(wide, y, 0, x, 0), InternalError) << "elements of 8 bytes in a storage of 2";
  x->count_as_written();
  launch(wide, y, 0, x, 0);
  const auto third = load({{0, 0, 4}, {1, 2, 2}});
  EXPECT_THROW(launch(third, y, 0, x, 0), InternalError) << "there is no third access";
  EXPECT_THROW(load(std::vector<calling::WatchedArgument>(499)), CompileError) << "too many arguments";
}

TEST_F(CudaShadow, LivesAndDiesWithItsStorage) {
  const auto kernel = load({{0, 0, 4}, {1, 1, 4}});
  const int before = rig.driver.live_blocks();
  StorageRef y = watched(32, 4), x = watched(32, 4);
  EXPECT_EQ(rig.driver.live_blocks(), before + 2) << "one allocation each";
  const std::array<std::uint64_t, 2> args{reinterpret_cast<std::uintptr_t>(y->data()),
                                          reinterpret_cast<std::uintptr_t>(x->data())};
  std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
  stream.core()->submit({kernel, {}, args, accesses, "kernel watched", {}});
  accesses = {};
  y.reset();
  x.reset();  // before the kernel has run, which reads both shadows
  EXPECT_EQ(rig.blocks_in_use(), before);
}

TEST_F(CudaShadow, MemoryThatRunsOutSaysWhatItWasFor) {
  rig.driver.limit_memory(4096 + 1023);
  try {
    watched(4096, 4);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("5120 bytes requested"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("1024 of these bytes are for checked mode"), std::string::npos) << error.what();
  }
  EXPECT_NE(Storage::allocate(rig.device(), 4096), nullptr);
  rig.driver.limit_memory(4096 + 1024);
  EXPECT_NE(watched(4096, 4)->shadow(), nullptr);
  EXPECT_THROW(watched(SIZE_MAX / 2, 1), DeviceError) << "the sum would wrap";
}

TEST_F(CudaShadow, AFailureAtAnyCallLosesNothing) {
  const int before = rig.driver.live_blocks();
  int faults = 0;
  for (int k = 0;; ++k) {
    rig.driver.fail_at(k);
    bool failed = false;
    try {
      const StorageRef x = watched(24, 4);
      copy_from_host(*x, 0, "abcd", 4);
    } catch (const DeviceError&) { failed = true; }
    const bool happened = rig.driver.fault_happened();
    rig.driver.heal();
    rig.driver.run_all();
    Storage::allocate(rig.device(), 8);  // releases what waited for the device
    rig.driver.run_all();
    EXPECT_EQ(rig.driver.live_blocks(), before) << k;
    if (!happened) break;
    faults += failed;
    const StorageRef next = watched(8, 4);
    EXPECT_EQ(marks(*next), "--") << k;
  }
  EXPECT_GE(faults, 5);
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
