// Along the first axis of large matrices, with exponentials and logarithms: a block has some columns and goes through
// the rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kMost = 1 << 24;  // rows of a piece that is walked through

template <int R, int C>
void column_log_sum_exp(Mut<f32, C> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>, pad::neg_inf);
  auto [column] = y.index();
  auto m = full<f32, 1, C>(-1e30f), l = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) {
    auto t = X.load(k, column);
    auto top = max(m, max(t, axis<0>));
    l = l * exp(m - top) + sum(exp(t - top), axis<0>);
    m = top;
  }
  y.store(reshape(m + log(l), shape<C>));
}

/// Softmax of columns of any length: once through the rows for the sum, and once more to write.
template <int R, int C>
void long_softmax_columns(Mut<bf16, kMost, C> y, In<bf16, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>, pad::neg_inf);
  auto [zero, column] = y.index();
  auto parts = y.sub(shape<R, C>);
  auto m = full<f32, 1, C>(-1e30f), l = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) {
    auto t = cast<f32>(X.load(k, column));
    auto top = max(m, max(t, axis<0>));
    l = l * exp(m - top) + sum(exp(t - top), axis<0>);
    m = top;
  }
  for (auto k : range(X.count(0))) parts.store(k, 0, cast<bf16>(exp(cast<f32>(X.load(k, column)) - m) / l));
}

/// The entropy of each column's distribution: -sum p log p.
template <int R, int C>
void column_entropy(Mut<f32, C> y, In<f32, dyn, dyn> p) {
  auto P = p.tiles(shape<R, C>, pad(1.0f));
  auto [column] = y.index();
  auto total = zeros<f32, 1, C>();
  for (auto k : range(P.count(0))) {
    auto t = P.load(k, column);
    total -= sum(t * log(t), axis<0>);
  }
  y.store(reshape(total, shape<C>));
}

template <int R, int C>
void column_lengths(Mut<f64, C> y, In<f64, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>);
  auto [column] = y.index();
  auto total = zeros<f64, 1, C>();
  for (auto k : range(X.count(0))) {
    auto t = X.load(k, column);
    total += sum(t * t, axis<0>);
  }
  y.store(reshape(sqrt(total), shape<C>));
}

/// Geometric means of positive numbers.
template <int R, int C>
void column_geometric_mean(Mut<f32, C> y, In<f16, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>, pad(1.0f));
  auto [column] = y.index();
  auto total = zeros<f32, R, C>();
  for (auto k : range(X.count(0))) total += log(cast<f32>(X.load(k, column)));
  y.store(reshape(exp(sum(total, axis<0>) / cast<f32>(x.dim(0))), shape<C>));
}

/// How likely each column is to be on: the mean of sigmoids.
template <int R, int C>
void column_sigmoid_means(Mut<f32, C> y, In<bf16, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>, pad::neg_inf);
  auto [column] = y.index();
  auto total = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) total += sum(1.0f / (1.0f + exp(-cast<f32>(X.load(k, column)))), axis<0>);
  y.store(reshape(total / cast<f32>(x.dim(0)), shape<C>));
}

/// The mean of the rows, weighted by a softmax of their scores: batch, row, column.
template <int R, int C>
void attention_pool(Mut<f32, 1, C> y, In<bf16, dyn, dyn, dyn> x, In<f32, dyn, dyn> scores) {
  auto X = x.tiles(shape<1, R, C>);
  auto S = scores.tiles(shape<1, R>, pad::neg_inf);
  auto [batch, column] = y.index();
  auto m = full<f32, 1, 1>(-1e30f), l = zeros<f32, 1, 1>();
  auto total = zeros<f32, 1, C>();
  for (auto k : range(X.count(1))) {
    auto s = reshape(S.load(batch, k), shape<R, 1>);
    auto top = max(m, max(s, axis<0>));
    auto w = exp(s - top);
    auto less = exp(m - top);
    l = l * less + sum(w, axis<0>);
    total = total * less + sum(w * cast<f32>(reshape(X.load(batch, k, column), shape<R, C>)), axis<0>);
    m = top;
  }
  y.store(total / l);
}

