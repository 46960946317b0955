// More of rows: gradients of softmax and layer norm, masks, a residual before a norm, group norm, scans.
#include <algorithm>
#include <cmath>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

constexpr int kGroup = 8, kPlaces = 1024;  // of group_norm's pieces

template <int N>
void softmax_gradient(Mut<bf16, 1, N> dx, In<bf16, dyn, dyn> y, In<bf16, dyn, dyn> dy) {
  require(y.dim(1) <= N, "a row must fit in one piece");
  auto p = cast<f32>(y.load_like(dx)), g = cast<f32>(dy.load_like(dx));
  dx.store(cast<bf16>(p * (g - sum(p * g, axis<1>))));
}

template <int N>
void layer_norm_gradient(Mut<bf16, 1, N> dx, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> dy, In<bf16, dyn> weight,
                         In<f32, dyn> mean, In<f32, dyn> rstd) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto n = cast<f32>(x.dim(1));
  auto scale = rstd.load_like(dx, axes<0>);
  auto normed = (cast<f32>(x.load_like(dx)) - mean.load_like(dx, axes<0>)) * scale;
  auto g = cast<f32>(dy.load_like(dx)) * cast<f32>(weight.load_like(dx, axes<1>));
  auto a = sum(g, axis<1>) / n, b = sum(g * normed, axis<1>) / n;
  dx.store(cast<bf16>((g - a - normed * b) * scale));
}

template <int N>
void masked_softmax(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bool, dyn, dyn> mask) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = where(mask.load_like(y), cast<f32>(x.load_like(y)), -infinity<f32>);
  t = exp(t - max(t, axis<1>));
  y.store(cast<bf16>(t / sum(t, axis<1>)));
}

template <int N>
void add_rms_norm(Mut<bf16, 1, N> y, Mut<bf16, 1, N> total, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> residual,
                  In<bf16, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto h = cast<f32>(residual.load_like(y)) + cast<f32>(x.load_like(y));
  total.store(cast<bf16>(h));
  auto scale = rsqrt(sum(h * h, axis<1>) / cast<f32>(x.dim(1)) + eps);
  y.store(cast<bf16>(h * scale * cast<f32>(weight.load_like(y, axes<1>))));
}

/// x as batch, group, channel of the group, place: one group a piece.
template <int C, int N>
void group_norm(Mut<f32, 1, 1, C, N> y, In<f32, dyn, dyn, dyn, dyn> x, In<f32, dyn, dyn> weight, In<f32, dyn, dyn> bias,
                Scalar<f32> eps) {
  require(x.dim(2) == C && x.dim(3) == N, "a group must be one piece");
  auto t = x.load_like(y);
  auto d = t - sum(t) / static_cast<float>(C * N);
  auto scale = rsqrt(sum(d * d) / static_cast<float>(C * N) + eps);
  y.store(d * scale * weight.load_like(y, axes<1, 2>) + bias.load_like(y, axes<1, 2>));
}

template <int N>
void prefix_sum(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  y.store(scan(x.load_like(y), axis<1>, 0.0f, [](auto a, auto b) { return a + b; }));
}

template <int N>
void running_max(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  y.store(scan(x.load_like(y), axis<1>, -infinity<f32>, [](auto a, auto b) { return max(a, b); }));
}

/// A token sees those before it, itself, and the prefix of its sequence.
template <int N>
void prefix_softmax(Mut<bf16, 1, 1, N> y, In<bf16, dyn, dyn, dyn> x, In<i32, dyn> prefix) {
  require(x.dim(2) <= N, "a row must fit in one piece");
  auto [batch, row, zero] = y.index();
  auto column = iota<i32, 1, 1, N>(axis<2>);
  auto seen = column <= row || column < prefix.gather(batch);
  auto t = where(seen, cast<f32>(x.load_like(y, pad::neg_inf)), -infinity<f32>);
  t = exp(t - max(t, axis<2>));
  y.store(cast<bf16>(t / sum(t, axis<2>)));
}

