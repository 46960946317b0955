// Operators and elementary functions compared with the host, on values that include special ones.
#include <cmath>
#include <limits>

#include "core_support.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::count;
using test::run;
using test::text;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// One row of results per operation.
template <class T, int Rows, auto F>
void rows(Mut<T, Rows, 8> y, In<T, 8> a, In<T, 8> b) {
  auto A = reshape(a.tiles(shape<8>).load(0), shape<1, 8>);
  auto B = reshape(b.tiles(shape<8>).load(0), shape<1, 8>);
  auto out = zeros<T, Rows, 8>();
  auto row = iota<i32, Rows, 1>(axis<0>);
  int r = 0;
  F(A, B, [&](auto value) { out = where(row == r++, value, out); });
  y.store(out);
}
template <class T, int Rows, auto F>
std::vector<T> run_rows(std::vector<T> a, std::vector<T> b) {
  std::vector<T> y(Rows * 8);
  run<rows<T, Rows, F>>(Arguments().tensor(y.data(), {Rows, 8}).vector(a).vector(b));
  return y;
}

constexpr auto integer_ops = [](auto a, auto b, auto put) {
  put(a + b);
  put(a - b);
  put(a * b);
  put(a / b);
  put(a % b);
  put(a & b);
  put(a | b);
  put(a ^ b);
  put(a << (b & 3));
  put(a >> (b & 3));
  put(~a);
  put(-a);
  put(min(a, b));
  put(max(a, b));
  put(abs(a));
  put(clamp(a, 2, 9));
};
template <class T>
std::vector<T> host_integer_ops(const std::vector<T>& a, const std::vector<T>& b) {
  using U = std::make_unsigned_t<T>;
  std::vector<T> y;
  const auto row = [&](auto f) {
    for (std::size_t i = 0; i < 8; ++i) y.push_back(static_cast<T>(f(a[i], b[i])));
  };
  row([](T x, T z) { return static_cast<T>(static_cast<U>(x) + static_cast<U>(z)); });
  row([](T x, T z) { return static_cast<T>(static_cast<U>(x) - static_cast<U>(z)); });
  row([](T x, T z) { return static_cast<T>(1u * static_cast<U>(x) * static_cast<U>(z)); });
  row([](T x, T z) { return z == 0 ? 0 : x / z; });
  row([](T x, T z) { return z == 0 ? x : x % z; });
  row([](T x, T z) { return x & z; });
  row([](T x, T z) { return x | z; });
  row([](T x, T z) { return x ^ z; });
  row([](T x, T z) { return static_cast<T>(static_cast<U>(x) << (z & 3)); });
  row([](T x, T z) { return x >> (z & 3); });
  row([](T x, T) { return ~x; });
  row([](T x, T) { return static_cast<T>(U{0} - static_cast<U>(x)); });
  row([](T x, T z) { return x < z ? x : z; });
  row([](T x, T z) { return x > z ? x : z; });
  row([](T x, T) { return std::is_signed_v<T> && x < 0 ? static_cast<T>(U{0} - static_cast<U>(x)) : x; });
  row([](T x, T) { return x < 2 ? T{2} : x > 9 ? T{9} : x; });
  return y;
}
template <class T>
class IntegerOps : public testing::Test {};
using Integers = testing::Types<i8, u8, i16, u16, i32, u32, i64, u64>;
TYPED_TEST_SUITE(IntegerOps, Integers);
TYPED_TEST(IntegerOps, HaveTheMeaningOfCpp) {
  using T = TypeParam;
  const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const std::vector<T> a{0, 1, static_cast<T>(-7), 100, high, low, 7, static_cast<T>(-100)};
  const std::vector<T> b{5, 0, 2, static_cast<T>(-3), 2, 3, static_cast<T>(-2), static_cast<T>(-100)};
  EXPECT_EQ((run_rows<T, 16, integer_ops>(a, b)), host_integer_ops<T>(a, b));
}

