// Parts of transformers: products with gates, biases and scales, attention with soft caps and with keys of different
// lengths, a selective scan, the gradients of a norm and of a loss with smoothed labels, and a step of training.
#include <algorithm>
#include <cmath>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kDepth = 128;         // of a head of softcap_attention
constexpr int kCrossDepth = 64;     // of a head of cross_attention
constexpr int kState = 16;          // numbers that selective_scan keeps for each channel
constexpr float kCap = 30.0f;       // of the logits of softcap_attention
constexpr float kSmoothing = 0.1f;  // of labels

/// silu(x W) * (x V).
template <int BM, int BN, int BK>
void gated_product(MutTiles<bf16, BM, BN> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> w, In<bf16, dyn, dyn> v) {
  auto X = x.tiles(shape<BM, BK>);
  auto W = w.tiles(shape<BK, BN>), V = v.tiles(shape<BK, BN>);
  for (auto out : y.grouped(8)) {
    auto [i, j] = out.index();
    auto gate = zeros<f32, BM, BN>(), up = zeros<f32, BM, BN>();
    for (auto k : range(X.count(1))) {
      auto t = X.load(i, k);
      gate = mma(t, W.load(k, j), gate);
      up = mma(t, V.load(k, j), up);
    }
    out.store(cast<bf16>(gate / (1.0f + exp(-gate)) * up));
  }
}

/// The product of bf16 matrices, times a scale of the row and one of the column, rounded to 8 bits.
template <int BM, int BN, int BK>
void product_to_int8(MutTiles<i8, BM, BN> y, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b, In<f32, dyn> row_scale,
                     In<f32, dyn> column_scale) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : y.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    auto scaled = acc * row_scale.load_like(out, axes<0>) * column_scale.load_like(out, axes<1>);
    out.store(cast<i8>(clamp(floor(scaled + 0.5f), -127.0f, 127.0f)));
  }
}

/// relu(x w + bias) for each expert.
template <int BM, int BN, int BK>
void expert_products(Mut<bf16, 1, BM, BN> y, In<bf16, dyn, dyn, dyn> x, In<bf16, dyn, dyn, dyn> w,
                     In<f32, dyn, dyn> bias) {
  auto X = x.tiles(shape<1, BM, BK>);
  auto W = w.tiles(shape<1, BK, BN>);
  auto [e, i, j] = y.index();
  auto acc = zeros<f32, 1, BM, BN>();
  for (auto k : range(X.count(2))) acc = mma(X.load(e, i, k), W.load(e, k, j), acc);
  y.store(cast<bf16>(max(acc + bias.load_like(y, axes<0, 2>), 0.0f)));
}

