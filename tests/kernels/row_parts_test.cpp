// Few long rows in parts: the choice by shape and device, and every function with requested parts, against f64
// and against rows that are not split.
#include "tessera/kernels/row_parts.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/support.hpp"
#include "tessera/kernels/argmax.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/reduce.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"

namespace tessera::kernels {
namespace {

constexpr RowParts kSplit{1 << 20};  // as many parts as there are chunks, up to 512
const double kInf = std::numeric_limits<double>::infinity(), kNaN = std::nan("");

TEST(RowParts, AreWholeChunksWithoutEmptyOnes) {
  for (const std::int64_t n : {1, 4096, 4097, 70000, 262145, 4194304, 0x7fffffff})
    for (const std::int64_t parts : {1, 2, 3, 7, 64, 65, 512, 5000})
      for (const std::int64_t chunk : {4096, 8192}) {
        const RowSplit s = row_split(n, parts, chunk);
        const std::int64_t length = s.steps * chunk;
        EXPECT_LE(s.parts, std::min<std::int64_t>(parts, kRowPartsLimit));
        EXPECT_GE(s.parts * length, n) << n << " in " << parts;
        EXPECT_LT((s.parts - 1) * length, n) << n << " in " << parts << ": the last part is empty";
      }
  EXPECT_EQ(row_split(0, 4, 4096).parts, 1);
}
TEST(RowParts, AreChosenWhereBlocksAreFewAndRowsLong) {
  const Target h200{true, 132}, small{true, 20}, cpu{};
  const auto parts = [](std::int64_t rows, std::int64_t n, const Target& t) {
    return row_split_heuristic(rows, n, normalizing(2), t).parts;
  };
  EXPECT_EQ(parts(16, 4194304, h200), 64);
  EXPECT_EQ(parts(1, 16777216, h200), 512);
  EXPECT_EQ(parts(4, 1000003, h200), 123) << "one chunk each";
  EXPECT_EQ(parts(64, 262144, h200), 16);
  EXPECT_EQ(parts(1, 4097, h200), 1) << "the second kernel costs more";
  EXPECT_EQ(parts(1024, 4194304, h200), 1) << "there are enough rows";
  EXPECT_EQ(parts(1 << 30, 8, h200), 1);
  EXPECT_EQ(parts(0, 4194304, h200), 1);
  EXPECT_EQ(parts(16, 0, h200), 1);
  EXPECT_EQ(parts(16, 4194304, cpu), 1);
  EXPECT_EQ(parts(4, 4194304, small), parts(4, 4194304, h200)) << "additions in the same order";
  EXPECT_EQ(parts(64, 4194304, small), 1);
}

struct Moment {
  double mean = 0, square = 0, variance = 0;
};
Moment moment_of(const double* x, std::size_t n) {
  Moment m;
  for (std::size_t i = 0; i < n; ++i) m.mean += x[i], m.square += x[i] * x[i];
  m.mean /= static_cast<double>(n), m.square /= static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) m.variance += (x[i] - m.mean) * (x[i] - m.mean);
  m.variance /= static_cast<double>(n);
  return m;
}
/// f(row, first element) for each row.
template <class F>
void each_row_of(const std::vector<double>& x, std::size_t n, F f) {
  for (std::size_t r = 0; r * n < x.size(); ++r) f(r, r * n);
}

template <Element T>
void check_norms(int rows, int n, RowParts parts, double scale) {
  const std::string what = std::to_string(rows) + "x" + std::to_string(n) + " in " + std::to_string(parts.parts);
  const auto x = random_tensor<T>({rows, n}, 1, scale);
  const auto weight = random_tensor<f32>({n}, 2);
  const auto bias = random_tensor<f32>({n}, 3);
  const auto in = doubles(x), w = doubles(weight), b = doubles(bias);
  const auto length = static_cast<std::size_t>(n);
  std::vector<double> rms(in.size()), layer(in.size());
  each_row_of(in, length, [&](std::size_t, std::size_t at) {
    const Moment m = moment_of(&in[at], length);
    for (std::size_t i = 0; i < length; ++i) {
      rms[at + i] = in[at + i] * w[i] / std::sqrt(m.square + 1e-6);
      layer[at + i] = (in[at + i] - m.mean) / std::sqrt(m.variance + 1e-5) * w[i] + b[i];
    }
  });
  expect_close(rms_norm(x, weight, 1e-6f, parts).sync(), rms, tolerance<T>(2), "rms " + what);
  expect_close(layer_norm(x, weight, bias, 1e-5f, parts).sync(), layer, tolerance<T>(2), "layer " + what);
}
template <Element T>
void check_softmax(int rows, int n, RowParts parts) {
  const std::string what = std::to_string(rows) + "x" + std::to_string(n) + " in " + std::to_string(parts.parts);
  const auto x = random_tensor<T>({rows, n}, 1, 3);
  const auto in = doubles(x);
  const auto length = static_cast<std::size_t>(n);
  std::vector<double> y(in.size()), logs(in.size());
  each_row_of(in, length, [&](std::size_t, std::size_t at) {
    double top = in[at], total = 0;
    for (std::size_t i = at; i < at + length; ++i) top = std::max(top, in[i]);
    for (std::size_t i = at; i < at + length; ++i) total += std::exp(in[i] - top);
    for (std::size_t i = at; i < at + length; ++i) {
      y[i] = std::exp(in[i] - top) / total;
      logs[i] = in[i] - top - std::log(total);
    }
  });
  expect_close(softmax(x, parts).sync(), y, tolerance<T>(2), "softmax " + what);
  expect_close(log_softmax(x, parts).sync(), logs, tolerance<T>(2), "log_softmax " + what);
}
template <Element T>
void check_reductions(int rows, int n, RowParts parts) {
  const std::string what = std::to_string(rows) + "x" + std::to_string(n) + " in " + std::to_string(parts.parts);
  const auto x = random_tensor<T>({rows, n}, 1);
  const auto in = doubles(x);
  const auto length = static_cast<std::size_t>(n);
  const auto sums = doubles(row_sum(x, parts).sync()), means = doubles(row_mean(x, parts).sync());
  const auto tops = doubles(row_max(x, parts).sync()), bottoms = doubles(row_min(x, parts).sync());
  const auto [value, index] = argmax(x, parts).sync();
  const auto values = doubles(value);
  const auto at = host(index).sync();
  each_row_of(in, length, [&](std::size_t r, std::size_t first) {
    const double *begin = &in[first], *end = begin + n;
    const double sum = std::accumulate(begin, end, 0.0);
    double absolute = 0;
    for (const double* p = begin; p < end; ++p) absolute += std::abs(*p);
    EXPECT_NEAR(sums[r], sum, 1e-6 * absolute) << what;
    EXPECT_NEAR(means[r], sum / n, 1e-6 * absolute / n) << what;
    const double* const top = std::max_element(begin, end);
    EXPECT_EQ(tops[r], *top) << what;
    EXPECT_EQ(bottoms[r], *std::min_element(begin, end)) << what;
    EXPECT_EQ(at[r], top - begin) << what;
    EXPECT_EQ(values[r], *top) << what;
  });
}

TEST(RowParts, ArgmaxOfManyShortRows) {
  for (const int n : {1, 33, 128, 511}) {
    check_reductions<f32>(4096, n, {1});
    check_reductions<bf16>(4101, n, {1});
  }
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinite = std::numeric_limits<float>::infinity();
  std::vector<float> v(5000 * 3, -kInfinite);
  v[4] = kNaN, v[6] = kNaN, v[8] = kNaN, v[9] = 5, v[11] = 5;
  const auto [value, index] = argmax(from(v, Dims<2>(5000, 3)).sync()).sync();
  const auto at = host(index).sync();
  EXPECT_EQ((std::vector<std::int32_t>{at.begin(), at.begin() + 4}), (std::vector<std::int32_t>{0, 1, 0, 0}));
  EXPECT_EQ(doubles(value)[3], 5);
  EXPECT_NE(doubles(value)[1], doubles(value)[1]);
}

TEST(RowParts, Norms) {
  for (const auto& [rows, n] : {std::pair{1, 1}, {2, 17}, {3, 8193}, {2, 20000}, {3, 100003}})
    for (const std::int64_t parts : {2, 3, 1000}) check_norms<f32>(rows, n, {parts}, 1);
  check_norms<bf16>(2, 50257, {5}, 1);
  check_norms<f16>(3, 16385, kSplit, 0.1);
  check_norms<f32>(1, 300001, kSplit, 100);  // more parts than the smaller tile of statistics holds
}
TEST(RowParts, Softmax) {
  for (const auto& [rows, n] : {std::pair{1, 1}, {2, 17}, {3, 8193}, {2, 20000}, {3, 100003}})
    for (const std::int64_t parts : {2, 3, 1000}) check_softmax<f32>(rows, n, {parts});
  check_softmax<bf16>(2, 50257, {5});
  check_softmax<f16>(3, 16385, kSplit);
  check_softmax<f64>(2, 12289, kSplit);
  check_softmax<f32>(1, 300001, kSplit);
}
TEST(RowParts, Reductions) {
  for (const auto& [rows, n] : {std::pair{1, 1}, {2, 17}, {3, 8193}, {2, 20000}, {3, 100003}})
    for (const std::int64_t parts : {2, 3, 1000}) check_reductions<f32>(rows, n, {parts});
  check_reductions<bf16>(2, 50257, {5});  // few values: many are equal
  check_reductions<f64>(2, 12289, kSplit);
  check_reductions<f32>(1, 300001, kSplit);
}

TEST(RowParts, IntegersAreExact) {
  const int n = 70001;
  std::vector<i8> v(2 * n, -128);
  v[5] = v[4101] = v[60000] = 3;  // the lowest index of equals: at one position of two chunks, in different parts
  v[n + n - 1] = 127;
  const auto x = from(v, {2, n}).sync();
  const i64 first = -128 * (n - 3) + 9, second = -128 * (n - 1) + 127;
  EXPECT_EQ(host(row_sum(x, kSplit).sync()).sync(), (std::vector<i64>{first, second}));
  EXPECT_EQ(host(row_mean(x, kSplit).sync()).sync(),
            (std::vector<i8>{static_cast<i8>(first / n), static_cast<i8>(second / n)}));
  const auto lowest_only = full<i32>({1, n}, std::numeric_limits<i32>::lowest()).sync();
  for (const RowParts parts : {kSplit, RowParts{2}}) {
    const auto [value, index] = argmax(x, parts).sync();
    EXPECT_EQ(host(index).sync(), (std::vector<i32>{5, n - 1}));
    EXPECT_EQ(host(value).sync(), (std::vector<i8>{3, 127}));
    EXPECT_EQ(host(std::get<1>(argmax(lowest_only, parts).sync())).sync()[0], 0);
  }
}

TEST(RowParts, LargeMeanKeepsItsVariance) {
  const int n = 50001;
  std::vector<double> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 1e4 + static_cast<double>(i % 2);
  const auto one = ones<f32>({n}).sync(), zero = zeros<f32>({n}).sync();
  const auto y = doubles(layer_norm(cast<f32>(from(v, {1, n})).sync(), one, zero, 1e-5f, kSplit).sync());
  EXPECT_NEAR(y[0], -1, 1e-2);
  EXPECT_NEAR(y[1], 1, 1e-2);
  // The means of parts differ by much more than what varies inside them.
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = (i < 20000 ? 1e4 : -3e3) + static_cast<double>(i % 3);
  const Moment m = moment_of(v.data(), v.size());
  std::vector<double> want(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) want[i] = (v[i] - m.mean) / std::sqrt(m.variance + 1e-5);
  expect_close(layer_norm(cast<f32>(from(v, {1, n})).sync(), one, zero, 1e-5f, kSplit).sync(), want, 4e-6, "far");
  // A constant row has no variance.
  const auto flat = doubles(layer_norm(full<f32>({1, n}, 12345.0f).sync(), one, zero, 1e-5f, kSplit).sync());
  EXPECT_EQ(*std::max_element(flat.begin(), flat.end()), 0);
}

TEST(RowParts, InfinityAndNotANumber) {
  const std::size_t n = 20001;
  std::vector<double> v(4 * n, 0.5);
  std::fill_n(v.begin(), n - 1, -kInf);                               // only the last element counts
  std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(n), n, -kInf);  // none does
  v[2 * n + 7] = kNaN;
  v[3 * n + 9000] = kInf;
  const auto x = cast<f32>(from(v, Dims<2>(4, n))).sync();
  const auto y = doubles(softmax(x, kSplit).sync());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[n - 1], 1);
  for (const std::size_t i : {n, 2 * n - 1, 2 * n, 3 * n - 1, 3 * n + 9000}) EXPECT_TRUE(std::isnan(y[i])) << i;
  const auto whole = doubles(softmax(x, RowParts{1}).sync());
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), std::isnan(whole[i])) << i;
  const auto one = ones<f32>({n}).sync(), zero = zeros<f32>({n}).sync();
  const auto z = doubles(layer_norm(x, one, zero, 1e-5f, kSplit).sync());
  for (const std::size_t i : {std::size_t{0}, 2 * n - 1, 3 * n - 1, 3 * n}) EXPECT_TRUE(std::isnan(z[i])) << i;
  const auto [value, index] = argmax(x, kSplit).sync();
  EXPECT_EQ(host(index).sync(), (std::vector<i32>{static_cast<i32>(n) - 1, 0, 7, 9000}));
  EXPECT_EQ(doubles(value)[1], -kInf);
  EXPECT_TRUE(std::isnan(doubles(value)[2]));
  EXPECT_EQ(doubles(row_max(x, kSplit).sync()), (std::vector<double>{0.5, -kInf, 0.5, kInf}));
  EXPECT_TRUE(std::isnan(doubles(row_sum(x, kSplit).sync())[2]));
}
TEST(RowParts, TheFirstOfSeveralNaNs) {
  const std::size_t n = 30000;
  std::vector<double> v(2 * n, kInf);
  v[9000] = v[9001] = v[25000] = kNaN;
  std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(n), n, kNaN);
  const auto [value, index] = argmax(cast<f32>(from(v, Dims<2>(2, n))).sync(), kSplit).sync();
  EXPECT_EQ(host(index).sync(), (std::vector<i32>{9000, 0}));
}

