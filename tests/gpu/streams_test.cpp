// Streams of other libraries, priorities, pinned buffers, memory figures and copies between GPUs, on a real GPU. The
// other library is the driver itself.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "gpu/gpu_test.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/memory.hpp"
#include "tessera/runtime/storage.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

/// Work of the driver on a stream that Tessera has not made.
class Driver {
 public:
  Driver() {
    void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(cuda, name));
      EXPECT_NE(function, nullptr) << name;
    };
    find(create_, "cuStreamCreate");
    find(destroy_, "cuStreamDestroy_v2");
    find(set_, "cuMemsetD32Async");
  }
  void* make_stream() {
    void* stream = nullptr;
    constexpr unsigned kNonBlocking = 1;
    EXPECT_EQ(create_(&stream, kNonBlocking), 0);
    return stream;
  }
  void destroy(void* stream) { EXPECT_EQ(destroy_(stream), 0); }
  /// Enqueues `times` fills of the whole memory.
  void fill(void* stream, const void* memory, i32 value, std::size_t count, int times = 1) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    for (int i = 0; i < times; ++i) ASSERT_EQ(set_(at, static_cast<unsigned>(value), count, stream), 0);
  }

 private:
  int (*create_)(void**, unsigned) = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*set_)(unsigned long long, unsigned, std::size_t, void*) = nullptr;
};

constexpr std::int64_t kSize = std::int64_t{1} << 26;  // 256 MiB of i32
constexpr int kBusy = 200;                             // fills: some 20 ms

struct Streams : Gpu {
  std::optional<Driver> driver;  // where there is a GPU
  void SetUp() override {
    Gpu::SetUp();
    if (!IsSkipped() && !HasFailure()) driver.emplace();
  }
  static void expect(const Tensor<i32, 1>& t, i32 value) {
    for (const i32 v : host(t.slice<0>(0, 4096)).sync()) ASSERT_EQ(v, value);
    for (const i32 v : host(t.slice<0>(kSize - 4096, kSize)).sync()) ASSERT_EQ(v, value);
  }
  static void* address(const Tensor<i32, 1>& t) { return detail::Reach::layout(t).storage->data(); }
};

TEST_F(Streams, AWrappedStreamOrdersTheWorkOfBoth) {
  void* const native = driver->make_stream();
  {
    Stream theirs = Stream::wrap(native, default_device());
    EXPECT_EQ(theirs, Stream::wrap(native, default_device()));
    EXPECT_EQ(theirs.native(), native);
    auto t = zeros<i32>({kSize}).sync(), u = zeros<i32>({kSize}).sync();
    theirs.wait_for(mut(t));
    driver->fill(native, address(t), 3, kSize, kBusy);
    driver->fill(native, address(t), 7, kSize);
    theirs.record_write(mut(t));
    copy_into(mut(u), t).sync(Stream(default_device()));  // another stream
    expect(u, 7);
    driver->fill(native, address(u), 1, kSize, kBusy);  // the host has waited for all uses
    driver->fill(native, address(u), 9, kSize);
    theirs.record_write(mut(u));
    expect(clone(u).on(theirs), 9);
  }
  driver->destroy(native);
}

TEST_F(Streams, AStreamMayEndBeforeItsWorkIsWaitedFor) {
  void* const native = driver->make_stream();
  auto t = zeros<i32>({kSize}).sync();
  auto u = clone(t).on(Stream::wrap(native, default_device()));
  driver->destroy(native);
  expect(u, 0);
  t = Tensor<i32, 1>();
}

TEST_F(Streams, TheLegacyDefaultStreamCanBeWrapped) {
  Stream legacy = Stream::wrap(nullptr, default_device());
  auto t = zeros<i32>({kSize}).sync();
  legacy.wait_for(mut(t));
  driver->fill(nullptr, address(t), 5, kSize, kBusy);
  legacy.record_write(mut(t));
  expect(t, 5);
}

