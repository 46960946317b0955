// Gradients of softmax and norms, and cross entropy with its gradient.
#include <cmath>

#include "case.hpp"
#include "generality/row_references.hpp"
#if __has_include("tessera/kernels/norm_backward.hpp")
#include "tessera/kernels/cross_entropy.hpp"
#include "tessera/kernels/norm_backward.hpp"
#include "tessera/kernels/softmax_backward.hpp"
#define COMPARE_HAS_ROW_GRADIENTS 1
#else
#define COMPARE_HAS_ROW_GRADIENTS 0  // the library of an older commit
#endif

namespace compare {
namespace {

#if COMPARE_HAS_ROW_GRADIENTS
using generality::by_line;
using generality::kRowEps;
using generality::row_of;

/// The results of softmax are any numbers here: the gradient is a function of them.
template <bool Log>
Ready softmax_backward_case(const Args& args) {
  return by_type<bf16, f16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const double mean = 1 / static_cast<double>(columns);
    const auto dy = normal<T>(seed_of(args, 1), rows, columns);
    const auto y = Log ? uniform<T>(seed_of(args, 2), std::log(mean) - 1, std::log(mean) + 1, rows, columns)
                       : uniform<T>(seed_of(args, 2), 0, 2 * mean, rows, columns);
    const auto line = [=](Size i) {
      auto g = row_of(dy, i);
      const auto v = row_of(y, i);
      double total = 0;
      for (std::size_t j = 0; j < g.size(); ++j) total += Log ? g[j] : g[j] * v[j];
      for (std::size_t j = 0; j < g.size(); ++j) g[j] = Log ? g[j] - std::exp(v[j]) * total : v[j] * (g[j] - total);
      return g;
    };
    return ready(args, {3 * bytes_of<T>(rows * columns)}, compare::outputs(by_line<T>(line, rows, columns)),
                 inputs(dy, y), [](const Stream& on, auto& dx, const auto& g, const auto& v) {
                   if constexpr (Log)
                     dx = kernels::log_softmax_backward(g, v).on(on);
                   else
                     dx = kernels::softmax_backward(g, v).on(on);
                 });
  });
}

/// A row less its mean, if it is a layer norm, times `scale`.
struct NormedRow {
  std::vector<double> t;
  double scale = 0;
};
template <class T>
NormedRow normed_row(const Input<T, 2>& x, Size i, bool layer) {
  NormedRow r{row_of(x, i), 0};
  const auto n = static_cast<double>(r.t.size());
  double mean = 0, squares = 0;
  for (const double v : r.t) mean += layer ? v / n : 0;
  for (double& v : r.t) squares += (v - mean) * (v - mean) / n, v -= mean;
  r.scale = 1 / std::sqrt(squares + static_cast<double>(kRowEps));
  for (double& v : r.t) v *= r.scale;
  return r;
}
template <bool Layer>
Ready norm_backward_case(const Args& args) {
  return by_type<bf16, f16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto dy = normal<T>(seed_of(args, 1), rows, columns), x = normal<T>(seed_of(args, 2), rows, columns);
    const auto weight = normal<T>(seed_of(args, 3), columns);
    const auto line = [=](Size i) {
      const NormedRow r = normed_row(x, i, Layer);
      auto g = row_of(dy, i);
      double a = 0, b = 0;
      const auto n = static_cast<double>(columns);
      for (std::size_t j = 0; j < g.size(); ++j) {
        g[j] *= weight(static_cast<Size>(j));
        a += Layer ? g[j] / n : 0;
        b += g[j] * r.t[j] / n;
      }
      for (std::size_t j = 0; j < g.size(); ++j) g[j] = (g[j] - a - r.t[j] * b) * r.scale;
      return g;
    };
    const auto of_weight = [=](Size) -> Line {
      auto mean = std::make_shared<std::vector<double>>(), scale = std::make_shared<std::vector<double>>();
      for (Size i = 0; i < rows; ++i) {
        const NormedRow r = normed_row(x, i, Layer);
        scale->push_back(r.scale);
        mean->push_back(x(i, Size{0}) - r.t[0] / r.scale);
      }
      return [=](Size j) {
        double total = 0;
        for (Size i = 0; i < rows; ++i) {
          const auto at = static_cast<std::size_t>(i);
          total += dy(i, j) * (x(i, j) - (*mean)[at]) * (*scale)[at];
        }
        return total;
      };
    };
    const auto of_bias = [=](Size) -> Line {
      return [=](Size j) {
        double total = 0;
        for (Size i = 0; i < rows; ++i) total += dy(i, j);
        return total;
      };
    };
    const Cost cost{3 * bytes_of<T>(rows * columns)};
    const auto dx = by_line<T>(line, rows, columns);
    if constexpr (Layer)
      return ready(args, cost, compare::outputs(dx, output<T>(of_weight, columns), output<T>(of_bias, columns)),
                   inputs(dy, x, weight),
                   [](const Stream& on, auto& d, auto& dw, auto& db, const auto& g, const auto& from, const auto& w) {
                     std::tie(d, dw, db) = kernels::layer_norm_backward(g, from, w, kRowEps).on(on);
                   });
    else
      return ready(args, cost, compare::outputs(dx, output<T>(of_weight, columns)), inputs(dy, x, weight),
                   [](const Stream& on, auto& d, auto& dw, const auto& g, const auto& from, const auto& w) {
                     std::tie(d, dw) = kernels::rms_norm_backward(g, from, w, kRowEps).on(on);
                   });
  });
}

