// Every call into the driver fails once: the error is typed, nothing leaks, and the next call works. After a fault that
// ends the context: the first cause, with the kernel's name, at every later call.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "runtime/cuda/image.hpp"
#include "runtime/cuda_rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

constexpr std::uint64_t kExpected = (3 * 31 + (2 * 31 + 1)) * 31 + 63;

/// Memory (one poisoned, one foreign), two streams and the default one, a kernel with and one without checks, all kinds
/// of order, owners that are destroyed in flight.
std::uint64_t scenario(Rig& rig, int& released) {
  const auto mix = rig.load("mix"), checked = rig.load("checked");
  const Stream a(rig.device()), b(rig.device()), main = Stream::default_of(rig.device());
  const StorageRef memory = rig.make(1);
  int* count = &released;
  released = 0;
  StorageRef foreign = Storage::adopt(rig.device(), memory->data(), 8,
                                      std::shared_ptr<void>(memory->data(), [count, memory](void*) { ++*count; }));
  StorageRef y = Storage::allocate(rig.device(), 8, {.poison = true}), z = rig.make(3);
  const std::uint64_t two = 2;
  copy_from_host(*y, 0, &two, sizeof two);
  rig.mix(checked, a, y, foreign);  // y = 63
  rig.mix(mix, b, z, y);            // z = 156: read after write, and a pending outcome
  foreign.reset();                  // destroyed while a reads it
  rig.mix(mix, main, z, y);         // z = kExpected: write after write
  y.reset();                        // destroyed while two streams read it
  const std::uint64_t value = rig.read(z);
  Stream(a).synchronize();
  return value;
}

/// After everything was released.
void expect_clean(Rig& rig) {
  rig.driver.heal();
  rig.driver.run_all();
  Storage::allocate(rig.device(), 8);  // releases what waited for the device
  EXPECT_EQ(rig.blocks_in_use(), 0);
  EXPECT_LE(rig.backend.streams().in_use(), 1u) << "the default stream may stay";
}

class CudaFault : public ::testing::TestWithParam<int> {};

TEST_P(CudaFault, AtEveryCall) {
  const CUresult result = GetParam();
  int faults = 0;
  for (int k = 0;; ++k) {
    SCOPED_TRACE("fault at call " + std::to_string(k));
    Rig rig;
    int released = 0;
    rig.driver.fail_at(k, result);
    bool thrown = false;
    try {
      EXPECT_EQ(scenario(rig, released), kExpected) << "a fault that is not reported must not matter";
    } catch (const Error& error) {
      thrown = true;
      EXPECT_TRUE(rig.driver.fault_happened()) << error.what();
      const std::string text = error.message();
      EXPECT_TRUE(text.find("CUDA_ERROR_FAKE_" + std::to_string(result)) != std::string::npos ||
                  text.find("not memory of cuda:0") != std::string::npos || text.find("out of memory") == 0)
          << text;
    }
    const bool happened = rig.driver.fault_happened();
    expect_clean(rig);
    if (!happened) {
      EXPECT_FALSE(thrown);
      break;
    }
    ++faults;
    released = 0;
    EXPECT_EQ(scenario(rig, released), kExpected) << "the next call works";
    expect_clean(rig);
    EXPECT_EQ(released, 1);
    rig.owned.reset();
    EXPECT_EQ(rig.driver.violation(), "");
    EXPECT_EQ(rig.driver.leaks(), "");
    if (HasFailure()) break;
  }
  EXPECT_GT(faults, 90) << "the scenario should reach many calls";
}

/// An argument error, out of memory, and an error without a special message.
INSTANTIATE_TEST_SUITE_P(Results, CudaFault, ::testing::Values(1, 2, 999));

