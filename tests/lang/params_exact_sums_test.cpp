// Reproducible sums in kernels: the bins that additions leave are the exact sum, and each sum touches its own only.
#include <bit>
#include <cmath>
#include <random>

#include "api/exact_sum.hpp"
#include "lang/run_kernel.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace {

using test::Array;
using test::ExactSum;
using test::run;

constexpr std::int64_t kBins = reproducible<f32>::bins;
constexpr std::int64_t kMinus = std::int64_t{1} << 32;

template <int B>
void at_places(Acc<reproducible<f32>, dyn> sums, In<i32, dyn> at, In<f32, dyn> x) {
  auto b = block_id<1>();
  sums.add(at.tiles(shape<B>, pad(-1)).load(b), x.tiles(shape<B>).load(b));
}
template <int B>
void at_one_place(Acc<reproducible<f32>, dyn> sums, In<f32, dyn> x) {
  sums.add(1, x.tiles(shape<B>).load(block_id<1>()));
}

/// The sum in a column of [bins, n].
ExactSum sum_of(const Array<std::int64_t>& sums, std::int64_t column) {
  ExactSum sum;
  for (std::int64_t k = 0; k + 1 < kBins; ++k)
    sum.add_whole(sums.data[static_cast<std::size_t>(k * sums.dims[1] + column)], static_cast<int>(32 * k));
  return sum;
}
std::int64_t special_of(const Array<std::int64_t>& sums, std::int64_t column) {
  return sums.data[static_cast<std::size_t>((kBins - 1) * sums.dims[1] + column)];
}

/// Every exponent and sign twice, with all bits of the significand and with random ones.
std::vector<float> every_exponent() {
  std::vector<float> values;
  std::mt19937 next(1);
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      values.push_back(std::bit_cast<float>(sign | exponent << 23 | 0x7fffff));
      values.push_back(std::bit_cast<float>(sign | exponent << 23 | (static_cast<std::uint32_t>(next()) & 0x7fffff)));
    }
  return values;
}

