// Reproducible sums where they could go wrong: many values, full bins, patterns of bits that are no numbers, every way
// in which values and positions broadcast, any order of the blocks, checked mode, graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <numeric>
#include <random>
#include <vector>

#include "api/exact_sum.hpp"
#include "base/rounds.hpp"
#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

namespace THIS_FILE {

using namespace tessera;
using test::exact_sum;
using test::ExactSum;
using test::same_float;

using Sums = Acc<reproducible<f32>, dyn>;
constexpr int kBins = reproducible<f32>::bins;

std::vector<f32> kept(const Tensor<i64, 2>& sums) { return host(rounded<f32>(sums)).sync(); }

std::vector<f32> finite_floats(std::size_t count, unsigned seed) {
  std::mt19937 next(seed);
  std::vector<f32> values(count);
  for (f32& v : values) {
    auto bits = static_cast<std::uint32_t>(next());
    if ((bits & 0x7f800000) == 0x7f800000) bits ^= 0x40000000;
    v = std::bit_cast<f32>(bits);
  }
  return values;
}

/// B values of `v`, `times` times.
template <int B>
void repeated(Sums sums, Scalar<f32> v, Scalar<i32> times) {
  for (auto i : range(times)) {
    (void)i;
    sums.add(0, full<f32, B>(1.0f) * v);
  }
}
template <int B>
f32 sum_of_equal(f32 v, std::int64_t count) {
  auto sums = zeros<reproducible<f32>>({1}).sync();
  kernel<repeated<B>>.blocks(1)(mut(sums), v, static_cast<i32>(count / B)).sync();
  kernel<repeated<1>>.blocks(1)(mut(sums), v, static_cast<i32>(count % B)).sync();
  return kept(sums)[0];
}

// f32 sums of ones end at 2^24, where adding 1 changes nothing.
TEST(ReproducibleLimits, MoreValuesThanASignificandCounts) {
  if (test::kSanitizer) GTEST_SKIP() << "2^24 values six times take minutes; smaller sums run the same code";
  constexpr std::int64_t many = std::int64_t{1} << 24;
  EXPECT_EQ(sum_of_equal<4096>(1.0f, many + 1), 0x1p24f);
  EXPECT_EQ(sum_of_equal<4096>(1.0f, many + 2), 0x1.000002p24f);
  EXPECT_EQ(sum_of_equal<4096>(1.0f, many + 3), 0x1.000004p24f);
  EXPECT_EQ(sum_of_equal<8>(-1.0f, many + 3), -0x1.000004p24f);
  ExactSum tenths;
  tenths.add_whole((many + 5) * 0xcccccd, 149 - 27);
  EXPECT_EQ(sum_of_equal<4096>(0.1f, many + 5), tenths.rounded());
  EXPECT_EQ(sum_of_equal<1024>(FLT_MAX, many), HUGE_VALF);
  EXPECT_EQ(sum_of_equal<1024>(0x1p-149f, many), 0x1p-125f);
  // 2^139 is one beyond the highest bin, and 0 in all bins.
  EXPECT_EQ(sum_of_equal<1024>(0x1p127f, 4096), HUGE_VALF);
  EXPECT_EQ(sum_of_equal<1024>(-0x1p127f, 4096), -HUGE_VALF);
}

// 2^31 values of at most 2^32 - 1 leave a bin at 2^63 - 2^31.
TEST(ReproducibleLimits, BinsThatAreFull) {
  constexpr std::int64_t full_bin = (std::int64_t{1} << 31) * 0xffffffff;
  constexpr std::size_t n = 3000;
  std::mt19937_64 next(3);
  std::vector<std::int64_t> bins(kBins * n);
  std::vector<ExactSum> wanted(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::array<std::int64_t, kBins - 1> sum{};
    for (std::int64_t& b : sum) {
      const std::int64_t any = static_cast<std::int64_t>(next()) >> next() % 64;
      b = i % 4 == 0 ? 0 : i % 4 == 1 ? std::clamp(any, -full_bin, full_bin) : i % 8 < 4 ? full_bin : -full_bin;
    }
    if (i % 4 == 0) {  // a small sum in large numbers: 2^32 of one bin are one of the next
      sum[i / 4 % (kBins - 1)] = static_cast<std::int64_t>(next() & 0x1ffffff) - 0x1000000;
      for (std::size_t k = 0; k + 1 < sum.size(); ++k) {
        const std::int64_t moved = static_cast<std::int64_t>(next() & 0x7ffffff) - 0x4000000;
        sum[k] += moved << 32, sum[k + 1] -= moved;
      }
    }
    if (i % 16 >= 12) sum[next() % (kBins - 1)] = 0;
    for (std::size_t k = 0; k < sum.size(); ++k) {
      bins[k * n + i] = sum[k];
      wanted[i].add_whole(sum[k], static_cast<int>(32 * k));
    }
  }
  const auto found = kept(from(bins, {kBins, n}).sync());
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_TRUE(same_float(found[i], wanted[i].rounded())) << i << " " << found[i] << " " << wanted[i].rounded();
}

TEST(ReproducibleLimits, CountsOfWhatIsNotFinite) {
  constexpr std::int64_t up = 1, down = std::int64_t{1} << 32, most = (std::int64_t{1} << 31) - 1;
  const std::vector<std::int64_t> special{up, down, up + down, most * up, most * down, most * (up + down), 0};
  const f32 inf = HUGE_VALF, nan = std::nanf("");
  const std::vector<f32> wanted{inf, -inf, nan, inf, -inf, nan, 3.0f};
  std::vector<std::int64_t> bins(kBins * special.size());
  for (std::size_t i = 0; i < special.size(); ++i) {
    bins[4 * special.size() + i] = 3 << 21;  // 3 = 3 * 2^21 * 2^(4 * 32 - 149)
    bins[(kBins - 1) * special.size() + i] = special[i];
  }
  const auto found = kept(from(bins, {kBins, special.size()}).sync());
  for (std::size_t i = 0; i < special.size(); ++i) EXPECT_TRUE(same_float(found[i], wanted[i])) << i << " " << found[i];
}

template <int B>
void one_place(Sums sums, In<f32, dyn> x) {
  auto X = x.tiles(shape<B>);
  for (auto b : range(block_id<1>(), X.count(0), num_blocks())) sums.add(0, X.load(b));
}

/// The bits of a sum of `values` in tiles of B, by one block.
template <int B>
std::uint32_t bits_of_sum(const std::vector<f32>& values) {
  auto x = from(values, {values.size()}).sync();
  return std::bit_cast<std::uint32_t>(kept(kernel<one_place<B>>.blocks(1)(zeros<reproducible<f32>>({1}), x).sync())[0]);
}

// Quiet and signalling NaN of either sign with any payload give one NaN.
TEST(ReproducibleLimits, EveryNaN) {
  for (const std::uint32_t bits :
       {0x7f800001U, 0xff800001U, 0x7fbfffffU, 0x7fc00000U, 0xffc00000U, 0x7fffffffU, 0xffffffffU, 0x7fc12345U}) {
    const f32 nan = std::bit_cast<f32>(bits);
    EXPECT_EQ(bits_of_sum<64>({1.0f, nan}), 0x7fc00000U) << bits;
    EXPECT_EQ(bits_of_sum<8>({nan}), 0x7fc00000U) << bits;
    EXPECT_EQ(bits_of_sum<16>({nan, HUGE_VALF, -HUGE_VALF, FLT_MAX}), 0x7fc00000U) << bits;
  }
}

// What the kernel computes before it adds: x / 0, 0 / 0, a difference that is denormal.
void computed(Sums sums, In<f32, dyn> x) {
  auto v = x.tiles(shape<32>).load(0);
  sums.add(0, v / (v - v));
  sums.add(1, v * 0x1p-140f);
  sums.add(2, where(v > 16.0f, v * 3e38f, v));
  sums.add(3, -(v - v));
}
TEST(ReproducibleLimits, ValuesThatAKernelComputes) {
  std::vector<f32> x(32);
  std::iota(x.begin(), x.end(), 1.0f);
  const auto found = kept(kernel<computed>.blocks(1)(zeros<reproducible<f32>>({4}), from(x, {32})).sync());
  EXPECT_EQ(found[0], HUGE_VALF);
  EXPECT_EQ(found[1], 528 * 0x1p-140f);
  EXPECT_EQ(found[2], HUGE_VALF);
  EXPECT_TRUE(same_float(found[3], 0.0f));
}

void broadcasts(Acc<reproducible<f32>, 7, dyn> sums, In<f32, dyn, dyn> x, In<i64, dyn> wide) {
  auto v = x.tiles(shape<16, 32>).load(0, 0);
  auto row = extract(v, shape<1, 32>, 2, 0);
  auto column = extract(v, shape<16, 1>, 0, 3);
  sums.add(0, iota<i32, 4, 1>(axis<0>), row);                                 // 32 values to each of 4
  sums.add(1, iota<i32, 1, 4>(axis<1>), column);                              // 16 values to each of 4
  sums.add(2, iota<i32, 1, 4>(axis<1>), extract(column, shape<8, 1>, 1, 0));  // 8: one by one
  sums.add(3, 1, v);                                                          // all to one
  sums.add(4, full<i32, 16, 1>(2), column);  // equal positions, which the kernel does not show
  sums.add(iota<i32, 8, 1>(axis<0>), 3, extract(v, shape<8, 32>, 0, 0));  // the last row is outside
  sums.add(5, wide.tiles(shape<16>).load(0), 0.1f);                       // positions of 64 bits
  tile_if (x.dim(0) > 100) { sums.add(0, 0, v); }
  tile_if (x.dim(0) < 100) { sums.add(6, 0, v); }
}
TEST(ReproducibleLimits, BroadcastValuesAndPositions) {
  const std::vector<f32> v = finite_floats(16 * 32, 21);
  std::vector<std::int64_t> wide(16, std::int64_t{1} << 32);
  wide[3] = 1, wide[4] = -1, wide[5] = std::numeric_limits<std::int64_t>::min();
  const auto found = kept(
      kernel<broadcasts>.blocks(1)(zeros<reproducible<f32>>({7, 4}), from(v, {16, 32}), from(wide, {16})).sync().reshape({kBins, 28}));
  std::vector<ExactSum> wanted(28);
  for (std::size_t r = 0; r < 16; ++r)
    for (std::size_t c = 0; c < 32; ++c) {
      const f32 x = v[32 * r + c];
      for (std::size_t k = 0; k < 4; ++k) {
        if (r == 2) wanted[k].add(x);
        if (c == 3) wanted[4 + k].add(x);
        if (c == 3 && r >= 8) wanted[8 + k].add(x);
      }
      wanted[13].add(x);
      if (c == 3) wanted[18].add(x);
      if (r < 7) wanted[4 * r + 3].add(x);
      wanted[24].add(x);
    }
  wanted[21].add(0.1f);
  for (std::size_t i = 0; i < 28; ++i) EXPECT_TRUE(same_float(found[i], wanted[i].rounded())) << i;
}

/// Block b takes the tile that `order` has for it.
template <int B>
void in_order(Sums sums, In<i32, dyn> order, In<f32, dyn> x) {
  sums.add(0, x.tiles(shape<B>).load(reshape(order.tiles(shape<1>).load(block_id<1>()), shape<>)));
}
TEST(ReproducibleLimits, AnyOrderOfTheBlocks) {
  const std::vector<f32> values = finite_floats(64 * 100, 22);
  const f32 wanted = exact_sum(values);
  std::vector<i32> order(100);
  std::iota(order.begin(), order.end(), 0);
  const auto x = from(values, {values.size()}).sync();
  std::mt19937 next(5);
  for (int round = 0; round < 30; ++round) {
    const auto at = from(order, {100}).sync();
    const auto found = kept(kernel<in_order<64>>.blocks(100)(zeros<reproducible<f32>>({1}), at, x).sync());
    EXPECT_TRUE(same_float(found[0], wanted)) << round;
    if (round == 0) {
      std::reverse(order.begin(), order.end());
    } else {
      std::shuffle(order.begin(), order.end(), next);
    }
  }
}

struct Running {
  Tensor<i64, 2> sums;
  Tensor<f32, 1> x;
};
struct Result {
  Tensor<f32, 1> all, last;
};
Flow<Result> step(Running& s) {
  co_await kernel<one_place<64>>.blocks(3)(mut(s.sums), s.x);
  auto fresh = co_await kernel<one_place<8>>.blocks(2)(zeros<reproducible<f32>>(Dims(1)), s.x);
  auto all = co_await rounded<f32>(s.sums);
  auto last = co_await rounded<f32>(std::move(fresh));
  co_return Result{std::move(all), std::move(last)};
}
TEST(ReproducibleLimits, GraphsAddAndRoundInEachReplay) {
  auto graph = capture(step, Running{zeros<reproducible<f32>>({1}).sync(), zeros<f32>({300}).sync()});
  std::vector<f32> everything;
  const Stream stream;
  for (unsigned i = 0; i < 8; ++i) {
    const std::vector<f32> values = finite_floats(300, 30 + i);
    everything.insert(everything.end(), values.begin(), values.end());
    copy_into(mut(graph.input<0>().x), from(values, {300})).sync();
    graph.replay().on(stream);
    EXPECT_TRUE(same_float(host(graph.output().all).sync()[0], exact_sum(everything))) << i;
    EXPECT_TRUE(same_float(host(graph.output().last).sync()[0], exact_sum(values))) << i;
  }
}

void at_tile(Sums sums, Scalar<i32> i) { sums.tiles(shape<8>).add(i, full<f32, 8>(1.5f)); }

struct ReproducibleChecked : testing::Test {
  void SetUp() override { set_check_mode(true); }
  void TearDown() override { set_check_mode(before_); }
  bool before_ = check_mode();
};
TEST_F(ReproducibleChecked, LegalSumsAreNotReported) {
  const std::vector<f32> values = finite_floats(700, 40);
  const auto x = from(values, {700}).sync();
  const auto found = kept(kernel<one_place<64>>.blocks(5)(zeros<reproducible<f32>>({1}), x).sync());
  EXPECT_TRUE(same_float(found[0], exact_sum(values)));
  const auto v = finite_floats(16 * 32, 21);
  const auto sums =
      kernel<broadcasts>.blocks(2)(zeros<reproducible<f32>>({7, 4}), from(v, {16, 32}), arange<i64>(16)).sync();
  EXPECT_TRUE(same_float(host(rounded<f32>(sums)).sync()[13], exact_sum([&] {
                           auto twice = v;
                           twice.insert(twice.end(), v.begin(), v.end());
                           return twice;
                         }())));
  const auto tiles = kept(kernel<at_tile>.blocks(3)(zeros<reproducible<f32>>({12}), 1).sync());
  EXPECT_EQ(tiles[7], 0.0f);
  EXPECT_EQ(tiles[11], 4.5f);
}
TEST_F(ReproducibleChecked, WhatOtherSumsReportIsReported) {
  EXPECT_ERROR(DeviceError, (void)(kernel<at_tile>.blocks(1)(zeros<reproducible<f32>>({12}), 2).sync()),
               "reproducible_limits_test.cpp");
  EXPECT_ERROR(DeviceError, (void)(host(rounded<f32>(tessera::empty<i64>({kBins, 4}).sync())).sync()), "written");
}

}  // namespace THIS_FILE
