// No memory for a copy on the host is a DeviceError with the user's line and the size, and has no other effect.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <tessera/tessera.hpp>
#include <vector>

#include "base/fail_allocations.hpp"
#include "host/expect_error.hpp"
#include "host/far_device.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace THIS_FILE {

using namespace tessera;

constexpr std::int64_t kCount = 1 << 16;
constexpr std::size_t kLarge = 1 << 14;  // bytes: an operation is smaller, every copy of the elements larger

struct HostMemory : testing::Test {
  runtime::FarDevice far;
  Device before = default_device();
  ~HostMemory() override { set_default_device(before); }

  /// f needs a copy on the host: rejected without memory, then done.
  template <class F>
  void expect(const char* bytes, F f) {
    {
      const FailAllocations none(kLarge);
      EXPECT_ERROR(DeviceError, f(), "host_memory_test.cpp", "out of host memory", bytes);
    }
    EXPECT_NO_THROW(f());
  }
};

TEST_F(HostMemory, Readback) {
  for (const Device device : {Device::cpu(), Device(far)}) {
    set_default_device(device);
    const auto x = arange<f32>(kCount).sync();
    const auto mask = full<bool>({kCount}, true).sync();
    expect("262144 bytes", [&] { EXPECT_EQ(host(x).sync()[7], 7.0f); });
    expect("65536 bytes", [&] { EXPECT_TRUE(host(mask).sync()[7]); });
  }
}

TEST_F(HostMemory, Files) {
  const std::string path = std::filesystem::temp_directory_path() / concat("tessera_memory_", getpid(), ".npy");
  set_default_device(Device(far));
  const auto x = arange<f32>(kCount).sync();
  expect("262144 bytes", [&] { save_npy(path, x); });
  EXPECT_EQ(host(load_npy<f32, 1>(path)).sync()[9], 9.0f);
  std::filesystem::remove(path);
}

TEST_F(HostMemory, WhatTheHostDoesForADevice) {
  set_default_device(Device(far));
  auto x = arange<f32>({kCount / 2, 2}).sync();
  expect("262144 bytes", [&] { (void)to_string(x); });
  expect("bytes", [&] { (void)host(x.permute<1, 0>()).sync(); });
  const auto deep = arange<f32>({kCount / 32, 2, 2, 2, 2, 2}).sync();  // more axes than kernels copy
  expect("262144 bytes", [&] { (void)clone(deep.permute<5, 4, 3, 2, 1, 0>()).sync(); });
  expect("65536 bytes", [&] { (void)from(std::vector<bool>(kCount, true), {kCount}).sync(); });
  EXPECT_EQ(host(x).sync()[5], 5.0f);
}

TEST_F(HostMemory, CompilingToo) {
  set_default_device(Device(far));
  const auto y = arange<i16>({kCount / 2, 2}).sync();
  expect("while this operation was compiled and enqueued", [&] { (void)cast<f64>(y.permute<1, 0>()).sync(); });
}

TEST_F(HostMemory, WorkThatRunsOutOfItFailsAsADevice) {
  Stream stream(Device::cpu());
  const auto none = runtime::host_work([](const runtime::LaunchContext&) { throw std::bad_alloc(); });
  for (const Stream& on : {stream, Stream::default_of(Device::cpu())}) {
    on.core()->submit({none, {}, {}, {}, "work"});
    EXPECT_ERROR(DeviceError, on.core()->synchronize(), "out of host memory");
    EXPECT_NO_THROW(on.core()->synchronize());
  }
}

}  // namespace THIS_FILE
