// Storages and devices: memory, limits, checked mode's map, names and the choice of the default device.
#include "tessera/runtime/storage.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/fake_device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime {
namespace {

template <class F>
std::string device_error(F f) {
  try {
    f();
  } catch (const DeviceError& error) { return error.message(); }
  return "nothing was thrown";
}

TEST(Storage, IsAlignedAndMayBeEmpty) {
  for (const std::size_t bytes : {0u, 1u, 63u, 4097u}) {
    const StorageRef storage = Storage::allocate(Device::cpu(), bytes, {.label = "x"});
    EXPECT_EQ(storage->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage->data()) % kStorageAlignment, 0u);
    EXPECT_EQ(storage->label(), "x");
    EXPECT_EQ(storage->device(), Device::cpu());
    copy_to_host(nullptr, *storage, 0, 0);
  }
}

TEST(Storage, PoisonIsNanAndNotWritten) {
  const StorageRef storage = Storage::allocate(Device::cpu(), 8, {.track_writes = true, .poison = true});
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(storage->data()[i], std::byte{0xFF});
    EXPECT_EQ(storage->written_map()[i], 0);
  }
  const std::uint32_t value = 1;
  copy_from_host(*storage, 4, &value, 4);
  EXPECT_EQ(storage->written_map()[3], 0);
  EXPECT_NE(storage->written_map()[4], 0);
  EXPECT_NE(storage->written_map()[7], 0);
  EXPECT_EQ(Storage::allocate(Device::cpu(), 8)->written_map(), nullptr);
  const std::uint64_t all = 1;
  copy_from_host(*storage, 0, &all, 8);
  EXPECT_EQ(storage->written_map(), nullptr) << "everything is written";
  const StorageRef other = Storage::allocate(Device::cpu(), 8, {.track_writes = true});
  EXPECT_NE(other->written_map(), nullptr);
  other->count_as_written();
  EXPECT_EQ(other->written_map(), nullptr);
}

TEST(Storage, AbsurdSizesAreDeviceErrorsWithFigures) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {kMost, kMost / 2 + 1, kMost / 2, std::size_t{1} << 60}) {
    const std::string text = device_error([&] { Storage::allocate(Device::cpu(), bytes); });
    EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos) << text;
  }
}

TEST(Storage, AFailedAllocationLeaksNothing) {
  fake::FakeDevice device;
  device.fail_at(0);
  EXPECT_EQ(device_error([&] { Storage::allocate(Device(device), 8); }), "injected fault in allocate");
  device.fail_at(1);
  EXPECT_EQ(device_error([&] { Storage::allocate(Device(device), 8, {.poison = true}); }), "injected fault in fill");
  EXPECT_EQ(device.live_blocks(), 0);
  EXPECT_NE(Storage::allocate(Device(device), 8), nullptr);
  EXPECT_EQ(device.live_blocks(), 0) << "an unused storage ends at once";
}

TEST(Storage, ForeignMemoryKeepsItsOwnerAndCountsAsWritten) {
  int released = 0;
  std::byte memory[4] = {};
  StorageRef storage = Storage::adopt(
      Device::cpu(), memory, 4, std::shared_ptr<void>(memory, [&](void*) { ++released; }), {.track_writes = true});
  EXPECT_EQ(storage->data(), memory);
  EXPECT_EQ(storage->written_map(), nullptr);
  EXPECT_EQ(released, 0);
  storage.reset();
  EXPECT_EQ(released, 1);
}

TEST(Storage, ForeignMemoryIsWrappedOnce) {
  std::byte memory[64];
  auto wrap = [&](std::size_t offset, std::size_t bytes) {
    return Storage::adopt(Device::cpu(), memory + offset, bytes, nullptr, {.label = "w"});
  };
  StorageRef middle = wrap(16, 16);
  const std::size_t overlapping[][2] = {{16, 16}, {0, 17}, {31, 1}, {20, 4}, {0, 64}};
  for (const auto& [offset, bytes] : overlapping) {
    try {
      wrap(offset, bytes);
      FAIL() << offset << " " << bytes;
    } catch (const BorrowError& error) {
      EXPECT_NE(error.message().find("part of tensor 'w' already"), std::string::npos) << error.what();
    }
  }
  const StorageRef before = wrap(0, 16), after = wrap(32, 32), empty = wrap(20, 0);
  middle.reset();
  EXPECT_NO_THROW(wrap(16, 16)) << "free again when the storage has gone";
  EXPECT_THROW(Storage::adopt(Device::cpu(), nullptr, 4, nullptr), DeviceError);
  EXPECT_THROW(Storage::adopt(Device::cpu(), memory, ~std::size_t{0}, nullptr), DeviceError);
}

