// Products of one row with bf16 and FP8 weights, with and without the norm inside, and of several rows with FP8
// weights, against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "base/rounds.hpp"
#include "model/kernels.hpp"
#include "model/products.hpp"
#include "model/scaled_row_kernels.hpp"
#include "mortar/model/fp8_weights.hpp"
#include "tessera/kernels/linear.hpp"

namespace mortar {
namespace THIS_FILE {

constexpr float kEpsilon = 1e-6f;

using test::Weights;

struct Row {
  explicit Row(std::int64_t k, unsigned seed = 9) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < k; ++i) x.push_back(bf16(normal(random))), norm.push_back(bf16(normal(random)));
    double squares = 0;
    for (const bf16 v : x) squares += std::pow(double{static_cast<float>(v)}, 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(k) + double{kEpsilon});
    for (std::size_t i = 0; i < x.size(); ++i) normed.push_back(at(i) * scale * double{static_cast<float>(norm[i])});
  }
  double at(std::size_t i) const { return double{static_cast<float>(x[i])}; }
  std::vector<double> values() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < x.size(); ++i) all.push_back(at(i));
    return all;
  }
  Tensor<bf16, 2> tensor() const { return from(x, {std::int64_t{1}, static_cast<std::int64_t>(x.size())}).sync(); }
  Tensor<bf16, 1> norm_tensor() const { return from(norm, {static_cast<std::int64_t>(norm.size())}).sync(); }
  std::vector<bf16> x, norm;
  std::vector<double> normed;
};

/// Rounding to f16 (11 bits, of x and of each of four partial sums) makes an error of some 2^-11.4 of the root of the
/// sum of squared products, a quarter of what the rounding of x to bf16 makes. The tests allow five times that.
template <class H>
constexpr double kRounding = std::is_same_v<H, f16> ? 0x1p-9 : 0;

/// Allows the rounding of the result to bf16, that of sums in f32, and `times` the `errors`.
void expect_near(const auto& y, const std::vector<double>& wanted, const std::vector<double>& errors = {},
                 double times = 0) {
  const auto found = host(y).sync();
  ASSERT_EQ(static_cast<std::size_t>(y.dim(1)), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(wanted[i]) / 256 + (errors.empty() ? 1e-3 : 1e-4 + errors[i] * times);
    ASSERT_NEAR(static_cast<float>(found[i]), wanted[i], error) << i;
  }
}

/// Template arguments of the kernels of one row: those of products.cpp.
template <class Type, bool IsCounted, int Rows, int Columns>
struct Form {
  using H = Type;
  static constexpr bool kCounted = IsCounted;
  static constexpr int kN = Rows, kK = Columns;
};
void for_forms(const auto& f) {
  f(Form<f16, false, 8, 512>());
  f(Form<f16, false, 4, 512>());
  f(Form<f16, true, 4, 512>());
  f(Form<f32, true, 4, 512>());
}
/// The product without an epilogue.
template <class F>
Tensor<bf16, 2> scaled(const Row& row, const Weights& w) {
  return kernel<scaled_row<kernels::epilogues::Plain, typename F::H, F::kCounted, F::kN, F::kK>>(
             full<bf16>({std::int64_t{1}, w.n}, bf16(777.0f)), row.tensor(), w.tensor(), w.scale_tensor(),
             static_cast<i32>(w.k))
      .sync();
}

/// 1160 and 1030 are no multiples of a tile nor of a block of scales, and 1160 not of the tiles that are added in f16.
TEST(OneRow, Fp8WeightsOfANormedRow) {
  const Row row(1160);
  const Weights w(1030, 1160);
  for_forms([&]<class F>(F) {
    expect_near(kernel<normed_scaled_row<typename F::H, F::kCounted, F::kN, F::kK>>(
                    full<bf16>({std::int64_t{1}, w.n}, bf16(777.0f)), row.tensor(), row.norm_tensor(), w.tensor(),
                    w.scale_tensor(), kEpsilon, i32{1160})
                    .sync(),
                w.times(row.normed), w.sizes(row.normed), kRounding<typename F::H>);
  });
}

/// Gate and up have scales of their own.
TEST(OneRow, Fp8GatesOfANormedRow) {
  const Row row(1160);
  const Weights w(512, 1160);
  const std::vector<double> both = w.times(row.normed);
  std::vector<double> wanted;
  for (std::size_t i = 0; i < both.size() / 2; ++i)
    wanted.push_back(both[i] / (1 + std::exp(-both[i])) * both[both.size() / 2 + i]);
  expect_near(kernel<normed_rows<true, bf16, f8e4m3, 1, 4, 1024, 8, In<f32, dyn, dyn>>>(
                  full<bf16>({std::int64_t{1}, w.n / 2}, bf16(777.0f)), row.tensor(), row.norm_tensor(), w.tensor(),
                  kEpsilon, 0, w.scale_tensor())
                  .sync(),
              wanted);
}