/// Causal attention whose logits are bounded by cap * tanh(s / cap); several query heads share a head of keys.
template <int BM, int BN, int D>
void softcap_attention(Mut<bf16, 1, BM, D> o, In<bf16, dyn, dyn, D> q, In<bf16, dyn, dyn, D> k, In<bf16, dyn, dyn, D> v,
                       Scalar<f32> scale, Scalar<f32> cap) {
  require(q.dim(0) % k.dim(0) == 0, "query heads must be a multiple of key heads");
  auto [head, block, zero] = o.index();
  auto kv_head = head / (q.dim(0) / k.dim(0));
  auto K = k.tiles(shape<1, BN, D>), V = v.tiles(shape<1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-1e30f), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  for (auto j : range(min(K.count(1), ceil_div((block + 1) * BM, BN)))) {
    auto s = mma(Q, transpose(reshape(K.load(kv_head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) * scale;
    s = cap * tanh(s / cap);
    s = where(rows >= iota<i32, 1, BN>(axis<1>) + j * BN, s, -infinity<f32>);
    auto m2 = max(m, max(s, axis<1>));
    auto p = exp(s - m2);
    auto alpha = exp(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), reshape(V.load(kv_head, j, 0), shape<BN, D>), acc * alpha);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, BM, D>));
}

/// Attention over the first keys of each sequence: batch, head, time, depth.
template <int BM, int BN, int D>
void cross_attention(Mut<bf16, 1, 1, BM, D> o, In<bf16, dyn, dyn, dyn, D> q, In<bf16, dyn, dyn, dyn, D> k,
                     In<bf16, dyn, dyn, dyn, D> v, In<i32, dyn> lengths, Scalar<f32> scale) {
  auto [batch, head, block, zero] = o.index();
  auto length = sum(lengths.load_at(shape<1>, batch));
  auto K = k.tiles(shape<1, 1, BN, D>), V = v.tiles(shape<1, 1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto m = full<f32, BM, 1>(-1e30f), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  for (auto j : range(ceil_div(length, BN))) {
    auto s = mma(Q, transpose(reshape(K.load(batch, head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) * scale;
    s = where(iota<i32, 1, BN>(axis<1>) + j * BN < length, s, -infinity<f32>);
    auto m2 = max(m, max(s, axis<1>));
    auto p = exp(s - m2);
    auto alpha = exp(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), reshape(V.load(batch, head, j, 0), shape<BN, D>), acc * alpha);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, 1, BM, D>));
}

/// A state of kState numbers for each channel: h = exp(dt A) h + dt x B, y = h C; batch, time, channel.
template <int T, int C>
void selective_scan(Mut<f32, 1, T, C> y, In<f32, dyn, dyn, dyn> x, In<f32, dyn, dyn, dyn> dt, In<f32, dyn, kState> a,
                    In<f32, dyn, dyn, kState> b, In<f32, dyn, dyn, kState> c) {
  require(y.dim(1) <= T, "the whole time must fit in one piece");
  auto [batch, zero, j] = y.index();
  auto A = a.tiles(shape<C, kState>).load(j, 0);
  auto X = x.tiles(shape<1, 1, C>), D = dt.tiles(shape<1, 1, C>);
  auto steps = y.sub(shape<1, 1, C>);
  auto h = zeros<f32, C, kState>();
  for (auto t : range(y.dim(1))) {
    auto step = reshape(D.load(batch, t, j), shape<C, 1>), in = reshape(X.load(batch, t, j), shape<C, 1>);
    auto B = reshape(b.load_at(shape<1, 1, kState>, batch, t, 0), shape<1, kState>);
    auto out = reshape(c.load_at(shape<1, 1, kState>, batch, t, 0), shape<1, kState>);
    h = exp(step * A) * h + step * in * B;
    steps.store(0, t, 0, reshape(sum(h * out, axis<1>), shape<1, 1, C>));
  }
}

/// The gradients of x / rms(x) * weight; a block adds what its rows give to the weight's.
template <int R, int N>
void rms_norm_gradient(Mut<bf16, R, N> dx, Acc<f32, dyn> d_weight, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> dy,
                       In<bf16, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [i, zero] = dx.index();
  auto w = cast<f32>(weight.load_like(dx, axes<1>));
  auto n = cast<f32>(x.dim(1));
  auto parts = dx.sub(shape<1, N>);
  auto total = zeros<f32, 1, N>();
  for (auto r : range(R)) {
    auto t = cast<f32>(x.load_at(shape<1, N>, i * R + r, 0)), d = cast<f32>(dy.load_at(shape<1, N>, i * R + r, 0));
    auto scale = rsqrt(sum(t * t, axis<1>) / n + eps);
    auto normed = t * scale, g = d * w;
    total += d * normed;
    parts.store(r, 0, cast<bf16>((g - normed * (sum(g * normed, axis<1>) / n)) * scale));
  }
  d_weight.tiles(shape<N>).add(0, reshape(total, shape<N>));
}

/// The gradient of the cross entropy with smoothed labels: softmax - labels, times a scale; rows of any length.
template <int N, int C>
void smoothed_loss_gradient(Mut<f32, 1, N> dx, In<f32, dyn, dyn> x, In<i32, dyn> labels, Scalar<f32> smoothing,
                            Scalar<f32> scale) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row, zero] = dx.index();
  auto X = x.tiles(shape<1, C>, pad::neg_inf);
  auto parts = dx.sub(shape<1, C>);
  auto label = labels.load_like(dx, axes<0>);
  auto m = full<f32, 1, 1>(-infinity<f32>), l = zeros<f32, 1, 1>();
  for (auto k : range(X.count(1))) {
    auto t = X.load(row, k);
    auto m2 = max(m, max(t, axis<1>));
    l = l * exp(m - m2) + sum(exp(t - m2), axis<1>);
    m = m2;
  }
  for (auto k : range(X.count(1))) {
    auto p = exp(X.load(row, k) - m) / l;
    auto here = iota<i32, 1, C>(axis<1>) + k * C == label;
    auto wanted = smoothing / cast<f32>(x.dim(1)) + where(here, 1.0f - smoothing, 0.0f);
    parts.store(0, k, (p - wanted) * scale);
  }
}

/// The sum of the squares of all gradients.
template <int B>
void squares_of(Acc<f32, dyn> total, In<f32, dyn> gradient) {
  auto [i] = block_id<1>();
  auto g = gradient.tiles(shape<B>).load(i);
  total.add(0, sum(g * g));
}

/// Gradient descent with momentum and decay of the weights, by gradients whose norm is at most 1.
template <int B>
void sgd_clipped(Mut<f32, B> new_p, Mut<f32, B> new_m, In<f32, dyn> p, In<f32, dyn> m, In<f32, dyn> gradient,
                 In<f32, dyn> squares, Scalar<f32> rate) {
  auto norm = sqrt(sum(squares.load_at(shape<1>, 0)));
  auto before = p.load_like(new_p);
  auto g = gradient.load_like(new_p) * min(1.0f / (norm + 1e-6f), 1.0f) + 0.01f * before;
  auto step = 0.9f * m.load_like(new_p) + g;
  new_m.store(step);
  new_p.store(before - rate * step);
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan gated_product_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto x = normal<bf16>(1, m, inner);
  const auto w = uniform<bf16>(2, -0.1, 0.1, inner, n), v = uniform<bf16>(3, -0.1, 0.1, inner, n);
  const auto wanted = [=](Size at) {
    double gate = 0, up = 0;
    for (Size k = 0; k < inner; ++k) gate += x(at / n, k) * w(k, at % n), up += x(at / n, k) * v(k, at % n);
    return gate / (1 + std::exp(-gate)) * up;
  };
  const double pairs = static_cast<double>(m) * static_cast<double>(n);
  return plan(
      {bytes_of<bf16>(m * inner + 2 * inner * n + m * n), 4 * pairs * static_cast<double>(inner), "bf16"},
      outputs(by_offset<bf16>(wanted, m, n)), inputs(x, w, v),
      [](const Stream& on, auto& y, const auto&... in) { kernel<gated_product<128, 128, 64>>(mut(y), in...).on(on); });
}

Plan product_to_int8_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto a = uniform<bf16>(1, -1, 1, m, inner), b = uniform<bf16>(2, -1, 1, inner, n);
  const auto row_scale = uniform<f32>(3, 0.5, 4, m), column_scale = uniform<f32>(4, 0.5, 2, n);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < inner; ++k) s += a(at / n, k) * b(k, at % n);
    return std::clamp(std::floor(s * row_scale(at / n) * column_scale(at % n) + 0.5), -127.0, 127.0);
  };
  // A result half way between two integers may be rounded to either.
  const double pairs = static_cast<double>(m) * static_cast<double>(n);
  return plan(
      {bytes_of<bf16>(m * inner + inner * n) + bytes_of<i8>(m * n), 2 * pairs * static_cast<double>(inner), "bf16"},
      outputs(by_offset<i8>(wanted, m, n).within(5e-3)), inputs(a, b, row_scale, column_scale),
      [](const Stream& on, auto& y, const auto&... in) {
        kernel<product_to_int8<128, 128, 64>>(mut(y), in...).on(on);
      });
}