/// What softmax of columns gives back: y (dy - sum of y dy).
template <int R, int C>
void softmax_columns_gradient(Mut<f32, kMost, C> dx, In<f32, dyn, dyn> y, In<f32, dyn, dyn> dy) {
  auto Y = y.tiles(shape<R, C>), D = dy.tiles(shape<R, C>);
  auto [zero, column] = dx.index();
  auto parts = dx.sub(shape<R, C>);
  auto total = zeros<f32, 1, C>();
  for (auto k : range(Y.count(0))) total += sum(Y.load(k, column) * D.load(k, column), axis<0>);
  for (auto k : range(Y.count(0))) parts.store(k, 0, Y.load(k, column) * (D.load(k, column) - total));
}

// -- the cases --------------------------------------------------------------------------------------------------------

struct Matrix {
  Size rows, columns;
  explicit Matrix(const Args& args) : rows(size_of_case(args, "rows")), columns(size_of_case(args, "columns")) {}
  /// The bytes of `count` matrices.
  template <class T>
  Cost cost(double count) const {
    return {count * bytes_of<T>(rows * columns)};
  }
};

/// log sum exp of column j.
template <class T>
double log_total(const Input<T, 2>& x, Size j) {
  return std::log(sum_over(x.dims[0], [&](Size i) { return std::exp(x(i, j)); }));  // normal numbers: no overflow
}

Plan column_log_sum_exp_plan(const Args& args) {
  const Matrix p(args);
  const auto x = normal<f32>(1, p.rows, p.columns);
  return plan(
      p.cost<f32>(1), outputs(by_offset<f32>([=](Size j) { return log_total(x, j); }, p.columns)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<column_log_sum_exp<32, 128>>(mut(y), from).on(on); });
}

Plan long_softmax_columns_plan(const Args& args) {
  const Matrix p(args);
  const auto x = normal<bf16>(1, p.rows, p.columns);
  auto totals = std::make_shared<std::vector<double>>(static_cast<std::size_t>(p.columns), NAN);
  const auto wanted = [=](Size at) {
    double& total = (*totals)[static_cast<std::size_t>(at % p.columns)];
    if (std::isnan(total)) total = log_total(x, at % p.columns);
    return std::exp(x.at(at) - total);
  };
  return plan(
      p.cost<bf16>(3), outputs(by_offset<bf16>(wanted, p.rows, p.columns)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<long_softmax_columns<32, 64>>(mut(y), from).on(on); });
}

Plan column_entropy_plan(const Args& args) {
  const Matrix p(args);
  const auto x = uniform<f32>(1, 0.001, 1, p.rows, p.columns);
  const auto wanted = [=](Size j) { return -sum_over(p.rows, [=](Size i) { return x(i, j) * std::log(x(i, j)); }); };
  return plan(p.cost<f32>(1), outputs(by_offset<f32>(wanted, p.columns).within(1e-4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<column_entropy<64, 64>>(mut(y), from).on(on); });
}

Plan column_lengths_plan(const Args& args) {
  const Matrix p(args);
  const auto x = normal<f64>(1, p.rows, p.columns);
  const auto wanted = [=](Size j) { return std::sqrt(sum_over(p.rows, [=](Size i) { return x(i, j) * x(i, j); })); };
  return plan(p.cost<f64>(1), outputs(by_offset<f64>(wanted, p.columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<column_lengths<32, 64>>(mut(y), from).on(on); });
}

Plan column_geometric_mean_plan(const Args& args) {
  const Matrix p(args);
  const auto x = uniform<f16>(1, 0.5, 4, p.rows, p.columns);
  const auto wanted = [=](Size j) {
    return std::exp(sum_over(p.rows, [=](Size i) { return std::log(x(i, j)); }) / static_cast<double>(p.rows));
  };
  return plan(
      p.cost<f16>(1), outputs(by_offset<f32>(wanted, p.columns).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<column_geometric_mean<16, 256>>(mut(y), from).on(on); });
}

Plan column_sigmoid_means_plan(const Args& args) {
  const Matrix p(args);
  const auto x = normal<bf16>(1, p.rows, p.columns);
  const auto wanted = [=](Size j) {
    return sum_over(p.rows, [=](Size i) { return 1 / (1 + std::exp(-x(i, j))); }) / static_cast<double>(p.rows);
  };
  return plan(
      p.cost<bf16>(1), outputs(by_offset<f32>(wanted, p.columns).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<column_sigmoid_means<64, 128>>(mut(y), from).on(on); });
}

Plan attention_pool_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), rows = size_of_case(args, "rows"),
             columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, batch, rows, columns);
  const auto scores = normal<f32>(2, batch, rows);
  const auto wanted = [=](Size at) {
    const Size b = at / columns, j = at % columns;
    const auto weight = [=](Size i) { return std::exp(scores(b, i)); };
    return sum_over(rows, [=](Size i) { return weight(i) * x(b, i, j); }) / sum_over(rows, weight);
  };
  return plan({bytes_of<bf16>(batch * rows * columns)}, outputs(by_offset<f32>(wanted, batch, columns).within(1e-4)),
              inputs(x, scores), [](const Stream& on, auto& y, const auto&... in) {
                kernel<attention_pool<64, 64>>(mut(y), in...).on(on);
              });
}