TEST(OneRow, Fp8WeightsAndAResidual) {
  const Row row(1160);
  const Weights w(1032, 1160);
  const Row residual(w.n);
  std::vector<double> wanted = w.times(row.values());
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += residual.at(i);
  for_forms([&]<class F>(F) {
    expect_near(
        kernel<scaled_row<kernels::epilogues::Residual, typename F::H, F::kCounted, F::kN, F::kK, In<bf16, dyn, dyn>>>(
            full<bf16>({std::int64_t{1}, w.n}, bf16(777.0f)), row.tensor(), w.tensor(), w.scale_tensor(), i32{1160},
            residual.tensor())
            .sync(),
        wanted, w.sizes(row.values()), kRounding<typename F::H>);
  });
}

/// Rows shorter than one tile, than the tiles that are added in f16, and of a whole number of them.
TEST(OneRow, Fp8WeightsOfAnyLength) {
  for (const i32 k : {1, 8, 128, 512, 520, 1536, 2048, 3584, 4096}) {
    SCOPED_TRACE(k);
    const Row row(k);
    const Weights w(9, k);
    for_forms([&]<class F>(F) {
      expect_near(scaled<F>(row, w), w.times(row.values()), w.sizes(row.values()), kRounding<typename F::H>);
    });
  }
}

/// As expect_near, with errors relative to the size of the products alone.
template <class F>
void expect_scaled(const Row& row, const Weights& w) {
  const std::vector<double> wanted = w.times(row.values()), sizes = w.sizes(row.values());
  const auto found = host(scaled<F>(row, w)).sync();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(static_cast<float>(found[i]), wanted[i],
                std::abs(wanted[i]) / 256 + sizes[i] * std::max(kRounding<typename F::H>, 0x1p-18))
        << i;
}

/// Elements and scales of very different sizes, and the largest weights.
TEST(OneRow, Fp8WeightsOfLargeAndSmallNumbers) {
  constexpr i32 k = 2600;
  for (const auto& [size, scale] : {std::pair{0x1p-120f, 1.0f},
                                    {0x1p-80f, 0x1p100f},
                                    {0x1p-20f, 0x1p-91f},
                                    {1.0f, 0x1p-113f},
                                    {1.0f, 0x1p100f},
                                    {0x1p80f, 1.0f},
                                    {0x1p115f, 0x1p-100f}}) {
    SCOPED_TRACE(testing::Message() << size << " times " << scale);
    Row row(k);
    Weights w(8, k);
    for (std::size_t i = 0; i < row.x.size(); ++i) row.x[i] = bf16(static_cast<float>(row.x[i]) * size);
    for (std::size_t i = 0; i < w.values.size(); i += 3) w.values[i] = f8e4m3(i % 2 == 0 ? 448.0f : -448.0f);
    for (float& s : w.scales) s *= scale;
    for_forms([&]<class F>(F) { expect_scaled<F>(row, w); });
  }
}

/// The largest sums in f16: all elements just below a power of two, all weights 448.
TEST(OneRow, Fp8WeightsWhoseSumsAreTheLargest) {
  constexpr i32 k = 4096;
  Row row(k);
  Weights w(8, k);
  std::fill(row.x.begin(), row.x.end(), bf16(31.875f));
  std::fill(w.values.begin(), w.values.end(), f8e4m3(448.0f));
  std::fill(w.scales.begin(), w.scales.end(), 1.0f);
  for_forms([&]<class F>(F) { expect_scaled<F>(row, w); });
}

/// Elements beside others, with weights of 0, that are 2^19 times as large: they are scaled together, and keep enough
/// bits.
TEST(OneRow, Fp8WeightsBesideLargeElementsThatDoNotCount) {
  constexpr i32 k = 4096;
  Row row(k);
  Weights w(8, k);
  for (i32 i = 0; i < k; ++i) {
    if (i / 512 % 4 != 0) continue;
    row.x[static_cast<std::size_t>(i)] = bf16(0x1p19f);
    for (std::int64_t r = 0; r < w.n; ++r) w.values[static_cast<std::size_t>(r * k + i)] = f8e4m3(0.0f);
  }
  for_forms([&]<class F>(F) { expect_scaled<F>(row, w); });
}

