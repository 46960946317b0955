// Kernels with one or two results per row: losses, extremes, statistics, similarities; and rows of integers with a
// scale.
#include <cmath>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

template <int N>
void cross_entropy(Mut<f32, 1> loss, In<bf16, dyn, dyn> logits, In<i32, dyn> targets) {
  require(logits.dim(1) <= N, "a row must fit in one piece");
  auto [row] = loss.index();
  auto t = cast<f32>(logits.tiles(shape<1, N>, pad::neg_inf).load(row, 0));
  auto top = max(t, axis<1>);
  auto total = top + log(sum(exp(t - top), axis<1>));
  auto wanted = cast<f32>(logits.gather(row, targets.load_like(loss)));
  loss.store(reshape(total, shape<1>) - wanted);
}

/// Rows of any length, in chunks.
template <int C>
void log_sum_exp(Mut<f32, 1> y, In<bf16, dyn, dyn> x) {
  auto X = x.tiles(shape<1, C>, pad::neg_inf);
  auto [row] = y.index();
  auto m = full<f32, 1, 1>(-infinity<f32>), l = zeros<f32, 1, 1>();
  for (auto c : range(X.count(1))) {
    auto t = cast<f32>(X.load(row, c));
    auto m2 = max(m, max(t, axis<1>));
    l = l * exp(m - m2) + sum(exp(t - m2), axis<1>);
    m = m2;
  }
  y.store(reshape(m + log(l), shape<1>));
}

template <int N>
void arg_max(Mut<i32, 1> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row] = y.index();
  auto [value, place] = argmax(x.tiles(shape<1, N>, pad::neg_inf).load(row, 0), axis<1>);
  y.store(reshape(place, shape<1>));
}

template <int N>
void top_one(Mut<bf16, 1> values, Mut<i32, 1> places, In<bf16, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row] = values.index();
  auto [value, place] = argmax(x.tiles(shape<1, N>, pad::neg_inf).load(row, 0), axis<1>);
  values.store(reshape(value, shape<1>));
  places.store(reshape(place, shape<1>));
}

template <int N>
void mean_variance(Mut<f32, 1> mean, Mut<f32, 1> variance, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row] = mean.index();
  auto t = x.tiles(shape<1, N>).load(row, 0);
  auto n = cast<f32>(x.dim(1));
  auto m = sum(t, axis<1>) / n;
  auto d = where(iota<i32, 1, N>(axis<1>) < x.dim(1), t - m, 0.0f);
  mean.store(reshape(m, shape<1>));
  variance.store(reshape(sum(d * d, axis<1>) / n, shape<1>));
}

template <int N>
void cosine_similarity(Mut<f32, 1> y, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  require(a.dim(1) <= N, "a row must fit in one piece");
  auto [row] = y.index();
  auto s = cast<f32>(a.tiles(shape<1, N>).load(row, 0)), t = cast<f32>(b.tiles(shape<1, N>).load(row, 0));
  auto lengths = sum(s * s, axis<1>) * sum(t * t, axis<1>);
  y.store(reshape(sum(s * t, axis<1>) * rsqrt(lengths + 1e-12f), shape<1>));
}

template <int N>
void quantise(Mut<i8, 1, N> q, Mut<f32, 1> scales, In<bf16, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(q));
  auto scale = max(max(abs(t), axis<1>), 1e-12f) / 127.0f;
  q.store(cast<i8>(clamp(floor(t / scale + 0.5f), -127.0f, 127.0f)));
  scales.store(reshape(scale, shape<1>));
}

template <int N>
void triplet_loss(Mut<f32, 1> y, In<f32, dyn, dyn> anchor, In<f32, dyn, dyn> positive, In<f32, dyn, dyn> negative) {
  require(anchor.dim(1) <= N, "a row must fit in one piece");
  auto [row] = y.index();
  auto a = anchor.tiles(shape<1, N>).load(row, 0);
  auto near = a - positive.tiles(shape<1, N>).load(row, 0);
  auto far = a - negative.tiles(shape<1, N>).load(row, 0);
  auto loss = max(sqrt(sum(near * near)) - sqrt(sum(far * far)) + 1.0f, 0.0f);
  y.store(full<f32, 1>(loss));
}

