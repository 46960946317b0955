// A child of fork(): streams and GPUs of its parent are rejected with their name, and everything else works.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "runtime/cuda_rig.hpp"
#include "runtime/in_child.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/sanitizers.hpp"
#include "tessera/runtime/transfer.hpp"

// A child of a process with threads may not start any under the thread sanitizer.
#define TESSERA_NO_THREADS_IN_CHILDREN TESSERA_TSAN

namespace tessera::runtime {
namespace THIS_FILE {

namespace fake = cuda::fake;  // a driver; runtime::fake is a device

std::shared_ptr<const Launchable> add_one() {
  return host_work([](const LaunchContext& c) { ++*reinterpret_cast<std::uint64_t*>(c.accesses[0].storage->data()); });
}
void submit(const Stream& stream, const StorageRef& storage, std::shared_ptr<const Launchable> work = add_one()) {
  const Access access{storage, AccessMode::ReadWrite};
  stream.core()->submit({std::move(work), {}, {}, {&access, 1}, "kernel one", {"user.cpp", "", 7}});
}
StorageRef make(std::uint64_t value) {
  StorageRef storage = Storage::allocate(Device::cpu(), sizeof value);
  copy_from_host(*storage, 0, &value, sizeof value);
  return storage;
}
std::string value_of(const StorageRef& storage) {
  std::uint64_t value = 0;
  copy_to_host(&value, *storage, 0, sizeof value);
  return std::to_string(value);
}
/// Work that has not ended when the process forks. The fork comes after wait_until_running(): a thread that is still
/// starting may hold a lock of the address sanitizer's allocator, which the child then waits for at its end, as clang
/// 16's does not know of fork().
struct Unfinished {
  std::atomic<bool> running{false}, go{false};
  std::shared_ptr<const Launchable> launchable() {
    return host_work([this](const LaunchContext&) {
      running = true;
      while (!go) std::this_thread::yield();
    });
  }
  void wait_until_running() const {
    while (!running) std::this_thread::yield();
  }
  void finish() { go = true; }
};
template <class F>
std::string rejection(F f) {
  return in_child([&] { return outcome<DeviceError>(f); });
}

TEST(Fork, AStreamOfTheParentIsRejected) {
  Stream stream(Device::cpu());
  const StorageRef x = make(1), other = make(1);
  submit(stream, x);
  stream.synchronize();
  for (const std::string& text : {rejection([&] { submit(stream, x); }), rejection([&] { submit(stream, other); }),
                                  rejection([&] { stream.synchronize(); })}) {
    EXPECT_NE(text.find("belongs to the process that this one was forked from"), std::string::npos) << text;
  }
  EXPECT_EQ(rejection([&] { submit(stream, x); }).rfind("user.cpp:7: DeviceError: kernel one", 0), 0u);
  EXPECT_EQ(rejection([&] { stream.synchronize({"main.cpp", "", 9}); }).rfind("main.cpp:9: DeviceError: synch", 0), 0u);
  submit(stream, x);
  EXPECT_EQ(value_of(x), "3") << "the parent goes on";
}

TEST(Fork, WhatHadEndedIsThereAndTheDefaultStreamWorks) {
  Stream stream(Device::cpu());
  const StorageRef x = make(1);
  submit(stream, x);
  stream.synchronize();
  EXPECT_EQ(in_child([&] {
              submit(Stream::default_of(Device::cpu()), x);
              submit(Stream::default_of(Device::cpu()), x);
              return value_of(x);
            }),
            "4");
  EXPECT_EQ(value_of(x), "2") << "a child's memory is its own";
}

TEST(Fork, WaitingForWorkThatHadNotEndedIsRejected) {
  Stream stream(Device::cpu());
  const StorageRef x = make(1), y = make(5);
  Unfinished work;
  submit(stream, x, work.launchable());
  work.wait_until_running();
  const Stream own = Stream::default_of(Device::cpu());
  for (const std::string& text :
       {rejection([&] { value_of(x); }), rejection([&] { submit(own, x); }), rejection([&] { x->wait_unused(); })}) {
    EXPECT_NE(text.find("had not ended when this process was forked"), std::string::npos) << text;
  }
  EXPECT_EQ(rejection([&] { submit(own, x); }).rfind("user.cpp:7: DeviceError: waiting", 0), 0u);
  EXPECT_EQ(in_child([&] { return value_of(y); }), "5") << "other tensors are not concerned";
  work.finish();
  EXPECT_EQ(value_of(x), "1");
}

TEST(Fork, TheChildEndsAsAProgramDoes) {
  auto stream = std::make_unique<Stream>(Device::cpu());
  StorageRef x = make(1);
  Unfinished work;
  submit(*stream, x, work.launchable());
  work.wait_until_running();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    stream.reset();  // of a thread that does not exist in the child
    x.reset();
    std::exit(0);  // destroys statics, which wait for this process's work only
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  work.finish();
  stream->synchronize();  // the work reads `work`, which ends before the stream
}

TEST(Fork, AStreamOfItsOwn) {
#if TESSERA_NO_THREADS_IN_CHILDREN
  GTEST_SKIP() << "the thread sanitizer takes no threads in a child";
#endif
  Stream parents(Device::cpu());
  const StorageRef x = make(1);
  submit(parents, x);
  parents.synchronize();
  EXPECT_EQ(in_child([&] {
              Stream stream(Device::cpu());
              submit(stream, x);
              submit(stream, x);
              return value_of(x);
            }),
            "4");
}

TEST(Fork, NoDriverFollows) {
  cuda::fake::Rig rig;
  const auto kernel = rig.load("mix");
  Stream stream(rig.device());
  const StorageRef x = rig.make(1), y = rig.make(2);
  rig.mix(kernel, stream, y, x);
  const int calls = rig.driver.calls();
  const auto each = [&](auto f) {
    return in_child([&] {
      const std::string text = outcome<DeviceError>(f);
      return rig.driver.calls() == calls ? text : "called the driver: " + text;
    });
  };
  const std::string texts[] = {
      each([&] { rig.mix(kernel, stream, y, x); }),
      each([&] { rig.mix(kernel, Stream::default_of(rig.device()), y, x); }),
      each([&] { rig.read(y); }),
      each([&] { rig.make(3); }),
      each([&] { Stream(rig.device()); }),
      each([&] { stream.synchronize(); }),
      each([&] { Storage::allocate(stream.core(), 8); }),
      each([&] { Storage::adopt(rig.device(), x->data(), 8, nullptr); }),
  };
  for (const std::string& text : texts) EXPECT_NE(text.find("forked"), std::string::npos) << text;
  EXPECT_NE(texts[3].find("NVIDIA's driver does not work in a child"), std::string::npos) << texts[3];
  EXPECT_EQ(each([&] {
              StorageRef last = std::move(const_cast<StorageRef&>(y));
              last.reset();
            }),
            "ok")
      << "what ends there ends without a word";
  EXPECT_EQ(in_child([&] { return value_of(make(7)); }), "7") << "the CPU works";
  EXPECT_EQ(rig.read(y), 2u * 31 + 1);
  EXPECT_EQ(rig.driver.violation(), "");
}

/// Another thread is inside the pool while the process forks: in the child that thread does not exist.
TEST(Fork, NoChildWaitsForThePoolOfEvents) {
  using namespace cuda;
  struct InsideThePool final : fake::FakeDriver::Scheduler {
    std::atomic<bool> inside{false}, go{false};
    void before_call(fake::Fn fn) override {
      if (fn != fake::Fn::cuEventCreate) return;
      inside = true;
      while (!go) std::this_thread::yield();
    }
    bool run_one() override { return false; }
  };
  fake::Rig rig;
  const Current current(rig.backend.context());
  PooledEvent event(rig.backend.events()), other = std::move(event);
  InsideThePool scheduler;
  rig.driver.set_scheduler(&scheduler);
  std::thread thread([&] {
    const Current here(rig.backend.context());
    const PooledEvent another(rig.backend.events());
  });
  while (!scheduler.inside) std::this_thread::yield();
  EXPECT_EQ(in_child([&] {
              { const PooledEvent last = std::move(other); }
              return std::string("ok");
            }),
            "ok");
  scheduler.go = true;
  thread.join();
  rig.driver.set_scheduler(nullptr);
}

}  // namespace THIS_FILE
}  // namespace tessera::runtime