template <int N>
void cumulative_product(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  y.store(cumprod(x.load_like(y), axis<1>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan softmax_gradient_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto y = uniform<bf16>(1, 0, 2.0 / static_cast<double>(columns), rows, columns);
  const auto dy = normal<bf16>(2, rows, columns);
  const auto wanted = [=](Size i) {
    auto p = row_of(y, i), g = row_of(dy, i);
    double total = 0;
    for (std::size_t j = 0; j < p.size(); ++j) total += p[j] * g[j];
    for (std::size_t j = 0; j < p.size(); ++j) p[j] *= g[j] - total;
    return p;
  };
  return plan({3 * bytes_of<bf16>(rows * columns)}, outputs(by_line<bf16>(wanted, rows, columns)), inputs(y, dy),
              [](const Stream& on, auto& dx, const auto& p, const auto& g) {
                kernel<softmax_gradient<1024>>(mut(dx), p, g).on(on);
              });
}

Plan layer_norm_gradient_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns), dy = normal<bf16>(2, rows, columns);
  const auto weight = normal<bf16>(3, columns);
  const auto mean = uniform<f32>(4, -0.1, 0.1, rows), rstd = uniform<f32>(5, 0.9, 1.1, rows);
  const auto wanted = [=](Size i) {
    auto normed = row_of(x, i), g = row_of(dy, i);
    const auto n = static_cast<double>(columns);
    double a = 0, b = 0;
    for (std::size_t j = 0; j < g.size(); ++j) {
      normed[j] = (normed[j] - mean(i)) * rstd(i);
      g[j] *= weight(j);
      a += g[j] / n;
      b += g[j] * normed[j] / n;
    }
    for (std::size_t j = 0; j < g.size(); ++j) g[j] = (g[j] - a - normed[j] * b) * rstd(i);
    return g;
  };
  return plan({3 * bytes_of<bf16>(rows * columns)}, outputs(by_line<bf16>(wanted, rows, columns)),
              inputs(x, dy, weight, mean, rstd), [](const Stream& on, auto& dx, const auto&... from) {
                kernel<layer_norm_gradient<4096>>(mut(dx), from...).on(on);
              });
}

Plan masked_softmax_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  const auto mask = whole<bool>(2, 0, 2, rows, columns);
  const auto wanted = [=](Size i) {
    auto v = row_of(x, i);
    for (std::size_t j = 0; j < v.size(); ++j) v[j] = mask(i, j) != 0 ? v[j] : -INFINITY;
    return softmax_of(std::move(v));
  };
  return plan({5 * bytes_of<bool>(rows * columns)}, outputs(by_line<bf16>(wanted, rows, columns)), inputs(x, mask),
              [](const Stream& on, auto& y, const auto& from, const auto& m) {
                kernel<masked_softmax<1024>>(mut(y), from, m).on(on);
              });
}

Plan add_rms_norm_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns), residual = normal<bf16>(2, rows, columns);
  const auto weight = normal<bf16>(3, columns);
  const auto summed = [=](Size i) {
    auto v = row_of(x, i);
    for (std::size_t j = 0; j < v.size(); ++j) v[j] += residual(i, j);
    return v;
  };
  const auto wanted = [=](Size i) {
    auto v = normed_of(summed(i), false);
    for (std::size_t j = 0; j < v.size(); ++j) v[j] *= weight(j);
    return v;
  };
  return plan({4 * bytes_of<bf16>(rows * columns)},
              outputs(by_line<bf16>(wanted, rows, columns), by_line<bf16>(summed, rows, columns)),
              inputs(x, residual, weight), [](const Stream& on, auto& y, auto& total, const auto&... from) {
                kernel<add_rms_norm<4096>>(mut(y), mut(total), from..., kRowEps).on(on);
              });
}

Plan group_norm_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), groups = size_of_case(args, "groups");
  const auto x = normal<f32>(1, batch, groups, kGroup, kPlaces);
  const auto weight = normal<f32>(2, groups, kGroup), bias = normal<f32>(3, groups, kGroup);
  const auto line = [=](Size i) -> Line {
    std::vector<double> group;
    for (Size k = 0; k < kGroup * kPlaces; ++k) group.push_back(x.at(i / kGroup * kGroup * kPlaces + k));
    const Size g = i / kGroup % groups, c = i % kGroup;
    return [v = normed_of(std::move(group), true), w = weight(g, c), b = bias(g, c), c](Size j) {
      return v[static_cast<std::size_t>(c * kPlaces + j)] * w + b;
    };
  };
  return plan({2 * bytes_of<f32>(batch * groups * kGroup * kPlaces)},
              outputs(output<f32>(line, batch, groups, kGroup, kPlaces)), inputs(x, weight, bias),
              [](const Stream& on, auto& y, const auto&... from) {
                kernel<group_norm<kGroup, kPlaces>>(mut(y), from..., kRowEps).on(on);
              });
}