Plan expert_products_plan(const Args& args) {
  const Size experts = size_of_case(args, "experts"), m = size_of_case(args, "tokens"), n = size_of_case(args, "n"),
             inner = size_of_case(args, "k");
  const auto x = normal<bf16>(1, experts, m, inner);
  const auto w = uniform<bf16>(2, -0.1, 0.1, experts, inner, n);
  const auto bias = normal<f32>(3, experts, n);
  const auto wanted = [=](Size at) {
    const Size e = at / (m * n), i = at / n % m, j = at % n;
    double s = bias(e, j);
    for (Size k = 0; k < inner; ++k) s += x(e, i, k) * w(e, k, j);
    return std::max(s, 0.0);
  };
  const double pairs = static_cast<double>(experts * m) * static_cast<double>(n);
  return plan({bytes_of<bf16>(experts * (m * inner + inner * n + m * n)) + bytes_of<f32>(experts * n),
               2 * pairs * static_cast<double>(inner), "bf16"},
              outputs(by_offset<bf16>(wanted, experts, m, n)), inputs(x, w, bias),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<expert_products<128, 128, 64>>(mut(y), in...).on(on);
              });
}

/// The mean of the first `count` rows of values, weighted by the softmax of what score(row) gives.
template <class Score, class Value>
std::vector<double> attended(Size count, Size depth, Score score, Value value) {
  std::vector<double> weights, y(static_cast<std::size_t>(depth), 0.0);
  for (Size c = 0; c < count; ++c) weights.push_back(score(c));
  weights = softmax_of(weights);
  for (Size c = 0; c < count; ++c) {
    for (Size d = 0; d < depth; ++d)
      y[static_cast<std::size_t>(d)] += weights[static_cast<std::size_t>(c)] * value(c, d);
  }
  return y;
}

