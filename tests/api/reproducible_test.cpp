// Reproducible sums: equal to exact sums that are rounded once, whatever the values, the grid, the order and the
// stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/exact_sum.hpp"
#include "tessera/tessera.hpp"

namespace {

using namespace tessera;
using test::exact_sum;
using test::same_float;

using Sums = Acc<reproducible<f32>, dyn>;

/// At one position for each value; -1 and what is beyond the end are outside.
template <int B>
void scatter(Sums sums, In<i32, dyn> at, In<f32, dyn> x) {
  auto b = block_id<1>();
  sums.add(at.tiles(shape<B>, pad(-1)).load(b), x.tiles(shape<B>).load(b));
}
/// All at one position, by persistent blocks.
template <int B>
void total(Sums sums, In<f32, dyn> x) {
  auto X = x.tiles(shape<B>);
  for (auto b : range(block_id<1>(), X.count(0), num_blocks())) sums.add(0, X.load(b));
}
/// Sums of four rows at a time.
template <int B>
void rows(Sums sums, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<4, B>);
  auto b = block_id<1>();
  for (auto c : range(X.count(1))) sums.add(4 * b + iota<i32, 4, 1>(axis<0>), X.load(b, c));
}

std::vector<f32> kept(Tensor<i64, 2> sums) { return host(rounded<f32>(sums)).sync(); }

template <int B>
f32 total_of(const std::vector<f32>& values, int blocks) {
  auto x = from(values, {values.size()}).sync();
  return kept(kernel<total<B>>.blocks(blocks)(zeros<reproducible<f32>>({1}), x).sync())[0];
}
template <int B>
f32 scattered(const std::vector<f32>& values) {
  auto x = from(values, {values.size()}).sync();
  auto at = zeros<i32>({values.size()}).sync();
  const auto blocks = ceil_div(static_cast<std::int64_t>(values.size()), std::int64_t{B});
  return kept(kernel<scatter<B>>.blocks(blocks)(zeros<reproducible<f32>>({1}), at, x).sync())[0];
}

void expect_exact(const std::vector<f32>& values, const std::string& what) {
  const f32 wanted = exact_sum(values);
  const auto check = [&](f32 found, const char* how) {
    EXPECT_TRUE(same_float(found, wanted))
        << what << ", " << how << ": " << std::hexfloat << found << " instead of " << wanted;
  };
  check(total_of<64>(values, 3), "reduced");
  check(total_of<8>(values, 2), "in small tiles");
  check(scattered<32>(values), "one by one");
}

/// Bits of a seed; `mask` keeps some of them. Infinities and NaN become numbers.
std::vector<f32> random_floats(std::size_t count, unsigned seed, std::uint32_t mask = ~std::uint32_t{0}) {
  std::mt19937 next(seed);
  std::vector<f32> values(count);
  for (f32& v : values) {
    std::uint32_t bits = static_cast<std::uint32_t>(next()) & mask;
    if ((bits & 0x7f800000) == 0x7f800000) bits ^= 0x40000000;
    v = std::bit_cast<f32>(bits);
  }
  return values;
}

TEST(Reproducible, AllExponents) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    expect_exact(random_floats(1000, seed), "random bits");
    expect_exact(random_floats(1000, seed, 0xbfffffff), "random bits below 2");
  }
  // Every exponent alone, with all bits of the significand, so that each shift is seen.
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    const f32 v = std::bit_cast<f32>(exponent << 23 | 0x7fffff), w = std::bit_cast<f32>(exponent << 23 | 1);
    EXPECT_TRUE(same_float(total_of<64>({v}, 1), v)) << exponent;
    EXPECT_TRUE(same_float(scattered<32>({v, -w, -v}), -w)) << exponent;
  }
}

