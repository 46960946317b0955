// Casts between all pairs of element types, directed roundings, saturation and bitcasts.
#include <cmath>
#include <limits>

#include "core_support.hpp"
#include "tessera/base/float_types.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::run;

template <class To, class From>
void plain(Mut<To, 8> y, In<From, 8> x) {
  y.store(cast<To>(x.load_like(y)));
}
template <class To, class From>
std::vector<To> converted(std::vector<From> x) {
  std::vector<To> y(8);
  run<plain<To, From>>(Arguments().vector(y).vector(x));
  return y;
}

/// Small integers are exact in every type: converting to any of them and back keeps them.
template <class From, class... To>
void through_all(Mut<From, 16, 8> y, In<From, 8> x) {
  auto t = reshape(x.tiles(shape<8>).load(0), shape<1, 8>);
  auto out = broadcast(t, shape<16, 8>);
  auto row = iota<i32, 16, 1>(axis<0>);
  int r = 0;
  ((out = where(row == r++, cast<From>(cast<To>(t)), out)), ...);
  y.store(out);
}
template <class... T>
struct Types {
  template <class From>
  static void expect_exact() {
    std::vector<From> x, y(16 * 8);
    for (int v : {0, 1, 2, 3, 4, 8, 16, 112}) x.push_back(From(v));
    run<through_all<From, T...>>(Arguments().tensor(y.data(), {16, 8}).vector(x));
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(static_cast<double>(y[i]), static_cast<double>(x[i % 8])) << "through type " << i / 8;
  }
  static void pairs() { (expect_exact<T>(), ...); }
};
TEST(Cast, EveryPairKeepsSmallIntegers) {
  Types<f64, f32, tf32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u64, u32, u16, u8>::pairs();
}

void through_bool(Mut<i32, 8> y, In<f32, 8> x, In<f8e4m3, 8> narrow, In<i64, 8> wide) {
  auto a = cast<bool>(x.load_like(y)), b = cast<bool>(narrow.load_like(y)), c = cast<bool>(wide.load_like(y));
  y.store(cast<i32>(a) + 10 * cast<i32>(cast<f8e5m2>(b)) + 100 * cast<i32>(c) + 1000 * cast<i32>(cast<bool>(a)));
}
TEST(Cast, Bool) {
  std::vector<f32> x{0.0f, -0.0f, 0.5f, std::nanf(""), 1e-45f, 0, 0, 0};
  std::vector<f8e4m3> narrow(8, f8e4m3(0.0f));
  narrow[5] = f8e4m3(2.0f);
  std::vector<i64> wide{0, 0, 0, 0, 0, 0, i64{1} << 40, 0};
  std::vector<i32> y(8);
  run<through_bool>(Arguments().vector(y).vector(x).vector(narrow).vector(wide));
  EXPECT_EQ(y, (std::vector<i32>{0, 0, 1001, 1001, 1001, 10, 100, 0}));
}

TEST(Cast, FloatsToIntegersSaturate) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<f32> x{1.9f, -1.9f, 300.0f, -300.0f, inf, -inf, nan, 3e9f};
  EXPECT_EQ((converted<i8>(x)), (std::vector<i8>{1, -1, 127, -128, 127, -128, 0, 127}));
  EXPECT_EQ((converted<u8>(x)), (std::vector<u8>{1, 0, 255, 0, 255, 0, 0, 255}));
  EXPECT_EQ((converted<i16>(x)), (std::vector<i16>{1, -1, 300, -300, 32767, -32768, 0, 32767}));
  EXPECT_EQ((converted<i32>(x)), (std::vector<i32>{1, -1, 300, -300, INT32_MAX, INT32_MIN, 0, INT32_MAX}));
  EXPECT_EQ((converted<u32>(x)), (std::vector<u32>{1, 0, 300, 0, UINT32_MAX, 0, 0, 3000000000u}));
}

TEST(Cast, IntegersKeepTheirLowBitsAndTheirSign) {
  const std::vector<i32> x{300, -1, -300, 127, 128, INT32_MAX, INT32_MIN, 65536};
  const auto narrow = converted<u8>(x);
  const auto wide = converted<i64>(x);
  const auto other = converted<u64>(x);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(narrow[i], static_cast<u8>(x[i]));
    EXPECT_EQ(wide[i], x[i]);
    EXPECT_EQ(other[i], static_cast<u64>(static_cast<i64>(x[i])));
  }
  const std::vector<u32> u{0, 1, 0x80000000u, 0xFFFFFFFFu, 5, 6, 7, 8};
  EXPECT_EQ((converted<i64>(u))[3], 0xFFFFFFFF);
  EXPECT_EQ((converted<f64>(u))[3], 4294967295.0);
}