TEST(ExactSums, EachValueIsKeptExactly) {
  const std::vector<float> values = every_exponent();
  const auto n = static_cast<std::int64_t>(values.size());
  Array<std::int64_t> sums({kBins, n});
  Array<std::int32_t> at({n});
  Array<float> x({n});
  x.data = values;
  at.each([](std::int64_t i) { return static_cast<std::int32_t>(i); });
  run<at_places<32>>({static_cast<std::uint32_t>((n + 31) / 32)}, {}, sums, at, x);
  for (std::int64_t i = 0; i < n; ++i) {
    ExactSum wanted;
    wanted.add(values[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(sum_of(sums, i) == wanted) << std::hexfloat << values[static_cast<std::size_t>(i)];
    ASSERT_EQ(special_of(sums, i), 0) << i;
    // An addition is less than 2^32, so that 2^31 of them fit.
    for (std::int64_t k = 0; k + 1 < kBins; ++k)
      ASSERT_LT(std::abs(sums.data[static_cast<std::size_t>(k * n + i)]), kMinus) << i << " " << k;
  }
}

template <int B>
void expect_reduced() {
  const std::vector<float> values = every_exponent();
  ExactSum wanted;
  for (const float v : values) wanted.add(v);
  const auto n = static_cast<std::int64_t>(values.size());
  Array<std::int64_t> sums({kBins, 3});
  Array<float> x({n});
  x.data = values;
  run<at_one_place<B>>({static_cast<std::uint32_t>((n + B - 1) / B)}, {}, sums, x);
  EXPECT_TRUE(sum_of(sums, 1) == wanted) << B;
  EXPECT_TRUE(sum_of(sums, 0) == ExactSum() && sum_of(sums, 2) == ExactSum()) << B;
  EXPECT_EQ(special_of(sums, 1), 0) << B;
}
TEST(ExactSums, ATileAtOnePlaceIsReducedFirst) {
  expect_reduced<8>();
  expect_reduced<16>();
  expect_reduced<64>();
  expect_reduced<2048>();
}

TEST(ExactSums, ATileOfOnePowerOfTwo) {
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    Array<std::int64_t> sums({kBins, 2});
    Array<float> x({3}, std::bit_cast<float>(exponent == 0 ? 1 : exponent << 23));
    x.data[2] = 0;
    run<at_one_place<16>>({1}, {}, sums, x);
    ExactSum wanted;
    wanted.add(x.data[0]);
    wanted.add(x.data[1]);
    ASSERT_TRUE(sum_of(sums, 1) == wanted) << exponent;
  }
}

TEST(ExactSums, WhatIsNotFiniteIsCounted) {
  const float inf = HUGE_VALF, nan = std::nanf("");
  Array<std::int64_t> one_by_one({kBins, 3}), reduced({kBins, 3});
  Array<std::int32_t> at({32}, 1);
  Array<float> x({32}, 1.5f);
  x.data[3] = inf, x.data[5] = inf, x.data[8] = -inf, x.data[9] = nan, x.data[31] = -nan;
  run<at_places<32>>({1}, {}, one_by_one, at, x);
  run<at_one_place<32>>({1}, {}, reduced, x);
  for (const auto* sums : {&one_by_one, &reduced}) {
    EXPECT_EQ(special_of(*sums, 1), 4 + 3 * kMinus);
    EXPECT_EQ(special_of(*sums, 0), 0);
    ExactSum rest;
    rest.add(27 * 1.5f);
    EXPECT_TRUE(sum_of(*sums, 1) == rest);
  }
}

TEST(ExactSums, PlacesOutsideAreDropped) {
  Array<std::int64_t> sums({kBins, 3});
  Array<std::int32_t> at({6});
  Array<float> x({6}, 2.0f);
  at.data = {-1, 0, 3, 2, 1 << 30, -(1 << 30)};
  run<at_places<8>>({1}, {}, sums, at, x);
  ExactSum two;
  two.add(2.0f);
  EXPECT_TRUE(sum_of(sums, 0) == two && sum_of(sums, 2) == two && sum_of(sums, 1) == ExactSum());
}

void rows_and_planes(Acc<reproducible<f32>, dyn> rows, Acc<reproducible<f32>, dyn, 4> plane, In<f32, dyn, dyn> x) {
  auto v = x.tiles(shape<4, 32>).load(0, 0);
  rows.add(iota<i32, 4, 1>(axis<0>), v);
  plane.add(0, iota<i32, 4, 1>(axis<0>) - 1, v);
  plane.tiles(shape<4, 4>).add(0, 0, extract(v, shape<4, 4>, 0, 2));
  plane.tiles(shape<4, 4>).add(0, 1, extract(v, shape<4, 4>, 0, 2));
  plane.tiles(shape<4, 4>).add(1 << 30, 0, extract(v, shape<4, 4>, 0, 2));
}
TEST(ExactSums, AxesThatPlacesShareAreReduced) {
  Array<std::int64_t> rows({kBins, 3}), plane({kBins, 2 * 4});
  plane.dims = {kBins, 2, 4}, plane.strides = {8, 4, 1};
  Array<float> x({4, 32});
  const std::vector<float> values = every_exponent();
  for (std::size_t i = 0; i < 128; ++i) x.data[i] = values[i * 7];
  run<rows_and_planes>({1}, {}, rows, plane, x);
  const auto row = [&](std::size_t r) {
    ExactSum sum;
    for (std::size_t c = 0; c < 32; ++c) sum.add(x.data[32 * r + c]);
    return sum;
  };
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(sum_of(rows, static_cast<std::int64_t>(r)) == row(r)) << r;
  plane.dims = {kBins, 8};
  for (std::size_t c = 0; c < 4; ++c) {
    ExactSum first = c < 3 ? row(c + 1) : ExactSum(), second;
    first.add(x.data[8 + c]);
    second.add(x.data[32 + 8 + c]);
    EXPECT_TRUE(sum_of(plane, static_cast<std::int64_t>(c)) == first) << c;
    EXPECT_TRUE(sum_of(plane, static_cast<std::int64_t>(4 + c)) == second) << c;
  }
}

TEST(ExactSums, AreNamedAsTheyAreWritten) {
  const auto trace = lang::trace<at_one_place<64>>({});
  EXPECT_EQ(trace.params[0].spelling, "Acc<reproducible<f32>, dyn>");
  EXPECT_EQ(trace.params[0].rank, 2);
  EXPECT_EQ(trace.params[0].extents, (std::vector<std::int64_t>{kBins, lang::kDyn}));
}

}  // namespace
}  // namespace tessera