TEST(RowParts, ViewsRanksAndWrongNumbers) {
  const auto m = random_tensor<f32>({9000, 3}, 4);
  const auto turned = clone(m.permute<1, 0>()).sync();
  const auto w = random_tensor<f32>({9000}, 5);
  EXPECT_EQ(doubles(rms_norm(m.permute<1, 0>(), w, 1e-6f, kSplit).sync()),
            doubles(rms_norm(turned, w, 1e-6f, kSplit).sync()));
  EXPECT_EQ(doubles(softmax(m.permute<1, 0>(), kSplit).sync()), doubles(softmax(turned, kSplit).sync()));
  const auto cube = random_tensor<f32>({2, 2, 9001}, 6);
  EXPECT_EQ(softmax(cube, kSplit).sync().dims(), Dims(2, 2, 9001));
  EXPECT_EQ(row_max(cube, kSplit).sync().dims(), Dims(2, 2));
  EXPECT_EQ(doubles(row_max(cube, kSplit).sync()), doubles(row_max(cube).sync()));
  EXPECT_EQ(softmax(random_tensor<f32>({0, 9001}, 5), kSplit).sync().size(), 0);
  EXPECT_ERROR(ShapeError, (void)softmax(m, RowParts{-1}), "the number of parts may not be negative");
  EXPECT_ERROR(ShapeError, (void)row_sum(m, RowParts{-1}), "the number of parts may not be negative");
}

Flow<Tensor<f32, 2>> normalized_twice(const Tensor<f32, 2>& x, const Tensor<f32, 1>& w) {
  auto y = co_await rms_norm(x, w, 1e-6f, kSplit);
  co_return co_await softmax(y, kSplit);
}
TEST(RowParts, StreamsFlowsAndGraphs) {
  const auto w = random_tensor<f32>({9001}, 5);
  auto x = random_tensor<f32>({2, 9001}, 6);
  const Stream stream;
  const auto y = rms_norm(x, w, 1e-6f, kSplit).on(stream);
  const auto want = doubles(softmax(y, kSplit).on(stream));
  EXPECT_EQ(doubles(normalized_twice(x, w).sync()), want);
  auto graph = capture(normalized_twice, std::move(x), w);
  for (int i = 0; i < 2; ++i) {
    graph.replay().sync();
    EXPECT_EQ(doubles(graph.output()), want);
  }
}

}  // namespace
}  // namespace tessera::kernels