template <class To, class From>
void saturated(Mut<To, 8> y, In<From, 8> x) {
  y.store(cast<To>(x.load_like(y), saturate));
}
template <class To, class From>
void expect_saturated(std::vector<From> x) {
  std::vector<To> y(8);
  run<saturated<To, From>>(Arguments().vector(y).vector(x));
  for (std::size_t i = 0; i < 8; ++i) {
    const __int128 v = x[i], low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    EXPECT_EQ(y[i], static_cast<To>(v < low ? low : v > high ? high : v)) << i;
  }
}
TEST(Cast, IntegersSaturateOnRequest) {
  const std::vector<i32> s{300, -1, -300, 127, 128, INT32_MAX, INT32_MIN, 0};
  expect_saturated<i8>(s);
  expect_saturated<u8>(s);
  expect_saturated<u16>(s);
  expect_saturated<u32>(s);
  expect_saturated<i64>(s);
  expect_saturated<u64>(s);
  const std::vector<u32> u{300, 0, 127, 128, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, 255};
  expect_saturated<i8>(u);
  expect_saturated<u8>(u);
  expect_saturated<i32>(u);
  expect_saturated<i64>(u);
  const std::vector<u64> w{0, UINT64_MAX, 0x8000000000000000u, 1, 255, 256, 128, 127};
  expect_saturated<i64>(w);
  expect_saturated<i8>(w);
  expect_saturated<u32>(w);
}

template <class To, class From>
void finite(Mut<To, 8> y, In<From, 8> x) {
  y.store(cast<To>(x.load_like(y), saturate));
}
TEST(Cast, FloatsSaturateOnRequest) {
  std::vector<f32> x{1e9f, -1e9f, 65519.0f, 65520.0f, 1.0f, std::nanf(""), HUGE_VALF, -HUGE_VALF};
  std::vector<f16> y(8);
  run<finite<f16, f32>>(Arguments().vector(y).vector(x));
  const float expected[] = {65504, -65504, 65504, 65504, 1, 0, 65504, -65504};
  for (std::size_t i = 0; i < 8; ++i) {
    if (i == 5) {
      EXPECT_TRUE(std::isnan(float(y[i])));
    } else {
      EXPECT_EQ(float(y[i]), expected[i]) << i;
    }
  }
}

template <class To, class From>
void expect_infinities_saturate(double largest) {
  std::vector<From> x(8, From(1.0f));
  x[0] = From(HUGE_VALF), x[1] = From(-HUGE_VALF), x[2] = From(std::nanf(""));
  std::vector<To> y(8);
  run<finite<To, From>>(Arguments().vector(y).vector(x));
  EXPECT_EQ(float(y[0]), largest);
  EXPECT_EQ(float(y[1]), -largest);
  EXPECT_TRUE(std::isnan(float(y[2])));
  EXPECT_EQ(float(y[3]), 1.0f);
}
TEST(Cast, InfinitiesSaturateOnRequestToAnyType) {
  const double of_f32 = std::numeric_limits<float>::max(), of_bf16 = std::ldexp(255.0, 120);
  expect_infinities_saturate<f32, f32>(of_f32);
  expect_infinities_saturate<f32, f16>(of_f32);
  expect_infinities_saturate<f32, bf16>(of_f32);
  expect_infinities_saturate<bf16, f16>(of_bf16);
  expect_infinities_saturate<bf16, f32>(of_bf16);
  expect_infinities_saturate<f16, bf16>(65504);
  expect_infinities_saturate<f16, f16>(65504);
  expect_infinities_saturate<f32, f64>(of_f32);
}

template <class To, class From>
void directions(Mut<To, 4, 8> y, In<From, 8> x) {
  auto t = x.tiles(shape<8>).load(0);
  auto row = [](auto v) { return reshape(v, shape<1, 8>); };
  y.store(cat(cat(row(cast<To>(t, rounding::nearest)), row(cast<To>(t, rounding::zero)), axis<0>),
              cat(row(cast<To>(t, rounding::down)), row(cast<To>(t, rounding::up)), axis<0>), axis<0>));
}
TEST(Rounding, ToIntegers) {
  std::vector<f32> x{0.5f, 1.5f, -0.5f, -2.5f, 2.7f, -2.7f, 1e-30f, -1e-30f};
  std::vector<i32> y(32);
  run<directions<i32, f32>>(Arguments().tensor(y.data(), {4, 8}).vector(x));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(y[i], static_cast<i32>(std::nearbyint(x[i]))) << x[i];
    EXPECT_EQ(y[8 + i], static_cast<i32>(x[i])) << x[i];
    EXPECT_EQ(y[16 + i], static_cast<i32>(std::floor(x[i]))) << x[i];
    EXPECT_EQ(y[24 + i], static_cast<i32>(std::ceil(x[i]))) << x[i];
  }
}

