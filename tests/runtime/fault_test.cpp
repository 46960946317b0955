// Every call into the device fails once: the error is typed, nothing leaks, and the next call works.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "runtime/fake_device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime {
namespace {

using fake::FakeDevice;

constexpr std::uint64_t kExpected = ((3 * 31 + (2 * 31 + 1)) * 31 + 1) * 31 + (2 * 31 + 1);

/// A bit of everything: storages (one poisoned, one foreign), three streams, all kinds of order, host reads and writes,
/// and owners that are destroyed in flight.
std::uint64_t scenario(FakeDevice& device, int& foreign_released) {
  const Device handle(device);
  Stream a(handle), b(handle), main = Stream::default_of(handle);
  auto make = [&](std::uint64_t value, bool poison) {
    StorageRef storage = Storage::allocate(handle, sizeof value, {.label = "t", .poison = poison});
    copy_from_host(*storage, 0, &value, sizeof value);
    return storage;
  };
  auto mix = [](const Stream& stream, const StorageRef& y, const StorageRef& x) {
    const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
    return stream.core()->submit({fake::mix_work(), {}, {}, accesses, "mix", {}});
  };
  struct Memory {
    FakeDevice& device;
    void* memory;
    ~Memory() { device.free(memory, 8); }
  };
  auto memory = std::make_shared<Memory>(device, device.allocate(8));
  int* count = &foreign_released;
  StorageRef foreign = Storage::adopt(handle, memory->memory, 8,
                                      std::shared_ptr<void>(memory.get(), [memory, count](void*) { ++*count; }));
  memory.reset();
  const std::uint64_t one = 1;
  copy_from_host(*foreign, 0, &one, sizeof one);
  StorageRef y = make(2, true), z = make(3, false);
  mix(a, y, foreign);     // y = 63
  mix(b, z, y);           // z = 156: read after write
  mix(main, z, foreign);  // z = 4837: write after write
  foreign.reset();        // destroyed while a and main read it
  mix(main, z, y);        // z = 150010
  y.reset();              // destroyed while two streams read it
  wait(mix(a, make(0, false), z), {});
  a.synchronize();
  std::uint64_t value = 0;
  copy_to_host(&value, *z, 0, sizeof value);
  return value;
}

class Fault : public ::testing::TestWithParam<bool> {};

TEST_P(Fault, AtEveryCall) {
  const bool dead = GetParam();
  int faults = 0;
  for (int k = 0;; ++k) {
    SCOPED_TRACE("fault at call " + std::to_string(k));
    FakeDevice device;
    int released = 0;
    device.fail_at(k, dead);
    bool thrown = false;
    try {
      EXPECT_EQ(scenario(device, released), kExpected) << "a fault that is not reported must not matter";
    } catch (const DeviceError& error) {
      thrown = true;
      EXPECT_TRUE(device.fault_happened()) << error.what();
    }
    if (!device.fault_happened()) {
      EXPECT_FALSE(thrown);
      EXPECT_EQ(released, 1);
      break;
    }
    ++faults;
    device.heal();
    device.run_all();
    EXPECT_EQ(device.violation(), "");
    EXPECT_EQ(device.live_blocks(), 0);
    EXPECT_LE(device.live_queues(), 1) << "the default stream may stay";
    EXPECT_EQ(device.pending_steps(), 0);
    EXPECT_LE(released, 1);
    released = 0;
    EXPECT_EQ(scenario(device, released), kExpected) << "the next call works";
    device.run_all();
    EXPECT_EQ(released, 1);
    EXPECT_EQ(device.live_blocks(), 0);
    if (HasFailure()) break;
  }
  EXPECT_GT(faults, 25) << "the scenario should reach many calls";
}

INSTANTIATE_TEST_SUITE_P(Faults, Fault, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "DeviceDies" : "Once"; });

TEST(FaultScenario, EveryKindOfCallIsReached) {
  FakeDevice device;
  int released = 0;
  scenario(device, released);
  for (int call = 0; call < fake::kCalls; ++call) {
    const auto kind = static_cast<fake::Call>(call);
    if (kind == fake::Call::Synchronize) continue;  // only if no event is available
    EXPECT_GT(device.count(kind), 0) << fake::name(kind);
  }
}

}  // namespace
}  // namespace tessera::runtime