Plan softmax_columns_gradient_plan(const Args& args) {
  const Matrix p(args);
  const auto y = uniform<f32>(1, 0, 0.01, p.rows, p.columns), dy = normal<f32>(2, p.rows, p.columns);
  auto totals = std::make_shared<std::vector<double>>(static_cast<std::size_t>(p.columns), NAN);
  const auto wanted = [=](Size at) {
    const Size j = at % p.columns;
    double& total = (*totals)[static_cast<std::size_t>(j)];
    if (std::isnan(total)) total = sum_over(p.rows, [=](Size i) { return y(i, j) * dy(i, j); });
    return y.at(at) * (dy.at(at) - total);
  };
  return plan(p.cost<f32>(5), outputs(by_offset<f32>(wanted, p.rows, p.columns).within(1e-4)), inputs(y, dy),
              [](const Stream& on, auto& dx, const auto&... in) {
                kernel<softmax_columns_gradient<32, 64>>(mut(dx), in...).on(on);
              });
}

}  // namespace

std::vector<Entry> first_axis_entries() {
  return {
      entry<column_log_sum_exp_plan>("column_log_sum_exp", "columns",
                                     "rows=8192 columns=32768; rows=3001 columns=50007; rows=20011 columns=5003",
                                     "rows=96 columns=256; rows=77 columns=201"),
      entry<long_softmax_columns_plan>("long_softmax_columns", "columns",
                                       "rows=8192 columns=16384; rows=3001 columns=50007; rows=10007 columns=9001",
                                       "rows=96 columns=128; rows=77 columns=101"),
      entry<column_entropy_plan>("column_entropy", "columns",
                                 "rows=8192 columns=16384; rows=3001 columns=30001; rows=10007 columns=9002",
                                 "rows=128 columns=128; rows=77 columns=101"),
      entry<column_lengths_plan>("column_lengths", "columns",
                                 "rows=8192 columns=16384; rows=3001 columns=30001; rows=10007 columns=9001",
                                 "rows=96 columns=128; rows=77 columns=101"),
      entry<column_geometric_mean_plan>("column_geometric_mean", "columns",
                                        "rows=8192 columns=65536; rows=3001 columns=100003; rows=5003 columns=33000",
                                        "rows=96 columns=256; rows=77 columns=301"),
      entry<column_sigmoid_means_plan>("column_sigmoid_means", "columns",
                                       "rows=16384 columns=16384; rows=3001 columns=50007; rows=20011 columns=9001",
                                       "rows=128 columns=256; rows=77 columns=201"),
      entry<attention_pool_plan>(
          "attention_pool", "columns",
          "batch=64 rows=4096 columns=1024; batch=301 rows=777 columns=1001; batch=20 rows=5003 columns=2000",
          "batch=2 rows=128 columns=128; batch=3 rows=77 columns=101"),
      entry<softmax_columns_gradient_plan>("softmax_columns_gradient", "gradients",
                                           "rows=4096 columns=16384; rows=1501 columns=50007; rows=7001 columns=9001",
                                           "rows=96 columns=128; rows=77 columns=101")};
}

}  // namespace generality