/// Every result is on the requested side, and the next value toward the source is not.
template <class To, class From>
void expect_directed(std::vector<From> x) {
  std::vector<To> y(32);
  run<directions<To, From>>(Arguments().tensor(y.data(), {4, 8}).vector(x));
  for (std::size_t i = 0; i < 8; ++i) {
    const double v = static_cast<double>(x[i]);
    const double nearest = static_cast<double>(y[i]), zero = static_cast<double>(y[8 + i]);
    const double down = static_cast<double>(y[16 + i]), up = static_cast<double>(y[24 + i]);
    EXPECT_LE(down, v) << i;
    EXPECT_GE(up, v) << i;
    EXPECT_EQ(zero, v < 0 ? up : down) << i;
    EXPECT_TRUE(nearest == down || nearest == up) << i;
    EXPECT_EQ(down == v, up == v) << i;
    // Adjacent values: the middle rounds to one of them.
    const double middle = down / 2 + up / 2;
    if (std::isfinite(middle)) {
      const double rounded = static_cast<double>(To(middle));
      EXPECT_TRUE(rounded == down || rounded == up) << i << ": " << down << ' ' << up;
    }
  }
}
TEST(Rounding, BetweenFloats) {
  const std::vector<f32> x{0.1f, -0.1f, 1.0f / 3, -1e-30f, 1e-6f, 1.0f, -65000.5f, 3.0001f};
  expect_directed<f16>(x);
  expect_directed<bf16>(x);
  expect_directed<f32>(std::vector<f64>{0.1, -0.1, 1.0 / 3, -1e-50, 1e-44, 1.0, -65000.123456789, 1e39});
  expect_directed<f8e4m3>(std::vector<f32>{0.1f, -0.1f, 0.3f, -1e-3f, 1e-6f, 1.0f, -300.5f, 3.0001f});
  expect_directed<f8e5m2>(
      std::vector<f16>{f16(0.1f), f16(-0.1f), f16(0.3f), f16(-1e-3f), f16(1e-6f), f16(1.0f), f16(-300.5f), f16(3.01f)});
  expect_directed<f32>(std::vector<i32>{16777217, -16777217, INT32_MAX, INT32_MIN, 1, 0, 123456789, -123456789});
}

template <class To, class From>
void saturating_up(Mut<To, 8> y, In<From, 8> x) {
  y.store(cast<To>(x.load_like(y), rounding::up, saturate));
}
template <class To, class From>
void expect_saturated_in_every_direction(std::vector<From> x, double largest) {
  std::vector<To> y(32), up(8);
  run<directions<To, From>>(Arguments().tensor(y.data(), {4, 8}).vector(x));
  run<saturating_up<To, From>>(Arguments().vector(up).vector(x));
  y.insert(y.end(), up.begin(), up.end());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double v = static_cast<double>(x[i % 8]), got = static_cast<double>(y[i]);
    if (std::isnan(v)) {
      EXPECT_TRUE(std::isnan(got)) << "row " << i / 8;
    } else if (std::abs(v) >= largest) {
      EXPECT_EQ(got, std::copysign(largest, v)) << v << ", row " << i / 8;
    } else {
      EXPECT_EQ(got, v) << "row " << i / 8;  // the tests give exact numbers
    }
  }
}
TEST(Rounding, BeyondTheLargestNumberOfEightBitsSaturatesInEveryDirection) {
  const std::vector<f32> x{448.0f, -449.0f, 1000.0f, -1e30f, HUGE_VALF, -HUGE_VALF, NAN, 416.0f};
  expect_saturated_in_every_direction<f8e4m3>(x, 448);
  expect_saturated_in_every_direction<f8e4m3>(std::vector<f64>(x.begin(), x.end()), 448);
  expect_saturated_in_every_direction<f8e4m3>(std::vector<i32>{448, -449, 1000, INT32_MIN, INT32_MAX, -448, 0, 416},
                                              448);
  expect_saturated_in_every_direction<f8e4m3>(std::vector<u16>{448, 449, 1000, 65535, 464, 465, 0, 416}, 448);
  expect_saturated_in_every_direction<f8e5m2>(
      std::vector<f32>{57344.0f, -57345.0f, 61440.0f, -1e30f, HUGE_VALF, -HUGE_VALF, NAN, 49152.0f}, 57344);
}

