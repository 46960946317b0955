// Every bit pattern of the narrow floating-point types; roundings are compared with a search for the nearest of all
// values of the format (an independent definition: no bit arithmetic is shared with the library).
#include "tessera/base/float_types.hpp"
#include "base/rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tessera {
namespace {

/// What the format's standard says, written as data for the tests.
struct Spec {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity, saturates;
  std::uint32_t largest;  ///< bits
};
template <class T>
struct SpecOf;
template <>
struct SpecOf<f16> {
  static constexpr Spec value{5, 10, 15, true, false, 0x7BFF};
};
template <>
struct SpecOf<bf16> {
  static constexpr Spec value{8, 7, 127, true, false, 0x7F7F};
};
template <>
struct SpecOf<f8e4m3> {
  static constexpr Spec value{4, 3, 7, false, true, 0x7E};
};
template <>
struct SpecOf<f8e5m2> {
  static constexpr Spec value{5, 2, 15, true, true, 0x7B};
};

template <class T>
class NarrowFloat : public testing::Test {
 public:
  using Bits = decltype(T::bits);
  static constexpr Spec spec = SpecOf<T>::value;
  static constexpr int width = 1 + spec.exponent_bits + spec.mantissa_bits;
  static constexpr std::uint32_t sign_bit = 1u << (width - 1);

  /// The value of the non-negative finite pattern `b`, by the formula of the standard.
  static double value_of(std::uint32_t b) {
    const int exponent = static_cast<int>(b >> spec.mantissa_bits);
    const double fraction = std::ldexp(static_cast<double>(b & ((1u << spec.mantissa_bits) - 1)), -spec.mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - spec.bias) : std::ldexp(1 + fraction, exponent - spec.bias);
  }

  /// Round to nearest even by search: the closest finite value; the even pattern on a tie; overflow at half a step
  /// beyond the largest.
  static std::uint32_t nearest(double v) {
    static const std::vector<double> values = [] {
      std::vector<double> all;
      for (std::uint32_t b = 0; b <= spec.largest; ++b) all.push_back(value_of(b));
      return all;
    }();
    const std::uint32_t sign = std::signbit(v) ? sign_bit : 0;
    const double a = std::fabs(v);
    const double step = values[spec.largest] - values[spec.largest - 1];
    if (a >= values[spec.largest] + step / 2) return sign | (spec.saturates ? spec.largest : spec.largest + 1);
    const auto above = std::lower_bound(values.begin(), values.end(), a);
    if (above == values.end()) return sign | spec.largest;
    const auto hi = static_cast<std::uint32_t>(above - values.begin());
    if (*above == a) return sign | hi;
    const double up = *above - a, down = a - values[hi - 1];  // exact: both neighbours are close (Sterbenz) or tiny
    if (up != down) return sign | (up < down ? hi : hi - 1);
    return sign | (hi % 2 == 0 ? hi : hi - 1);
  }