constexpr auto float_ops = [](auto a, auto b, auto put) {
  put(a + b);
  put(a - 2);
  put(2.0f * b);
  put(a / b);
  put(a % b);
  put(-a);
  put(min(a, b));
  put(max(a, b));
  put(abs(a));
  put(floor(a));
  put(ceil(a));
  put(fma(a, b, 1.0f));
  put(sqrt(a));
  put(1 / a);
  put(where(a < b, a, 0.0f));
  put(div(a, b, precise));
};
TEST(FloatOps, MatchTheHost) {
  const std::vector<f32> a{1.5f, -2.25f, 0.0f, -0.0f, kInf, kNan, 1e30f, -7.75f};
  const std::vector<f32> b{0.5f, 3.0f, -0.0f, 2.0f, 1.0f, 1.0f, 1e30f, kNan};
  const std::vector<f32> y = run_rows<f32, 16, float_ops>(a, b);
  for (std::size_t i = 0; i < 8; ++i) {
    const float x = a[i], z = b[i];
    const float expected[] = {x + z,
                              x - 2,
                              2 * z,
                              x / z,
                              std::fmod(x, z),
                              -x,
                              std::fmin(x, z),
                              std::fmax(x, z),
                              std::fabs(x),
                              std::floor(x),
                              std::ceil(x),
                              std::fma(x, z, 1.0f),
                              std::sqrt(x),
                              1 / x,
                              x < z ? x : 0.0f,
                              x / z};
    for (std::size_t r = 0; r < 16; ++r) {
      const float got = y[r * 8 + i];
      if (std::isnan(expected[r])) {
        EXPECT_TRUE(std::isnan(got)) << "row " << r << " column " << i << ": " << got;
      } else {
        EXPECT_EQ(got, expected[r]) << "row " << r << " column " << i;
      }
    }
  }
}

constexpr auto elementary = [](auto a, auto b, auto put) {
  put(exp(a));
  put(exp2(a));
  put(log(b));
  put(log2(b));
  put(sin(a));
  put(cos(a));
  put(tan(a));
  put(sinh(a));
  put(cosh(a));
  put(tanh(a));
  put(rsqrt(b));
  put(pow(b, a));
  put(atan2(a, b));
  put(exp(a, precise));
  put(sqrt(b, precise));
  put(pow(2.0f, a));
};
TEST(FloatOps, ElementaryFunctionsAreClose) {
  const std::vector<f64> a{0.5, -1.25, 0.0, 3.0, -4.5, 1.0, 2.0, -0.125},
      b{0.5, 1.25, 1.0, 3.0, 4.5, 100.0, 2.0, 0.001};
  const std::vector<f64> y = run_rows<f64, 16, elementary>(a, b);
  for (std::size_t i = 0; i < 8; ++i) {
    const double x = a[i], z = b[i];
    const double expected[] = {std::exp(x),      std::exp2(x), std::log(z),      std::log2(z),
                               std::sin(x),      std::cos(x),  std::tan(x),      std::sinh(x),
                               std::cosh(x),     std::tanh(x), 1 / std::sqrt(z), std::pow(z, x),
                               std::atan2(x, z), std::exp(x),  std::sqrt(z),     std::pow(2.0, x)};
    for (std::size_t r = 0; r < 16; ++r)
      EXPECT_NEAR(y[r * 8 + i], expected[r], 1e-12 * (1 + std::fabs(expected[r]))) << "row " << r << " column " << i;
  }
}

constexpr auto comparisons = [](auto a, auto b, auto put) {
  const auto bit = [&](auto condition) { put(where(condition, 1.0f, 0.0f)); };
  bit(a == b);
  bit(a != b);
  bit(a < b);
  bit(a <= b);
  bit(a > b);
  bit(a >= b);
  bit(1.0f < b);
  bit(1 >= a);
  bit(!(a < b));
  bit(a < b && b > 0.0f);
  bit(a < b || b > 0.0f);
  bit((a < b) == true);
  bit((a < b) ^ (b > 0.0f));
  bit(true && a < b);
  bit(false || a < b);
  bit((a < b) != (b > 0.0f));
};
TEST(Comparisons, TreatNanAsCppDoes) {
  const std::vector<f32> a{1.0f, 2.0f, kNan, 0.0f, -1.0f, kInf, kNan, 5.0f},
      b{1.0f, 3.0f, 1.0f, -0.0f, -2.0f, kInf, kNan, kNan};
  const std::vector<f32> y = run_rows<f32, 16, comparisons>(a, b);
  for (std::size_t i = 0; i < 8; ++i) {
    const float x = a[i], z = b[i];
    const bool expected[] = {x == z,
                             x != z,
                             x<z, x <= z, x>
                                 z,
                             x >= z,
                             1 < z,
                             1 >= x,
                             !(x < z),
                             x < z && z > 0,
                             x < z || z > 0,
                             x < z,
                             (x < z) != (z > 0),
                             x < z,
                             x < z,
                             (x < z) != (z > 0)};
    for (std::size_t r = 0; r < 16; ++r)
      EXPECT_EQ(y[r * 8 + i], expected[r] ? 1.0f : 0.0f) << "row " << r << " column " << i;
  }
}

