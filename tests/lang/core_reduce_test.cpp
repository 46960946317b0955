// Reductions, scans and arg-extremes against the host.
#include <cmath>
#include <limits>

#include "core_support.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::run;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
void rows_and_all(Mut<T, 8> y, In<T, 2, 4> x) {
  auto t = x.tiles(shape<2, 4>).load(0, 0);
  auto a = sum<T>(t, axis<1>);   // 2 x 1
  auto b = prod<T>(t, axis<0>);  // 1 x 4
  auto out = cat(reshape(b, shape<4>), cat(reshape(a, shape<2>), reshape(max(t, axis<1>), shape<2>), axis<0>), axis<0>);
  y.store(out + (max(t) - max(t)) + (min(t) - min(t)) + (sum<T>(t) - sum<T>(t)) + (prod<T>(t) - prod<T>(t)));
}
template <class T>
class Reductions : public testing::Test {};
using Numbers = testing::Types<f32, f64, i8, u8, i16, u16, i32, u32, i64, u64>;
TYPED_TEST_SUITE(Reductions, Numbers);
TYPED_TEST(Reductions, AlongAxesAndOverEverything) {
  using T = TypeParam;
  std::vector<T> x{1, 2, 3, 4, 2, 3, 1, 2}, y(8);
  run<rows_and_all<T>>(Arguments().vector(y).tensor(x.data(), {2, 4}));
  EXPECT_EQ(y, (std::vector<T>{2, 6, 3, 8, 10, 8, 4, 3}));
}

template <class T>
void extremes(Mut<T, 4> y, In<T, 8> x) {
  auto t = x.tiles(shape<8>).load(0);
  auto r = zeros<T, 4>();
  auto at = iota<i32, 4>();
  r = where(at == 0, max(t), r);
  r = where(at == 1, min(t), r);
  r = where(at == 2, max(t, axis<0>), r);
  r = where(at == 3, min(t, axis<0>), r);
  y.store(r);
}
TEST(Reductions, ExtremesOfTheWholeRange) {
  std::vector<u8> x{3, 255, 128, 7, 9, 1, 2, 5}, y(4);
  run<extremes<u8>>(Arguments().vector(y).vector(x));
  EXPECT_EQ(y, (std::vector<u8>{255, 1, 255, 1}));
  std::vector<i64> p{INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}, q(4);
  run<extremes<i64>>(Arguments().vector(q).vector(p));
  EXPECT_EQ(q, std::vector<i64>(4, INT64_MIN));
  std::vector<f32> f{kNan, 1, kNan, -2, 0, kNan, 1, 0}, g(4);
  run<extremes<f32>>(Arguments().vector(g).vector(f));
  EXPECT_EQ(g, (std::vector<f32>{1, -2, 1, -2}));  // a NaN loses
}

template <class T>
void expect_extremes(T element, T expected) {
  std::vector<T> x(8, element), y(4);
  run<extremes<T>>(Arguments().vector(y).vector(x));
  for (const T v : y) EXPECT_TRUE(v == expected || (std::isnan(v) && std::isnan(expected))) << v << " of " << element;
}
TEST(Reductions, ExtremesOfNanAloneAreNan) {
  expect_extremes<f32>(kNan, kNan);
  expect_extremes<f64>(kNan, kNan);
  for (const float infinite : {kInf, -kInf}) {
    expect_extremes<f32>(infinite, infinite);
    expect_extremes<f64>(infinite, infinite);
  }
}

void any_and_all(Mut<i32, 4> y, In<i32, 2, 4> x) {
  auto t = x.tiles(shape<2, 4>).load(0, 0) > 0;
  auto r = cast<i32>(any(t, axis<0>)) + 10 * cast<i32>(all(t, axis<0>));
  y.store(reshape(r, shape<4>) + 100 * cast<i32>(any(t)) + 1000 * cast<i32>(all(t)));
}
TEST(Reductions, AnyAndAll) {
  std::vector<i32> x{1, 0, 1, 0, 1, 1, 0, 0}, y(4);
  run<any_and_all>(Arguments().vector(y).tensor(x.data(), {2, 4}));
  EXPECT_EQ(y, (std::vector<i32>{111, 101, 101, 100}));
}