TEST_F(Streams, OurHandleTakesTheirWork) {
  Stream ours(default_device());
  auto t = ones<i32>({kSize}).on(ours);
  driver->fill(ours.native(), address(t), 4, kSize, kBusy);
  ours.record_write(mut(t));
  expect(t, 4);
}

TEST_F(Streams, TheDriversPrioritiesAreAccepted) {
  const PriorityRange range = Stream::priorities(default_device());
  EXPECT_LE(range.greatest, range.least);
  const Stream urgent(default_device(), {.priority = range.greatest});
  EXPECT_EQ(host(ones<i32>({4}).on(urgent)).sync(), std::vector<i32>(4, 1));
  EXPECT_THROW(Stream(default_device(), {.priority = range.greatest - 1}), DeviceError);
}

TEST_F(Streams, PinnedBuffersAreUploadedAndReadBackBesideTheHost) {
  HostBuffer<i32> buffer(kSize);
  {
    auto values = buffer.write();
    std::iota(values.begin(), values.end(), 0);
  }
  const Stream stream(default_device());
  const auto begin = std::chrono::steady_clock::now();
  auto t = from(buffer, {kSize}).on(stream);
  HostBuffer<i32> back = host(t, HostBuffer<i32>(kSize)).on(stream);
  const auto enqueued = std::chrono::steady_clock::now() - begin;
  const auto got = back.read();
  EXPECT_EQ(got[0], 0);
  EXPECT_EQ(got[kSize / 2], kSize / 2);
  EXPECT_EQ(got[kSize - 1], kSize - 1);
  RecordProperty("enqueued_us",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(enqueued).count()));
  buffer.write()[0] = 1;  // waits for the upload, which is over
}

TEST_F(Streams, CopiesToTheCpuAndBack) {
  std::vector<i32> values(100000);
  std::iota(values.begin(), values.end(), 0);
  const auto x = from(values, {100, 1000}).sync();
  const auto on_cpu = copy_to(x, Device::cpu()).sync();
  EXPECT_EQ(on_cpu.device(), Device::cpu());
  const auto again = copy_to(on_cpu, default_device()).sync();
  EXPECT_EQ(host(again).sync(), values);
  EXPECT_EQ(host(copy_to(again.permute<1, 0>(), Device::cpu())).sync(), host(x.permute<1, 0>()).sync());
}

TEST_F(Streams, MemoryIsCountedLimitedAndTrimmed) {
  const Device device = default_device();
  const MemoryStats before = memory_stats(device);
  {
    const auto t = empty<i32>({kSize}).sync();
    const MemoryStats now = memory_stats(device);
    EXPECT_EQ(now.in_use - before.in_use, kSize * sizeof(i32));
    EXPECT_GE(now.reserved, now.in_use);
  }
  set_memory_limit(device, before.in_use + 1000);
  try {
    (void)empty<i32>({kSize}).sync();
    ADD_FAILURE() << "above the limit";
  } catch (const OutOfMemoryError& error) { EXPECT_EQ(error.sizes().asked, kSize * sizeof(i32)); }
  set_memory_limit(device, kNoMemoryLimit);
  Stream::default_of(device).synchronize();
  trim_memory(device);
  EXPECT_LT(memory_stats(device).reserved, before.in_use + kSize * sizeof(i32));
}

TEST_F(Streams, CopiesBetweenTwoGpus) {
  if (runtime::cuda::device_count() < 2) GTEST_SKIP() << "needs two GPUs";
  const Device one = Device::cuda(0), two = Device::cuda(1);
  std::vector<i32> values(1000000);
  std::iota(values.begin(), values.end(), 0);
  auto x = from(values, {1000000}).sync(Stream::default_of(one));
  const Stream a(one), b(two);
  for (int round = 0; round < 20; ++round) {
    auto y = copy_to(x, two).on(b);
    x = copy_to(y, one).on(a);
  }
  EXPECT_EQ(host(x).sync(), values);
}

}  // namespace
}  // namespace gpu_test
