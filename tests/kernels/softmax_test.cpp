// Softmax and log-softmax against f64: rows of one tile and longer, ragged, special values.
#include "tessera/kernels/softmax.hpp"

#include <algorithm>

#include "kernels/support.hpp"

namespace tessera::kernels {
namespace {

std::vector<double> reference(const std::vector<double>& x, std::size_t n, bool log) {
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r < x.size(); r += n) {
    double top = -1e300, total = 0;
    for (std::size_t i = r; i < r + n; ++i) top = std::max(top, x[i]);
    for (std::size_t i = r; i < r + n; ++i) total += std::exp(x[i] - top);
    for (std::size_t i = r; i < r + n; ++i) y[i] = log ? x[i] - top - std::log(total) : std::exp(x[i] - top) / total;
  }
  return y;
}

template <Element T>
void check(bool with_log) {
  for (const auto& [rows, n] :
       {std::pair{3, 1}, {5, 1000}, {2, 1024}, {4, 63}, {2, 16385}, {1, 50257}, {3, 4099}, {2, 8193}}) {
    const auto x = random_tensor<T>({rows, n}, 1, 3);
    const std::string what = std::to_string(rows) + "x" + std::to_string(n);
    const auto in = doubles(x);
    const auto length = static_cast<std::size_t>(n);
    expect_close(softmax(x).sync(), reference(in, length, false), tolerance<T>(2), "softmax " + what);
    if (with_log) expect_close(log_softmax(x).sync(), reference(in, length, true), tolerance<T>(2), "log " + what);
  }
}
TEST(Softmax, F32) { check<f32>(true); }
TEST(Softmax, Bf16) { check<bf16>(false); }

TEST(Softmax, AnyRankViewsAndEmpty) {
  const auto x = random_tensor<f32>({2, 3, 40}, 2);
  expect_close(softmax(x).sync(), reference(doubles(x), 40, false), 4e-6, "rank 3");
  const auto line = random_tensor<f32>({100}, 3);
  expect_close(softmax(line).sync(), reference(doubles(line), 100, false), 4e-6, "rank 1");
  const auto m = random_tensor<f32>({40, 7}, 4);
  const auto turned = clone(m.permute<1, 0>()).sync();
  expect_close(softmax(m.permute<1, 0>()).sync(), reference(doubles(turned), 40, false), 4e-6, "permuted");
  EXPECT_EQ(softmax(random_tensor<f32>({0, 40}, 5)).sync().size(), 0);
  EXPECT_EQ(softmax(random_tensor<f32>({40, 0}, 5)).sync().size(), 0);
  EXPECT_ERROR(ShapeError, (void)softmax(x.permute<0, 2, 1>()), "contiguous");
}

TEST(Softmax, MaskedAndNotANumber) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::size_t n : {std::size_t{100}, std::size_t{20000}, std::size_t{20001}}) {
    std::vector<double> v(3 * n, 0.5);
    std::fill_n(v.begin(), n - 1, -inf);                               // only the last element counts
    std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(n), n, -inf);  // none does
    v[2 * n + 7] = std::nan("");
    const auto y = doubles(softmax(cast<f32>(from(v, Dims<2>(3, n))).sync()).sync());
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[n - 1], 1);
    EXPECT_TRUE(std::isnan(y[n]) && std::isnan(y[2 * n - 1]));
    EXPECT_TRUE(std::isnan(y[2 * n]) && std::isnan(y[3 * n - 1]));
  }
}

}  // namespace
}  // namespace tessera::kernels