Plan softcap_attention_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), kv_heads = size_of_case(args, "kv_heads"),
             length = size_of_case(args, "length");
  const auto q = uniform<bf16>(1, -8, 8, heads, length, kDepth), k = normal<bf16>(2, kv_heads, length, kDepth),
             v = normal<bf16>(3, kv_heads, length, kDepth);
  const double scale = 1 / std::sqrt(static_cast<double>(kDepth)), cap = static_cast<double>(kCap);
  const auto wanted = [=](Size at) {
    const Size head = at / length, row = at % length, from = head / (heads / kv_heads);
    std::vector<double> query;
    for (Size d = 0; d < kDepth; ++d) query.push_back(q(head, row, d) * scale);
    const auto score = [&](Size c) {
      double s = 0;
      for (Size d = 0; d < kDepth; ++d) s += query[static_cast<std::size_t>(d)] * k(from, c, d);
      return cap * std::tanh(s / cap);
    };
    return attended(row + 1, kDepth, score, [&](Size c, Size d) { return v(from, c, d); });
  };
  const double pairs = 0.5 * static_cast<double>(heads * length) * static_cast<double>(length);
  return plan({2 * bytes_of<bf16>((heads + kv_heads) * length * kDepth), 4 * pairs * kDepth, "bf16"},
              outputs(by_line<bf16>(wanted, heads, length, kDepth).within(1e-2)), inputs(q, k, v),
              [=](const Stream& on, auto& o, const auto&... in) {
                kernel<softcap_attention<64, 64, kDepth>>(mut(o), in..., static_cast<float>(scale), kCap).on(on);
              });
}

Plan cross_attention_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             queries = size_of_case(args, "queries"), keys = size_of_case(args, "keys");
  const auto q = normal<bf16>(1, batch, heads, queries, kCrossDepth);
  const auto k = normal<bf16>(2, batch, heads, keys, kCrossDepth), v = normal<bf16>(3, batch, heads, keys, kCrossDepth);
  const auto lengths = whole<i32>(4, 1, keys + 1, batch);
  const double scale = 1 / std::sqrt(static_cast<double>(kCrossDepth));
  const auto wanted = [=](Size at) {
    const Size b = at / (heads * queries), head = at / queries % heads, row = at % queries;
    const auto score = [&](Size c) {
      double s = 0;
      for (Size d = 0; d < kCrossDepth; ++d) s += q(b, head, row, d) * k(b, head, c, d);
      return s * scale;
    };
    return attended(static_cast<Size>(lengths(b)), kCrossDepth, score,
                    [&](Size c, Size d) { return v(b, head, c, d); });
  };
  double pairs = 0;
  for (Size b = 0; b < batch; ++b) pairs += static_cast<double>(heads * queries) * lengths(b);
  return plan({bytes_of<bf16>(2 * batch * heads * (queries + keys) * kCrossDepth), 4 * pairs * kCrossDepth, "bf16"},
              outputs(by_line<bf16>(wanted, batch, heads, queries, kCrossDepth).within(1e-2)), inputs(q, k, v, lengths),
              [=](const Stream& on, auto& o, const auto&... in) {
                kernel<cross_attention<64, 64, kCrossDepth>>(mut(o), in..., static_cast<float>(scale)).on(on);
              });
}

