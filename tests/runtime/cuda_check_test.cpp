// Kernels with checks: a failed check is the failure of its work, of the tensors that it wrote, and of work that was
// enqueued to read them before the failure was known; overwriting a tensor clears it; the device stays usable.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <utility>

#include "runtime/cuda_rig.hpp"
#include "runtime/failure_log.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/sync_scope.hpp"
#include "tessera/runtime/transfer.hpp"

namespace tessera::runtime::cuda::fake {
namespace {

constexpr std::uint64_t kPasses = 0, kFailsFirst = 1, kFailsSecond = 3, kFailsUnknown = 9;

/// The text of the DeviceError that `f` throws, with its line; empty if it throws none.
template <class F>
std::string failure(F f) {
  try {
    f();
  } catch (const DeviceError& error) { return error.what(); }
  return {};
}

constexpr const char* kFirst = "a.cpp:10: DeviceError: kernel mix: assertion failed: first";

struct CudaCheck : ::testing::Test {
  Rig rig;
  std::shared_ptr<const Launchable> checked = rig.load("checked"), mix = rig.load("mix");
  Stream a{rig.device()}, b{rig.device()};
  StorageRef x = rig.make(1), y = rig.make(2), z = rig.make(3);

  ~CudaCheck() override {
    rig.driver.run_all();
    EXPECT_EQ(rig.driver.violation(), "");
    EXPECT_EQ(failure([&] { EXPECT_EQ(rig.read(x), 1u) << "the device is usable"; }), "");
  }
  std::string read_failure(const StorageRef& storage) {
    return failure([&] { rig.read(storage); });
  }
};

TEST_F(CudaCheck, ACheckThatHoldsIsNoFailure) {
  rig.mix(checked, a, y, x, kPasses);
  EXPECT_TRUE(rig.backend.outcomes().any());
  EXPECT_EQ(rig.read(y), 63u);
  EXPECT_FALSE(rig.backend.outcomes().any()) << "known after the read";
}

TEST_F(CudaCheck, AFailureIsThrownByTheReadEveryTime) {
  rig.mix(checked, a, y, x, kFailsFirst);
  EXPECT_EQ(read_failure(y), kFirst);
  EXPECT_EQ(read_failure(y), kFirst);
  const std::uint64_t value = 5;
  copy_from_host(*y, 0, &value, sizeof value);
  EXPECT_EQ(rig.read(y), 5u) << "overwritten by the host";
}

TEST_F(CudaCheck, OtherChecksAndUnknownOnes) {
  rig.mix(checked, a, y, x, kFailsSecond);
  EXPECT_EQ(read_failure(y), "b.cpp:20: DeviceError: kernel mix: assertion failed: second");
  rig.mix(checked, b, z, x, kFailsUnknown);
  EXPECT_EQ(read_failure(z), "DeviceError: kernel mix: assertion failed: check number 5");
}

TEST_F(CudaCheck, ByWaitingForTheWorkAndThenItsOutputIsUsable) {
  const std::array<Access, 2> accesses{{{y, AccessMode::ReadWrite}, {x, AccessMode::Read}}};
  const Ticket ticket = rig.mix(checked, a, y, x, kFailsFirst);
  EXPECT_EQ(failure([&] { wait(ticket, accesses); }), kFirst);
  EXPECT_EQ(read_failure(y), "") << "the failure has been reported";
}

TEST_F(CudaCheck, ByASyncScopeAndBySynchronizeOnce) {
  {
    SyncScope scope;
    rig.mix(checked, a, y, x, kFailsFirst);
    EXPECT_EQ(failure([&] { scope.wait(); }), kFirst);
  }
  rig.mix(checked, a, y, x, kFailsFirst);
  EXPECT_EQ(failure([&] { a.synchronize(); }), kFirst);
  EXPECT_EQ(failure([&] { a.synchronize(); }), "");
}

TEST_F(CudaCheck, WorkThatWasEnqueuedToReadItInheritsIt) {
  rig.mix(checked, a, y, x, kFailsFirst);
  rig.mix(mix, a, z, y);  // a kernel without checks, on the same stream
  StorageRef w = rig.make(4);
  rig.mix(mix, b, w, z);  // and on another
  EXPECT_EQ(read_failure(w), kFirst);
  EXPECT_EQ(read_failure(z), kFirst);
  EXPECT_EQ(read_failure(y), kFirst);
  EXPECT_FALSE(rig.backend.outcomes().any());
}

TEST_F(CudaCheck, WorkEnqueuedAfterSomebodyKnowsIsNotRun) {
  rig.mix(checked, a, y, x, kFailsFirst);
  EXPECT_EQ(read_failure(y), kFirst);
  const int before = rig.driver.count(Fn::cuLaunchKernel);
  const std::array<Access, 2> accesses{{{z, AccessMode::ReadWrite}, {y, AccessMode::Read}}};
  const Ticket ticket = rig.mix(mix, a, z, y);
  EXPECT_EQ(rig.driver.count(Fn::cuLaunchKernel), before);
  EXPECT_EQ(failure([&] { wait(ticket, accesses); }), kFirst);
}

TEST_F(CudaCheck, ACompleteOverwriteEndsIt) {
  rig.mix(checked, a, y, x, kFailsFirst);
  rig.mix(mix, a, y, x, 0, "kernel mix", AccessMode::Write);  // the failure is not known yet
  EXPECT_EQ(read_failure(y), "");
  EXPECT_EQ(failure([&] { a.synchronize(); }), kFirst) << "but it is not lost";
}

TEST_F(CudaCheck, AHostWriteEndsItToo) {
  rig.mix(checked, a, y, x, kFailsFirst);
  const std::uint64_t value = 5;
  copy_from_host(*y, 0, &value, sizeof value);
  EXPECT_EQ(read_failure(y), "");
}

TEST_F(CudaCheck, EachWorkHasItsOwnRecord) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    const StorageRef out = rig.make(i);
    rig.mix(checked, i % 2 == 0 ? a : b, out, x, i % 3 == 0 ? kFailsFirst : kPasses);
    if (i % 4 != 1) continue;
    EXPECT_EQ(read_failure(out), i % 3 == 0 ? kFirst : "") << i;
  }
  EXPECT_EQ(failure([&] { a.synchronize(); }), kFirst);
}

