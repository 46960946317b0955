// A launch that was made before allocates nothing, however its tensors are passed, and the launches that a thread
// remembers are never confused with others. Every operator new of the process is counted.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/count_allocations.hpp"
#include "host/expect_error.hpp"
#include "runtime/null_device.hpp"
#include "tessera/base/sanitizers.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

// Under the address sanitizer no memory of operations is reused, so that it sees every use after the end
// (op.cpp).
constexpr bool kOperationsReused = TESSERA_ASAN == 0;

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int B>
void five(Mut<f32, B> y, Mut<f32, B> z, In<f32, dyn> a, In<f32, dyn> b, In<f32, dyn> c, Scalar<f32> s) {
  y.store(s * a.load_like(y) + b.load_like(y));
  z.store(s * c.load_like(z));
}

template <int B>
void bounded(Mut<f32, B> y, Scalar<i32> n, In<f32, dyn> x) {
  require(n <= 8, "n must be small");
  y.store(x.load_like(y) + cast<f32>(n));
}

template <int B>
void chosen(Mut<f32, B> y, Constant<bool> twice, In<f32, dyn> x, Constant<int> more) {
  auto t = x.load_like(y);
  if (twice) t = t * 2.0f;
  for (int i = 0; i < more; ++i) t = t + 1.0f;
  y.store(t);
}

template <class F>
long allocations_of(int rounds, F launch) {
  for (int i = 0; i < 3; ++i) launch();
  const long before = allocations;
  for (int i = 0; i < rounds; ++i) launch();
  return allocations - before;
}

class LaunchCost : public testing::Test {
 protected:
  Tensor<f32, 1> make(std::int64_t n) { return zeros<f32>({n}).sync(stream_); }
  runtime::NullDevice null_;
  Stream stream_{Device(null_)};
};

TEST_F(LaunchCost, ATuningRecordAddsNoAllocation) {
  auto y = make(4096), x = make(4096);
  TuningRecord record;
  record.hints = "warps=2 occupancy=2";
  record.space = "a name that is longer than a string's own memory";
  const auto tuned = kernel<saxpy<512>>.tuned(record);
  const long plain = allocations_of(100, [&] { kernel<saxpy<512>>(mut(y), 2.0f, x).on(stream_); });
  EXPECT_EQ(allocations_of(100, [&] { tuned(mut(y), 2.0f, x).on(stream_); }), plain);
  EXPECT_EQ(allocations_of(100, [&] { kernel<saxpy<512>>.tuned(record)(mut(y), 2.0f, x).on(stream_); }), plain);
}

TEST_F(LaunchCost, NothingIsAllocatedForTensorsGivenLentAndRead) {
  if (!kOperationsReused) GTEST_SKIP() << "memory of operations is not reused under the address sanitizer";
  auto y = make(4096), z = make(4096), x = make(4096);
  const auto w = share(make(4096));
  const auto v = x.view();
  EXPECT_EQ(allocations_of(100, [&] { kernel<saxpy<1024>>(mut(y), 2.0f, x).on(stream_); }), 0);
  EXPECT_EQ(allocations_of(100, [&] { y = kernel<saxpy<1024>>(std::move(y), 2.0f, w).on(stream_); }), 0);
  EXPECT_EQ(allocations_of(100, [&] { kernel<five<1024>>(mut(y), mut(z), x, v, w, 2.0f).on(stream_); }), 0);
  EXPECT_EQ(allocations_of(100,
                           [&] {
                             auto [p, q] = kernel<five<1024>>(std::move(y), std::move(z), x, v, w, 2.0f).on(stream_);
                             y = std::move(p), z = std::move(q);
                           }),
            0);
  EXPECT_EQ(allocations_of(100, [&] { (void)kernel<saxpy<1024>>(mut(y), 2.0f, x); }), 0) << "built and dropped";
  EXPECT_EQ(allocations_of(100, [&] { kernel<saxpy<1024>>(mut(y), 2.0f, x).sync(stream_); }), 0) << "waited for";
}

TEST_F(LaunchCost, NothingIsAllocatedWhereShapesAlternate) {
  if (!kOperationsReused) GTEST_SKIP() << "memory of operations is not reused under the address sanitizer";
  auto a = make(4096), b = make(1024), c = make(1000), x = make(4096), y = make(1024), z = make(1000);
  EXPECT_EQ(allocations_of(100,
                           [&] {
                             kernel<saxpy<1024>>(mut(a), 2.0f, x).on(stream_);
                             kernel<saxpy<1024>>(mut(b), 2.0f, y).on(stream_);
                             kernel<saxpy<1024>>(mut(c), 2.0f, z).on(stream_);
                           }),
            0);
}

TEST_F(LaunchCost, NothingIsAllocatedWhereConstantsAlternate) {
  if (!kOperationsReused) GTEST_SKIP() << "memory of operations is not reused under the address sanitizer";
  auto y = make(4096), x = make(4096);
  EXPECT_EQ(allocations_of(100,
                           [&] {
                             kernel<chosen<1024>>(mut(y), true, x, 2).on(stream_);
                             kernel<chosen<1024>>(mut(y), false, x, 2).on(stream_);
                             y = kernel<chosen<1024>>(std::move(y), true, x, 1).on(stream_);
                           }),
            0);
}

