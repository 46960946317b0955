// Dropout, conversion and quantisation of rows.
#include "tessera/kernels/quantize.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"

#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/kernels/dropout.hpp"
#include "tessera/kernels/gemm.hpp"

namespace tessera::kernels {
namespace {

TEST(Dropout, DropsByOffsetAndScalesTheRest) {
  auto x = random_tensor<f32>({30, 100}, 1);
  const auto in = doubles(x);
  const auto u = host(random::uniform<f32>({3000}, 77)).sync();
  const auto fresh = doubles(dropout(x, 0.25f, 77).sync());
  x = dropout(std::move(x), 0.25f, 77).sync();
  EXPECT_EQ(doubles(x), fresh);
  for (std::size_t i = 0; i < in.size(); ++i)
    ASSERT_NEAR(fresh[i], u[i] < 0.25f ? 0 : in[i] / 0.75, 1e-6 * std::abs(in[i])) << i;
  EXPECT_ERROR(ShapeError, (void)dropout(x, 1.0f, 1), "below 1");
}

TEST(Convert, OneRounding) {
  const auto x = random_tensor<f32>({7, 3, 50}, 2);
  EXPECT_EQ(doubles(convert<bf16>(x).sync()), doubles(cast<bf16>(x).sync()));
  EXPECT_EQ(doubles(convert<i32>(x).sync()), doubles(cast<i32>(x).sync()));
}

template <Element Q>
void check_rows(double allowed) {
  const auto x = random_tensor<bf16>({6, 333}, 3, 20);
  auto [q, scale] = quantize_rows<Q>(x).sync();
  const auto in = doubles(x), s = doubles(scale);
  for (std::size_t r = 0; r < 6; ++r) {
    double top = 0;
    for (std::size_t c = 0; c < 333; ++c) top = std::max(top, std::abs(in[r * 333 + c]));
    EXPECT_NEAR(s[r], top / static_cast<double>(largest_of<Q>), 1e-6 * s[r]);
  }
  expect_close(dequantize_rows<f32>(q, scale).sync(), in, allowed, "");
}
TEST(Quantize, RowsComeBack) {
  check_rows<f8e4m3>(3e-2);
  check_rows<i8>(1e-2);
  const auto none = zeros<f32>({2, 10}).sync();
  auto [q, scale] = quantize_rows<i8>(none).sync();
  EXPECT_EQ(doubles(q), std::vector<double>(20, 0.0));
  EXPECT_EQ(doubles(scale), std::vector<double>(2, 1.0));
  EXPECT_ERROR(ShapeError, (void)dequantize_rows<f32>(q, zeros<f32>({3}).sync()), "argument scale has the extents [3]");
}
TEST(Quantize, ProductsOfWhatWasQuantised) {
  const auto a = random_tensor<bf16>({40, 200}, 4), b = random_tensor<bf16>({30, 200}, 5);
  auto [qa, sa] = quantize_rows<i8>(a).sync();
  auto [qb, sb] = quantize_rows<i8>(b).sync();
  const auto c = gemm<f32>(qa, qb.template permute<1, 0>(), scaled(sa, sb)).sync();
  expect_close(c, product(doubles(a), turned(doubles(b), 200), 40, 30), 2e-2, "i8");
}

TEST(Quantize, TinyRowsAndRowsOfNothing) {
  const std::vector<float> tiny{1e-43f, 5e-44f, 0, -1e-43f, 1e-37f, -1e-38f, 0, 0, 0, 0, 0, 0};
  const auto check = [&](const auto& made) {
    const auto& [q, scale] = made;
    const auto back = host(dequantize_rows<f32>(q, scale).sync()).sync();
    for (std::size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back[i], tiny[i], 1.2e-38) << i;
    EXPECT_EQ(host(scale).sync()[2], 1) << "of zeros";
  };
  const auto x = from(tiny, {3, 4}).sync();
  check(quantize_rows<f8e4m3>(x).sync());
  check(quantize_rows<f8e5m2>(x).sync());
  check(quantize_rows<i8>(x).sync());
  const auto [q, s] = quantize_blocks<f8e4m3, 1>(x).sync();
  for (const float f : host(s).sync()) EXPECT_GT(f, 1e-38f);
  for (const f8e4m3 f : host(q).sync()) EXPECT_TRUE(std::isfinite(static_cast<float>(f)));
  const auto [none, one] = quantize_rows<i8>(empty<f32>({2, 0}).sync()).sync();
  EXPECT_EQ(none.dims(), Dims(2, 0));
  EXPECT_EQ(host(one).sync(), (std::vector<float>{1, 1}));
  EXPECT_EQ(dequantize_rows<f32>(none, one).sync().dims(), Dims(2, 0));
}

}  // namespace
}  // namespace tessera::kernels
