// The library's gradients of rows and of attention, losses, and the best of rows, as a program calls them.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cases.hpp"
#include "row_references.hpp"
#include "tessera/kernels/attention_backward.hpp"
#include "tessera/kernels/cross_entropy.hpp"
#include "tessera/kernels/norm_backward.hpp"
#include "tessera/kernels/reduce.hpp"
#include "tessera/kernels/softmax_backward.hpp"
#include "tessera/kernels/top_k.hpp"

namespace generality {
namespace {

constexpr Size kDepth = 64;
constexpr Size kBest = 8;

struct Rows {
  Size rows, columns;
  explicit Rows(const Args& args) : rows(size_of_case(args, "rows")), columns(size_of_case(args, "columns")) {}
  template <class T>
  Cost cost(double count) const {
    return {count * bytes_of<T>(rows * columns)};
  }
};

/// What is known of one row: its mean and the inverse of its deviation (or root of the mean square).
template <class T>
std::pair<double, double> moments(const Input<T, 2>& x, Size i, bool centred) {
  const Size n = x.dims[1];
  const double mean = centred ? sum_over(n, [&](Size j) { return x(i, j); }) / static_cast<double>(n) : 0;
  const double square = sum_over(n, [&](Size j) { return std::pow(x(i, j) - mean, 2); }) / static_cast<double>(n);
  return {mean, 1 / std::sqrt(square + static_cast<double>(kRowEps))};
}

template <class T, bool Centred>
Plan norm_gradient_plan(const Args& args) {
  const Rows p(args);
  const auto dy = normal<T>(1, p.rows, p.columns), x = normal<T>(2, p.rows, p.columns);
  const auto weight = uniform<T>(3, 0.5, 1.5, p.columns);
  const auto line = [=](Size i) -> Line {
    const auto m = moments(x, i, Centred);
    const auto n = static_cast<double>(p.columns);
    const auto normed = [=](Size j) { return (x(i, j) - m.first) * m.second; };
    const double a = Centred ? sum_over(p.columns, [=](Size j) { return dy(i, j) * weight(j); }) / n : 0;
    const double b = sum_over(p.columns, [=](Size j) { return dy(i, j) * weight(j) * normed(j); }) / n;
    return [=](Size j) { return (dy(i, j) * weight(j) - a - normed(j) * b) * m.second; };
  };
  auto known = std::make_shared<std::vector<std::pair<double, double>>>();
  const auto of_weight = [=](Size j) {
    if (known->empty()) {
      for (Size i = 0; i < p.rows; ++i) known->push_back(moments(x, i, Centred));
    }
    return sum_over(p.rows, [=](Size i) {
      const auto& m = (*known)[static_cast<std::size_t>(i)];
      return dy(i, j) * (x(i, j) - m.first) * m.second;
    });
  };
  const auto dx = output<T>(line, p.rows, p.columns);
  const auto dw = by_offset<T>(of_weight, p.columns).within(5e-3);  // sums of many rows that cancel
  if constexpr (Centred) {
    const auto of_bias = [=](Size j) { return sum_over(p.rows, [=](Size i) { return dy(i, j); }); };
    return plan(p.cost<T>(3), outputs(dx, dw, by_offset<T>(of_bias, p.columns).within(5e-3)), inputs(dy, x, weight),
                [](const Stream& on, auto& a, auto& b, auto& c, const auto&... in) {
                  std::tie(a, b, c) = kernels::layer_norm_backward(in..., kRowEps).on(on);
                });
  } else {
    return plan(p.cost<T>(3), outputs(dx, dw), inputs(dy, x, weight),
                [](const Stream& on, auto& a, auto& b, const auto&... in) {
                  std::tie(a, b) = kernels::rms_norm_backward(in..., kRowEps).on(on);
                });
  }
}

template <bool Log>
Plan softmax_gradient_plan(const Args& args) {
  const Rows p(args);
  const auto dy = normal<bf16>(1, p.rows, p.columns);
  const auto y = Log ? uniform<bf16>(2, -12, -6, p.rows, p.columns) : uniform<bf16>(2, 0, 0.01, p.rows, p.columns);
  const auto line = [=](Size i) -> Line {
    const double total = sum_over(p.columns, [=](Size j) { return dy(i, j) * (Log ? 1 : y(i, j)); });
    return [=](Size j) { return Log ? dy(i, j) - std::exp(y(i, j)) * total : y(i, j) * (dy(i, j) - total); };
  };
  return plan(p.cost<bf16>(3), outputs(output<bf16>(line, p.rows, p.columns)), inputs(dy, y),
              [](const Stream& on, auto& dx, const auto&... in) {
                if constexpr (Log)
                  dx = kernels::log_softmax_backward(in...).on(on);
                else
                  dx = kernels::softmax_backward(in...).on(on);
              });
}

Plan cross_entropy_plan(const Args& args) {
  const Rows p(args);
  const auto x = normal<bf16>(1, p.rows, p.columns);
  const auto targets = whole<i32>(2, 0, p.columns, p.rows);
  const auto lse = [=](Size i) { return std::log(sum_over(p.columns, [=](Size j) { return std::exp(x(i, j)); })); };
  const auto loss = [=](Size i) { return lse(i) - x(i, static_cast<Size>(targets(i))); };
  return plan(p.cost<bf16>(1), outputs(by_offset<f32>(loss, p.rows), by_offset<f32>(lse, p.rows)), inputs(x, targets),
              [](const Stream& on, auto& losses, auto& sums, const auto&... in) {
                std::tie(losses, sums) = kernels::cross_entropy(in...).on(on);
              });
}

Plan cross_entropy_gradient_plan(const Args& args) {
  const Rows p(args);
  const auto d = uniform<f32>(1, 0.5, 1, p.rows);
  const auto x = normal<bf16>(2, p.rows, p.columns);
  const auto targets = whole<i32>(3, 0, p.columns, p.rows);
  const double log_columns = std::log(static_cast<double>(p.columns));
  const auto lse = uniform<f32>(4, log_columns + 0.4, log_columns + 0.6, p.rows);
  const auto wanted = [=](Size at) {
    const Size i = at / p.columns, j = at % p.columns;
    return d(i) * (std::exp(x.at(at) - lse(i)) - (targets(i) == static_cast<double>(j) ? 1 : 0));
  };
  // One element of each row is much larger than the others: its rounding counts.
  return plan(
      p.cost<bf16>(2), outputs(by_offset<bf16>(wanted, p.rows, p.columns).within(1e-2)), inputs(d, x, targets, lse),
      [](const Stream& on, auto& dx, const auto&... in) { dx = kernels::cross_entropy_backward(in...).on(on); });
}

/// The gradients of one head in f64.
struct HeadGradients {
  Size head = -1, n = 0;
  std::vector<double> of[3];  // queries, keys, values
  HeadGradients() = default;
  HeadGradients(Size head, Size n, const Input<bf16, 4> (&x)[4]) : head(head), n(n) {
    std::vector<double> in[4];  // q, k, v, d_o
    for (int t = 0; t < 4; ++t) {
      for (Size k = 0; k < n * kDepth; ++k) in[t].push_back(x[t].at(head * n * kDepth + k));
    }
    for (auto& all : of) all.assign(static_cast<std::size_t>(n * kDepth), 0.0);
    const auto row = [&](std::vector<double>& all, Size i) { return all.data() + i * kDepth; };
    const auto dot = [](const double* a, const double* b) {
      return sum_over(kDepth, [=](Size d) { return a[d] * b[d]; });
    };
    const auto add = [](double* to, double by, const double* a) {
      for (Size d = 0; d < kDepth; ++d) to[d] += by * a[d];
    };
    for (Size i = 0; i < n; ++i) {
      std::vector<double> p, dp;
      for (Size j = 0; j < n; ++j) p.push_back(0.125 * dot(row(in[0], i), row(in[1], j)));
      p = softmax_of(p);
      for (Size j = 0; j < n; ++j) dp.push_back(dot(row(in[3], i), row(in[2], j)));
      const double delta = std::inner_product(p.begin(), p.end(), dp.begin(), 0.0);
      for (Size j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(j);
        const double ds = 0.125 * p[at] * (dp[at] - delta);
        add(row(of[0], i), ds, row(in[1], j));
        add(row(of[1], j), ds, row(in[0], i));
        add(row(of[2], j), p[at], row(in[3], i));
      }
    }
  }
};

/// Attention and its gradients, as a step of training has them.
Plan attention_gradient_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             length = size_of_case(args, "length");
  const auto make = [=](std::uint64_t seed) { return normal<bf16>(seed, batch, heads, length, kDepth); };
  const auto q = make(1), k = make(2), v = make(3), d_o = make(4);
  auto last = std::make_shared<HeadGradients>();
  const auto gradient = [=](std::size_t which) {
    const auto line = [=](Size at) {
      if (last->head != at / length) {
        const Input<bf16, 4> all[4] = {q, k, v, d_o};
        *last = HeadGradients(at / length, length, all);
      }
      const auto first = last->of[which].begin() + at % length * kDepth;
      return std::vector<double>(first, first + kDepth);
    };
    return by_line<bf16>(line, batch, heads, length, kDepth).within(2e-2);
  };
  return plan(
      {10 * bytes_of<bf16>(batch * heads * length * kDepth),
       14.0 * kDepth * static_cast<double>(batch * heads * length) * static_cast<double>(length), "bf16"},
      outputs(gradient(0), gradient(1), gradient(2)), inputs(q, k, v, d_o),
      [](const Stream& on, auto& dq, auto& dk, auto& dv, const auto& a, const auto& b, const auto& c, const auto& d) {
        auto [o, lse] = kernels::attention_with_lse(a, b, c).on(on);
        std::tie(dq, dk, dv) = kernels::attention_backward(d, a, b, c, o, lse).on(on);
      });
}

Plan top_k_plan(const Args& args) {
  const Rows p(args);
  const auto x = normal<f32>(1, p.rows, p.columns);
  const auto places = [=](Size i) {
    const auto v = row_of(x, i);
    std::vector<double> at(v.size());
    std::iota(at.begin(), at.end(), 0.0);
    std::stable_sort(at.begin(), at.end(), [&](double a, double b) {
      return v[static_cast<std::size_t>(a)] > v[static_cast<std::size_t>(b)];
    });
    at.resize(kBest);
    return at;
  };
  const auto values = [=](Size i) {
    auto at = places(i);
    for (double& t : at) t = x(i, static_cast<Size>(t));
    return at;
  };
  return plan(p.cost<f32>(1), outputs(by_line<f32>(values, p.rows, kBest), by_line<i32>(places, p.rows, kBest)),
              inputs(x), [](const Stream& on, auto& v, auto& at, const auto& from) {
                std::tie(v, at) = kernels::top_k(from, kBest).on(on);
              });
}

Plan row_sum_plan(const Args& args) {
  const Rows p(args);
  const auto x = uniform<f32>(1, 0, 1, p.rows, p.columns);
  const auto wanted = [=](Size i) { return sum_over(p.columns, [=](Size j) { return x(i, j); }); };
  return plan(p.cost<f32>(1), outputs(by_offset<f32>(wanted, p.rows).within(1e-4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { y = kernels::row_sum(from).on(on); });
}

}  // namespace

std::vector<Entry> library_gradient_entries() {
  const char *rows = "rows=16384 columns=4096; rows=15001 columns=3001; rows=50001 columns=1100",
             *small = "rows=16 columns=1024; rows=5 columns=777";
  return {entry<norm_gradient_plan<bf16, false>>("library_rms_norm_backward", "gradients", rows, small),
          entry<norm_gradient_plan<f32, true>>("library_layer_norm_backward", "gradients", rows, small),
          entry<softmax_gradient_plan<false>>("library_softmax_backward", "gradients", rows, small),
          entry<softmax_gradient_plan<true>>(
              "library_log_softmax_backward", "gradients",
              "rows=8192 columns=32000; rows=5003 columns=50257; rows=20011 columns=7001", small),
          entry<cross_entropy_plan>("library_cross_entropy_losses", "losses",
                                    "rows=8192 columns=32000; rows=5003 columns=50257; rows=20011 columns=7001", small),
          entry<cross_entropy_gradient_plan>(
              "library_cross_entropy_backward", "gradients",
              "rows=8192 columns=32000; rows=5003 columns=50257; rows=20011 columns=7001", small),
          entry<attention_gradient_plan>(
              "library_attention_gradient", "gradients",
              "batch=8 heads=16 length=1024; batch=7 heads=13 length=1001; batch=33 heads=9 length=333",
              "batch=1 heads=2 length=128; batch=2 heads=3 length=77"),
          entry<top_k_plan>("library_top_k", "sorting",
                            "rows=16384 columns=4096; rows=15001 columns=3001; rows=3001 columns=20003",
                            "rows=16 columns=1024; rows=5 columns=777"),
          entry<row_sum_plan>("library_row_sum", "reductions",
                              "rows=32768 columns=4096; rows=50001 columns=1777; rows=333 columns=200003",
                              "rows=16 columns=1024; rows=5 columns=777")};
}

}  // namespace generality