/// sum of p (log p - log q), of the softmax of two rows.
template <int N>
void kl_divergence(Mut<f32, 1> y, In<bf16, dyn, dyn> p_logits, In<bf16, dyn, dyn> q_logits) {
  require(p_logits.dim(1) <= N, "a row must fit in one piece");
  auto [row] = y.index();
  auto p = cast<f32>(p_logits.tiles(shape<1, N>, pad::neg_inf).load(row, 0));
  auto q = cast<f32>(q_logits.tiles(shape<1, N>, pad::neg_inf).load(row, 0));
  auto log_p = p - max(p) - log(sum(exp(p - max(p))));
  auto log_q = q - max(q) - log(sum(exp(q - max(q))));
  auto inside = iota<i32, 1, N>(axis<1>) < p_logits.dim(1);
  y.store(full<f32, 1>(sum(where(inside, exp(log_p) * (log_p - log_q), 0.0f))));
}

// -- the cases --------------------------------------------------------------------------------------------------------

double log_sum_exp_of(const std::vector<double>& v) {
  const double top = *std::max_element(v.begin(), v.end());
  double total = 0;
  for (const double t : v) total += std::exp(t - top);
  return top + std::log(total);
}
double place_of_max(const std::vector<double>& v) {
  return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
}

Plan cross_entropy_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  const auto targets = whole<i32>(2, 0, columns, rows);
  const auto wanted = [=](Size i) { return log_sum_exp_of(row_of(x, i)) - x(i, static_cast<Size>(targets(i))); };
  return plan({bytes_of<bf16>(rows * columns)}, outputs(by_offset<f32>(wanted, rows)), inputs(x, targets),
              [](const Stream& on, auto& y, const auto& from, const auto& t) {
                kernel<cross_entropy<32768>>(mut(y), from, t).on(on);
              });
}

Plan log_sum_exp_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  return plan({bytes_of<bf16>(rows * columns)},
              outputs(by_offset<f32>([=](Size i) { return log_sum_exp_of(row_of(x, i)); }, rows)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<log_sum_exp<1024>>(mut(y), from).on(on); });
}

Plan arg_max_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  return plan({bytes_of<f32>(rows * columns)},
              outputs(by_offset<i32>([=](Size i) { return place_of_max(row_of(x, i)); }, rows)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<arg_max<4096>>(mut(y), from).on(on); });
}

Plan top_one_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  const auto value = [=](Size i) {
    const auto v = row_of(x, i);
    return *std::max_element(v.begin(), v.end());
  };
  return plan(
      {bytes_of<bf16>(rows * columns)},
      outputs(by_offset<bf16>(value, rows), by_offset<i32>([=](Size i) { return place_of_max(row_of(x, i)); }, rows)),
      inputs(x), [](const Stream& on, auto& values, auto& places, const auto& from) {
        kernel<top_one<1024>>(mut(values), mut(places), from).on(on);
      });
}

Plan mean_variance_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = uniform<f32>(1, 0, 4, rows, columns);
  const auto moments = [=](Size i) {
    const auto v = row_of(x, i);
    const auto n = static_cast<double>(v.size());
    double mean = 0, square = 0;
    for (const double t : v) mean += t / n;
    for (const double t : v) square += (t - mean) * (t - mean) / n;
    return std::make_pair(mean, square);
  };
  return plan({bytes_of<f32>(rows * columns)},
              outputs(by_offset<f32>([=](Size i) { return moments(i).first; }, rows),
                      by_offset<f32>([=](Size i) { return moments(i).second; }, rows)),
              inputs(x), [](const Stream& on, auto& mean, auto& variance, const auto& from) {
                kernel<mean_variance<4096>>(mut(mean), mut(variance), from).on(on);
              });
}

Plan cosine_similarity_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto a = normal<bf16>(1, rows, columns), b = uniform<bf16>(2, 0, 1, rows, columns);
  const auto wanted = [=](Size i) {
    double ab = 0, aa = 0, bb = 0;
    for (Size j = 0; j < columns; ++j) {
      ab += a(i, j) * b(i, j);
      aa += a(i, j) * a(i, j);
      bb += b(i, j) * b(i, j);
    }
    return ab / std::sqrt(aa * bb);
  };
  return plan({2 * bytes_of<bf16>(rows * columns)}, outputs(by_offset<f32>(wanted, rows).within(1e-4)), inputs(a, b),
              [](const Stream& on, auto& y, const auto& left, const auto& right) {
                kernel<cosine_similarity<1024>>(mut(y), left, right).on(on);
              });
}

