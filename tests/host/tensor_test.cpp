// Tensors, views, sharing and lending: metadata and misuse, without kernels.
#include <gtest/gtest.h>
#include <cmath>

#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // uses of empty tensors are what these tests are about
#endif

namespace THIS_FILE {

using namespace tessera;

std::vector<i32> values(const View<i32, 2>& v) { return host(v).sync(); }

TEST(Tensor, KnowsItsExtents) {
  auto t = arange<i32>({2, 3, 4}).sync();
  EXPECT_EQ(t.dims(), (Dims{2, 3, 4}));
  EXPECT_EQ(t.dim(1), 3);
  EXPECT_EQ(t.stride(0), 12);
  EXPECT_EQ(t.size(), 24);
  EXPECT_TRUE(t.contiguous());
  EXPECT_EQ(t.device(), Device::cpu());
  EXPECT_ERROR(ShapeError, (void)t.dim(3), "axis 3", "rank 3", "0 to 2");
  EXPECT_ERROR(ShapeError, (void)t.dim(-1), "axis -1");
}

TEST(Tensor, DefaultConstructedAndMovedFromAreEmpty) {
  Tensor<f32, 2> never;
  EXPECT_ERROR(BorrowError, (void)never.dims(), "Tensor<f32, 2>", "empty", "tensor_test.cpp");
  EXPECT_ERROR(BorrowError, (void)never.view(), "empty");
  EXPECT_ERROR(BorrowError, (void)mut(never), "empty");
  EXPECT_ERROR(BorrowError, (void)host(never), "empty");
  EXPECT_ERROR(BorrowError, (void)to_string(never), "empty");
  EXPECT_ERROR(BorrowError, (void)share(std::move(never)), "empty");
  auto t = zeros<f32>({4, 4}).sync();
  auto u = std::move(t);
  EXPECT_ERROR(BorrowError, (void)t.size(), "moved from");  // NOLINT(bugprone-use-after-move): the point
  t = std::move(u);
  EXPECT_EQ(t.size(), 16);
  EXPECT_ERROR(BorrowError, (View<f32, 2>().dims()), "View<f32, 2>", "empty");
  EXPECT_ERROR(BorrowError, (Shared<f32, 2>().dims()), "Shared<f32, 2>", "empty");
}

TEST(View, SlicesPermutesAndReshapes) {
  auto t = arange<i32>({3, 4}).sync();
  EXPECT_EQ((values(t.slice<0>(1, 3))), (std::vector<i32>{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ((values(t.slice<1>(1, 3))), (std::vector<i32>{1, 2, 5, 6, 9, 10}));
  auto transposed = t.permute<1, 0>();
  EXPECT_EQ(transposed.dims(), (Dims{4, 3}));
  EXPECT_EQ(values(transposed), (std::vector<i32>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ((values(transposed.slice<0>(1, 2))), (std::vector<i32>{1, 5, 9}));
  EXPECT_EQ((values(t.reshape({6, 2}).slice<0>(5, 6))), (std::vector<i32>{10, 11}));
  EXPECT_EQ(values(t.slice<0>(2, 2)).size(), 0u);
  EXPECT_EQ((values(t.slice<0>(1, 3).reshape({2, 4}))), (std::vector<i32>{4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(View, RejectsWhatIsOutside) {
  auto t = arange<i32>({3, 4}).sync();
  EXPECT_ERROR(ShapeError, (void)t.slice<0>(1, 4), "slice<0>(1, 4)", "3 elements");
  EXPECT_ERROR(ShapeError, (void)t.slice<0>(2, 1), "lo <= hi");
  EXPECT_ERROR(ShapeError, (void)t.slice<1>(-1, 1), "0 <= lo");
  EXPECT_ERROR(ShapeError, (void)t.slice<1>(0, UINT64_MAX), "slice<1>");
  EXPECT_ERROR(ShapeError, (void)t.reshape({5, 2}), "12 elements", "10 elements");
  EXPECT_ERROR(ShapeError, (void)(t.permute<1, 0>().reshape({12})), "clone(view)");
  EXPECT_ERROR(ShapeError, (void)(t.slice<1>(0, 2).reshape({6})), "strides");
  EXPECT_EQ((t.slice<0>(1, 2).permute<1, 0>().reshape({2, 2}).dims()), (Dims{2, 2}));  // one row: still dense
}

TEST(View, KeepsTheStorageAlive) {
  View<i32, 2> v;
  {
    auto t = arange<i32>({2, 2}).sync();
    v = t.view();
  }
  EXPECT_EQ(values(v), (std::vector<i32>{0, 1, 2, 3}));
  EXPECT_EQ(values(arange<i32>({2, 2}).sync().view()), (std::vector<i32>{0, 1, 2, 3}));
}

TEST(Tensor, ReshapesAsAnOwner) {
  auto t = arange<i32>({2, 6}).sync();
  EXPECT_ERROR(ShapeError, (void)std::move(t).reshape({5}), "12 elements");
  auto flat = std::move(t).reshape({12});  // NOLINT(bugprone-use-after-move): the failed call took nothing
  EXPECT_EQ(flat.dims(), Dims{12});
  EXPECT_ERROR(BorrowError, (void)t.dims(), "empty");  // NOLINT(bugprone-use-after-move): the point
}

TEST(Shared, CountsItsOwners) {
  auto s = share(arange<i32>({4}).sync());
  auto copy = s;
  EXPECT_FALSE(try_unshare(std::move(s)).has_value());
  EXPECT_EQ(host(s).sync(), (std::vector<i32>{0, 1, 2, 3}));  // NOLINT(bugprone-use-after-move): unchanged
  copy = {};
  const auto view = s.view();
  auto t = try_unshare(std::move(s));
  ASSERT_TRUE(t.has_value());
  EXPECT_EQ(host(*t).sync(), (std::vector<i32>{0, 1, 2, 3}));
  EXPECT_EQ(host(view).sync(), (std::vector<i32>{0, 1, 2, 3}));
  // NOLINTNEXTLINE(bugprone-use-after-move): the point
  EXPECT_ERROR(BorrowError, (void)try_unshare(std::move(s)), "Shared<i32, 1>", "empty");
}

TEST(Create, FillsEveryElement) {
  EXPECT_EQ(host(zeros<f32>({2, 2})).sync(), (std::vector<f32>(4, 0.0f)));
  EXPECT_EQ(host(ones<f64>({3})).sync(), (std::vector<f64>(3, 1.0)));
  EXPECT_EQ(host(full<i16>({5}, -7)).sync(), (std::vector<i16>(5, -7)));
  EXPECT_EQ(host(full<bool>({3}, true)).sync(), (std::vector<bool>(3, true)));
  EXPECT_EQ(host(ones<bool>({2})).sync(), (std::vector<bool>{true, true}));
  for (const bf16 v : host(full<bf16>({9}, 1.5f)).sync()) EXPECT_EQ(static_cast<float>(v), 1.5f);
  for (const f8e4m3 v : host(ones<f8e4m3>({9})).sync()) EXPECT_EQ(static_cast<float>(v), 1.0f);
  EXPECT_EQ(host(arange<f32>(4, 1.0, 0.5)).sync(), (std::vector<f32>{1.0f, 1.5f, 2.0f, 2.5f}));
  EXPECT_EQ(host(arange<u8>(3, 254)).sync(), (std::vector<u8>{254, 255, 0}));
  EXPECT_EQ(host(arange<i64>({2, 2}, -1, -1)).sync(), (std::vector<i64>{-1, -2, -3, -4}));
  const std::size_t n = 3;
  EXPECT_EQ(zeros<f32>({n, 2, 4L}).sync().dims(), (Dims{3, 2, 4}));
  EXPECT_EQ(zeros<f32>(Dims{3, 2}).sync().dims(), (Dims{3, 2}));
  EXPECT_EQ(tessera::empty<f32>({7}).sync().size(), 7);
  EXPECT_EQ(zeros<f32>({0, 5}).sync().size(), 0);
  EXPECT_EQ(host(zeros<f32>({0, 5})).sync(), std::vector<f32>{});
}

TEST(Create, RejectsImpossibleExtents) {
  EXPECT_ERROR(ShapeError, (void)zeros<f32>({-1}), "tensor_test.cpp");
  EXPECT_ERROR(ShapeError, (void)zeros<f32>({1L << 31}), "2147483647");
  EXPECT_ERROR(ShapeError, (void)zeros<f32>({UINT64_MAX}), "2147483647");
  EXPECT_ERROR(ShapeError, (void)zeros<f32>({1 << 30, 1 << 30, 1 << 30}), "");
  EXPECT_ERROR(DeviceError, (void)zeros<f32>({1 << 30, 1 << 30}).sync(), "");  // 4 EiB
  // 2^61 and 2^62 elements: 2^64 bytes, which is 0 in 64 bits.
  EXPECT_ERROR(ShapeError, (void)zeros<f64>({1 << 30, 1 << 30, 2}), "tensor_test.cpp", "2305843009213693952", "f64");
  EXPECT_ERROR(ShapeError, (void)tessera::empty<f32>({1 << 30, 1 << 30, 4}), "f32");
  EXPECT_ERROR(ShapeError, (void)random::normal<f64>({1 << 30, 1 << 30, 2}, 1), "f64");
  EXPECT_EQ(zeros<f32>({4}).sync().size(), 4);  // the device stays usable
}

TEST(Create, RejectsNumbersThatDoNotFit) {
  EXPECT_ERROR(ShapeError, (void)full<i8>({3}, 300), "tensor_test.cpp", "full", "does not fit in i8");
  EXPECT_ERROR(ShapeError, (void)full<u32>({3}, -1), "u32");
  EXPECT_ERROR(ShapeError, (void)arange<u8>(3, 256), "arange", "u8");
  EXPECT_EQ(host(full<i8>({1}, -128)).sync()[0], -128);
  EXPECT_EQ(host(arange<u8>(3, 255)).sync(), (std::vector<u8>{255, 0, 1}));  // elements wrap
  EXPECT_EQ(host(arange<u8>(3, 2, -1)).sync(), (std::vector<u8>{2, 1, 0}));
}

constexpr double kInf = std::numeric_limits<double>::infinity();

/// `most` is the largest number that rounds into T, `beyond` the first that does not.
template <class T>
void expect_range(double most, double beyond, const char* name) {
  for (const double sign : {1.0, -1.0}) {
    EXPECT_ERROR(ShapeError, (void)full<T>({3}, sign * beyond), "full", "does not fit in", name, "tensor_test.cpp");
    EXPECT_ERROR(ShapeError, (void)full<T>(Dims{3}, sign * beyond), name);
    EXPECT_ERROR(ShapeError, (void)arange<T>(3, sign * beyond), "arange", name);
    EXPECT_ERROR(ShapeError, (void)arange<T>(3, 0.0, sign * beyond), "arange", name);
    EXPECT_TRUE(std::isfinite(static_cast<double>(host(full<T>({1}, sign * most)).sync()[0]))) << name;
  }
  EXPECT_TRUE(std::isnan(static_cast<double>(host(full<T>({1}, std::nan(""))).sync()[0]))) << name;
  EXPECT_EQ(static_cast<double>(host(full<T>({1}, 1e-300)).sync()[0]), 0.0) << "rounds, as it does everywhere";
}
TEST(Create, FloatsThatDoNotFitAreRejectedAsIntegersAre) {
  expect_range<f32>(3.4028235e38, 3.4028236e38, "f32");
  expect_range<tf32>(3.4011e38, 3.4028235e38, "tf32");
  expect_range<f16>(65519, 65520, "f16, which holds numbers from -65504 to 65504");
  expect_range<bf16>(3.39e38, 3.4e38, "bf16");
  expect_range<f8e4m3>(463, 465, "f8e4m3, which holds numbers from -448 to 448");
  expect_range<f8e5m2>(61439, 61441, "f8e5m2");
  EXPECT_ERROR(ShapeError, (void)full<f16>({1}, std::int64_t{1} << 40), "f16");
  EXPECT_ERROR(ShapeError, (void)full<f8e4m3>({1}, 1000), "f8e4m3");
  EXPECT_ERROR(ShapeError, (void)arange<f16>(100000), "element 99999", "f16");
  EXPECT_ERROR(ShapeError, (void)arange<f8e4m3>(3, 0, 300), "element 2 would be 576");
  EXPECT_EQ(static_cast<float>(host(arange<f16>(65505)).sync()[65504]), 65504.0f);
  EXPECT_EQ(host(full<f64>({1}, 1e300)).sync()[0], 1e300);
}
TEST(Create, InfinitiesAreNumbersOfTheTypesThatHaveThem) {
  const auto value = [](auto op) { return static_cast<double>(host(std::move(op)).sync()[0]); };
  for (const double inf : {kInf, -kInf}) {
    EXPECT_EQ(value(full<f64>({1}, inf)), inf);
    EXPECT_EQ(value(full<f32>({1}, inf)), inf);
    EXPECT_EQ(value(full<tf32>({1}, inf)), inf);
    EXPECT_EQ(value(full<f16>({1}, inf)), inf);
    EXPECT_EQ(value(full<bf16>({1}, inf)), inf);
    EXPECT_EQ(value(full<f8e5m2>({1}, inf)), inf);
    EXPECT_EQ(value(full<f16>({1}, f16(inf))), inf);
    EXPECT_ERROR(ShapeError, (void)full<f8e4m3>({1}, inf), "f8e4m3");
    EXPECT_EQ(value(arange<f16>(1, inf)), inf);
  }
}
template <int B>
void put(Mut<f16, B> y, Scalar<f16> a) {
  y.store(full<f16, B>(0) + a);
}
TEST(Create, ScalarsOfAKernelTooAreRejected) {
  auto y = zeros<f16>({4}).sync();
  EXPECT_ERROR(ShapeError, (void)kernel<put<4>>(mut(y), 1e10), "argument 2 (Scalar<f16>)", "kernel put", "f16");
  EXPECT_ERROR(ShapeError, (void)kernel<put<4>>(mut(y), 70000), "argument 2 (Scalar<f16>)");
  kernel<put<4>>(mut(y), 65504).sync();
  EXPECT_EQ(static_cast<float>(host(y).sync()[3]), 65504.0f);
  kernel<put<4>>(mut(y), -kInf).sync();
  EXPECT_EQ(static_cast<double>(host(y).sync()[3]), -kInf);
}

TEST(Create, HugeExtentsBesideAZero) {
  constexpr int m = 2147483647;
  const auto x = zeros<f32>({m, 0, m, m}).sync();
  EXPECT_EQ(x.size(), 0);
  EXPECT_TRUE(x.contiguous());
  const auto v = x.slice<0>(m - 1, m).permute<3, 1, 2, 0>().slice<0>(m - 2, m);
  EXPECT_EQ(v.dims(), (Dims{2, 0, m, 1}));
  EXPECT_EQ(host(clone(v)).sync(), std::vector<f32>{});
  EXPECT_EQ(x.reshape({0, m, m, m, m}).size(), 0);
}

TEST(Create, EmptyLikeFollowsExtentsNotStrides) {
  auto t = arange<i32>({3, 4}).sync();
  auto e = empty_like(t.permute<1, 0>()).sync();
  EXPECT_EQ(e.dims(), (Dims{4, 3}));
  EXPECT_TRUE(e.contiguous());
}

TEST(Random, MatchesTheDefinitionByOffset) {
  const auto u = host(random::uniform<f32>({3, 5}, 42)).sync();
  const auto again = host(random::uniform<f32>({15}, 42)).sync();
  EXPECT_EQ(u, again);  // depends on the row-major offset, not on the extents
  for (const f32 v : u) EXPECT_TRUE(v >= 0 && v < 1);
  EXPECT_NE(u, host(random::uniform<f32>({15}, 43)).sync());
  const auto normal = host(random::normal<f64>({100000}, 7)).sync();
  double mean = 0, square = 0;
  for (const double v : normal) mean += v, square += v * v;
  mean /= 1e5;
  EXPECT_NEAR(mean, 0, 0.02);  // five standard errors
  EXPECT_NEAR(square / 1e5 - mean * mean, 1, 0.025);
}

}  // namespace THIS_FILE