TEST_F(CudaCheck, StoragesAndStreamsMayGoBeforeAnybodyKnows) {
  {
    const Stream passing(rig.device());
    rig.mix(checked, passing, rig.make(9), x, kFailsFirst);
    rig.mix(checked, passing, y, x, kFailsFirst);
  }
  EXPECT_EQ(read_failure(y), kFirst);
  x = rig.make(1);
  EXPECT_FALSE(rig.backend.outcomes().any());
}

TEST_F(CudaCheck, AnyNumberMayBeInFlight) {
  for (int i = 0; i < 10000; ++i) {
    rig.mix(checked, a, y, x, kPasses);
    rig.mix(mix, a, z, y);
  }
  rig.mix(checked, a, y, x, kFailsFirst);
  EXPECT_EQ(read_failure(y), kFirst);
  EXPECT_EQ(read_failure(z), "");
}

TEST_F(CudaCheck, AFailedLaunchLeavesNoOutcome) {
  rig.driver.fail_next(Fn::cuLaunchKernel, 701);
  EXPECT_NE(failure([&] { rig.mix(checked, a, y, x, kFailsFirst); }), "");
  EXPECT_FALSE(rig.backend.outcomes().any());
  EXPECT_EQ(rig.read(y), 2u);
}

/// A stream's log, and what another thread does meanwhile.
class Interleaved final : public QueueObserver {
 public:
  std::function<void()> after_may_run, before_finished, after_finished;

  bool may_run(std::uint64_t number, std::span<const Access> accesses) noexcept override {
    const bool may = log_.may_run(number, accesses);
    if (after_may_run) std::exchange(after_may_run, nullptr)();
    return may;
  }
  void finished(std::uint64_t number, std::span<const Access> accesses, bool failed) noexcept override {
    if (before_finished) std::exchange(before_finished, nullptr)();
    log_.finished(number, accesses, failed);
    if (after_finished) std::exchange(after_finished, nullptr)();
  }
  void found_failed(std::uint64_t number, const FailureRef& failure) noexcept override {
    log_.found_failed(number, failure);
  }

 private:
  FailureLog log_;
};

struct CudaCheckBeside : CudaCheck {
  std::shared_ptr<Interleaved> observer = std::make_shared<Interleaved>();
  std::unique_ptr<Queue> queue = rig.backend.make_queue(false, observer);

  /// to = 31 to + from + addend on `queue`, and then what `storage` carries once the queue's work has ended.
  std::string failure_after(const std::shared_ptr<const Launchable>& kernel, const StorageRef& to,
                            const StorageRef& from, AccessMode mode, std::uint64_t addend = 0) {
    const std::array<std::uint64_t, 3> args{reinterpret_cast<std::uintptr_t>(to->data()),
                                            reinterpret_cast<std::uintptr_t>(from->data()), addend};
    const std::array<Access, 2> accesses{{{to, mode}, {from, AccessMode::Read}}};
    queue->launch({kernel, {}, args, accesses, "kernel mix", {"user.cpp", "", 7}}, 1);
    queue->record()->wait();
    const FailureRef carried = to->failure();
    return carried ? failure([&] { std::rethrow_exception(carried->error); }) : std::string();
  }
};

/// A failure that another thread finds while work that depends on it is enqueued is not lost.
TEST_F(CudaCheckBeside, FoundBetweenTheLookAtInputsAndTheLaunch) {
  rig.mix(checked, a, y, x, kFailsFirst);
  observer->after_may_run = [&] { EXPECT_EQ(read_failure(y), kFirst); };
  EXPECT_EQ(failure_after(mix, z, y, AccessMode::ReadWrite), kFirst);
}
/// Nor is that of the work itself, where it overwrites what carried a failure, however early it is found.
TEST_F(CudaCheckBeside, TheFailureOfAnOverwriteIsItsOwn) {
  rig.mix(checked, a, y, x, kFailsFirst);
  EXPECT_EQ(read_failure(y), kFirst);
  observer->before_finished = [&] {  // more than may be pending: all that is enqueued is waited for and resolved
    for (int i = 0; i < 5000; ++i) rig.mix(checked, b, z, x, kPasses);
  };
  EXPECT_EQ(failure_after(checked, y, x, AccessMode::Write, kFailsSecond),
            "b.cpp:20: DeviceError: kernel mix: assertion failed: second");
}
/// A failure of what is overwritten that is found meanwhile does not come back, whether the work has checks or not.
TEST_F(CudaCheckBeside, FoundWhileItIsOverwritten) {
  for (const auto& kernel : {mix, checked})
    for (const bool before : {true, false}) {
      rig.mix(checked, a, y, x, kFailsFirst);
      (before ? observer->before_finished : observer->after_finished) = [&] { failure([&] { a.synchronize(); }); };
      EXPECT_EQ(failure_after(kernel, y, x, AccessMode::Write, kPasses), "") << (kernel == checked) << before;
    }
}

}  // namespace
}  // namespace tessera::runtime::cuda::fake