TEST(Storage, ForeignMemoryThatWorkStillUsesIsAdoptedBehindThatWork) {
  fake::FakeDevice device;
  const Stream stream{Device(device)};
  alignas(8) std::byte memory[8] = {};
  auto wrap = [&] { return Storage::adopt(Device(device), memory, 8, nullptr); };
  StorageRef storage = wrap();
  Access access{storage, AccessMode::ReadWrite};
  stream.core()->submit({host_work([](const LaunchContext& context) {
                           fake::Step step;
                           step.kind = fake::Step::Kind::Record;
                           step.event = std::make_shared<std::atomic<bool>>();
                           static_cast<fake::QueueState*>(context.native_queue)->push(std::move(step));
                         }),
                         {},
                         {},
                         {&access, 1},
                         "step",
                         {}});
  EXPECT_EQ(device.pending_steps(), 1);
  access.storage.reset();
  EXPECT_THROW(wrap(), BorrowError) << "a handle is left";
  storage.reset();
  storage = wrap();
  EXPECT_EQ(storage->last_write().stream, stream.core());
  EXPECT_THROW(wrap(), BorrowError);
  storage.reset();
  device.run_all();
  EXPECT_EQ(wrap()->last_write().stream, nullptr) << "nothing is in flight";
}

TEST(Storage, TransfersStayInside) {
  const StorageRef storage = Storage::allocate(Device::cpu(), 8);
  char bytes[16] = {};
  EXPECT_THROW(copy_to_host(bytes, *storage, 0, 9), InternalError);
  EXPECT_THROW(copy_to_host(bytes, *storage, 9, 0), InternalError);
  EXPECT_THROW(copy_from_host(*storage, 8, bytes, 1), InternalError);
  EXPECT_THROW(copy_from_host(*storage, std::numeric_limits<std::size_t>::max(), bytes, 2), InternalError);
}

TEST(Device, NamesAndEquality) {
  EXPECT_EQ(Device::cpu(), Device::cpu());
  EXPECT_EQ(Device::cpu().kind(), DeviceKind::Cpu);
  EXPECT_EQ(Device::cpu().ordinal(), 0);
  EXPECT_EQ(Device::cpu().name(), "cpu");
  fake::FakeDevice fake(3);
  EXPECT_NE(Device(fake), Device::cpu());
  EXPECT_EQ(Device(fake).ordinal(), 3);
}

TEST(Device, ParsesWhatTheEnvironmentMaySay) {
  EXPECT_EQ(parse_device("cpu"), Device::cpu());
  const std::string missing = device_error([&] { parse_device("cuda:4096"); });  // more than any machine has
  EXPECT_EQ(missing.find("device cuda:4096 "), 0u) << missing;
  EXPECT_NE(missing.find("\n  "), std::string::npos) << "no fix: " << missing;
  for (const char* bad : {"gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:99999999999", " cpu", "cuda0"}) {
    const std::string text = device_error([&] { parse_device(bad); });
    EXPECT_NE(text.find(bad), std::string::npos) << text;
    EXPECT_NE(text.find("expected cpu, cuda or cuda:N"), std::string::npos) << text;
  }
}

TEST(Device, EnvironmentErrorsNameTheVariable) {
  const char* before = std::getenv("TESSERA_DEVICE");
  const std::string saved = before != nullptr ? before : "";
  setenv("TESSERA_DEVICE", "quantum", 1);
  EXPECT_EQ(device_error([] { device_from_environment(); }).find("TESSERA_DEVICE: \"quantum\" is not a device"), 0u);
  setenv("TESSERA_DEVICE", "cpu", 1);
  EXPECT_EQ(device_from_environment(), Device::cpu());
  unsetenv("TESSERA_DEVICE");
  EXPECT_EQ(device_from_environment(), Device::cpu());
  if (before != nullptr) setenv("TESSERA_DEVICE", saved.c_str(), 1);
}

/// Ends the process with 0 if `f` throws a DeviceError about TESSERA_DEVICE at `line`.
template <class F>
[[noreturn]] void exit_by_line(F f, unsigned line) {
  setenv("TESSERA_DEVICE", "quantum", 1);
  try {
    f();
  } catch (const DeviceError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    std::_Exit(e.where().line == line && e.message().rfind("TESSERA_DEVICE: ", 0) == 0 ? 0 : 1);
  }
  std::_Exit(2);
}

TEST(Device, EnvironmentErrorsNameTheCallersLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process without a default device yet
  unsigned line = __LINE__ + 1;
  const auto device = [] { return default_device(); };
  EXPECT_EXIT(exit_by_line(device, line), testing::ExitedWithCode(0), "storage_test.cpp:.*quantum");
  line = __LINE__ + 1;
  const auto stream = [] { return Stream(); };
  EXPECT_EXIT(exit_by_line(stream, line), testing::ExitedWithCode(0), "storage_test.cpp:.*quantum");
}

TEST(Device, DefaultMayBeSet) {
  const Device before = default_device();
  fake::FakeDevice fake;
  set_default_device(Device(fake));
  EXPECT_EQ(default_device(), Device(fake));
  EXPECT_EQ(Stream().device(), Device(fake));
  set_default_device(before);
  EXPECT_EQ(default_device(), before);
}

}  // namespace
}  // namespace tessera::runtime