/// The same with a fault of the device, after which every call fails: nothing hangs, crashes or leaks, and later calls
/// name the first cause.
TEST(CudaFaultForGood, AtEveryCall) {
  int faults = 0;
  for (int k = 0;; ++k) {
    SCOPED_TRACE("the device dies at call " + std::to_string(k));
    Rig rig;
    int released = -1;
    rig.driver.fail_at(k, 700, true);
    bool thrown = false;
    try {
      scenario(rig, released);
    } catch (const Error& error) {
      thrown = true;
      EXPECT_NE(error.message().find("CUDA_ERROR_FAKE_700"), std::string::npos) << error.what();
    }
    if (!rig.driver.fault_happened()) {
      EXPECT_FALSE(thrown);
      break;
    }
    ++faults;
    try {
      rig.make(1);
      ADD_FAILURE() << "memory of a dead device was handed out";
    } catch (const DeviceError& error) {
      EXPECT_NE(error.message().find("CUDA_ERROR_FAKE_700"), std::string::npos) << error.what();
    }
    EXPECT_LE(released, 1);
    rig.owned.reset();
    EXPECT_NE(released, 0) << "foreign memory was not released";
    EXPECT_EQ(rig.driver.violation(), "");
    EXPECT_EQ(rig.driver.leaks(), "");
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(faults, 90);
}

TEST(CudaFaultWhileStarting, AtEveryCall) {
  int faults = 0;
  for (int k = 0;; ++k) {
    SCOPED_TRACE(k);
    FakeDriver driver;
    driver.fail_at(k, 999);
    try {
      const CudaBackend backend(driver.table(), 0);
    } catch (const DeviceError& error) {
      EXPECT_NE(error.message().find("CUDA_ERROR_FAKE_999 (as injected)"), std::string::npos) << error.what();
    }
    EXPECT_EQ(driver.leaks(), "");
    EXPECT_EQ(driver.violation(), "");
    if (!driver.fault_happened()) break;
    ++faults;
  }
  EXPECT_GT(faults, 10);
}

template <class F>
std::string text_of(F f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "nothing was thrown";
}

struct CudaDeadDevice : ::testing::Test {
  Rig rig;
  std::shared_ptr<const Launchable> fault = rig.load("fault"), mix = rig.load("mix");
  StorageRef x = rig.make(1), y = rig.make(2);
};

TEST_F(CudaDeadDevice, TheFirstCauseAndTheKernelAreNamedAtEveryLaterCall) {
  auto held = std::make_unique<Stream>(rig.device());
  Stream& stream = *held;
  rig.mix(mix, stream, y, x, 0, "kernel innocent");
  EXPECT_EQ(rig.read(y), 63u);
  rig.mix(fault, stream, y, x, 700, "kernel culprit");
  const std::string first = text_of([&] { rig.read(y); });
  EXPECT_EQ(first.find("user.cpp:7: DeviceError: waiting for work failed on cuda:0: CUDA_ERROR_FAKE_700"), 0u) << first;
  EXPECT_NE(first.find("running: kernel culprit (user.cpp:7)."), std::string::npos) << first;
  EXPECT_EQ(first.find("innocent"), std::string::npos) << "it had ended: " << first;
  EXPECT_NE(first.find("unsafe_::"), std::string::npos) << "what to do: " << first;
  const std::string cause = "The first cause was: waiting for work failed on cuda:0: CUDA_ERROR_FAKE_700";
  const std::function<void()> calls[] = {[&] { rig.read(x), rig.read(y); },
                                         [&] { rig.make(1); },
                                         [&] { Stream again(rig.device()); },
                                         [&] { rig.mix(mix, stream, y, x); },
                                         [&] { stream.synchronize(); },
                                         [&] { rig.load("mix"); },
                                         [&] { Storage::allocate(rig.device(), std::size_t{1} << 60); }};
  for (const auto& call : calls) {
    const std::string text = text_of(call);
    EXPECT_NE(text.find(cause), std::string::npos) << text;
    EXPECT_NE(text.find("kernel culprit (user.cpp:7)"), std::string::npos) << text;
  }
  held.reset();
  x.reset();
  y.reset();
  mix.reset();
  fault.reset();
  rig.owned.reset();
  EXPECT_EQ(rig.driver.violation(), "");
  EXPECT_EQ(rig.driver.leaks(), "");
}

TEST_F(CudaDeadDevice, SeveralCandidatesAreListedOnce) {
  Stream a(rig.device()), b(rig.device());
  const StorageRef z = rig.make(3);
  rig.mix(mix, b, z, x, 0, "kernel other");
  for (int i = 0; i < 3; ++i) rig.mix(mix, a, y, x, 0, "kernel one");
  rig.driver.poison(719);
  const std::string text = text_of([&] { a.synchronize(); });
  EXPECT_NE(text.find("running: kernel one (user.cpp:7) or kernel other (user.cpp:7)."), std::string::npos) << text;
}

TEST_F(CudaDeadDevice, KernelsWithChecksInFlightAreForgotten) {
  const auto checked = rig.load("checked");
  {
    Stream stream(rig.device());
    rig.mix(checked, stream, y, x, 1);
    rig.driver.poison(700);
    EXPECT_NE(text_of([&] { rig.read(y); }).find("FAKE_700"), std::string::npos);
    y.reset();
  }
  x.reset();
}

TEST(CudaImages, WhatIsNoCubinIsRejectedBeforeTheDriverSeesIt) {
  Rig rig;
  const std::vector<std::byte> good = FakeDriver::image("mix");
  ASSERT_EQ(image_fault(good), "");
  const auto rejected = [&](std::vector<std::byte> bytes) {
    const int before = rig.driver.count(Fn::cuModuleLoadDataEx);
    const std::string text = text_of([&] {
      load_kernel(rig.device(), {bytes, "kernel mix", {.entry = "mix", .num_args = 3}});
    });
    EXPECT_EQ(rig.driver.count(Fn::cuModuleLoadDataEx), before);
    EXPECT_EQ(text.find("CompileError: kernel mix: its image is damaged and was not passed to the driver: "), 0u)
        << text;
  };
  rejected({});
  for (const std::size_t cut : {std::size_t{10}, std::size_t{63}, std::size_t{100}, good.size() - 1})
    rejected({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)});
  // One byte of the header changed: magic, class, byte order, machine, offset and number of sections, a section's
  // offset.
  for (const std::size_t at : {0, 4, 5, 18, 40, 46, 58, 61, 88, 96}) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0x40};
    rejected(bad);
  }
}