void broadcasting(Mut<i32, 4, 8> y, Scalar<i32> s) {
  auto row = iota<i32, 1, 8>(axis<1>);
  auto column = iota<i32, 4, 1>(axis<0>);
  auto t = column * 10 + row;
  t += s;
  t -= row;
  y.store(where(column == 2, s, t));
}
TEST(Broadcasting, StretchesExtentsOfOneAndScalars) {
  std::vector<i32> y(32);
  run<broadcasting>(Arguments().tensor(y.data(), {4, 8}).scalar(1000));
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j) EXPECT_EQ(y[static_cast<std::size_t>(i * 8 + j)], i == 2 ? 1000 : i * 10 + 1000);
}

void exp2_of_narrow(Mut<bf16, 8> y, In<f32, dyn> x) { y.store(cast<bf16>(exp2(x.load_like(y)))); }
template <class T>
void accuracy(Mut<T, 8> y, In<T, dyn> x) {
  auto t = cast<f32>(x.load_like(y));
  y.store(cast<T>(exp(t) / sqrt(t) + exp2(t, precise) + rsqrt(t, approx)));
}
TEST(Accuracy, FollowsTheOutputsUnlessACallSaysOtherwise) {
  const std::string narrow = text<accuracy<bf16>>(), wide = text<accuracy<f32>>();
  EXPECT_EQ(count(narrow, "rounding<approx>"), 3) << narrow;  // exp, sqrt, division
  EXPECT_EQ(count(narrow, "flush_to_zero"), 0) << narrow;     // denormal operands count
  EXPECT_EQ(count(wide, "rounding<approx>"), 0) << wide;
  EXPECT_EQ(count(text<exp2_of_narrow>(), "flush_to_zero"), 1);
}

void increments(Mut<i32, 4> y, Scalar<f32> s) {
  auto a = y.load();
  auto before = a++;
  ++a;
  s++;
  auto after = --a;
  a <<= 2;
  a |= 1;
  y.store(before * 10000 + after * 100 + a + cast<i32>(s));
}
TEST(IntegerOps, IncrementsAndCompoundAssignments) {
  std::vector<i32> y{0, 1, 2, 3};
  run<increments>(Arguments().vector(y).scalar(1.0f));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(y[static_cast<std::size_t>(i)], i * 10000 + (i + 1) * 100 + ((i + 1) * 4 | 1) + 2);
}

TEST(HostNumbers, CeilDivOnTheHost) {
  static_assert(ceil_div(10, 4) == 3 && ceil_div(8, 4) == 2 && ceil_div(0u, 4u) == 0);
  static_assert(std::is_same_v<decltype(infinity<bf16>), const float> && infinity<f64> > 1e308);
}

// Properties of the types.
static_assert(!std::is_default_constructible_v<Tile<f32, 8>>);
static_assert(std::is_convertible_v<int, Scalar<f32>> && !std::is_convertible_v<int, Tile<f32, 8>>);
static_assert(!std::is_convertible_v<Tile<f32, 8>, Tile<f32>> && !std::is_convertible_v<Tile<i32>, Scalar<f32>>);
static_assert(
    std::is_same_v<decltype(std::declval<Tile<f32, 4, 1>>() + std::declval<Tile<f32, 1, 8>>()), Tile<f32, 4, 8>>);
static_assert(std::is_same_v<decltype(std::declval<Tile<i32>>() < std::declval<Tile<i32, 8>>()), Tile<bool, 8>>);

}  // namespace THIS_FILE
}  // namespace tessera
