// Streams of the CPU: real asynchrony, in-order work, ordering between streams, and propagation of failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/sync_scope.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime {
namespace {

constexpr std::size_t kCount = 256;

StorageRef make(const char* label, std::int32_t value) {
  StorageRef storage = Storage::allocate(Device::cpu(), kCount * sizeof value, {.label = label});
  std::vector<std::int32_t> values(kCount, value);
  copy_from_host(*storage, 0, values.data(), storage->bytes());
  return storage;
}

std::vector<std::int32_t> read(const StorageRef& storage) {
  std::vector<std::int32_t> values(kCount);
  copy_to_host(values.data(), *storage, 0, storage->bytes());
  return values;
}

std::int32_t* ints(const Access& access) { return reinterpret_cast<std::int32_t*>(access.storage->data()); }

/// y += a * x, slowly: a missing wait is seen by the values and by TSan.
const auto kAxpy = host_work([](const LaunchContext& context) {
  std::int32_t *y = ints(context.accesses[0]), *x = ints(context.accesses[1]);
  const auto a = static_cast<std::int32_t>(context.args[0]);
  for (std::size_t i = 0; i < kCount; ++i) {
    y[i] += a * x[i];
    if (i % 64 == 0) std::this_thread::yield();
  }
});

Ticket axpy(Stream stream, const StorageRef& y, std::uint64_t a, const StorageRef& x) {
  const std::array<std::uint64_t, 1> args{a};
  const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
  return stream.core()->submit({kAxpy, {}, args, accesses, "axpy", {}});
}

template <class F>
Ticket enqueue(Stream stream, F f, std::initializer_list<Access> accesses = {}) {
  return stream.core()->submit(
      {host_work([f](const LaunchContext&) { f(); }), {}, {}, {accesses.begin(), accesses.size()}, "test work", {}});
}

/// Blocks a stream until it is opened.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened = promise.get_future().share();
  void block(Stream stream) {
    enqueue(stream, [opened = opened] { opened.wait(); });
  }
  void open() { promise.set_value(); }
};

