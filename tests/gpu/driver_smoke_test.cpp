// The driver layer on a real GPU, without any compiler: memory, copies, fills, order between streams, foreign memory,
// rejected images. The first thing to run on a new machine.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda {
namespace {

struct GpuDriver : ::testing::Test {
  void SetUp() override {
    std::string why;
    if (!available(&why)) GTEST_SKIP() << why;
  }
  static Device gpu() { return Device::cuda(0); }
  static void fill(const Stream& stream, const StorageRef& to, std::uint64_t bits, std::uint64_t size) {
    const std::array<std::uint64_t, 2> args{bits, size};
    const Access access{to, AccessMode::Write};
    stream.core()->submit({to->device().backend().pattern_fill(), {}, args, {&access, 1}, "fill", {}});
  }
  static void copy(const Stream& stream, const StorageRef& to, const StorageRef& from) {
    const std::array<std::uint64_t, 3> args{0, 0, to->bytes()};
    const std::array<Access, 2> accesses{{{to, AccessMode::Write}, {from, AccessMode::Read}}};
    stream.core()->submit({to->device().backend().range_copy(), {}, args, accesses, "copy", {}});
  }
};

TEST_F(GpuDriver, DescribesItself) {
  const DeviceInfo& info = device_info(gpu());
  std::printf("  %s, sm_%d, %d SMs, %zu MiB, L2 %zu MiB, driver for CUDA %d.%d\n", info.name.c_str(), info.sm(),
              info.num_sms, info.memory >> 20, info.l2_bytes >> 20, info.driver_version / 1000,
              info.driver_version % 1000 / 10);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.sm(), 50);
  EXPECT_GT(info.num_sms, 0);
  EXPECT_GT(info.memory, std::size_t{1} << 28);
  EXPECT_GT(info.l2_bytes, 0u);
  EXPECT_GT(info.shared_bytes_per_block, 0u);
  EXPECT_EQ(describe_device(0).name, info.name);
  EXPECT_THROW(Device::cuda(4095), DeviceError);
}

TEST_F(GpuDriver, CopiesRoundTrip) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{255}, std::size_t{4097}, std::size_t{100} << 20}) {
    const StorageRef storage = Storage::allocate(gpu(), bytes);
    std::vector<unsigned char> out(bytes), in(bytes, 0);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
    copy_from_host(*storage, 0, out.data(), bytes);
    copy_to_host(in.data(), *storage, 0, bytes);
    EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage->data()) % kStorageAlignment, 0u);
  }
}

TEST_F(GpuDriver, FillsWithPatterns) {
  const Stream stream(gpu());
  const StorageRef storage = Storage::allocate(gpu(), 4096, {.poison = true});
  std::vector<unsigned char> bytes(4096);
  copy_to_host(bytes.data(), *storage, 0, 4096);
  EXPECT_EQ(bytes, std::vector<unsigned char>(4096, 0xFF));
  for (const std::uint64_t size : {1u, 2u, 4u}) {
    fill(stream, storage, 0x44332211, size);
    copy_to_host(bytes.data(), *storage, 0, 4096);
    for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], 0x11 * (i % size + 1)) << size << " at " << i;
  }
}

TEST_F(GpuDriver, StreamsAreOrderedByTheirStorages) {
  Stream a(gpu()), b(gpu());
  constexpr std::size_t kBytes = std::size_t{256} << 20;  // long enough that a missing wait would show
  const StorageRef x = Storage::allocate(gpu(), kBytes), y = Storage::allocate(gpu(), kBytes);
  fill(a, x, 0, 4);
  for (unsigned round = 1; round <= 20; ++round) {
    fill(a, x, round, 4);
    copy(b, y, x);  // reads what a writes; a's next fill waits for it
  }
  fill(a, x, 99, 4);
  std::vector<unsigned> values(kBytes / 4);
  copy_to_host(values.data(), *y, 0, kBytes);
  for (const std::size_t i : {std::size_t{0}, values.size() / 2, values.size() - 1}) EXPECT_EQ(values[i], 20u) << i;
  copy_to_host(values.data(), *x, 0, kBytes);
  EXPECT_EQ(values.back(), 99u);
}

