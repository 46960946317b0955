// Reductions of rows and of whole tensors against f64.
#include "tessera/kernels/reduce.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/support.hpp"

namespace tessera::kernels {
namespace {

template <class F>
std::vector<double> by_rows(const std::vector<double>& x, std::size_t n, F f) {
  std::vector<double> y;
  for (std::size_t r = 0; n > 0 && r < x.size(); r += n) y.push_back(f(x.data() + r, x.data() + r + n));
  return y;
}
const auto total = [](const double* a, const double* b) { return std::accumulate(a, b, 0.0); };
const auto largest = [](const double* a, const double* b) { return *std::max_element(a, b); };
const auto smallest = [](const double* a, const double* b) { return *std::min_element(a, b); };

TEST(Reduce, Rows) {
  for (const auto& [rows, n] : {std::pair{70, 33}, {3, 1000}, {2, 4097}, {1, 1}, {0, 5}, {3, 20000}}) {
    const auto x = random_tensor<bf16>({rows, n}, 1);
    const auto in = doubles(x);
    const auto length = static_cast<std::size_t>(n);
    const std::string what = std::to_string(rows) + "x" + std::to_string(n);
    // Random signs cancel: the error is measured against the length of what was added.
    const auto got = doubles(row_sum(x).sync()), want = by_rows(in, length, total);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6 * n) << what;
    EXPECT_EQ(doubles(row_max(x).sync()), by_rows(in, length, largest)) << what;
  }
  const auto x = random_tensor<f32>({2, 3, 50}, 2);
  EXPECT_EQ(doubles(row_min(x).sync()), by_rows(doubles(x), 50, smallest));
  EXPECT_EQ(row_min(x).sync().dims(), Dims(2, 3));
  const auto means = doubles(row_mean(x).sync());
  EXPECT_NEAR(means[5], by_rows(doubles(x), 50, total)[5] / 50, 1e-6);
}

TEST(Reduce, WholeTensorsAndIntegers) {
  const auto x = random_tensor<f32>({300, 1001}, 3);
  const auto in = doubles(x);
  EXPECT_NEAR(doubles(sum_all(x).sync())[0], std::accumulate(in.begin(), in.end(), 0.0), 1e-2);
  EXPECT_EQ(doubles(max_all(x).sync())[0], *std::max_element(in.begin(), in.end()));
  const auto n = arange<i32>(100000, -7).sync();
  EXPECT_EQ(host(max_all(n).sync()).sync()[0], 99992);
  EXPECT_EQ(host(min_all(n).sync()).sync()[0], -7);
  EXPECT_EQ(host(sum_all(arange<i64>(100000).sync()).sync()).sync()[0], 4999950000);
}

TEST(Reduce, NotANumberAndNoElements) {
  const auto x = cast<f32>(from(std::vector<double>{1, std::nan(""), 3, 4}, {2, 2})).sync();
  EXPECT_TRUE(std::isnan(doubles(row_sum(x).sync())[0]));
  EXPECT_EQ(doubles(row_max(x).sync())[0], 1);
  const auto none = zeros<f32>({3, 0}).sync();
  EXPECT_EQ(doubles(row_sum(none).sync()), std::vector<double>(3, 0.0));
  EXPECT_EQ(doubles(sum_all(none).sync())[0], 0);
  EXPECT_ERROR(ShapeError, (void)row_max(none), "argument x has the extents [3, 0]");
  EXPECT_ERROR(ShapeError, (void)mean_all(none), "it needs an element");
}

/// Sums, means and extremes of n times the number `value` of T.
template <class T>
void check_integers(int n, int value) {
  const auto x = full<T>({2, n}, static_cast<T>(value)).sync();
  const i64 sum = i64{n} * value;
  const std::string what = std::to_string(n) + " times " + std::to_string(value);
  for (const auto s : host(row_sum(x).sync()).sync()) EXPECT_EQ(static_cast<i64>(s), sum) << what;
  for (const T m : host(row_mean(x).sync()).sync()) EXPECT_EQ(m, static_cast<T>(value)) << what;
  EXPECT_EQ(static_cast<i64>(host(sum_all(x).sync()).sync()[0]), 2 * sum) << what;
  EXPECT_EQ(host(mean_all(x).sync()).sync()[0], static_cast<T>(value)) << what;
  EXPECT_EQ(host(row_max(x).sync()).sync()[1], static_cast<T>(value)) << what;
  EXPECT_EQ(host(min_all(x).sync()).sync()[0], static_cast<T>(value)) << what;
}
TEST(Reduce, NarrowIntegersDoNotOverflow) {
  for (const int n : {1, 7, 100, 256, 300, 70000}) {
    check_integers<i8>(n, 127), check_integers<i8>(n, -128);
    check_integers<u8>(n, 255);
    check_integers<i16>(n, -32768), check_integers<u16>(n, 65535);
    check_integers<i32>(n, 0x7fffffff), check_integers<i32>(n, -3);
    check_integers<i64>(n, 5), check_integers<u64>(n, 5);
  }
  const auto mixed = from(std::vector<i8>{-3, -4, 100, 27}, {2, 2}).sync();
  EXPECT_EQ(host(row_mean(mixed).sync()).sync(), (std::vector<i8>{-3, 63})) << "rounded toward zero";
  static_assert(std::is_same_v<decltype(row_sum(mixed).sync()), Tensor<i64, 1>>);
  static_assert(std::is_same_v<decltype(sum_all(zeros<u16>({3}).sync()).sync()), Tensor<u64, 1>>);
}

}  // namespace
}  // namespace tessera::kernels
