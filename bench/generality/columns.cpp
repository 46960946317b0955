// Along another axis than the last: extremes, variances and softmax of columns, a norm of each pixel's channels.
#include <cmath>
#include <limits>
#include <vector>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

template <int R, int C>
void column_argmin(Mut<i32, C> y, In<i32, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>, pad(std::numeric_limits<i32>::max()));
  auto [column] = y.index();
  auto best = full<i32, 1, C>(std::numeric_limits<i32>::max());
  auto place = zeros<i32, 1, C>();
  for (auto k : range(X.count(0))) {
    auto [value, index] = argmin(X.load(k, column), axis<0>);
    place = where(value < best, index + k * R, place);
    best = min(best, value);
  }
  y.store(reshape(place, shape<C>));
}

template <int R, int C>
void column_variance(Mut<f32, C> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>);
  auto [column] = y.index();
  auto n = cast<f32>(x.dim(0));
  auto mean = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) mean += sum(X.load(k, column), axis<0>);
  mean = mean / n;
  auto total = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) {
    auto rows = iota<i32, R, 1>(axis<0>) + k * R;
    auto d = where(rows < x.dim(0), X.load(k, column) - mean, 0.0f);
    total += sum(d * d, axis<0>);
  }
  y.store(reshape(total / n, shape<C>));
}

template <int N, int C>
void softmax_columns(Mut<f32, N, C> y, In<f32, dyn, dyn> x) {
  require(x.dim(0) <= N, "a column must fit in one piece");
  auto t = x.load_like(y, pad::neg_inf);
  t = exp(t - max(t, axis<0>));
  y.store(t / sum(t, axis<0>));
}

/// Layer norm of the channels of each pixel: image, channel, row, column.
template <int N, int B>
void channel_norm(Mut<f32, 1, N, 1, B> y, In<f32, dyn, dyn, dyn, dyn> x, In<f32, dyn> weight, In<f32, dyn> bias) {
  require(x.dim(1) <= N, "all channels must fit in one piece");
  auto n = cast<f32>(x.dim(1));
  auto t = x.load_like(y);
  auto mean = sum(t, axis<1>) / n;
  auto d = where(iota<i32, 1, N, 1, 1>(axis<1>) < x.dim(1), t - mean, 0.0f);
  auto variance = sum(d * d, axis<1>) / n;
  y.store(d * rsqrt(variance + kRowEps) * weight.load_like(y, axes<1>) + bias.load_like(y, axes<1>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan column_argmin_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = whole<i32>(1, -1000000000, 1000000000, rows, columns);
  const auto wanted = [=](Size j) {
    Size place = 0;
    for (Size i = 1; i < rows; ++i) place = x(i, j) < x(place, j) ? i : place;
    return static_cast<double>(place);
  };
  return plan({bytes_of<i32>(rows * columns)}, outputs(by_offset<i32>(wanted, columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<column_argmin<32, 128>>(mut(y), from).on(on); });
}

Plan column_variance_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size j) {
    double mean = 0, total = 0;
    for (Size i = 0; i < rows; ++i) mean += x(i, j) / static_cast<double>(rows);
    for (Size i = 0; i < rows; ++i) total += (x(i, j) - mean) * (x(i, j) - mean);
    return total / static_cast<double>(rows);
  };
  return plan(
      {bytes_of<f32>(rows * columns)}, outputs(by_offset<f32>(wanted, columns).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<column_variance<32, 128>>(mut(y), from).on(on); });
}

Plan softmax_columns_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size i) -> Line {
    return [=](Size j) {
      double total = 0;
      for (Size k = 0; k < rows; ++k) total += std::exp(x(k, j));
      return std::exp(x(i, j)) / total;
    };
  };
  return plan(
      {2 * bytes_of<f32>(rows * columns)}, outputs(output<f32>(wanted, rows, columns)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<softmax_columns<1024, 8>>(mut(y), from).on(on); });
}

Plan channel_norm_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels"),
             n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, channels, n, n);
  const auto weight = normal<f32>(2, channels), bias = normal<f32>(3, channels);
  const auto wanted = [=](Size at) {
    const Size j = at % n, i = at / n % n, c = at / n / n % channels, image = at / n / n / channels;
    std::vector<double> v;
    for (Size k = 0; k < channels; ++k) v.push_back(x(image, k, i, j));
    return normed_of(v, true)[static_cast<std::size_t>(c)] * weight(c) + bias(c);
  };
  return plan({2 * bytes_of<f32>(images * channels * n * n)}, outputs(by_offset<f32>(wanted, images, channels, n, n)),
              inputs(x, weight, bias), [](const Stream& on, auto& y, const auto&... in) {
                kernel<channel_norm<128, 64>>(mut(y), in...).on(on);
              });
}

}  // namespace

std::vector<Entry> column_entries() {
  return {
      entry<column_argmin_plan>("column_argmin", "columns",
                                "rows=16384 columns=16000; rows=100001 columns=1500; rows=777 columns=100003",
                                "rows=128 columns=256; rows=99 columns=200"),
      entry<column_variance_plan>("column_variance", "columns",
                                  "rows=16384 columns=16000; rows=100001 columns=1500; rows=777 columns=100003",
                                  "rows=128 columns=256; rows=99 columns=200"),
      entry<softmax_columns_plan>("softmax_columns", "columns",
                                  "rows=1000 columns=65536; rows=777 columns=50001; rows=333 columns=100003",
                                  "rows=1000 columns=16; rows=333 columns=13"),
      entry<channel_norm_plan>("channel_norm", "norms",
                               "images=32 channels=96 n=128; images=100 channels=80 n=97; images=9 channels=67 n=211",
                               "images=1 channels=96 n=64; images=2 channels=40 n=11")};
}

}  // namespace generality