Plan selective_scan_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             channels = size_of_case(args, "channels");
  const auto x = normal<f32>(1, batch, length, channels), dt = uniform<f32>(2, 0.001, 0.1, batch, length, channels);
  const auto a = uniform<f32>(3, -8, -0.5, channels, kState);
  const auto b = normal<f32>(4, batch, length, kState), c = normal<f32>(5, batch, length, kState);
  const auto wanted = [=](Size at) {
    const Size n = at / (length * channels), last = at / channels % length, j = at % channels;
    double y = 0;
    for (Size s = 0; s < kState; ++s) {
      double h = 0;
      for (Size t = 0; t <= last; ++t) h = std::exp(dt(n, t, j) * a(j, s)) * h + dt(n, t, j) * x(n, t, j) * b(n, t, s);
      y += h * c(n, last, s);
    }
    return y;
  };
  return plan(
      {bytes_of<f32>(batch * length * (3 * channels + 2 * kState))},
      outputs(by_offset<f32>(wanted, batch, length, channels)), inputs(x, dt, a, b, c),
      [](const Stream& on, auto& y, const auto&... in) { kernel<selective_scan<2048, 64>>(mut(y), in...).on(on); });
}

Plan rms_norm_gradient_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns), dy = normal<bf16>(2, rows, columns);
  const auto weight = uniform<bf16>(3, 0.5, 1.5, columns);
  const auto dx = [=](Size i) {
    const auto t = row_of(x, i);
    auto normed = normed_of(t, false);
    double square = 0, dot = 0;
    for (std::size_t j = 0; j < t.size(); ++j) {
      square += t[j] * t[j] / static_cast<double>(columns);
      dot += dy(i, j) * weight(j) * normed[j] / static_cast<double>(columns);
    }
    for (std::size_t j = 0; j < t.size(); ++j)
      normed[j] = (dy(i, j) * weight(j) - normed[j] * dot) / std::sqrt(square + static_cast<double>(kRowEps));
    return normed;
  };
  // Every element needs all rows, so all of them are computed at once.
  auto totals = std::make_shared<std::vector<double>>();
  const auto d_weight = [=](Size j) {
    if (totals->empty()) {
      totals->assign(static_cast<std::size_t>(columns), 0.0);
      for (Size i = 0; i < rows; ++i) {
        const auto normed = normed_of(row_of(x, i), false);
        for (std::size_t k = 0; k < normed.size(); ++k) (*totals)[k] += dy(i, k) * normed[k];
      }
    }
    return (*totals)[static_cast<std::size_t>(j)];
  };
  return plan({3 * bytes_of<bf16>(rows * columns)},
              outputs(by_line<bf16>(dx, rows, columns), by_offset<f32>(d_weight, columns).within(1e-4)),
              inputs(x, dy, weight), [=](const Stream& on, auto& y, auto& w, const auto&... in) {
                w = zeros<f32>({columns}).on(on);
                kernel<rms_norm_gradient<16, 4096>>(mut(y), mut(w), in..., kRowEps).on(on);
              });
}

Plan smoothed_loss_gradient_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto labels = whole<i32>(2, 0, columns, rows);
  const auto smoothing = static_cast<double>(kSmoothing);
  const auto wanted = [=](Size i) {
    auto p = softmax_of(row_of(x, i));
    for (double& t : p) t -= smoothing / static_cast<double>(columns);
    p[static_cast<std::size_t>(labels(i))] -= 1 - smoothing;
    for (double& t : p) t /= static_cast<double>(rows);
    return p;
  };
  return plan(
      {2 * bytes_of<f32>(rows * columns)}, outputs(by_line<f32>(wanted, rows, columns)), inputs(x, labels),
      [=](const Stream& on, auto& dx, const auto&... in) {
        kernel<smoothed_loss_gradient<32768, 1024>>(mut(dx), in..., kSmoothing, 1.0f / static_cast<float>(rows)).on(on);
      });
}

