// Gradients of norms and softmax, and cross entropy with its gradient, against f64. The references are compared with
// finite differences.
#include <functional>
#include <random>

#include "kernels/support.hpp"
#include "tessera/kernels/cross_entropy.hpp"
#include "tessera/kernels/norm_backward.hpp"
#include "tessera/kernels/softmax_backward.hpp"

namespace tessera::kernels {
namespace THIS_FILE {

using Values = std::vector<double>;

/// A function of a row in f64, with parameters that all rows share: its result, and gradients.
struct RowFunction {
  /// The results of a row.
  std::function<Values(const Values& row, const Values& weight)> forward;
  /// The gradient for the row; adds those for the weights.
  std::function<Values(const Values& dy, const Values& row, const Values& weight, Values& d_weight)> backward;
};
double dot(const Values& a, const Values& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}
Values normed(const Values& row, bool layer, double eps, double* scale) {
  const auto n = static_cast<double>(row.size());
  double mean = 0, squares = 0;
  if (layer)
    for (const double x : row) mean += x / n;
  for (const double x : row) squares += (x - mean) * (x - mean) / n;
  *scale = 1 / std::sqrt(squares + eps);
  Values t;
  for (const double x : row) t.push_back((x - mean) * *scale);
  return t;
}
RowFunction norm_of(bool layer, double eps) {
  return {[=](const Values& row, const Values& weight) {
            double scale = 0;
            Values t = normed(row, layer, eps, &scale);
            for (std::size_t i = 0; i < t.size(); ++i) t[i] *= weight[i];
            return t;
          },
          [=](const Values& dy, const Values& row, const Values& weight, Values& d_weight) {
            double scale = 0;
            const Values t = normed(row, layer, eps, &scale);
            const auto n = static_cast<double>(row.size());
            Values g(dy);
            double a = 0, b = 0;
            for (std::size_t i = 0; i < t.size(); ++i) {
              d_weight[i] += dy[i] * t[i];
              g[i] *= weight[i];
              a += layer ? g[i] / n : 0;
              b += g[i] * t[i] / n;
            }
            for (std::size_t i = 0; i < t.size(); ++i) g[i] = (g[i] - a - t[i] * b) * scale;
            return g;
          }};
}
Values softmax_values(const Values& row, bool log) {
  const double top = *std::max_element(row.begin(), row.end());
  double total = 0;
  for (const double x : row) total += std::exp(x - top);
  Values y;
  for (const double x : row) y.push_back(log ? x - top - std::log(total) : std::exp(x - top) / total);
  return y;
}
RowFunction softmax_function(bool log) {
  return {[=](const Values& row, const Values&) { return softmax_values(row, log); },
          [=](const Values& dy, const Values& row, const Values&, Values&) {
            const Values y = softmax_values(row, log);
            double total = 0;
            for (std::size_t i = 0; i < y.size(); ++i) total += log ? dy[i] : dy[i] * y[i];
            Values dx;
            for (std::size_t i = 0; i < y.size(); ++i)
              dx.push_back(log ? dy[i] - std::exp(y[i]) * total : y[i] * (dy[i] - total));
            return dx;
          }};
}
/// One loss per row; weight[0] is the class.
RowFunction entropy_function(double smoothing) {
  return {[=](const Values& row, const Values& weight) {
            const Values y = softmax_values(row, true);
            double loss = -(1 - smoothing) * y[static_cast<std::size_t>(weight[0])];
            for (const double v : y) loss -= smoothing * v / static_cast<double>(y.size());
            return Values{loss};
          },
          [=](const Values& dy, const Values& row, const Values& weight, Values&) {
            Values dx = softmax_values(row, false);
            for (std::size_t i = 0; i < dx.size(); ++i)
              dx[i] = dy[0] * (dx[i] - smoothing / static_cast<double>(dx.size()) -
                               (i == static_cast<std::size_t>(weight[0]) ? 1 - smoothing : 0));
            return dx;
          }};
}

TEST(RowGradients, ReferencesAgreeWithFiniteDifferences) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  const auto made = [&](std::size_t n) {
    Values x(n);
    for (double& e : x) e = normal(random);
    return x;
  };
  const auto check = [&](const RowFunction& f, Values weight) {
    Values row = made(7);
    const Values dy = made(f.forward(row, weight).size());
    Values d_weight(7, 0.0);
    const Values dx = f.backward(dy, row, weight, d_weight);
    const auto difference = [&](double& x) {
      constexpr double kStep = 1e-5;
      const double before = x;
      x = before + kStep;
      const double above = dot(dy, f.forward(row, weight));
      x = before - kStep;
      const double below = dot(dy, f.forward(row, weight));
      x = before;
      return (above - below) / (2 * kStep);
    };
    for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(difference(row[i]), dx[i], 1e-7);
    if (weight.size() == 7) {
      for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(difference(weight[i]), d_weight[i], 1e-7);
    }
  };
  for (const bool flag : {false, true}) {
    check(norm_of(flag, 1e-3), made(7));
    check(softmax_function(flag), {});
    check(entropy_function(flag ? 0.1 : 0), {3});
  }
}

/// The rows of `flat` one by one.
Values row_of(const Values& flat, std::int64_t i, std::int64_t n) {
  return {flat.begin() + i * n, flat.begin() + (i + 1) * n};
}

template <class T, class W = T>
void check_norms(std::int64_t rows, std::int64_t n, double mean = 0) {
  SCOPED_TRACE(concat(rows, "x", n));
  constexpr float eps = 1e-5f;
  Values values = doubles(random_tensor<T>({rows, n}, 1));
  for (double& v : values) v += mean;
  const auto x = cast<T>(from(values, Dims<2>(rows, n))).sync();
  const auto dy = random_tensor<T>({rows, n}, 2);
  const auto weight = random_tensor<W>({n}, 3);
  const Values hx = doubles(x), hy = doubles(dy), hw = doubles(weight);
  for (const bool layer : {false, true}) {
    const RowFunction f = norm_of(layer, static_cast<double>(eps));
    Values want, want_weight(static_cast<std::size_t>(n), 0.0), want_bias(static_cast<std::size_t>(n), 0.0);
    for (std::int64_t i = 0; i < rows; ++i) {
      const Values g = row_of(hy, i, n), dx = f.backward(g, row_of(hx, i, n), hw, want_weight);
      want.insert(want.end(), dx.begin(), dx.end());
      for (std::size_t j = 0; j < g.size(); ++j) want_bias[j] += g[j];
    }
    const double growth = 10 * (1 + mean * mean);
    if (layer) {
      const auto [dx, d_weight, d_bias] = layer_norm_backward(dy, x, weight, eps).sync();
      EXPECT_LE(relative_error(doubles(dx), want), tolerance<T>(growth));
      EXPECT_LE(relative_error(doubles(d_weight), want_weight), tolerance<W>(growth));
      EXPECT_LE(relative_error(doubles(d_bias), want_bias), tolerance<W>(growth));
    } else {
      const auto [dx, d_weight] = rms_norm_backward(dy, x, weight, eps).sync();
      EXPECT_LE(relative_error(doubles(dx), want), tolerance<T>(growth));
      EXPECT_LE(relative_error(doubles(d_weight), want_weight), tolerance<W>(growth));
    }
  }
}
TEST(RowGradients, Norms) {
  check_norms<f32>(5, 100);
  check_norms<bf16, f32>(37, 777);
  check_norms<f16>(1, 64);
  check_norms<f32>(20, 130, 3);
  check_norms<bf16>(2, 1);
  check_norms<f32>(9, 8193);  // in chunks
  check_norms<bf16, f32>(10, 9000, 3);
  check_norms<f32>(8300, 3);  // more rows to a block
  const auto [dx, d_weight, d_bias] =
      layer_norm_backward(random_tensor<f32>({2, 3, 70}, 1), random_tensor<f32>({2, 3, 70}, 2),
                          random_tensor<f32>({70}, 3))
          .sync();
  EXPECT_EQ(dx.dims(), Dims(2, 3, 70));
}
TEST(RowGradients, NormsOfNoRowsHaveNoGradientForTheWeights) {
  const auto [dx, d_weight, d_bias] =
      layer_norm_backward(random_tensor<f32>({0, 70}, 1), random_tensor<f32>({0, 70}, 2), random_tensor<f32>({70}, 3))
          .sync();
  EXPECT_EQ(doubles(d_weight), Values(70, 0.0));
  EXPECT_EQ(doubles(d_bias), Values(70, 0.0));
}

template <class T>
void check_softmax(std::int64_t rows, std::int64_t n) {
  SCOPED_TRACE(concat(rows, "x", n));
  const auto dy = random_tensor<T>({rows, n}, 2);
  const Values hx = doubles(random_tensor<f32>({rows, n}, 1)), hy = doubles(dy);
  for (const bool log : {false, true}) {
    Values y, want, none;
    for (std::int64_t i = 0; i < rows; ++i) {
      const Values row = softmax_values(row_of(hx, i, n), log);
      y.insert(y.end(), row.begin(), row.end());
    }
    const auto result = cast<T>(from(y, Dims<2>(rows, n))).sync();
    const Values rounded = doubles(result);
    for (std::int64_t i = 0; i < rows; ++i) {  // of the rounded results
      const Values p = row_of(rounded, i, n), g = row_of(hy, i, n);
      double total = 0;
      for (std::size_t j = 0; j < p.size(); ++j) total += log ? g[j] : g[j] * p[j];
      for (std::size_t j = 0; j < p.size(); ++j)
        want.push_back(log ? g[j] - std::exp(p[j]) * total : p[j] * (g[j] - total));
    }
    const auto dx = log ? log_softmax_backward(dy, result).sync() : softmax_backward(dy, result).sync();
    EXPECT_LE(relative_error(doubles(dx), want), tolerance<T>(20)) << log;
  }
}
TEST(RowGradients, Softmax) {
  check_softmax<f32>(3, 100);
  check_softmax<bf16>(5, 1023);
  check_softmax<f16>(2, 8192);
  check_softmax<bf16>(2, 9001);
  check_softmax<f64>(2, 70);
  const auto y = random_tensor<f32>({2, 3, 4}, 1);
  EXPECT_EQ(softmax_backward(y, y).sync().dims(), Dims(2, 3, 4));
  EXPECT_ERROR(ShapeError, (void)softmax_backward(random_tensor<f32>({2, 3, 5}, 1), y), "argument dy");
}

template <class T, class I>
void check_entropy(std::int64_t rows, std::int64_t n, float smoothing) {
  SCOPED_TRACE(concat(rows, "x", n, " ", smoothing));
  const auto logits = random_tensor<T>({rows, n}, 1, 3);
  const auto g = random_tensor<f32>({rows}, 2);
  std::vector<I> targets;
  std::mt19937 random(3);
  for (std::int64_t i = 0; i < rows; ++i)
    targets.push_back(i % 4 == 1 ? I{-7} : static_cast<I>(random() % static_cast<unsigned>(n)));
  const auto wanted = from(targets, Dims<1>(rows)).sync();
  const CrossEntropyOptions options{-7, smoothing};
  const auto [losses, lse] = cross_entropy(logits, wanted, options).sync();
  const auto dx = cross_entropy_backward(g, logits, wanted, lse, options).sync();
  const Values hx = doubles(logits), hg = doubles(g);
  const RowFunction f = entropy_function(static_cast<double>(smoothing));
  Values want, want_dx, none;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool ignored = targets[at] == -7;
    const Values row = row_of(hx, i, n), target{ignored ? 0.0 : static_cast<double>(targets[at])};
    want.push_back(ignored ? 0.0 : f.forward(row, target)[0]);
    const Values d = ignored ? Values(row.size(), 0.0) : f.backward({hg[at]}, row, target, none);
    want_dx.insert(want_dx.end(), d.begin(), d.end());
  }
  EXPECT_LE(relative_error(doubles(losses), want), 1e-5);
  EXPECT_LE(relative_error(doubles(dx), want_dx), tolerance<T>(20));
}
TEST(CrossEntropy, LossesAndGradients) {
  check_entropy<f32, i64>(9, 100, 0);
  check_entropy<bf16, i32>(13, 1000, 0.1f);
  check_entropy<f16, i64>(6, 5000, 0);
  check_entropy<bf16, i64>(5, 9001, 0.3f);
  check_entropy<f32, i32>(3, 1, 0);
}
TEST(CrossEntropy, ShortRowsShareABlock) {
  for (const std::int64_t n : {1, 31, 128, 500}) {
    check_entropy<bf16, i64>(4099, n, 0);
    if (n > 1) check_entropy<f32, i32>(4096, n, 0.2f);  // of one class all losses are 0
  }
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  std::vector<float> v(5000 * 3, -kInfinite);
  v[3] = 1, v[4] = kInfinite, v[6] = std::numeric_limits<float>::quiet_NaN();
  const auto many = from(v, Dims<2>(5000, 3)).sync(),
             few = from(std::vector<float>(v.begin(), v.begin() + 9), Dims<2>(3, 3)).sync();
  const auto targets = zeros<i32>({5000}).sync(), first = zeros<i32>({3}).sync();
  const auto [losses, lse] = cross_entropy(many, targets).sync();
  const auto [few_losses, few_lse] = cross_entropy(few, first).sync();
  for (const auto& [shared, alone] :
       {std::pair{doubles(losses), doubles(few_losses)}, {doubles(lse), doubles(few_lse)}})
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(shared[i] == alone[i] || (shared[i] != shared[i] && alone[i] != alone[i]))
          << i << ": " << shared[i] << ", alone " << alone[i];
}
TEST(CrossEntropy, TargetsThatAreNoClass) {
  const auto logits = random_tensor<f32>({3, 5}, 1);
  const auto targets = from(std::vector<i32>{5, 2, -1}, Dims<1>(3)).sync();
  const auto [losses, lse] = cross_entropy(logits, targets).sync();
  const auto dx = cross_entropy_backward(full<f32>({3}, 1.0f).sync(), logits, targets, lse).sync();
  const Values l = doubles(losses), d = doubles(dx);
  EXPECT_TRUE(std::isnan(l[0]) && std::isfinite(l[1]) && std::isnan(l[2]));
  EXPECT_TRUE(std::isnan(d[0]) && std::isfinite(d[5]) && std::isnan(d[10]));
}
TEST(CrossEntropy, ShapesThatDoNotFit) {
  const auto logits = random_tensor<f32>({3, 5}, 1);
  const auto targets = from(std::vector<i32>{0, 1, 2}, Dims<1>(3)).sync(),
             fewer = from(std::vector<i32>{0, 1}, Dims<1>(2)).sync();
  const auto [losses, lse] = cross_entropy(logits, targets).sync();
  EXPECT_ERROR(ShapeError, (void)cross_entropy(logits, fewer),
               "argument targets has the extents [2]: axis 0 must be 3");
  EXPECT_ERROR(ShapeError, (void)cross_entropy(logits, targets, {.label_smoothing = 1.5f}), "it must be 0 to 1");
  EXPECT_ERROR(ShapeError, (void)cross_entropy(logits, targets, {.ignore_index = 1LL << 40}), "does not fit");
  EXPECT_ERROR(ShapeError, (void)cross_entropy_backward(random_tensor<f32>({2}, 1), logits, targets, lse), "d_losses");
  EXPECT_EQ(cross_entropy_backward(losses, logits, targets, lse).sync().dims(), Dims(3, 5));
}

}  // namespace THIS_FILE
}  // namespace tessera::kernels