/// What is not finite stays so, in its results only; a row of zeros gives zeros.
TEST(OneRow, Fp8WeightsThatAreNotFinite) {
  constexpr i32 k = 1100;
  const Weights w(9, k);
  for_forms([&]<class F>(F) {
    const auto times = [](const Row& row, const Weights& weights) { return host(scaled<F>(row, weights)).sync(); };
    Row row(k);
    row.x[700] = bf16(std::numeric_limits<float>::quiet_NaN());
    for (const bf16 v : times(row, w)) EXPECT_TRUE(std::isnan(static_cast<float>(v)));
    row.x[700] = bf16(std::numeric_limits<float>::infinity());
    const auto infinite = times(row, w);
    for (std::size_t i = 0; i < infinite.size(); ++i)
      EXPECT_EQ(static_cast<float>(infinite[i]), w.at(static_cast<std::int64_t>(i), 700) > 0 ? HUGE_VALF : -HUGE_VALF);
    Weights one(9, k);
    one.values[2 * k + 700] = f8e4m3(std::numeric_limits<float>::quiet_NaN());
    const auto found = times(Row(k), one);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(static_cast<float>(found[i])), i == 2) << i;
    std::fill(row.x.begin(), row.x.end(), bf16(0.0f));
    for (const bf16 v : times(row, w)) EXPECT_EQ(static_cast<float>(v), 0.0f);
  });
}

/// Random shapes; elements and scales of random magnitudes, so that those which are added in f16 differ by up to 2^36.
TEST(OneRow, Fp8WeightsOfRandomRows) {
  std::mt19937 random(11);
  const auto number = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (unsigned i = 0; i < tessera::test::rounds(12); ++i) {
    const i32 k = number(1, i % 2 == 0 ? 600 : 5000), n = number(1, 40);
    const int spread = number(0, 9);
    SCOPED_TRACE(testing::Message() << "round " << i << ": " << n << " x " << k << ", spread " << spread);
    Row row(k, i);
    Weights w(n, k);
    const auto scaled_by = [&](float x) { return std::ldexp(x, number(-spread, spread)); };
    for (bf16& x : row.x) x = bf16(scaled_by(static_cast<float>(x)));
    for (float& s : w.scales) s = scaled_by(s);
    for_forms([&]<class F>(F) { expect_scaled<F>(row, w); });
  }
}

/// Each of what the kernels require, and the same call with nothing wrong.
TEST(OneRow, Fp8WeightsThatDoNotFitAreErrors) {
  constexpr std::int64_t n = 9, k = 640;
  const auto call = [](std::int64_t rows, std::int64_t results, std::int64_t columns, std::int64_t blocks, i32 length) {
    return kernel<scaled_row<kernels::epilogues::Plain, f16, false, 8, 512>>(
               full<bf16>({rows, results}, bf16(777.0f)), full<bf16>({rows, columns}, bf16(1.0f)),
               full<f8e4m3>({n, k}, f8e4m3(1.0f)), full<f32>({std::int64_t{1}, blocks}, 1.0f), length)
        .sync();
  };
  EXPECT_THROW((void)call(2, n, k, 5, k), ShapeError);
  EXPECT_THROW((void)call(1, n + 1, k, 5, k), ShapeError);
  EXPECT_THROW((void)call(1, n, k - 1, 5, k - 1), ShapeError);
  EXPECT_THROW((void)call(1, n, k, 5, k - 1), ShapeError);
  EXPECT_THROW((void)call(1, n, k, 4, k), ShapeError);
  for (const bf16 v : host(call(1, n, k, 5, k)).sync()) EXPECT_EQ(static_cast<float>(v), 640.0f);
}

TEST(OneRow, Bf16WeightsOfANormedRow) {
  const Row row(1160);
  Weights w(36, 1160);
  std::fill(w.scales.begin(), w.scales.end(), 1.0f);
  std::vector<bf16> values;
  for (const f8e4m3 v : w.values) values.push_back(bf16(static_cast<float>(v)));
  for (const i32 length : {0, 1160})
    expect_near(kernel<normed_rows<false, bf16, bf16, 1, 2, 512, 1>>(full<bf16>({std::int64_t{1}, w.n}, bf16(777.0f)),
                                                                     row.tensor(), row.norm_tensor(),
                                                                     from(values, {w.n, w.k}).sync(), kEpsilon, length)
                    .sync(),
                w.times(row.normed));
}