TEST(CpuStream, DefaultStreamRunsAtOnceOnTheCaller) {
  std::thread::id ran;
  enqueue(Stream::default_of(Device::cpu()), [&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(Stream::default_of(Device::cpu()), Stream::default_of(Device::cpu()));
}

TEST(CpuStream, ExplicitStreamIsAsynchronousAndInOrder) {
  Stream stream;
  Gate gate;
  gate.block(stream);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) enqueue(stream, [&order, i] { order.push_back(i); });
  gate.open();
  stream.synchronize();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CpuStream, WorkHasEndedWhenItHasRunAndNotBefore) {
  Stream stream;
  Gate gate;
  StreamCore& core = *stream.core();
  const Ticket ticket = enqueue(stream, [opened = gate.opened] { opened.wait(); });
  EXPECT_FALSE(core.has_ended(ticket.number));
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(core.has_ended(ticket.number));
}

TEST(CpuStream, TwoHundredRoundsAcrossStreams) {
  Stream a, b;
  for (int round = 0; round < 200; ++round) {
    StorageRef x = make("x", 1), y = make("y", 0), z = make("z", 0);
    axpy(a, y, 2, x);               // y = 2
    axpy(b, z, 1, y);               // z = 2: reads what a writes
    axpy(a, y, 5, x);               // y = 7: overwrites what b reads
    axpy(b, y, 1, z);               // y = 9: writes what a wrote
    if (round % 3 == 0) x.reset();  // destroys an owner while work is in flight
    ASSERT_EQ(read(z), std::vector<std::int32_t>(kCount, 2));
    ASSERT_EQ(read(y), std::vector<std::int32_t>(kCount, 9));
  }
}

TEST(CpuStream, ManyThreadsShareOneInputAndTheDefaultStream) {
  const StorageRef x = make("x", 3);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stream own;
      for (int i = 0; i < 25; ++i) {
        StorageRef y = make("y", i);
        axpy(t % 2 == 0 ? own : Stream::default_of(Device::cpu()), y, 1, x);
        if (read(y) != std::vector<std::int32_t>(kCount, i + 3)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CpuStream, ThreadsThatTakeTurnsByLeasesLoseNoUpdate) {
  const StorageRef x = make("x", 1), y = make("y", 0);
  constexpr int kThreads = 4, kUpdates = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Stream stream = t % 2 == 0 ? Stream() : Stream::default_of(Device::cpu());
      for (int done = 0; done < kUpdates;) {
        try {
          const Holder holder{.what = "update"};
          const WriteLease write(y, holder);  // until it is enqueued, not until it has run
          const ReadLease read(x, holder);
          axpy(stream, y, 1, x);
          ++done;
        } catch (const BorrowError&) { std::this_thread::yield(); }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read(y), std::vector<std::int32_t>(kCount, kThreads * kUpdates));
}

TEST(CpuStream, HostWriteWaitsForReaders) {
  Stream stream;
  Gate gate;
  StorageRef x = make("x", 1), y = make("y", 0);
  gate.block(stream);
  axpy(stream, y, 1, x);
  std::thread opener([&] { gate.open(); });
  std::vector<std::int32_t> twos(kCount, 2);
  copy_from_host(*x, 0, twos.data(), x->bytes());
  EXPECT_EQ(read(y), std::vector<std::int32_t>(kCount, 1));
  opener.join();
}

TEST(CpuStream, OwnersAndStreamsMayGoInFlight) {
  std::weak_ptr<Storage> watched;
  std::atomic<bool> ran{false}, released{false};
  Gate gate;
  {
    Stream stream;
    gate.block(stream);
    static std::int32_t foreign[kCount];
    StorageRef x = make("x", 1);
    StorageRef y = Storage::adopt(Device::cpu(), foreign, sizeof foreign, std::shared_ptr<void>(&foreign, [&](void*) {
                                    EXPECT_TRUE(ran);
                                    released = true;
                                  }));
    watched = x;
    axpy(stream, y, 1, x);
    enqueue(stream, [&] { ran = true; }, {{y, AccessMode::Read}});
  }
  EXPECT_FALSE(watched.expired());
  EXPECT_FALSE(released);
  gate.open();
  while (!released) std::this_thread::yield();
  EXPECT_TRUE(watched.expired());
}

TEST(CpuStream, AFastProgramIsHeldBack) {
  constexpr int kWork = 6000;
  Stream stream;
  Gate gate;
  gate.block(stream);
  std::atomic<int> enqueued{0}, ran{0};
  std::thread program([&] {
    for (; enqueued < kWork; ++enqueued) enqueue(stream, [&] { ++ran; });
  });
  while (enqueued < 4000) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LT(enqueued, 4200) << "memory of a queue is bounded";
  gate.open();
  program.join();
  stream.synchronize();
  EXPECT_EQ(ran, kWork);
}

TEST(CpuStream, WorkMayNotEnqueueOrWait) {
  Stream stream;
  const Ticket inner = enqueue(stream, [stream] { enqueue(stream, [] {}); });
  EXPECT_THROW(wait(inner, {}), DeviceError);
  const Ticket waiting = enqueue(stream, [stream] { Stream(stream).synchronize(); });
  EXPECT_THROW(wait(waiting, {}), DeviceError);
  const Ticket fine = enqueue(stream, [] {});
  EXPECT_NO_THROW(wait(fine, {}));
}

TEST(CpuStreamDeathTest, WorkInFlightIsFinishedBeforeTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        {
          Stream stream;
          for (int i = 0; i < 2; ++i) {
            enqueue(stream, [i] {
              std::this_thread::sleep_for(std::chrono::milliseconds(20));
              if (i == 1) std::fputs("the second has run\n", stderr);
            });
          }
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "the second has run");
}

class CpuFailure : public ::testing::TestWithParam<bool> {
 protected:
  Stream stream = GetParam() ? Stream() : Stream::default_of(Device::cpu());
  Ticket fail(const StorageRef& y) {
    return enqueue(stream, [] { throw DeviceError("m must be positive"); }, {{y, AccessMode::ReadWrite}});
  }
  void TearDown() override {
    try {
      stream.synchronize();
    } catch (const DeviceError&) {}
  }
};

TEST_P(CpuFailure, IsThrownWhereTheResultIsWaitedFor) {
  StorageRef y = make("y", 0);
  const Ticket ticket = fail(y);  // does not throw
  const Access written{y, AccessMode::ReadWrite};
  EXPECT_THROW(wait(ticket, {&written, 1}), DeviceError);
  EXPECT_NO_THROW(read(y));               // the failure has been reported: usable again
  EXPECT_NO_THROW(stream.synchronize());  // and is not reported twice
  EXPECT_THROW(wait(ticket, {}), DeviceError) << "a ticket keeps its answer";
}

TEST_P(CpuFailure, StaysInTheStorageUntilItIsOverwritten) {
  StorageRef y = make("y", 0);
  fail(y);
  EXPECT_THROW(read(y), DeviceError);
  EXPECT_THROW(read(y), DeviceError);
  std::vector<std::int32_t> ones(kCount, 1);
  copy_from_host(*y, 0, ones.data(), 4);
  EXPECT_THROW(read(y), DeviceError) << "overwritten in part only";
  copy_from_host(*y, 0, ones.data(), y->bytes());
  EXPECT_EQ(read(y), ones);
  fail(y);
  enqueue(stream, [y = y.get()] { std::fill_n(reinterpret_cast<std::int32_t*>(y->data()), kCount, 4); },
          {{y, AccessMode::Write}});
  EXPECT_EQ(read(y), std::vector<std::int32_t>(kCount, 4));
}

TEST_P(CpuFailure, ReachesWorkThatDependsOnIt) {
  StorageRef x = make("x", 1), y = make("y", 0), z = make("z", 0), u = make("u", 0);
  Stream other;
  fail(y);
  axpy(other, z, 1, y);
  axpy(stream, u, 1, x);
  try {
    read(z);
    FAIL() << "z was computed from a result that failed";
  } catch (const DeviceError& error) { EXPECT_EQ(error.message(), "m must be positive"); }
  EXPECT_EQ(read(u), std::vector<std::int32_t>(kCount, 1)) << "what does not depend on the failure is right";
  EXPECT_EQ(read(x), std::vector<std::int32_t>(kCount, 1)) << "an input is untouched";
}

TEST_P(CpuFailure, StaysWhereTheResultIsUpdatedInPlace) {
  StorageRef x = make("x", 1), y = make("y", 0);
  fail(y);
  axpy(stream, y, 1, x);
  EXPECT_THROW(read(y), DeviceError) << "the update's input failed";
  bool ran = false;
  enqueue(stream, [&] { ran = true; }, {{y, AccessMode::ReadWrite}});
  EXPECT_NO_THROW(stream.synchronize()) << "the failure has been reported";
  EXPECT_FALSE(ran);
}

TEST_P(CpuFailure, IsForgivenOnlyAfterThoseWhoDependOnItHaveSeenIt) {
  StorageRef y = make("y", 0), z = make("z", 0);
  Stream other;
  Gate gate;
  gate.block(other);
  const Ticket ticket = fail(y);
  axpy(other, z, 1, y);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gate.open();
  });
  const Access written{y, AccessMode::ReadWrite};
  EXPECT_THROW(wait(ticket, {&written, 1}), DeviceError);
  EXPECT_THROW(read(z), DeviceError);
  EXPECT_NO_THROW(read(y));
  opener.join();
}

TEST_P(CpuFailure, OnlyTheFailureThatWasThrownIsForgiven) {
  StorageRef y = make("y", 0);
  const Access written{y, AccessMode::Write};
  const Ticket first = enqueue(stream, [] { throw DeviceError("first"); }, {written});
  const Ticket second = enqueue(stream, [] { throw DeviceError("second"); }, {written});
  EXPECT_THROW(wait(first, {&written, 1}), DeviceError);
  EXPECT_THROW(read(y), DeviceError) << "the second write failed as well";
  EXPECT_THROW(wait(second, {&written, 1}), DeviceError);
  EXPECT_NO_THROW(read(y));
}

TEST_P(CpuFailure, AScopeWaitsForItsOwnWorkOnly) {
  StorageRef x = make("x", 1), y = make("y", 0), z = make("z", 0), u = make("u", 0);
  fail(u);  // of another thread
  SyncScope outer;
  {
    SyncScope scope;
    axpy(stream, z, 1, x);
    EXPECT_NO_THROW(scope.wait());
    fail(y);
    axpy(stream, z, 1, y);
    EXPECT_THROW(scope.wait(), DeviceError);
    EXPECT_NO_THROW(scope.wait()) << "nothing is left in it";
  }
  EXPECT_NO_THROW(read(y)) << "the failure has been reported";
  EXPECT_NO_THROW(read(z));
  EXPECT_NO_THROW(outer.wait()) << "the inner scope's work was the inner scope's";
  axpy(stream, z, 1, x);
  EXPECT_NO_THROW(outer.wait());
  fail(y);
  EXPECT_THROW(outer.wait(), DeviceError) << "the outer scope is the innermost again";
  EXPECT_THROW(read(u), DeviceError);
  EXPECT_NO_THROW(stream.synchronize()) << "all has been thrown";
}

TEST(CpuStream, ThreadsOnTheDefaultStreamGetTheirOwnFailures) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        SyncScope scope;
        enqueue(Stream::default_of(Device::cpu()), [t] {
          if (t % 2 == 0) throw DeviceError(std::to_string(t));
        });
        std::string got;
        try {
          scope.wait();
        } catch (const DeviceError& error) { got = error.message(); }
        if (got != (t % 2 == 0 ? std::to_string(t) : "")) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(CpuFailure, IsThrownBySynchronizeOnce) {
  enqueue(stream, [] { throw std::runtime_error("first"); });
  enqueue(stream, [] { throw std::runtime_error("second"); });
  try {
    stream.synchronize();
    FAIL();
  } catch (const std::runtime_error& error) { EXPECT_STREQ(error.what(), "first"); }
  EXPECT_NO_THROW(stream.synchronize());
}

TEST_P(CpuFailure, ThousandsThatNobodyAsksForAreBounded) {
  const Ticket first = enqueue(stream, [] { throw DeviceError("boom"); });
  for (int i = 0; i < 2000; ++i) enqueue(stream, [] { throw DeviceError("boom"); });
  stream.core()->host_wait(first.number + 2000);
  EXPECT_THROW(wait(first, {}), DeviceError) << "forgotten, but never taken for success";
}

INSTANTIATE_TEST_SUITE_P(Streams, CpuFailure, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Explicit" : "Default"; });

}  // namespace
}  // namespace tessera::runtime