TEST(Reproducible, Cancellation) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::vector<f32> values = random_floats(500, seed);
    for (std::size_t i = 0; i < 500; ++i) values.push_back(-values[i]);
    std::shuffle(values.begin(), values.end(), std::mt19937(seed));
    expect_exact(values, "0");
    values.push_back(1e-40f);
    expect_exact(values, "a denormal number is left");
    values.push_back(-3e38f);
    expect_exact(values, "a large number is left");
  }
}

TEST(Reproducible, SmallNumbers) {
  expect_exact(random_floats(700, 1, 0x807fffff), "denormal numbers");
  expect_exact(random_floats(700, 2, 0x80ffffff), "numbers next to them");
  expect_exact(std::vector<f32>(300, 0x1p-149f), "the smallest");
  expect_exact({0x1.fffffcp-127f, 0x1p-149f}, "the sum is normal");
  expect_exact({0x1p-126f, -0x1p-149f}, "the sum is not");
  for (const f32 zero : {0.0f, -0.0f}) {
    const f32 found = total_of<64>(std::vector<f32>(70, zero), 1);
    EXPECT_TRUE(same_float(found, 0.0f)) << "zeros are +0";
  }
  EXPECT_TRUE(same_float(kept(zeros<reproducible<f32>>({1}).sync())[0], 0.0f)) << "nothing is +0";
}

TEST(Reproducible, Rounding) {
  const f32 half = 0x1p-24f, rest = 0x1p-149f;
  for (const f32 sign : {1.0f, -1.0f})
    for (const f32 one : {1.0f, 0x1.000002p0f, 0x1.fffffep0f}) {
      for (const f32 more : {0.0f, rest, -rest, 0x1p-60f, -0x1p-60f})
        expect_exact({sign * one, sign * half, sign * more}, "around a half");
    }
}

TEST(Reproducible, LargeNumbers) {
  for (const f32 sign : {1.0f, -1.0f}) {
    const f32 top = sign * FLT_MAX;
    expect_exact(std::vector<f32>(100, top), "beyond");
    expect_exact({top, top, top, -top, -top}, "within, by way of beyond");
    expect_exact({top, sign * 0x1p103f}, "halfway to infinity");
    expect_exact({top, sign * 0x1p103f, sign * -0x1p-149f}, "less than halfway to infinity");
  }
}

TEST(Reproducible, NoNumbers) {
  constexpr f32 inf = HUGE_VALF;
  const f32 nan = std::nanf("");
  for (const auto& special : std::vector<std::vector<f32>>{
           {inf}, {-inf}, {nan}, {-nan}, {inf, -inf}, {inf, inf}, {-inf, -inf}, {inf, nan}, {-inf, nan}, {nan, nan}}) {
    std::vector<f32> values = random_floats(200, 3);
    values.insert(values.begin() + 90, special.begin(), special.end());
    expect_exact(values, "special");
    expect_exact(special, "special alone");
  }
}

TEST(Reproducible, TheSameBitsForEveryGridAndOrder) {
  std::vector<f32> values(20000);
  std::mt19937 next(7);
  std::normal_distribution<f32> normal;
  for (f32& v : values) v = normal(next) * std::ldexp(1.0f, static_cast<int>(next() % 60) - 30);
  const f32 wanted = exact_sum(values);
  for (int round = 0; round < 3; ++round) {
    for (const int blocks : {1, 2, 7, 64}) {
      EXPECT_TRUE(same_float(total_of<16>(values, blocks), wanted)) << blocks;
      EXPECT_TRUE(same_float(total_of<256>(values, blocks), wanted)) << blocks;
      EXPECT_TRUE(same_float(total_of<4096>(values, blocks), wanted)) << blocks;
    }
    EXPECT_TRUE(same_float(scattered<128>(values), wanted));
    std::shuffle(values.begin(), values.end(), next);
  }
}