TEST_F(GpuDriver, MemoryThatGoesInFlightIsReused) {
  const Stream a(gpu()), b(gpu());
  const std::size_t bytes = device_info(gpu()).memory / 16;  // 16 of them would be all there is
  const StorageRef result = Storage::allocate(gpu(), bytes);
  for (unsigned round = 1; round <= 40; ++round) {
    const StorageRef passing = Storage::allocate(gpu(), bytes);
    fill(a, passing, round, 4);
    copy(b, result, passing);
  }
  unsigned last = 0;
  copy_to_host(&last, *result, bytes / 4 * 4 - 4, 4);
  EXPECT_EQ(last, 40u);
}

TEST_F(GpuDriver, MoreMemoryThanThereIsIsAnErrorAndTheNextAllocationWorks) {
  const std::size_t all = device_info(gpu()).memory;
  try {
    Storage::allocate(gpu(), all * 2);
    FAIL() << "twice the memory of the GPU was allocated";
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find(std::to_string(all * 2)), std::string::npos) << error.what();
  }
  EXPECT_NE(Storage::allocate(gpu(), 1 << 20), nullptr);
}

TEST_F(GpuDriver, ForeignMemoryIsVerified) {
  const StorageRef memory = Storage::allocate(gpu(), 4096);
  int host = 0;
  EXPECT_THROW(Storage::adopt(gpu(), &host, 4, nullptr), DeviceError);
  const StorageRef same = Storage::adopt(gpu(), memory->data() + 256, 256, memory);
  const unsigned value = 7;
  copy_from_host(*same, 0, &value, 4);
  unsigned back = 0;
  copy_to_host(&back, *memory, 256, 4);
  EXPECT_EQ(back, 7u);
}

TEST_F(GpuDriver, SynchronizeAndEventsOfManyStreams) {
  std::vector<StorageRef> storages;
  for (unsigned i = 0; i < 32; ++i) {
    Stream stream(gpu());
    storages.push_back(Storage::allocate(gpu(), 1 << 20));
    fill(stream, storages.back(), i, 4);
    if (i % 2 == 0) stream.synchronize();
  }
  for (unsigned i = 0; i < 32; ++i) {
    unsigned value = 0;
    copy_to_host(&value, *storages[i], 4096, 4);
    EXPECT_EQ(value, i);
  }
}

/// An ELF header for NVIDIA GPUs, without anything that the driver could run.
std::vector<std::byte> empty_image() {
  std::vector<std::byte> bytes(128);
  std::memcpy(bytes.data(), "\177ELF\2\1\1", 7);
  bytes[18] = std::byte{190};
  bytes[40] = std::byte{64};  // one section header, of no section
  bytes[58] = std::byte{64};
  bytes[60] = std::byte{1};
  return bytes;
}

TEST_F(GpuDriver, DamagedImagesAreKeptFromTheDriver) {
  std::vector<std::byte> image = empty_image();
  const auto message = [&](std::span<const std::byte> bytes) {
    KernelImage described;
    described.cubin = bytes;
    described.abi.entry = "k";
    described.label = "kernel k";
    try {
      load_kernel(gpu(), described);
    } catch (const CompileError& error) { return error.message(); }
    return std::string("loaded");
  };
  EXPECT_NE(message({}).find("fewer than an ELF header"), std::string::npos);
  EXPECT_NE(message(std::span(image).first(100)).find("cut off"), std::string::npos);
  image[18] = std::byte{62};  // x86-64
  EXPECT_NE(message(image).find("not for NVIDIA GPUs"), std::string::npos);
}

}  // namespace
}  // namespace tessera::runtime::cuda