template <class T>
void arg_extremes(Mut<i32, 4> y, In<T, 8> x, Mut<T, 4> values) {
  auto t = x.tiles(shape<8>).load(0);
  auto [v0, i0] = argmax(t, axis<0>);
  auto [v1, i1] = argmin(t, axis<0>);
  auto [v2, i2] = argmax(reshape(t, shape<2, 4>));
  auto [v3, i3] = argmin(t);
  y.store(cat(cat(i0, i1, axis<0>), cat(reshape(i2, shape<1>), reshape(i3, shape<1>), axis<0>), axis<0>));
  values.store(cat(cat(v0, v1, axis<0>), cat(reshape(v2, shape<1>), reshape(v3, shape<1>), axis<0>), axis<0>));
}
template <class T>
void expect_arg(std::vector<T> x, std::vector<i32> index) {
  std::vector<i32> y(4);
  std::vector<T> v(4);
  run<arg_extremes<T>>(Arguments().vector(y).vector(x).vector(v));
  EXPECT_EQ(y, index);
  for (std::size_t i = 0; i < 4; ++i) {
    const T expected = x[static_cast<std::size_t>(index[i])];
    EXPECT_TRUE(v[i] == expected || (v[i] != v[i] && expected != expected)) << i;
  }
}
TEST(Arg, GivesTheLowestIndexOfEqualValuesAndNanIsExtreme) {
  expect_arg<f32>({1, 5, 5, -3, 0, 5, -3, 2}, {1, 3, 1, 3});
  expect_arg<f32>({1, 5, kNan, -3, kNan, 5, -3, 2}, {2, 2, 2, 2});
  expect_arg<f32>({-kInf, -kInf, -kInf, -kInf, -kInf, -kInf, -kInf, -kInf}, {0, 0, 0, 0});
  expect_arg<f32>({kInf, kInf, kInf, kInf, kInf, kInf, kInf, kInf}, {0, 0, 0, 0});
  expect_arg<u8>({1, 200, 3, 0, 200, 9, 0, 7}, {1, 3, 1, 3});
  expect_arg<i32>({INT32_MIN, INT32_MIN, -1, -2, -1, -5, INT32_MIN, -9}, {2, 0, 2, 0});
}

template <class T, std::uint64_t Identity>
void least(Mut<T, 8> y, Mut<T, 1> z, In<T, 8> x) {
  const auto lesser = [](auto p, auto q) { return min(p, q); };
  y.store(scan(x.load_like(y), axis<0>, Identity, lesser));
  z.store(reduce(x.tiles(shape<8>).load(0), axis<0>, Identity, lesser));
}
template <class T, std::uint64_t Identity>
void expect_least(T of_all) {
  std::vector<T> x(8, of_all), y(8), z(1);
  run<least<T, Identity>>(Arguments().vector(y).vector(z).vector(x));
  EXPECT_EQ(y, x);
  EXPECT_EQ(z[0], of_all);
}
TEST(Functions, IdentitiesOfTheUpperHalfOfU64) {
  expect_least<u64, UINT64_MAX>(u64{1} << 63);
  expect_least<u64, u64{1} << 63>(u64{7});
  expect_least<f32, UINT64_MAX>(5.0f);
  expect_least<f64, u64{1} << 63>(5.0);
  expect_least<f32, 5>(5.0f);
}

void functions(Mut<i32, 4, 8> y, In<i32, 8> x) {
  auto t = x.tiles(shape<8>).load(0);
  auto row = [&](auto value) { return reshape(value, shape<1, 8>); };
  auto a = reduce(t, axis<0>, 1, [](auto p, auto q) { return p * q; });
  auto b = scan(t, axis<0>, 0, [](auto p, auto q) { return max(p, q); });
  auto c = scan(
      t, axis<0>, 0, [](Scalar<i32> p, Scalar<i32> q) { return p + q; }, backward);
  auto d = cumsum(t, axis<0>) * 1000 + cumprod(t, axis<0>, backward);
  y.store(cat(cat(row(broadcast(a, shape<8>)), row(b), axis<0>), cat(row(c), row(d), axis<0>), axis<0>));
}
TEST(Functions, OfReduceAndScan) {
  std::vector<i32> x{1, 2, 1, 3, 2, 1, 1, 2}, y(32);
  run<functions>(Arguments().tensor(y.data(), {4, 8}).vector(x));
  int product = 1, largest = 0, forward = 0;
  for (int v : x) product *= v;
  for (std::size_t i = 0; i < 8; ++i) {
    largest = std::max(largest, x[i]);
    forward += x[i];
    int back = 0, back_product = 1;
    for (std::size_t k = i; k < 8; ++k) back += x[k], back_product *= x[k];
    EXPECT_EQ(y[i], product);
    EXPECT_EQ(y[8 + i], largest);
    EXPECT_EQ(y[16 + i], back);
    EXPECT_EQ(y[24 + i], forward * 1000 + back_product);
  }
}

void scan_axis(Mut<f32, 4, 4> y, In<f32, 4, 4> x) { y.store(cumsum(x.load_like(y), axis<0>)); }
TEST(Functions, ScansRunAlongTheirAxis) {
  std::vector<f32> x(16, 1.0f), y(16);
  run<scan_axis>(Arguments().tensor(y.data(), {4, 4}).tensor(x.data(), {4, 4}));
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(y[i], static_cast<float>(i / 4 + 1));
}

}  // namespace THIS_FILE
}  // namespace tessera