template <class To, class From>
void expect_rounded_once(std::vector<From> x, double largest) {
  std::vector<To> y(8);
  run<finite<To, From>>(Arguments().vector(y).vector(x));
  const auto plain = converted<To>(x);
  for (std::size_t i = 0; i < 8; ++i) {
    const double once = static_cast<double>(plain[i]);  // infinite where it is out of range
    EXPECT_EQ(static_cast<double>(y[i]), std::isinf(once) ? std::copysign(largest, once) : once) << x[i];
    if constexpr (std::is_same_v<To, f32>) { EXPECT_EQ(y[i], static_cast<f32>(x[i])); }
  }
}
TEST(Cast, IntegersOf64BitsSaturateWithOneRounding) {
  // A little more than half way between two numbers of f32, bf16 and f16: exactly half way once it is a double.
  const i64 of_f32 = (i64{1} << 60) + (i64{1} << 36) + 1, of_bf16 = (i64{1} << 61) + (i64{1} << 53) + 1;
  const std::vector<i64> s{of_f32, -of_f32, of_bf16, -of_bf16, 65519, 65520, INT64_MIN, INT64_MAX};
  const std::vector<u64> u{
      static_cast<u64>(of_f32), static_cast<u64>(of_bf16), 2049, 65504, 65519, 65520, 0, UINT64_MAX};
  const double of_f16 = 65504, unreached = 0;
  expect_rounded_once<f32>(s, unreached);
  expect_rounded_once<f32>(u, unreached);
  expect_rounded_once<bf16>(s, unreached);
  expect_rounded_once<bf16>(u, unreached);
  expect_rounded_once<f16>(s, of_f16);
  expect_rounded_once<f16>(u, of_f16);
  expect_rounded_once<f16>(std::vector<u16>{65535, 65520, 65519, 65504, 2049, 2051, 0, 1}, of_f16);
  expect_rounded_once<f16>(std::vector<i32>{65535, -65520, INT32_MAX, INT32_MIN, 2049, 2051, 0, 1}, of_f16);
}

void saturated_tf32(Mut<f32, 8> y, Mut<tf32, 8> stored, In<f32, 8> x, Scalar<i32> n) {
  auto t = cast<tf32>(x.load_like(y));
  for (auto i : range(n)) {
    (void)i;
    t = cast<tf32>(t, saturate);  // loop-carried values keep their type
  }
  stored.store(cast<tf32>(t, saturate));
  y.store(cast<f32>(t));
}
TEST(Cast, ASaturatedTf32IsOne) {
  const float largest = std::ldexp(2047.0f, 117);
  std::vector<f32> x{1.0f, HUGE_VALF, -HUGE_VALF, NAN, -0.5f, 3.0f, 0.0f, 8.0f}, y(8);
  std::vector<tf32> stored(8);
  run<saturated_tf32>(Arguments().vector(y).vector(stored).vector(x).scalar(i32{2}));
  const float expected[] = {1.0f, largest, -largest, NAN, -0.5f, 3.0f, 0.0f, 8.0f};
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(y[i] == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i]))) << i << ": " << y[i];
    EXPECT_TRUE(float(stored[i]) == expected[i] || std::isnan(expected[i])) << i << ": " << float(stored[i]);
  }
}
TEST(Cast, ASaturatedFp8IsOne) {
  const f8e5m2 infinite = f8e5m2::from_bits(0x7C);
  std::vector<f8e5m2> x(8, f8e5m2(1.5f)), y(8);
  x[0] = infinite;
  run<finite<f8e5m2, f8e5m2>>(Arguments().vector(y).vector(x));
  EXPECT_EQ(float(y[0]), 57344.0f);
  EXPECT_EQ(float(y[1]), 1.5f);
  std::vector<f8e4m3> narrow(8, f8e4m3(448.0f)), same(8);
  run<finite<f8e4m3, f8e4m3>>(Arguments().vector(same).vector(narrow));
  EXPECT_EQ(float(same[0]), 448.0f);
}

void bits(Mut<u32, 8> y, In<f32, 8> x) {
  y.store(bitcast<u32>(x.load_like(y)) + cast<u32>(bitcast<u16>(cast<bf16>(x.load_like(y)))) * 0);
}
TEST(Bitcast, KeepsBits) {
  std::vector<f32> x{1.0f, -0.0f, 3.5f, 1e-40f, -2.0f, 0.0f, 65504.0f, 1e38f};
  std::vector<u32> y(8);
  run<bits>(Arguments().vector(y).vector(x));
  EXPECT_EQ(std::memcmp(y.data(), x.data(), 32), 0);
}

}  // namespace THIS_FILE
}  // namespace tessera