Plan prefix_sum_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size i) {
    auto v = row_of(x, i);
    for (std::size_t j = 1; j < v.size(); ++j) v[j] += v[j - 1];
    return v;
  };
  return plan({2 * bytes_of<f32>(rows * columns)}, outputs(by_line<f32>(wanted, rows, columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<prefix_sum<4096>>(mut(y), from).on(on); });
}

Plan running_max_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size i) {
    auto v = row_of(x, i);
    for (std::size_t j = 1; j < v.size(); ++j) v[j] = std::max(v[j], v[j - 1]);
    return v;
  };
  return plan({2 * bytes_of<f32>(rows * columns)}, outputs(by_line<f32>(wanted, rows, columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<running_max<4096>>(mut(y), from).on(on); });
}

Plan prefix_softmax_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, batch, n, n);
  const auto prefix = whole<i32>(2, 0, n, batch);
  const auto wanted = [=](Size line) {
    const Size b = line / n, seen = std::max(line % n + 1, static_cast<Size>(prefix(b)));
    std::vector<double> v;
    for (Size j = 0; j < n; ++j) v.push_back(j < seen ? x(b, line % n, j) : -INFINITY);
    return softmax_of(v);
  };
  return plan({2 * bytes_of<bf16>(batch * n * n)}, outputs(by_line<bf16>(wanted, batch, n, n)), inputs(x, prefix),
              [](const Stream& on, auto& y, const auto&... in) { kernel<prefix_softmax<2048>>(mut(y), in...).on(on); });
}

Plan cumulative_product_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = uniform<f32>(1, 0.9, 1.1, rows, columns);
  const auto wanted = [=](Size i) {
    auto v = row_of(x, i);
    for (std::size_t j = 1; j < v.size(); ++j) v[j] *= v[j - 1];
    return v;
  };
  return plan(
      {2 * bytes_of<f32>(rows * columns)}, outputs(by_line<f32>(wanted, rows, columns).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<cumulative_product<1024>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> row_gradient_entries() {
  return {entry<softmax_gradient_plan>("softmax_gradient", "gradients",
                                       "rows=131072 columns=1024; rows=150001 columns=777; rows=300007 columns=201",
                                       "rows=16 columns=1024; rows=5 columns=777"),
          entry<layer_norm_gradient_plan>("layer_norm_gradient", "gradients",
                                          "rows=32768 columns=4096; rows=30001 columns=3001; rows=50001 columns=1100",
                                          "rows=16 columns=4096; rows=5 columns=1001"),
          entry<masked_softmax_plan>("masked_softmax", "softmax",
                                     "rows=131072 columns=1024; rows=150001 columns=777; rows=300007 columns=201",
                                     "rows=16 columns=1024; rows=5 columns=777"),
          entry<add_rms_norm_plan>("add_rms_norm", "norms",
                                   "rows=32768 columns=4096; rows=30001 columns=3001; rows=50001 columns=1100",
                                   "rows=16 columns=4096; rows=5 columns=1001"),
          entry<group_norm_plan>("group_norm", "norms", "batch=256 groups=32; batch=333 groups=20; batch=57 groups=37",
                                 "batch=2 groups=16"),
          entry<prefix_sum_plan>("prefix_sum", "scans",
                                 "rows=32768 columns=4096; rows=30001 columns=3001; rows=60001 columns=1100",
                                 "rows=16 columns=4096; rows=5 columns=1001"),
          entry<running_max_plan>("running_max", "scans",
                                  "rows=32768 columns=4096; rows=30001 columns=3001; rows=60001 columns=1100",
                                  "rows=16 columns=4096; rows=5 columns=1001"),
          entry<prefix_softmax_plan>("prefix_softmax", "softmax", "batch=32 n=2000; batch=50 n=1501; batch=700 n=333",
                                     "batch=2 n=112; batch=3 n=37"),
          entry<cumulative_product_plan>("cumulative_product", "scans",
                                         "rows=65536 columns=1000; rows=100001 columns=601; rows=20001 columns=1003",
                                         "rows=16 columns=1000; rows=3 columns=333")};
}

}  // namespace generality