/// Two rows share the loads of the weights, and each has a norm of its own.
template <bool Gated>
void check_two_rows() {
  const Row row(1160), other(1160, 3);
  Weights w(64, 1160);
  std::fill(w.scales.begin(), w.scales.end(), 1.0f);
  std::vector<bf16> values;
  for (const f8e4m3 v : w.values) values.push_back(bf16(static_cast<float>(v)));
  std::vector<bf16> rows;
  for (const Row* one : {&row, &other}) rows.insert(rows.end(), one->x.begin(), one->x.end());
  const std::int64_t results = Gated ? w.n / 2 : w.n;
  const Tensor<bf16, 2> y =
      kernel<normed_rows<Gated, bf16, bf16, 2, 2, 512, 1>>(full<bf16>({std::int64_t{2}, results}, bf16(777.0f)),
                                                           from(rows, {std::int64_t{2}, w.k}).sync(), row.norm_tensor(),
                                                           from(values, {w.n, w.k}).sync(), kEpsilon, 0)
          .sync();
  for (std::int64_t m = 0; m < 2; ++m) {
    std::vector<double> normed;  // the second row by its own norm, but with the weights of the first
    for (std::size_t i = 0; i < row.x.size(); ++i)
      normed.push_back(m == 0 ? row.normed[i]
                              : other.normed[i] / static_cast<float>(other.norm[i]) * static_cast<float>(row.norm[i]));
    std::vector<double> wanted = w.times(normed);
    if (Gated)
      for (std::size_t i = 0; i < wanted.size() / 2; ++i)
        wanted[i] = wanted[i] / (1 + std::exp(-wanted[i])) * wanted[i + wanted.size() / 2];
    wanted.resize(static_cast<std::size_t>(results));
    expect_near(y.template slice<0>(m, m + 1), wanted);
  }
}
TEST(TwoRows, Bf16Weights) { check_two_rows<false>(); }
TEST(TwoRows, Bf16Gates) { check_two_rows<true>(); }

/// Rows of x, each a Row.
struct SeveralRows {
  SeveralRows(std::int64_t m, std::int64_t k) {
    for (std::int64_t i = 0; i < m; ++i) rows.emplace_back(k, static_cast<unsigned>(i));
  }
  Tensor<bf16, 2> tensor() const {
    std::vector<bf16> all;
    for (const Row& row : rows) all.insert(all.end(), row.x.begin(), row.x.end());
    return from(all, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].x.size())}).sync();
  }
  std::vector<Row> rows;
};

/// silu(gate) * up of a row's norm without a weight.
std::vector<double> gates_of(const Weights& w, const Row& given) {
  std::vector<double> row = given.values(), gates;
  double squares = 0;
  for (const double v : row) squares += v * v;
  for (double& v : row) v /= std::sqrt(squares / static_cast<double>(w.k) + double{kEpsilon});
  const std::vector<double> both = w.times(row);
  for (std::size_t j = 0; j < both.size() / 2; ++j)
    gates.push_back(both[j] / (1 + std::exp(-both[j])) * both[both.size() / 2 + j]);
  return gates;
}

/// Every so many rows. `error`: of what is rounded to bf16 before the last sum.
void expect_rows_near(const Tensor<bf16, 2>& y, std::int64_t every, const std::vector<std::vector<double>>& wanted,
                      double error) {
  const auto found = host(y).sync();
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    for (std::size_t j = 0; j < wanted[r].size(); ++j) {
      const auto i = r * static_cast<std::size_t>(every) * wanted[r].size() + j;
      ASSERT_NEAR(static_cast<float>(found[i]), wanted[r][j], std::abs(wanted[r][j]) / 256 + error) << r << ' ' << j;
    }
  }
}

/// Products with and without the rounding of dequantized weights, in one way for any number of rows, by few and by
/// many.
enum class Way { Dequantized, NotDequantized, OneWay };

Tensor<bf16, 2> product_with(const SeveralRows& x, const Matrix& matrix, const SeveralRows& residual, Way way) {
  Numerics numerics;
  numerics.may_dequantize = way != Way::NotDequantized, numerics.batch_invariant = way == Way::OneWay;
  const auto given = x.tensor(), added = residual.tensor();
  return linear_add(given.view(), matrix, added.view(), numerics).sync();
}