  static void expect_rounds(double v) {
    ASSERT_EQ(std::uint32_t{T(v).bits}, nearest(v)) << "from double " << std::hexfloat << v;
    ASSERT_EQ(std::uint32_t{T(-v).bits}, nearest(-v)) << "from double " << std::hexfloat << -v;
    const auto f = static_cast<float>(v);
    ASSERT_EQ(std::uint32_t{T(f).bits}, nearest(static_cast<double>(f))) << "from float " << std::hexfloat << f;
  }
};
using Formats = testing::Types<f16, bf16, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(NarrowFloat, Formats);

TYPED_TEST(NarrowFloat, EveryPatternConvertsExactlyAndComesBack) {
  constexpr Spec spec = TestFixture::spec;
  for (std::uint32_t b = 0; b < (1u << TestFixture::width); ++b) {
    const auto narrow = TypeParam::from_bits(static_cast<typename TestFixture::Bits>(b));
    const std::uint32_t magnitude = b & (TestFixture::sign_bit - 1);
    const bool negative = (b & TestFixture::sign_bit) != 0;
    const float wide = narrow;
    ASSERT_EQ(std::signbit(wide), negative) << b;
    if (magnitude <= spec.largest) {
      ASSERT_EQ(static_cast<double>(wide), (negative ? -1 : 1) * this->value_of(magnitude)) << b;
      ASSERT_EQ(std::uint32_t{TypeParam(wide).bits}, b);
      ASSERT_EQ(std::uint32_t{TypeParam(static_cast<double>(wide)).bits}, b);
    } else if (spec.has_infinity && magnitude == spec.largest + 1) {
      ASSERT_TRUE(std::isinf(wide)) << b;
      ASSERT_EQ(std::uint32_t{TypeParam(wide).bits}, spec.saturates ? b - 1 : b);
    } else {
      ASSERT_TRUE(std::isnan(wide)) << b;
      const std::uint32_t quiet = spec.has_infinity ? b | 1u << (spec.mantissa_bits - 1) : b;
      ASSERT_EQ(std::uint32_t{TypeParam(wide).bits}, quiet) << "sign and payload of a NaN are kept, and it is quiet";
    }
  }
}

TYPED_TEST(NarrowFloat, MidpointsAndTheirNeighboursRoundToNearestEven) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr float inff = std::numeric_limits<float>::infinity();
  for (std::uint32_t b = 0; b < TestFixture::spec.largest; b += static_cast<std::uint32_t>(test::one_in(7))) {
    const double low = this->value_of(b), high = this->value_of(b + 1), middle = (low + high) / 2;
    for (const double v : {low, middle, std::nextafter(middle, 0.0), std::nextafter(middle, inf), (low + middle) / 2,
                           static_cast<double>(std::nextafter(static_cast<float>(middle), 0.0f)),
                           static_cast<double>(std::nextafter(static_cast<float>(middle), inff))}) {
      this->expect_rounds(v);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(NarrowFloat, TheEndsOfTheRange) {
  const double largest = this->value_of(TestFixture::spec.largest), smallest = this->value_of(1);
  const double step = largest - this->value_of(TestFixture::spec.largest - 1);
  for (const double v :
       {0.0, smallest / 2, std::nextafter(smallest / 2, 1.0), smallest * 0.75, smallest / 3, smallest / 1e9, 5e-324,
        1e-310, 1e-45, largest, largest + step / 4, std::nextafter(largest + step / 2, 0.0), largest + step / 2,
        largest + step, largest * 2, 1e30, 3.4e38, 1e300}) {
    this->expect_rounds(v);
  }
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t at_infinity = TestFixture::spec.largest + (TestFixture::spec.saturates ? 0 : 1);
  EXPECT_EQ(std::uint32_t{TypeParam(inf).bits}, at_infinity);
  EXPECT_EQ(std::uint32_t{TypeParam(-inf).bits}, at_infinity | TestFixture::sign_bit);
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(nan))));
  EXPECT_EQ(TypeParam(-0.0f).bits, TestFixture::sign_bit);
}

TYPED_TEST(NarrowFloat, RandomBitPatternsOfFloatAndDouble) {
  std::mt19937_64 random(7);
  for (std::uint64_t i = 0; i < test::rounds(200000); ++i) {
    const std::uint64_t bits = random();
    const auto f = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (!std::isnan(f)) this->expect_rounds(f);
    const auto d = std::ldexp(1 + static_cast<double>(bits >> 12) * 0x1p-52, static_cast<int>(bits & 63) - 32);
    this->expect_rounds(d);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(NarrowFloat, IntegersRoundOnce) {
  // Just above a midpoint by far less than a double resolves at this size: going through double would round twice.
  constexpr int m = TestFixture::spec.mantissa_bits;
  if (TestFixture::spec.exponent_bits == 8) {  // the others overflow long before 2^53
    const std::int64_t middle = (std::int64_t{1} << 62) + (std::int64_t{1} << (61 - m));
    const auto even = TypeParam(std::ldexp(1.0, 62)).bits;
    EXPECT_EQ(TypeParam(middle).bits, even);
    EXPECT_EQ(TypeParam(middle + 1).bits, even + 1);
    EXPECT_EQ(TypeParam(middle - 1).bits, even);
    EXPECT_EQ(TypeParam(-(middle + 1)).bits, (even + 1) | TestFixture::sign_bit);
    EXPECT_EQ(TypeParam(static_cast<std::uint64_t>(middle) * 2 + 1).bits, TypeParam(std::ldexp(1.0, 63)).bits + 1);
  }
  for (int i = -3000; i <= 3000; ++i) { ASSERT_EQ(std::uint32_t{TypeParam(i).bits}, this->nearest(i)) << i; }
  EXPECT_EQ(std::uint32_t{TypeParam(std::numeric_limits<std::int64_t>::min()).bits},
            this->nearest(static_cast<double>(std::numeric_limits<std::int64_t>::min())));
}

TEST(Tf32, RoundsToTenMantissaBits) {
  std::mt19937 random(3);
  for (int i = 0; i < 300000; ++i) {
    const float f = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(f)) continue;
    const float r = tf32(f);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(r) & 0x1FFF, 0u);
    if (std::isinf(r)) {
      ASSERT_GE(std::fabs(f), 0x1.FFEp127f);
      continue;
    }
    // The distance is at most half a step, and exactly half only where the result is even.
    const int exponent = std::max(std::ilogb(f == 0 ? 1.0f : f), -126);
    const double step = std::ldexp(1.0, exponent - 10),
                 error = std::fabs(static_cast<double>(r) - static_cast<double>(f));
    ASSERT_LE(error, step / 2) << std::hexfloat << f;
    if (error == step / 2) { ASSERT_EQ(std::bit_cast<std::uint32_t>(r) >> 13 & 1, 0u) << std::hexfloat << f; }
  }
  EXPECT_EQ(static_cast<float>(tf32(1.0 + 0x1p-11)), 1.0f);
  EXPECT_EQ(static_cast<float>(tf32(1.0 + 0x1p-11 + 0x1p-50)), 1.0f + 0x1p-10f) << "a double rounds once";
  EXPECT_TRUE(std::isnan(static_cast<float>(tf32(std::nanf("")))));
  EXPECT_TRUE(std::isinf(static_cast<float>(tf32(std::numeric_limits<float>::infinity()))));
}

