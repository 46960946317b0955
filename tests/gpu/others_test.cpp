// Other libraries in the process, on a real GPU: a consumer of to_dlpack that returns its tensor while its own stream
// still writes it, and children of fork(). The consumer is the driver itself, with a stream that is unknown to Tessera.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>

#include "gpu/gpu_test.hpp"
#include "runtime/in_child.hpp"
#include "tessera/host/dlpack.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

class Consumer {
 public:
  Consumer() {
    void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(cuda, name));
      EXPECT_NE(function, nullptr) << name;
    };
    int (*create)(void**, unsigned) = nullptr;
    find(create, "cuStreamCreate");
    find(set_, "cuMemsetD8Async");
    find(synchronize_, "cuStreamSynchronize");
    constexpr unsigned kNonBlocking = 1;
    EXPECT_EQ(create(&stream_, kNonBlocking), 0);
  }
  /// Enqueues `times` memsets of the whole tensor.
  void write(const dlpack::Tensor& t, unsigned char value, std::size_t bytes, int times) {
    const auto at = reinterpret_cast<std::uintptr_t>(t.data);
    for (int i = 0; i < times; ++i) ASSERT_EQ(set_(at, value, bytes, stream_), 0);
  }
  void wait() { EXPECT_EQ(synchronize_(stream_), 0); }

 private:
  void* stream_ = nullptr;
  int (*set_)(unsigned long long, unsigned char, std::size_t, void*) = nullptr;
  int (*synchronize_)(void*) = nullptr;
};

constexpr std::int64_t kSize = std::int64_t{1} << 26;  // 256 MiB of i32
constexpr std::size_t kBytes = kSize * sizeof(i32);

struct Others : Gpu {
  /// Not one of the first elements is other than `value`.
  static void expect(const Tensor<i32, 1>& t, i32 value) {
    for (const i32 v : host(t.slice<0>(0, 4096)).sync()) ASSERT_EQ(v, value);
    for (const i32 v : host(t.slice<0>(kSize - 4096, kSize)).sync()) ASSERT_EQ(v, value);
  }
};

TEST_F(Others, MemoryIsUsedAgainOnlyBehindTheConsumersWork) {
  auto first = zeros<i32>({kSize}).sync();
  Consumer consumer;
  for (int round = 0; round < 5; ++round) {
    auto* const m = to_dlpack(round == 0 ? std::move(first) : zeros<i32>({kSize}).sync()).release();
    consumer.write(m->dl_tensor, 0xFF, kBytes, 200);  // some 20 ms
    m->deleter(m);
    const auto fresh = ones<i32>({kSize}).sync();
    expect(fresh, 1);
    consumer.wait();
    expect(fresh, 1);
  }
}

TEST_F(Others, AViewThatWasKeptSeesTheConsumersWork) {
  auto t = zeros<i32>({kSize}).sync();
  const auto v = t.slice<0>(kSize - 4096, kSize);
  Consumer consumer;
  auto* const m = to_dlpack(std::move(t)).release();
  consumer.write(m->dl_tensor, 0x11, kBytes, 100);
  consumer.write(m->dl_tensor, 0x22, kBytes, 1);
  m->deleter(m);
  for (const i32 x : host(v).sync()) ASSERT_EQ(x, 0x22222222);
}

TEST_F(Others, GivingBackDoesNotWait) {
  auto t = zeros<i32>({kSize}).sync();
  Consumer consumer;
  auto* const m = to_dlpack(std::move(t)).release();
  consumer.write(m->dl_tensor, 0xFF, kBytes, 2000);  // some 200 ms
  const auto begin = std::chrono::steady_clock::now();
  m->deleter(m);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  consumer.wait();
}

TEST_F(Others, NoChildOfForkUsesTheGpu) {
  auto t = ones<i32>({1024}).sync();
  const Stream s(t.device());
  const auto rejected = [&](auto f) { return in_child([&] { return outcome<DeviceError>(f); }); };
  for (const std::string& text :
       {rejected([&] { (void)host(t).sync(); }), rejected([&] { (void)zeros<i32>({8}).sync(); }),
        rejected([&] { (void)clone(t).on(s); }), rejected([&] { Stream(s).synchronize(); })}) {
    EXPECT_NE(text.find("forked"), std::string::npos) << text;
  }
  EXPECT_EQ(in_child([&] {
              set_default_device(Device::cpu());
              return std::to_string(host(ones<i32>({8})).sync()[7]);
            }),
            "1");
  for (const i32 v : host(t).sync()) ASSERT_EQ(v, 1);
}

}  // namespace
}  // namespace gpu_test
