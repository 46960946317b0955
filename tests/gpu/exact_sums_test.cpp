// Reproducible sums: on the GPU the exact sums, rounded once, in every run, for every grid and shape of the tiles.
#include <cmath>

#include "api/exact_sum.hpp"
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;
using test::exact_sum;
using test::same_float;

class ExactSums : public Gpu {};

template <int B>
void one_place(Acc<reproducible<f32>, dyn> sums, In<f32, dyn> x) {
  auto X = x.tiles(shape<B>);
  for (auto b : range(block_id<1>(), X.count(0), num_blocks())) sums.add(0, X.load(b));
}
template <int B>
void many_places(Acc<reproducible<f32>, dyn> sums, In<i32, dyn> at, In<f32, dyn> x) {
  auto b = block_id<1>();
  sums.add(at.tiles(shape<B>, pad(-1)).load(b), x.tiles(shape<B>).load(b));
}
template <int B>
void rows(Acc<reproducible<f32>, dyn> sums, In<f32, dyn, dyn> x) {
  auto b = block_id<1>();
  auto X = x.tiles(shape<4, B>);
  for (auto c : range(X.count(1))) sums.add(4 * b + iota<i32, 4, 1>(axis<0>), X.load(b, c));
}
void whole_tiles(Acc<reproducible<f32>, dyn, dyn> sums, In<f32, dyn, dyn, dyn> x) {
  auto X = x.tiles(shape<1, 16, 32>);
  auto S = sums.tiles(shape<16, 32>);
  for (auto i : range(S.count(0)))
    for (auto j : range(S.count(1))) S.add(i, j, reshape(X.load(block_id<1>(), i, j), shape<16, 32>));
}

std::vector<f32> rounded_on(const Stream& stream, Op<Tensor<i64, 2>> sums) {
  return host(rounded<f32>(std::move(sums))).sync(stream);
}
/// Finite values of all exponents; with `special` also infinities and a NaN among the last.
std::vector<f32> values_of(std::size_t n, unsigned seed, bool special = false) {
  auto values = any_values<f32>(n, seed);
  for (f32& v : values)
    if (!std::isfinite(v)) v = 0x1.234p-130f;
  if (special) values[n - 3] = HUGE_VALF, values[n - 2] = -HUGE_VALF, values[n - 1] = std::nanf("");
  return values;
}

template <int B>
void expect_total(const std::vector<f32>& values, f32 wanted) {
  const Stream stream(device_under_test());
  const auto x = from(values, {values.size()}).on(stream);
  for (const int blocks : {1, 13, 400})
    for (int run = 0; run < 5; ++run) {
      const f32 found = rounded_on(stream, kernel<one_place<B>>.blocks(blocks)(zeros<reproducible<f32>>({1}), x))[0];
      EXPECT_TRUE(same_float(found, wanted)) << B << " " << blocks << " " << run << ": " << found << " " << wanted;
    }
}
TEST_F(ExactSums, OnePlaceOfEveryGrid) {
  const auto values = values_of(30001, 1);
  const f32 wanted = exact_sum(values);
  expect_total<8>(values, wanted);
  expect_total<64>(values, wanted);
  expect_total<1024>(values, wanted);
  expect_total<4096>(values, wanted);
}
TEST_F(ExactSums, WhatIsNotFinite) {
  for (std::size_t last = 1; last <= 3; ++last) {
    auto values = values_of(500, 2, true);
    values.resize(497 + last);
    expect_total<64>(values, exact_sum(values));
  }
  for (std::size_t i = 1; i <= 3; ++i) {
    const std::vector<f32> one{values_of(500, 2, true)[500 - i]};
    expect_total<8>(one, one[0]);
  }
}
TEST_F(ExactSums, SmallAndLarge) {
  auto small = values_of(2000, 3);
  for (f32& v : small) {
    int exponent = 0;
    v = std::ldexp(std::frexp(v, &exponent), -130);
  }
  expect_total<256>(small, exact_sum(small));
  const f32 top = 0x1.fffffep127f;
  expect_total<8>({top, top, top, -top, -top, 0x1p-149f}, exact_sum(std::vector<f32>{top, 0x1p-149f}));
  expect_total<8>({top, top}, HUGE_VALF);
  expect_total<8>({-top, 0x1p103f, -0x1p104f}, exact_sum(std::vector<f32>{-top, 0x1p103f, -0x1p104f}));
  expect_total<8>({1.0f, 0x1p-24f, 0x1p-149f}, 0x1.000002p0f);
  expect_total<8>({1.0f, 0x1p-24f}, 1.0f);
  expect_total<8>({-0.0f, -0.0f}, 0.0f);
}

template <int B>
void expect_places(std::int64_t n, std::int64_t places) {
  const auto values = values_of(static_cast<std::size_t>(n), 4);
  auto at = values_in<i32>(n, 5, -2, static_cast<i32>(places) + 1);
  std::vector<std::vector<f32>> parts(static_cast<std::size_t>(places));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (at[i] >= 0 && at[i] < places) parts[static_cast<std::size_t>(at[i])].push_back(values[i]);
  const Stream stream(device_under_test());
  const auto x = from(values, {n}).on(stream);
  const auto where_to = from(at, {n}).on(stream);
  for (int run = 0; run < 10; ++run) {
    const auto found = rounded_on(stream, kernel<many_places<B>>.blocks(ceil_div(n, std::int64_t{B}))(
                                              zeros<reproducible<f32>>({places}), where_to, x));
    for (std::size_t k = 0; k < parts.size(); ++k)
      ASSERT_TRUE(same_float(found[k], exact_sum(parts[k]))) << B << " " << run << " " << k;
  }
}
TEST_F(ExactSums, ManyPlaces) {
  expect_places<64>(20000, 700);
  expect_places<1024>(20000, 3);
  expect_places<1024>(20000, 200);  // indices below 256: no pass may treat them as sums of f32
}

TEST_F(ExactSums, RowsAndTiles) {
  const auto values = values_of(3 * 37 * 70, 6);
  const Stream stream(device_under_test());
  const auto x = from(values, {111, 70}).on(stream);
  const auto cube = from(values, {3, 37, 70}).on(stream);
  for (int run = 0; run < 5; ++run) {
    const auto wide = rounded_on(stream, kernel<rows<64>>.blocks(28)(zeros<reproducible<f32>>({111}), x));
    const auto narrow = rounded_on(stream, kernel<rows<8>>.blocks(28)(zeros<reproducible<f32>>({111}), x));
    for (std::size_t r = 0; r < 111; ++r) {
      const f32 wanted = exact_sum(std::span(values).subspan(70 * r, 70));
      ASSERT_TRUE(same_float(wide[r], wanted) && same_float(narrow[r], wanted)) << run << " " << r;
    }
    auto sums = kernel<whole_tiles>.blocks(3)(zeros<reproducible<f32>>({37, 70}), cube).on(stream);
    const auto found = host(rounded<f32>(sums)).sync(stream);
    for (std::size_t i = 0; i < 37 * 70; ++i)
      ASSERT_TRUE(same_float(found[i], exact_sum(std::vector<f32>{values[i], values[2590 + i], values[5180 + i]})))
          << run << " " << i;
  }
}

}  // namespace
}  // namespace gpu_test