TEST(CudaImages, WhatTheDriverRejectsIsACompileErrorWithItsLog) {
  Rig rig;
  const auto bytes = FakeDriver::image("for another GPU");
  const std::string text = text_of([&] {
    load_kernel(rig.device(), {bytes, "kernel mix", {.entry = "mix", .num_args = 3}});
  });
  EXPECT_EQ(text.find("CompileError: kernel mix: the driver rejects its image on cuda:0: CUDA_ERROR_FAKE_209"), 0u)
      << text;
  EXPECT_NE(text.find("its log: fake log"), std::string::npos) << text;
  const auto good = FakeDriver::image("mix");
  EXPECT_NE(text_of([&] {
              load_kernel(rig.device(), {good, "kernel mux", {.entry = "mux", .num_args = 3}});
            }).find("FAKE_500"),
            std::string::npos);
  EXPECT_NE(text_of([&] {
              load_kernel(rig.device(), {good, "kernel mix", {.entry = "mix", .num_args = 501}});
            }).find("at most 500"),
            std::string::npos);
}

TEST(CudaImages, ModulesGoWithTheirLastKernelAndAfterItsLaunches) {
  Rig rig;
  auto kernel = rig.load("mix");
  Stream stream(rig.device());
  const StorageRef x = rig.make(1), y = rig.make(2);
  rig.mix(kernel, stream, y, x);
  kernel.reset();
  EXPECT_EQ(rig.driver.count(Fn::cuModuleUnload), 1);
  EXPECT_EQ(rig.read(y), 63u);
  EXPECT_EQ(rig.driver.violation(), "");
}

TEST(CudaDriverStart, SaysWhatIsWrongAndWhatToDo) {
  {
    FakeDriver old(1, 11080);
    const std::string text = start(old.table());
    EXPECT_NE(text.find("too old: it supports CUDA 11.8, and Tessera needs CUDA 12.0"), std::string::npos) << text;
    EXPECT_NE(text.find("Update the driver"), std::string::npos);
  }
  const struct {
    CUresult result;
    const char* fix;
  } rows[] = {{100, "CUDA_VISIBLE_DEVICES"}, {800, "/dev/nvidia"}, {803, "reboot"},
              {34, "LD_LIBRARY_PATH"},       {999, "nvidia-uvm"},  {802, "fabricmanager"}};
  for (const auto& row : rows) {
    FakeDriver driver;
    driver.fail_next(Fn::cuInit, row.result);
    const std::string text = start(driver.table());
    EXPECT_NE(text.find("CUDA_ERROR_FAKE_" + std::to_string(row.result)), std::string::npos) << text;
    EXPECT_NE(text.find(row.fix), std::string::npos) << text;
  }
  FakeDriver good;
  EXPECT_EQ(start(good.table()), "");
}

TEST(CudaDriverStart, ADriverWithoutGpusSaysSo) {
  FakeDriver none(0);
  int count = -1;
  EXPECT_NE(count_gpus(none.table(), count).find("no GPU can be used: CUDA_ERROR_FAKE_100"), std::string::npos);
  EXPECT_NE(count_gpus(none.table(), count).find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  EXPECT_EQ(count, 0);
  FakeDriver three(3);
  EXPECT_EQ(count_gpus(three.table(), count), "");
  EXPECT_EQ(count, 3);
  three.fail_next(Fn::cuDeviceGetCount, 3);
  EXPECT_NE(count_gpus(three.table(), count).find("nvidia-smi"), std::string::npos);
  EXPECT_EQ(count, 0);
}

TEST(CudaDriverStart, WithoutADriverTheMessageSaysSo) {
  std::string why;
  if (available(&why)) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_FALSE(why.empty());
  EXPECT_NE(why.find("\n  "), std::string::npos) << "no fix: " << why;
  EXPECT_EQ(device_count(), 0);
  EXPECT_EQ(text_of([] { Device::cuda(0, {}); }), "DeviceError: device cuda:0 is not available: " + why);
  try {
    Device::cuda(0);
    ADD_FAILURE() << "not rejected";
  } catch (const DeviceError& e) { EXPECT_EQ(e.where().line, __LINE__ - 2u) << e.what(); }
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
