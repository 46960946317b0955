// Random numbers by counter: the published vectors of Philox 4x32-10, exact ranges, moments, and the series against
// libm.
#include "tessera/base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

struct Words {
  using Word = std::uint32_t;
  Word word(std::uint32_t v) const { return v; }
  Word add(Word x, Word y) const { return x + y; }
  Word mul(Word x, Word y) const { return x * y; }
  Word mul_high(Word x, Word y) const { return static_cast<Word>((std::uint64_t{x} * y) >> 32); }
  Word bit_xor(Word x, Word y) const { return x ^ y; }
};

TEST(Philox, PublishedVectors) {
  Words a;
  using C = std::array<std::uint32_t, 4>;
  EXPECT_EQ(detail::philox(a, {0, 0, 0, 0}, {0, 0}), (C{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t f = 0xffffffff;
  EXPECT_EQ(detail::philox(a, {f, f, f, f}, {f, f}), (C{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(detail::philox(a, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (C{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsInRangeAndSpread) {
  double sum = 0, squares = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const float u = uniform_at<f32>(7, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0F);
    ASSERT_LT(u, 1.0F);
    sum += u;
    squares += static_cast<double>(u) * u;
    ASSERT_LT(uniform_at<f64>(7, static_cast<std::uint64_t>(i)), 1.0);
    ASSERT_LT(static_cast<float>(uniform_at<bf16>(7, static_cast<std::uint64_t>(i))), 1.0F);
    ASSERT_LT(static_cast<float>(uniform_at<f16>(7, static_cast<std::uint64_t>(i))), 1.0F);
  }
  EXPECT_NEAR(sum / n, 0.5, 0.005);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
  EXPECT_NE(uniform_at<f32>(7, 0), uniform_at<f32>(8, 0));
  EXPECT_NE(uniform_at<f32>(7, 0), uniform_at<f32>(7, std::uint64_t{1} << 40));
}

template <class F>
void normal_moments(double tolerance) {
  double sum = 0, squares = 0, fourth = 0, worst = 0;
  constexpr int n = 100000;
  constexpr int bits = detail::RandomFormat<F>::bits;
  for (int i = 0; i < n; ++i) {
    const auto w = random_words(3, static_cast<std::uint64_t>(i));
    const std::uint64_t a = bits == 24 ? w[0] >> 8 : ((std::uint64_t{w[0]} << 32) | w[1]) >> 11;
    const std::uint64_t b = bits == 24 ? w[2] >> 8 : ((std::uint64_t{w[2]} << 32) | w[3]) >> 11;
    const double scale = std::ldexp(1.0, -bits);
    const double expected = std::sqrt(-2 * std::log(static_cast<double>(a + 1) * scale)) *
                            std::cos(6.283185307179586 * (static_cast<double>(b) * scale));
    const double z = static_cast<double>(normal_at<F>(3, static_cast<std::uint64_t>(i)));
    worst = std::max(worst, std::fabs(z - expected));
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  EXPECT_LT(worst, tolerance);
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(fourth / n, 3, 0.15);
}
TEST(Philox, NormalFollowsLibmInFloat) { normal_moments<f32>(3e-6); }
TEST(Philox, NormalFollowsLibmInDouble) { normal_moments<f64>(1e-14); }

}  // namespace
}  // namespace tessera