TEST(Reproducible, TheSameBitsInEveryRunOfEveryStream) {
  constexpr std::size_t n = 4000;
  const std::vector<f32> values = random_floats(n, 11, 0xbfffffff);
  std::vector<i32> places(n);
  for (std::size_t i = 0; i < n; ++i) places[i] = static_cast<i32>(i * 7 % 43) - 1;
  std::vector<std::vector<f32>> parts(40);
  for (std::size_t i = 0; i < n; ++i)
    if (places[i] >= 0 && places[i] < 40) parts[static_cast<std::size_t>(places[i])].push_back(values[i]);
  std::vector<f32> wanted;
  for (const auto& part : parts) wanted.push_back(exact_sum(part));

  const auto x = from(values, {n}).sync();
  const auto at = from(places, {n}).sync();
  const auto run = [&](int runs) {
    const Stream own;
    for (int i = 0; i < runs; ++i) {
      auto sums = kernel<scatter<128>>.blocks(32)(zeros<reproducible<f32>>({40}), at.view(), x.view()).on(own);
      const auto found = host(rounded<f32>(sums)).sync(own);
      for (std::size_t k = 0; k < 40; ++k) ASSERT_TRUE(same_float(found[k], wanted[k])) << i << " " << k;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(run, 50);
  for (std::thread& t : threads) t.join();
}

TEST(Reproducible, RowsOfATile) {
  const std::vector<f32> values = random_floats(10 * 200, 5);
  auto x = from(values, {10, 200}).sync();
  const auto wide = kept(kernel<rows<64>>.blocks(3)(zeros<reproducible<f32>>({10}), x).sync());
  const auto narrow = kept(kernel<rows<4>>.blocks(3)(zeros<reproducible<f32>>({10}), x).sync());
  for (std::size_t r = 0; r < 10; ++r) {
    const f32 wanted = exact_sum(std::span(values).subspan(200 * r, 200));
    EXPECT_TRUE(same_float(wide[r], wanted)) << r;
    EXPECT_TRUE(same_float(narrow[r], wanted)) << r;
  }
}

void whole_tiles(Acc<reproducible<f32>, dyn, 11> sums, In<f32, dyn, dyn, dyn> x) {
  auto X = x.tiles(shape<1, 4, 8>);
  auto S = sums.tiles(shape<4, 8>);
  for (auto i : range(S.count(0)))
    for (auto j : range(S.count(1))) S.add(i, j, reshape(X.load(block_id<1>(), i, j), shape<4, 8>));
  S.add(-1, 0, full<f32, 4, 8>(1000.0f));
  S.add(0, 2, full<f32, 4, 8>(1000.0f));
  S.add(1 << 30, 0, full<f32, 4, 8>(1000.0f));  // times 4 would wrap to row 0
}
TEST(Reproducible, WholeTilesAtATileIndex) {
  const std::vector<f32> values = random_floats(3 * 6 * 11, 6);
  auto x = from(values, {3, 6, 11}).sync();
  auto sums = kernel<whole_tiles>.blocks(3)(zeros<reproducible<f32>>({6, 11}), x).sync();
  const auto found = host(rounded<f32>(sums)).sync();
  for (std::size_t i = 0; i < 66; ++i)
    EXPECT_TRUE(same_float(found[i], exact_sum(std::vector<f32>{values[i], values[66 + i], values[132 + i]}))) << i;
}

void planes(Acc<reproducible<f32>, dyn, dyn> a, Acc<reproducible<f32>, 2, dyn, dyn> b,
            Acc<reproducible<f32>, dyn, 2, 2, dyn> c, In<f32, dyn> x) {
  auto v = x.tiles(shape<32>).load(0);
  auto i = iota<i32, 32>();
  a.add(i % 3, i % 5 - 1, v);
  b.add(i % 2, 1, i % 4, v);
  c.add(1, i % 2, 1, i % 3, 0.1f);
  c.add(0, 1, 0, 2, v);
  a.add(1, a.dim(1) - 1, 1e30f);
}
TEST(Reproducible, OneToFourAxes) {
  const std::vector<f32> values = random_floats(32, 8);
  auto x = from(values, {32}).sync();
  auto [a, b, c] = kernel<planes>
                       .blocks(1)(zeros<reproducible<f32>>({3, 4}), zeros<reproducible<f32>>({2, 2, 4}),
                                  zeros<reproducible<f32>>({2, 2, 2, 3}), x)
                       .sync();
  std::vector<std::vector<f32>> pa(12), pb(16), pc(24);
  for (std::size_t i = 0; i < 32; ++i) {
    if (i % 5 > 0) pa[i % 3 * 4 + i % 5 - 1].push_back(values[i]);
    pb[(i % 2 * 2 + 1) * 4 + i % 4].push_back(values[i]);
    pc[((2 + i % 2) * 2 + 1) * 3 + i % 3].push_back(0.1f);
    pc[(1 * 2 + 0) * 3 + 2].push_back(values[i]);
  }
  pa[7].push_back(1e30f);
  const auto expect = [](const std::vector<f32>& found, const std::vector<std::vector<f32>>& parts) {
    ASSERT_EQ(found.size(), parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_TRUE(same_float(found[i], exact_sum(parts[i]))) << i;
  };
  expect(host(rounded<f32>(a)).sync(), pa);
  expect(host(rounded<f32>(b)).sync(), pb);
  expect(host(rounded<f32>(c)).sync(), pc);
}

TEST(Reproducible, SeveralLaunchesAndParts) {
  const std::vector<f32> values = random_floats(640, 9);
  auto x = from(values, {640}).sync();
  auto sums = zeros<reproducible<f32>>({5}).sync();
  for (int i = 0; i < 10; ++i)
    kernel<total<64>>.blocks(1)(mut(sums).slice<1>(2, 3), x.slice<0>(64 * i, 64 * i + 64)).sync();
  const auto part = host(rounded<f32>(sums.slice<1>(1, 4))).sync();
  ASSERT_EQ(part.size(), 3u);
  EXPECT_TRUE(same_float(part[1], exact_sum(values)));
  EXPECT_TRUE(same_float(part[0], 0.0f) && same_float(part[2], 0.0f));

  // A part whose rows are apart, and an operation as the argument.
  auto plane = zeros<reproducible<f32>>({6, 11}).sync();
  const std::vector<f32> more = random_floats(3 * 66, 12);
  kernel<whole_tiles>.blocks(3)(mut(plane), from(more, {3, 6, 11})).sync();
  const auto all = host(rounded<f32>(plane)).sync();
  const auto inner = host(rounded<f32>(plane.slice<1>(1, 5).slice<2>(3, 9))).sync();
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 6; ++j) EXPECT_TRUE(same_float(inner[6 * i + j], all[11 * (i + 1) + 3 + j]));
  auto op = rounded<f32>(kernel<whole_tiles>.blocks(3)(zeros<reproducible<f32>>({6, 11}), from(more, {3, 6, 11})));
  EXPECT_EQ(host(std::move(op)).sync(), all);
}

TEST(Reproducible, OfNothing) {
  auto sums = zeros<reproducible<f32>>({0, 3}).sync();
  const auto none = rounded<f32>(sums).sync();
  EXPECT_EQ(none.dim(0), 0);
  EXPECT_EQ(none.dim(1), 3);
}

TEST(Reproducible, OtherTensorsAreNoSums) {
  auto counts = zeros<i64>({4, 3}).sync();
  try {
    (void)rounded<f32>(counts).sync();
    FAIL() << "no error";
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("[4, 3]: the first axis of sums has 10 elements"), std::string::npos)
        << e.what();
  }
  auto x = ones<f32>({8}).sync();
  try {
    kernel<total<64>>.blocks(1)(mut(counts), x).sync();
    FAIL() << "no error";
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("Acc<reproducible<f32>, dyn>"), std::string::npos) << e.what();
  }
}

}  // namespace