Plan quantise_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  const auto scale = [=](Size i) {
    double top = 1e-12;
    for (const double t : row_of(x, i)) top = std::max(top, std::abs(t));
    return top / 127;
  };
  const auto line = [=](Size i) -> Line {
    return [=, by = scale(i)](Size j) { return std::floor(x(i, j) / by + 0.5); };
  };
  // A value halfway between two integers may round to either.
  return plan({3 * bytes_of<i8>(rows * columns)},
              outputs(output<i8>(line, rows, columns).within(5e-3), by_offset<f32>(scale, rows)), inputs(x),
              [](const Stream& on, auto& q, auto& scales, const auto& from) {
                kernel<quantise<4096>>(mut(q), mut(scales), from).on(on);
              });
}

Plan triplet_loss_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto a = normal<f32>(1, rows, columns), p = normal<f32>(2, rows, columns), n = normal<f32>(3, rows, columns);
  const auto wanted = [=](Size i) {
    double near = 0, far = 0;
    for (Size j = 0; j < columns; ++j) {
      near += std::pow(a(i, j) - p(i, j), 2);
      far += std::pow(a(i, j) - n(i, j), 2);
    }
    return std::max(std::sqrt(near) - std::sqrt(far) + 1, 0.0);
  };
  return plan({3 * bytes_of<f32>(rows * columns)}, outputs(by_offset<f32>(wanted, rows).within(1e-4)), inputs(a, p, n),
              [](const Stream& on, auto& y, const auto&... in) { kernel<triplet_loss<256>>(mut(y), in...).on(on); });
}

Plan kl_divergence_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto p = normal<bf16>(1, rows, columns), q = normal<bf16>(2, rows, columns);
  const auto wanted = [=](Size i) {
    const auto a = softmax_of(row_of(p, i)), b = softmax_of(row_of(q, i));
    double s = 0;
    for (std::size_t j = 0; j < a.size(); ++j) s += a[j] * std::log(a[j] / b[j]);
    return s;
  };
  return plan({2 * bytes_of<bf16>(rows * columns)}, outputs(by_offset<f32>(wanted, rows)), inputs(p, q),
              [](const Stream& on, auto& y, const auto&... in) { kernel<kl_divergence<1024>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> row_loss_entries() {
  return {entry<cross_entropy_plan>("cross_entropy", "losses",
                                    "rows=16384 columns=32000; rows=10001 columns=28003; rows=3001 columns=20200",
                                    "rows=16 columns=32000"),
          entry<log_sum_exp_plan>("log_sum_exp", "losses",
                                  "rows=32768 columns=8192; rows=5003 columns=50257; rows=90001 columns=2001",
                                  "rows=16 columns=2048; rows=3 columns=1500"),
          entry<arg_max_plan>("argmax", "reductions",
                              "rows=32768 columns=4096; rows=30001 columns=3001; rows=90001 columns=1100",
                              "rows=16 columns=4096; rows=5 columns=1001"),
          entry<top_one_plan>("top_one", "reductions",
                              "rows=262144 columns=1024; rows=300001 columns=777; rows=100003 columns=1001",
                              "rows=16 columns=1024; rows=5 columns=777"),
          entry<mean_variance_plan>("mean_variance", "reductions",
                                    "rows=32768 columns=4096; rows=30001 columns=3001; rows=90001 columns=1100",
                                    "rows=16 columns=4096; rows=5 columns=1001"),
          entry<cosine_similarity_plan>("cosine_similarity", "distances",
                                        "rows=131072 columns=1024; rows=150001 columns=777; rows=100003 columns=1000",
                                        "rows=16 columns=1024; rows=5 columns=777"),
          entry<quantise_plan>("quantise", "quantized",
                               "rows=32768 columns=4096; rows=30001 columns=3001; rows=90001 columns=1100",
                               "rows=16 columns=4096; rows=5 columns=1001"),
          entry<triplet_loss_plan>("triplet_loss", "losses",
                                   "rows=300000 columns=200; rows=250001 columns=201; rows=500003 columns=77",
                                   "rows=16 columns=200; rows=5 columns=77"),
          entry<kl_divergence_plan>("kl_divergence", "losses",
                                    "rows=131072 columns=1000; rows=150001 columns=777; rows=100003 columns=333",
                                    "rows=16 columns=1000; rows=3 columns=333")};
}

}  // namespace generality