TEST(SeveralFp8Rows, AreMultipliedAsFloat64Does) {
  const Weights w(264, 648);
  const Matrix matrix = w.matrix();
  for (const Way way : {Way::Dequantized, Way::NotDequantized, Way::OneWay}) {
    for (const std::int64_t m : {1, 5, 16, 17, 70, 255, 256, 300}) {
      const SeveralRows x(m, w.k), residual(m, w.n);
      const auto y = product_with(x, matrix, residual, way);
      const std::int64_t every = std::max<std::int64_t>(1, m / 4);
      std::vector<std::vector<double>> wanted;
      for (std::int64_t i = 0; i < m; i += every) {
        wanted.push_back(w.times(x.rows[static_cast<std::size_t>(i)].values()));
        for (std::size_t j = 0; j < wanted.back().size(); ++j)
          wanted.back()[j] += residual.rows[static_cast<std::size_t>(i)].at(j);
      }
      SCOPED_TRACE(testing::Message() << m << " rows, way " << static_cast<int>(way));
      expect_rows_near(y, every, wanted, way == Way::Dequantized && m >= 256 ? 0.02 : 1e-3);
    }
  }
}

TEST(SeveralFp8Rows, DoNotDependOnEachOtherInOneWay) {
  const Weights w(264, 1160);
  const Matrix matrix = w.matrix();
  const auto rows = [&](std::int64_t m) {
    const auto y = product_with(SeveralRows(m, w.k), matrix, SeveralRows(m, w.n), Way::OneWay);
    const auto found = host(y.slice<0>(0, 1)).sync();
    return std::vector<bf16>(found.begin(), found.end());
  };
  const std::vector<bf16> alone = rows(1);
  for (const std::int64_t m : {2, 17, 300}) EXPECT_EQ(rows(m), alone) << m;
}

/// Wide enough for a GPU to accumulate gate and up together, from dequantized weights.
TEST(SeveralFp8Rows, HaveGatesOfManyColumns) {
  const Weights w(std::int64_t{2} * 128 * 90, 256);
  const Matrix matrix = w.matrix();
  const SeveralRows x(300, w.k);
  const auto given = x.tensor();
  const auto weight = ones<bf16>({w.k}).sync();
  Numerics numerics;
  numerics.may_dequantize = true;
  const auto y = normed_gates(given.view(), Norm{weight, kEpsilon}, matrix, numerics).sync();
  expect_rows_near(y, 299, {gates_of(w, x.rows[0]), gates_of(w, x.rows[299])}, 0.06);
}

TEST(SeveralFp8Rows, HaveGatesOfTheirNorm) {
  const Weights w(512, 1160);
  const Matrix matrix = w.matrix();
  for (const std::int64_t m : {1, 5, 300}) {
    const SeveralRows x(m, w.k);
    const auto given = x.tensor();
    const auto weight = ones<bf16>({w.k}).sync();
    Numerics numerics;
    numerics.may_dequantize = true;
    const auto y = normed_gates(given.view(), Norm{weight, kEpsilon}, matrix, numerics).sync();
    const std::int64_t every = std::max<std::int64_t>(1, m / 4);
    std::vector<std::vector<double>> wanted;
    for (std::int64_t i = 0; i < m; i += every) wanted.push_back(gates_of(w, x.rows[static_cast<std::size_t>(i)]));
    SCOPED_TRACE(testing::Message() << m << " rows");
    expect_rows_near(y, every, wanted, 0.06);  // the normalised row, gate and up are rounded
  }
}

/// The tiles that only a GPU takes.
TEST(SeveralFp8Rows, MayHaveTheirColumnsInTheOrderOfMma) {
  const Weights w(264, 1160);
  const SeveralRows x(70, w.k), residual(70, w.n);
  const auto given = x.tensor(), added = residual.tensor();
  std::vector<std::vector<double>> wanted;
  for (std::size_t i = 0; i < x.rows.size(); i += 23) {
    wanted.push_back(w.times(x.rows[i].values()));
    for (std::size_t j = 0; j < wanted.back().size(); ++j) wanted.back()[j] += residual.rows[i].at(j);
  }
  using E = kernels::epilogues::Residual;
  const auto expect_right = [&](const auto& product) {
    const auto y =
        product(full<bf16>({std::int64_t{70}, w.n}, bf16(777.0f)), given, w.tensor(), w.scale_tensor(), added).sync();
    expect_rows_near(y, 23, wanted, 1e-3);
  };
  expect_right(kernel<scaled_rows<E, true, 16, 128, In<bf16, dyn, dyn>>>);
  expect_right(kernel<scaled_rows<E, true, 16, 32, In<bf16, dyn, dyn>>>);
  expect_right(kernel<scaled_rows<E, true, 64, 128, In<bf16, dyn, dyn>>>);
}

}  // namespace THIS_FILE
}  // namespace mortar
