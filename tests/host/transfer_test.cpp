// Moving elements: from, host, cast, clone, copy_into, and operations as operands.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tessera/tessera.hpp>
#include <utility>
#include <vector>

#include "host/expect_error.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // a rejected operation takes nothing, which the analysis cannot know
#endif

namespace THIS_FILE {

using namespace tessera;

template <class T>
std::vector<float> floats(const std::vector<T>& v) {
  return {v.begin(), v.end()};
}

TEST(From, CopiesWhenCalled) {
  std::vector<f32> v{1, 2, 3, 4, 5, 6};
  auto op = from(std::span(v), {2, 3});
  v.assign(6, 0.0f);
  EXPECT_EQ(host(std::move(op)).sync(), (std::vector<f32>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(host(from(v, {6})).sync(), v);
  const std::vector<bool> bits{true, false, true};
  EXPECT_EQ(host(from(bits, {3})).sync(), bits);
  EXPECT_ERROR(ShapeError, (void)from(v, {2, 2}), "6 values", "[2, 2]", "4 elements");
  EXPECT_EQ(from(std::span<const f32>(), {0, 3}).sync().size(), 0);
}

TEST(Cast, RoundsOnceSaturatesAndWraps) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<f32> v{1.5f, -2.5f, 300.7f, -300.7f, inf, -inf, nan, 1e20f};
  const auto x = from(v, {8}).sync();
  EXPECT_EQ(host(cast<i8>(x)).sync(), (std::vector<i8>{1, -2, 127, -128, 127, -128, 0, 127}));
  EXPECT_EQ(host(cast<u8>(x)).sync(), (std::vector<u8>{1, 0, 255, 0, 255, 0, 0, 255}));
  EXPECT_EQ(host(cast<i64>(x)).sync()[7], INT64_MAX);
  EXPECT_EQ(host(cast<bool>(x)).sync(), (std::vector<bool>(8, true)));
  EXPECT_EQ(floats(host(cast<f8e4m3>(x)).sync())[2], 288.0f);
  EXPECT_EQ(floats(host(cast<f8e4m3>(x)).sync())[7], 448.0f);
  const auto ints = from(std::vector<i64>{-1, 300, INT64_MIN, (1LL << 53) + 1}, {4}).sync();
  EXPECT_EQ(host(cast<u8>(ints)).sync(), (std::vector<u8>{255, 44, 0, 1}));
  EXPECT_EQ(host(cast<f64>(ints)).sync()[3], 9007199254740992.0);
  EXPECT_EQ(host(cast<u64>(ints)).sync()[0], UINT64_MAX);
  // f64 to f16 in one rounding: 1 + 2^-11 + 2^-40 rounds up, by way of f32 it would be a tie and round down.
  const auto tie = from(std::vector<f64>{1.0 + 0x1p-11 + 0x1p-40}, {1}).sync();
  EXPECT_EQ(floats(host(cast<f16>(tie)).sync())[0], 1.0f + 0x1p-10f);
}

// Outside the loops over pairs of types: 225 copies of these would take half a minute to compile.
void expect_small_numbers(const std::vector<f32>& found, const char* from, const char* to) {
  EXPECT_EQ(found, (std::vector<f32>{0, 1, 2, 3})) << from << " to " << to;
}
template <class B>
std::vector<f32> back_in_f32(Op<Tensor<B, 1>> b) {
  return host(cast<f32>(std::move(b))).sync();
}

TEST(Cast, EveryPairOfTypesKeepsSmallNumbers) {
  const auto x = from(std::vector<f32>{0, 1, 2, 3}, {4}).sync();
  const auto check = [&]<class A>(A) {
    const auto a = cast<A>(x).sync();
    const auto through = [&]<class B>(B) {
      expect_small_numbers(back_in_f32<B>(cast<B>(a)), info(element_type<A>).name, info(element_type<B>).name);
    };
    through(f64{}), through(f32{}), through(tf32{}), through(f16{}), through(bf16{}), through(f8e4m3{}),
        through(f8e5m2{});
    through(i64{}), through(i32{}), through(i16{}), through(i8{}), through(u64{}), through(u32{}), through(u16{}),
        through(u8{});
  };
  check(f64{}), check(f32{}), check(tf32{}), check(f16{}), check(bf16{}), check(f8e4m3{}), check(f8e5m2{});
  check(i64{}), check(i32{}), check(i16{}), check(i8{}), check(u64{}), check(u32{}), check(u16{}), check(u8{});
}

TEST(Cast, ReadsViewsOfEveryLayout) {
  const auto t = arange<i32>({2, 3, 4}).sync();
  EXPECT_EQ(host(cast<f32>(t.permute<2, 0, 1>())).sync(),
            (std::vector<f32>{0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(host(clone(t.slice<2>(1, 3).slice<0>(1, 2))).sync(), (std::vector<i32>{13, 14, 17, 18, 21, 22}));
  const auto c = clone(share(arange<i32>({2}).sync())).sync();
  EXPECT_EQ(host(c).sync(), (std::vector<i32>{0, 1}));
}

TEST(CopyInto, WritesWholeTensorsAndParts) {
  auto t = zeros<i32>({3, 4}).sync();
  copy_into(mut(t).slice<0>(1, 2), full<i32>({1, 4}, 7)).sync();
  copy_into(mut(t).slice<1>(3, 4), full<i32>({3, 1}, 9)).sync();
  EXPECT_EQ(host(t).sync(), (std::vector<i32>{0, 0, 0, 9, 7, 7, 7, 9, 0, 0, 0, 9}));
  t = copy_into(std::move(t), arange<i32>({3, 4})).sync();
  EXPECT_EQ(host(t).sync()[11], 11);
  copy_into(mut(t).permute<1, 0>(), arange<i32>({4, 3})).sync();
  EXPECT_EQ(host(t.permute<1, 0>()).sync()[4], 4);
}

TEST(CopyInto, RejectsOtherExtentsAndItself) {
  auto t = zeros<i32>({3, 4}).sync();
  EXPECT_ERROR(ShapeError, (void)copy_into(mut(t), zeros<i32>({4, 3})), "[3, 4]", "[4, 3]");
  EXPECT_ERROR(BorrowError, (void)copy_into(mut(t), t), "copy_into");
  auto u = zeros<i32>({4, 3}).sync();
  EXPECT_ERROR(ShapeError, (void)copy_into(std::move(t), u), "[3, 4]");
  EXPECT_EQ(t.size(), 12);  // NOLINT(bugprone-use-after-move): a rejected operation takes nothing
}

TEST(Op, HoldsItsLeasesUntilItRanOrWasDropped) {
  auto t = zeros<i32>({4}).sync();
  {
    auto pending = host(t);
    EXPECT_ERROR(BorrowError, (void)copy_into(mut(t), ones<i32>({4})), "");
    auto second = host(t);  // readers may be many
  }
  copy_into(mut(t), ones<i32>({4})).sync();
  auto write = copy_into(mut(t), zeros<i32>({4}));
  EXPECT_ERROR(BorrowError, (void)host(t), "");
  std::move(write).sync();
  EXPECT_EQ(host(t).sync(), (std::vector<i32>(4, 0)));
}

TEST(Op, RunsOnce) {
  auto op = zeros<f32>({4});
  auto t = std::move(op).sync();
  EXPECT_ERROR(BorrowError, (void)std::move(op).sync(), "run");               // NOLINT(bugprone-use-after-move)
  EXPECT_ERROR(BorrowError, (void)host(std::move(op)), "transfer_test.cpp");  // NOLINT(bugprone-use-after-move)
}

TEST(Op, ThenAndAllCompose) {
  auto sum = zeros<i32>({2})
                 .then([](Tensor<i32, 1> t) { return copy_into(std::move(t), ones<i32>({2})); })
                 .then([](Tensor<i32, 1> t) { return host(std::move(t)); });
  EXPECT_EQ(std::move(sum).sync(), (std::vector<i32>{1, 1}));
  auto target = zeros<i32>({2}).sync();
  auto [a, b] = all(ones<i32>({2}), copy_into(mut(target), full<i32>({2}, 5)), host(arange<f32>(3))).sync();
  EXPECT_EQ(a.size(), 2);
  EXPECT_EQ(b, (std::vector<f32>{0, 1, 2}));
  EXPECT_EQ(host(target).sync(), (std::vector<i32>{5, 5}));
  all(copy_into(mut(target), zeros<i32>({2}))).sync();
  EXPECT_EQ(host(target).sync(), (std::vector<i32>{0, 0}));
}

TEST(Op, ResultsOfOneStreamAreUsableOnAnother) {
  Stream a, b;
  for (int round = 0; round < 20; ++round) {
    auto x = full<i32>({1000}, round).on(a);
    auto y = clone(x).on(b);
    copy_into(mut(x), zeros<i32>({1000})).on(a);
    EXPECT_EQ(host(y).sync(), (std::vector<i32>(1000, round)));
  }
}

}  // namespace THIS_FILE