double log_sum(const std::vector<double>& v) {
  const double top = *std::max_element(v.begin(), v.end());
  double total = 0;
  for (const double x : v) total += std::exp(x - top);
  return top + std::log(total);
}
Ready cross_entropy_case(const Args& args) {
  return by_type<bf16, f16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = normal<T>(seed_of(args, 1), rows, columns);
    const auto targets = whole<i32>(seed_of(args, 2), 0, columns, rows);
    const auto loss = [=](Size) -> Line {
      return [=](Size i) { return log_sum(row_of(x, i)) - x(i, static_cast<Size>(targets(i))); };
    };
    const auto lse = [=](Size) -> Line { return [=](Size i) { return log_sum(row_of(x, i)); }; };
    return ready(args, {bytes_of<T>(rows * columns)},
                 compare::outputs(output<f32>(loss, rows).within(1e-4), output<f32>(lse, rows).within(1e-4)),
                 inputs(x, targets), [](const Stream& on, auto& losses, auto& sums, const auto& logits, const auto& t) {
                   std::tie(losses, sums) = kernels::cross_entropy(logits, t).on(on);
                 });
  });
}
Ready cross_entropy_backward_case(const Args& args) {
  return by_type<bf16, f16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto g = normal<f32>(seed_of(args, 1), rows);
    const auto x = normal<T>(seed_of(args, 2), rows, columns);
    const auto targets = whole<i32>(seed_of(args, 3), 0, columns, rows);
    const double usual = std::log(static_cast<double>(columns)) + 0.5;  // of normal numbers; any will do
    const auto lse = uniform<f32>(seed_of(args, 4), usual - 0.1, usual + 0.1, rows);
    const auto line = [=](Size i) -> Line {
      return [=](Size j) {
        return g(i) * (std::exp(x(i, j) - lse(i)) - (static_cast<Size>(targets(i)) == j ? 1.0 : 0.0));
      };
    };
    return ready(args, {2 * bytes_of<T>(rows * columns)}, compare::outputs(output<T>(line, rows, columns)),
                 inputs(g, x, targets, lse),
                 [](const Stream& on, auto& dx, const auto& d, const auto& logits, const auto& t, const auto& sums) {
                   dx = kernels::cross_entropy_backward(d, logits, t, sums).on(on);
                 });
  });
}
#else
template <bool>
Ready softmax_backward_case(const Args&) {
  throw std::runtime_error("this library has no gradients of rows");
}
template <bool>
Ready norm_backward_case(const Args&) {
  throw std::runtime_error("this library has no gradients of rows");
}
Ready cross_entropy_case(const Args&) { throw std::runtime_error("this library has no cross entropy"); }
Ready cross_entropy_backward_case(const Args&) { throw std::runtime_error("this library has no cross entropy"); }
#endif

}  // namespace

std::vector<Case> row_gradient_cases() {
  return {{"softmax_backward", softmax_backward_case<false>},
          {"log_softmax_backward", softmax_backward_case<true>},
          {"rms_norm_backward", norm_backward_case<false>},
          {"layer_norm_backward", norm_backward_case<true>},
          {"cross_entropy", cross_entropy_case},
          {"cross_entropy_backward", cross_entropy_backward_case}};
}

}  // namespace compare