TEST_F(LaunchCost, AWeightOfAnotherStreamIsWaitedForOnce) {
  const Stream other{Device(null_)};
  auto x = zeros<f32>({1024}).sync(other), y = make(1024);
  kernel<saxpy<1024>>(mut(x), 2.0f, y).on(other);
  for (int i = 0; i < 10; ++i) kernel<saxpy<1024>>(mut(y), 2.0f, x).on(stream_);
  EXPECT_EQ(null_.waits(), 2) << "y read there, then written here; x written there, then read here";
}

/// The launch memo must distinguish everything that checks, grids, recordings and code depend on.
class Remembered : public testing::Test {
 protected:
  void SetUp() override { set_default_device(Device::cpu()); }
  void expect(Tensor<f32, 1>& t, float value) {
    for (const float v : host(t).sync()) ASSERT_EQ(v, value);
  }
};

TEST_F(Remembered, ExtentsThatChange) {
  for (const std::int64_t n : {1000, 1, 1024, 4097, 1000, 1, 0, 3000, 1024, 5, 6, 7, 8, 9, 10, 1000}) {
    auto x = full<f32>({n}, 2.0f).sync(), y = full<f32>({n}, 1.0f).sync();
    kernel<saxpy<1024>>(mut(y), 3.0f, x).sync();
    expect(y, 7.0f);
  }
}

TEST_F(Remembered, AddressesThatChangeTheirDivisibility) {
  auto x = full<f32>({4096}, 2.0f).sync();
  for (const std::int64_t from : {0, 1, 4, 0, 3, 1024, 1}) {
    auto y = full<f32>({1024}, 1.0f).sync();
    kernel<saxpy<1024>>(mut(y), 3.0f, x.slice<0>(from, from + 1024)).sync();
    expect(y, 7.0f);
  }
}

using Line = In<f32, dyn>;
void count_long_lines(Mut<f32, 1> y, Line a, Line b, Line c, Line d, Line e, Line f) {
  auto n = y.load();
  for (const Line* x : {&a, &b, &c, &d, &e, &f}) {
    tile_if (x->dim(0) > 10) { n = n + 1.0f; }
  }
  y.store(n);
}

/// More specializations than are compiled: the code of a launch relies only on predicates that hold for it.
TEST_F(Remembered, MoreSpecializationsThanAreMade) {
  const auto x = ones<f32>({16}).sync();
  const auto run = [&](int long_lines) {
    const auto line = [&](int i) { return x.slice<0>(0, (long_lines >> i & 1) != 0 ? 16 : 10); };
    auto y = kernel<count_long_lines>(zeros<f32>({1}), line(0), line(1), line(2), line(3), line(4), line(5)).sync();
    EXPECT_EQ(host(y).sync()[0], static_cast<float>(std::popcount(static_cast<unsigned>(long_lines)))) << long_lines;
  };
  run(0);
  for (int long_lines = 63; long_lines > 0; --long_lines) run(long_lines);
}

TEST_F(Remembered, ScalarsThatARequirementReads) {
  auto x = full<f32>({1024}, 2.0f).sync(), y = full<f32>({1024}, 1.0f).sync();
  kernel<bounded<1024>>(mut(y), 7, x).sync();
  expect(y, 9.0f);
  EXPECT_ERROR(ShapeError, kernel<bounded<1024>>(mut(y), 9, x).sync(), "n must be small");
  kernel<bounded<1024>>(mut(y), 8, x).sync();
  expect(y, 10.0f);
}

TEST_F(Remembered, CheckedModeThatIsSwitchedOn) {
  auto x = full<f32>({1024}, 2.0f).sync(), y = full<f32>({1024}, 1.0f).sync();
  kernel<saxpy<1024>>(mut(y), 3.0f, x).sync();
  set_check_mode(true);
  auto never = empty<f32>({1024}).sync();
  EXPECT_THROW(kernel<saxpy<1024>>(mut(y), 3.0f, never).sync(), DeviceError);
  set_check_mode(false);
  kernel<saxpy<1024>>(mut(y), 3.0f, x).sync();
}

TEST_F(Remembered, AnOperationThatRunsOnAnotherThread) {
  auto x = full<f32>({1024}, 2.0f).sync(), y = full<f32>({1024}, 1.0f).sync();
  kernel<saxpy<1024>>(mut(y), 3.0f, x).sync();
  for (int i = 0; i < 4; ++i) {  // the threads end, and their launch memos with them
    auto op = kernel<saxpy<1024>>(mut(y), 3.0f, x);
    std::thread([&] { std::move(op).sync(); }).join();
    auto made = [&] {
      std::unique_ptr<Op<void>> built;
      std::thread([&] { built = std::make_unique<Op<void>>(kernel<saxpy<1024>>(mut(y), 3.0f, x)); }).join();
      return built;
    }();
    std::move(*made).sync();
  }
  expect(y, 1.0f + 9 * 6.0f);
}

}  // namespace THIS_FILE
}  // namespace tessera