Plan sgd_clipped_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto p = normal<f32>(1, n), m = normal<f32>(2, n), g = normal<f32>(3, n);
  constexpr float kRate = 0.1f;
  auto norm = std::make_shared<double>(-1.0);
  const auto momentum = [=](Size i) {
    if (*norm < 0) {
      double squares = 0;
      for (Size k = 0; k < n; ++k) squares += g.at(k) * g.at(k);
      *norm = std::sqrt(squares);
    }
    return 0.9 * m.at(i) + g.at(i) * std::min(1 / (*norm + 1e-6), 1.0) + 0.01 * p.at(i);
  };
  const auto parameter = [=](Size i) { return p.at(i) - static_cast<double>(kRate) * momentum(i); };
  return plan({6 * bytes_of<f32>(n)}, outputs(by_offset<f32>(parameter, n), by_offset<f32>(momentum, n)),
              inputs(p, m, g),
              [=](const Stream& on, auto& p2, auto& m2, const auto& from, const auto& before, const auto& gradient) {
                auto squares = zeros<f32>({1}).on(on);
                kernel<squares_of<kPiece>>.blocks(ceil_div(n, kPiece))(mut(squares), gradient).on(on);
                kernel<sgd_clipped<kPiece>>(mut(p2), mut(m2), from, before, gradient, squares, kRate).on(on);
              });
}

}  // namespace

std::vector<Entry> transformer_entries() {
  return {
      entry<gated_product_plan>("gated_product", "products",
                                "m=4096 n=5504 k=2048; m=3001 n=4000 k=1544; m=9001 n=1501 k=1003",
                                "m=128 n=128 k=64; m=77 n=150 k=40"),
      entry<product_to_int8_plan>("product_to_int8", "products",
                                  "m=8192 n=5120 k=2048; m=5001 n=5000 k=1544; m=15001 n=1501 k=1003",
                                  "m=128 n=128 k=64; m=77 n=150 k=40"),
      entry<expert_products_plan>(
          "expert_products", "products",
          "experts=128 tokens=1000 n=704 k=512; experts=77 tokens=1201 n=600 k=520; experts=333 tokens=177 n=501 k=303",
          "experts=2 tokens=40 n=64 k=64; experts=3 tokens=33 n=77 k=40"),
      entry<softcap_attention_plan>(
          "softcap_attention", "attention",
          "heads=32 kv_heads=8 length=4096; heads=28 kv_heads=4 length=3001; heads=64 kv_heads=16 length=1777",
          "heads=2 kv_heads=1 length=128; heads=4 kv_heads=2 length=77"),
      entry<cross_attention_plan>("cross_attention", "attention",
                                  "batch=16 heads=16 queries=1000 keys=1500; batch=20 heads=12 queries=777 keys=1333; "
                                  "batch=10 heads=20 queries=3001 keys=501",
                                  "batch=2 heads=2 queries=40 keys=100; batch=3 heads=1 queries=77 keys=93"),
      entry<selective_scan_plan>(
          "selective_scan", "recurrences",
          "batch=8 length=2000 channels=2048; batch=10 length=1501 channels=1777; batch=50 length=501 channels=1003",
          "batch=2 length=40 channels=64; batch=1 length=33 channels=77"),
      entry<rms_norm_gradient_plan>("rms_norm_gradient", "gradients",
                                    "rows=15008 columns=4096; rows=15001 columns=3001; rows=40001 columns=1100",
                                    "rows=16 columns=4096; rows=33 columns=77"),
      entry<smoothed_loss_gradient_plan>("smoothed_loss_gradient", "gradients",
                                         "rows=4000 columns=32000; rows=5001 columns=20003; rows=3001 columns=28008",
                                         "rows=4 columns=1280; rows=3 columns=1777"),
      entry<sgd_clipped_plan>("sgd_clipped", "optimizers", "n=30000000; n=20000003; n=4000001", "n=8448; n=5001")};
}

}  // namespace generality