TEST(FloatFormat, DirectedRoundingBracketsTheValue) {
  std::mt19937_64 random(11);
  for (const FloatFormat& format : {kF16, kBF16, kF8E4M3, kF8E5M2, kTF32, kF32}) {
    const double largest = decode_float(format, format.largest());
    for (int i = 0; i < 20000; ++i) {
      double v = std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, static_cast<int>(random() % 30) - 20);
      if (random() % 2 != 0) v = -v;
      if (std::fabs(v) > largest) continue;
      const double down = decode_float(format, encode_float(format, v, RoundTo::NegativeInf));
      const double up = decode_float(format, encode_float(format, v, RoundTo::PositiveInf));
      const double zero = decode_float(format, encode_float(format, v, RoundTo::Zero));
      const double near = decode_float(format, encode_float(format, v));
      ASSERT_LE(down, v);
      ASSERT_GE(up, v);
      ASSERT_EQ(zero, v < 0 ? up : down);
      ASSERT_TRUE(near == down || near == up);
      ASSERT_LE(std::fabs(near - v), std::min(up - v, v - down));
      if (down != up) {  // neighbours: no value of the format between them
        ASSERT_EQ(decode_float(format, encode_float(format, (down + up) / 2, RoundTo::NegativeInf)), down);
      }
    }
  }
}

TEST(FloatFormat, DirectedOverflowStopsAtTheLargestTowardsZero) {
  EXPECT_EQ(encode_float(kF16, 1e9, RoundTo::Zero), 0x7BFFu);
  EXPECT_EQ(encode_float(kF16, 1e9, RoundTo::NegativeInf), 0x7BFFu);
  EXPECT_EQ(encode_float(kF16, 1e9, RoundTo::PositiveInf), 0x7C00u);
  EXPECT_EQ(encode_float(kF16, -1e9, RoundTo::PositiveInf), 0xFBFFu);
  EXPECT_EQ(encode_float(kF16, -1e9, RoundTo::NegativeInf), 0xFC00u);
  EXPECT_EQ(encode_float(kF16, HUGE_VAL, RoundTo::Zero), 0x7C00u);
  EXPECT_EQ(encode_float(kF8E4M3, 1e9, RoundTo::PositiveInf), 0x7Eu);
  EXPECT_EQ(encode_float(kBF16, 1e-60, RoundTo::PositiveInf), 1u);
  EXPECT_EQ(encode_float(kBF16, -1e-60, RoundTo::NegativeInf), 0x8001u);
  EXPECT_EQ(encode_float(kBF16, 5e-324, RoundTo::PositiveInf), 1u);
}

TEST(FloatFormat, SinglePrecisionAgreesWithTheProcessor) {
  std::mt19937_64 random(5);
  for (std::uint64_t i = 0; i < test::rounds(200000); ++i) {
    const auto v = std::bit_cast<double>(random());
    if (std::isnan(v)) continue;
    ASSERT_EQ(encode_float(kF32, v), std::bit_cast<std::uint32_t>(static_cast<float>(v))) << std::hexfloat << v;
    const auto near_one = std::ldexp(v == 0 ? 1 : v, -std::ilogb(v == 0 ? 1.0 : v) - static_cast<int>(random() % 160));
    if (!std::isfinite(near_one)) continue;
    ASSERT_EQ(encode_float(kF32, near_one), std::bit_cast<std::uint32_t>(static_cast<float>(near_one)));
  }
}

TEST(NarrowFloatUse, ConvertsExplicitlyFromAndImplicitlyToFloat) {
  static_assert(!std::is_convertible_v<float, f16> && std::is_constructible_v<f16, float>);
  static_assert(std::is_convertible_v<bf16, float> && sizeof(bf16) == 2 && sizeof(f8e4m3) == 1 && sizeof(tf32) == 4);
  static_assert(std::is_trivially_copyable_v<f16> && std::is_trivial_v<bf16>);
  const f16 a(1.5f), b(2);
  EXPECT_EQ(a * b, 3.0f);
  EXPECT_EQ(static_cast<float>(bf16(a)), 1.5f);
  EXPECT_TRUE(a < b);
  EXPECT_EQ(f16(true).bits, 0x3C00);
}

}  // namespace
}  // namespace tessera
