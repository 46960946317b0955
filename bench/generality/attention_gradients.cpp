// Gradients in pieces: of attention with the logarithms of its sums, of scores, of a bias before GELU, of batch norm.
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kDepth = 64;
constexpr int kWide = 128;  // features of row_products

/// The sum of the products of two rows: what each score of a query has too much.
template <int R>
void row_products(Mut<f32, R> y, In<bf16, dyn, kWide> a, In<bf16, dyn, kWide> b) {
  auto [i] = y.index();
  auto s = cast<f32>(a.tiles(shape<R, kWide>).load(i, 0)) * cast<f32>(b.tiles(shape<R, kWide>).load(i, 0));
  y.store(reshape(sum(s, axis<1>), shape<R>));
}

/// The gradient of queries: head, time, depth; lse and delta as head, time.
template <int BM, int BN>
void query_gradient(Mut<bf16, 1, BM, kDepth> dq, In<bf16, dyn, dyn, kDepth> q, In<bf16, dyn, dyn, kDepth> k,
                    In<bf16, dyn, dyn, kDepth> v, In<bf16, dyn, dyn, kDepth> d_o, In<f32, dyn, dyn> lse,
                    In<f32, dyn, dyn> delta, Scalar<f32> scale) {
  auto [head, block, zero] = dq.index();
  auto K = k.tiles(shape<1, BN, kDepth>), V = v.tiles(shape<1, BN, kDepth>);
  auto Q = reshape(q.load_like(dq), shape<BM, kDepth>), D = reshape(d_o.load_like(dq), shape<BM, kDepth>);
  auto l = reshape(lse.tiles(shape<1, BM>).load(head, block), shape<BM, 1>);
  auto less = reshape(delta.tiles(shape<1, BM>).load(head, block), shape<BM, 1>);
  auto acc = zeros<f32, BM, kDepth>();
  for (auto j : range(K.count(1))) {
    auto keys = reshape(K.load(head, j, 0), shape<BN, kDepth>), values = reshape(V.load(head, j, 0), shape<BN, kDepth>);
    auto s = mma(Q, transpose(keys), zeros<f32, BM, BN>()) * scale;
    auto p = exp(s - l);
    auto dp = mma(D, transpose(values), zeros<f32, BM, BN>());
    acc = mma(cast<bf16>(p * (dp - less)), keys, acc);
  }
  dq.store(reshape(cast<bf16>(acc * scale), shape<1, BM, kDepth>));
}

/// The gradients of keys and values, through all queries.
template <int BN, int BM>
void key_value_gradient(Mut<bf16, 1, BN, kDepth> dk, Mut<bf16, 1, BN, kDepth> dv, In<bf16, dyn, dyn, kDepth> q,
                        In<bf16, dyn, dyn, kDepth> k, In<bf16, dyn, dyn, kDepth> v, In<bf16, dyn, dyn, kDepth> d_o,
                        In<f32, dyn, dyn> lse, In<f32, dyn, dyn> delta, Scalar<f32> scale) {
  auto [head, block, zero] = dk.index();
  auto Q = q.tiles(shape<1, BM, kDepth>), D = d_o.tiles(shape<1, BM, kDepth>);
  auto L = lse.tiles(shape<1, BM>, pad::pos_inf), E = delta.tiles(shape<1, BM>);
  auto keys = reshape(k.load_like(dk), shape<BN, kDepth>), values = reshape(v.load_like(dk), shape<BN, kDepth>);
  auto k_sums = zeros<f32, BN, kDepth>(), v_sums = zeros<f32, BN, kDepth>();
  for (auto i : range(Q.count(1))) {
    auto queries = reshape(Q.load(head, i, 0), shape<BM, kDepth>), d = reshape(D.load(head, i, 0), shape<BM, kDepth>);
    auto p = exp(mma(keys, transpose(queries), zeros<f32, BN, BM>()) * scale - L.load(head, i));  // key by query
    auto dp = mma(values, transpose(d), zeros<f32, BN, BM>());
    v_sums = mma(cast<bf16>(p), d, v_sums);
    k_sums = mma(cast<bf16>(p * (dp - E.load(head, i))), queries, k_sums);
  }
  dk.store(reshape(cast<bf16>(k_sums * scale), shape<1, BN, kDepth>));
  dv.store(reshape(cast<bf16>(v_sums), shape<1, BN, kDepth>));
}

/// Gradients of scores from those of probabilities: row, key.
template <int B>
void score_gradient(Mut<bf16, 1, B> ds, In<bf16, dyn, dyn> p, In<bf16, dyn, dyn> dp, In<f32, dyn> delta) {
  auto less = cast<f32>(dp.load_like(ds)) - delta.load_like(ds, axes<0>);
  ds.store(cast<bf16>(cast<f32>(p.load_like(ds)) * less));
}

/// The gradient of gelu(x + b), and what all rows add to that of b.
template <int R, int C>
void gelu_bias_gradient(Mut<bf16, R, C> dx, Acc<f32, dyn> db, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> dy,
                        In<f32, dyn> bias) {
  auto [i, j] = dx.origin();
  auto t = cast<f32>(x.load_like(dx)) + bias.load_like(dx, axes<1>);
  auto th = tanh(0.7978845608f * (t + 0.044715f * t * t * t));
  auto slope = 0.5f * (1.0f + th) + 0.5f * t * (1.0f - th * th) * 0.7978845608f * (1.0f + 0.134145f * t * t);
  auto d = slope * cast<f32>(dy.load_like(dx));
  dx.store(cast<bf16>(d));
  db.add(iota<i32, 1, C>(axis<1>) + j, sum(d, axis<0>));
}

/// Sums of dy, and of dy times the normed x, for each channel: image, channel, place.
template <int P>
void channel_gradient_sums(Mut<f32, 1> plain, Mut<f32, 1> by_x, In<f32, dyn, dyn, dyn> x, In<f32, dyn, dyn, dyn> dy,
                           In<f32, dyn> mean, In<f32, dyn> scale) {
  auto [channel] = plain.index();
  auto X = x.tiles(shape<1, 1, P>), D = dy.tiles(shape<1, 1, P>);
  auto m = mean.gather(channel), r = scale.gather(channel);
  auto a = zeros<f32, 1, 1, P>(), b = zeros<f32, 1, 1, P>();
  for (auto image : range(x.dim(0))) {
    for (auto k : range(X.count(2))) {
      auto d = D.load(image, channel, k);
      a += d;
      b += d * (X.load(image, channel, k) - m) * r;
    }
  }
  plain.store(full<f32, 1>(sum(a)));
  by_x.store(full<f32, 1>(sum(b)));
}

template <int P>
void batch_norm_gradient(Mut<f32, 1, 1, P> dx, In<f32, dyn, dyn, dyn> x, In<f32, dyn, dyn, dyn> dy, In<f32, dyn> mean,
                         In<f32, dyn> scale, In<f32, dyn> plain, In<f32, dyn> by_x) {
  auto n = cast<f32>(x.dim(0)) * cast<f32>(x.dim(2));
  auto r = scale.load_like(dx, axes<1>);
  auto normed = (x.load_like(dx) - mean.load_like(dx, axes<1>)) * r;
  auto rest = (plain.load_like(dx, axes<1>) + normed * by_x.load_like(dx, axes<1>)) / n;
  dx.store((dy.load_like(dx) - rest) * r);
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan row_products_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows");
  const auto a = normal<bf16>(1, rows, kWide), b = normal<bf16>(2, rows, kWide);
  const auto wanted = [=](Size i) { return sum_over(kWide, [=](Size d) { return a(i, d) * b(i, d); }); };
  return plan({2 * bytes_of<bf16>(rows * kWide)}, outputs(by_offset<f32>(wanted, rows).within(1e-4)), inputs(a, b),
              [](const Stream& on, auto& y, const auto&... in) { kernel<row_products<16>>(mut(y), in...).on(on); });
}

/// The inputs of a gradient of attention. The logarithms of sums are random: as large as they would be.
struct Attention {
  Size heads, length;
  Input<bf16, 3> q, k, v, d_o;
  Input<f32, 2> lse, delta;
  explicit Attention(const Args& args) : heads(size_of_case(args, "heads")), length(size_of_case(args, "length")) {
    const auto make = [this](std::uint64_t seed) { return normal<bf16>(seed, heads, length, kDepth); };
    q = make(1), k = make(2), v = make(3), d_o = make(4);
    const double log_keys = std::log(static_cast<double>(length));
    lse = uniform<f32>(5, log_keys + 0.4, log_keys + 0.6, heads, length);
    delta = uniform<f32>(6, -0.5, 0.5, heads, length);
  }
  double dot(const Input<bf16, 3>& a, Size i, const Input<bf16, 3>& b, Size j, Size head) const {
    return sum_over(kDepth, [&](Size d) { return a(head, i, d) * b(head, j, d); });
  }
  double p(Size head, Size i, Size j) const { return std::exp(0.125 * dot(q, i, k, j, head) - lse(head, i)); }
  double ds(Size head, Size i, Size j) const { return p(head, i, j) * (dot(d_o, i, v, j, head) - delta(head, i)); }
  /// `products` products of head_dim by the pairs of places.
  Cost cost(double products) const {
    return {8 * bytes_of<bf16>(heads * length * kDepth),
            products * 2 * kDepth * static_cast<double>(heads * length) * static_cast<double>(length), "bf16"};
  }
  /// Line (head, i) of a result: the sum over j of weight(head, i, j) x[head, j].
  template <class F>
  auto summed(F weight, const Input<bf16, 3>& x, double scale) const {
    const auto line = [=, n = length](Size at) {
      const Size head = at / n;
      std::vector<double> y(kDepth, 0.0);
      for (Size j = 0; j < n; ++j) {
        const double w = weight(head, at % n, j) * scale;
        for (Size d = 0; d < kDepth; ++d) y[static_cast<std::size_t>(d)] += w * x(head, j, d);
      }
      return y;
    };
    return by_line<bf16>(line, heads, length, kDepth).within(2e-2);
  }
};

Plan query_gradient_plan(const Args& args) {
  const Attention p(args);
  const auto ds = [=](Size head, Size i, Size j) { return p.ds(head, i, j); };
  return plan(p.cost(3), outputs(p.summed(ds, p.k, 0.125)), inputs(p.q, p.k, p.v, p.d_o, p.lse, p.delta),
              [](const Stream& on, auto& dq, const auto&... in) {
                kernel<query_gradient<64, 64>>(mut(dq), in..., 0.125f).on(on);
              });
}

Plan key_value_gradient_plan(const Args& args) {
  const Attention p(args);
  const auto ds = [=](Size head, Size j, Size i) { return p.ds(head, i, j); };
  const auto weights = [=](Size head, Size j, Size i) { return p.p(head, i, j); };
  return plan(p.cost(4), outputs(p.summed(ds, p.q, 0.125), p.summed(weights, p.d_o, 1)),
              inputs(p.q, p.k, p.v, p.d_o, p.lse, p.delta),
              [](const Stream& on, auto& dk, auto& dv, const auto&... in) {
                kernel<key_value_gradient<64, 64>>(mut(dk), mut(dv), in..., 0.125f).on(on);
              });
}

Plan score_gradient_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), keys = size_of_case(args, "keys");
  const auto p = uniform<bf16>(1, 0, 0.01, rows, keys), dp = normal<bf16>(2, rows, keys);
  const auto delta = uniform<f32>(3, -0.5, 0.5, rows);
  const auto wanted = [=](Size at) { return p.at(at) * (dp.at(at) - delta(at / keys)); };
  return plan(
      {3 * bytes_of<bf16>(rows * keys)}, outputs(by_offset<bf16>(wanted, rows, keys)), inputs(p, dp, delta),
      [](const Stream& on, auto& ds, const auto&... in) { kernel<score_gradient<1024>>(mut(ds), in...).on(on); });
}

double gelu_slope_at(double t) {
  const double th = std::tanh(0.7978845608 * (t + 0.044715 * t * t * t));
  return 0.5 * (1 + th) + 0.5 * t * (1 - th * th) * 0.7978845608 * (1 + 3 * 0.044715 * t * t);
}

Plan gelu_bias_gradient_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns), dy = uniform<bf16>(2, 0, 1, rows, columns);
  const auto bias = normal<f32>(3, columns);
  const auto wanted = [=](Size at) { return gelu_slope_at(x.at(at) + bias(at % columns)) * dy.at(at); };
  const auto sums = [=](Size j) { return sum_over(rows, [=](Size i) { return wanted(i * columns + j); }); };
  return plan({3 * bytes_of<bf16>(rows * columns)},
              outputs(by_offset<bf16>(wanted, rows, columns), by_offset<f32>(sums, columns).within(1e-3)),
              inputs(x, dy, bias), [=](const Stream& on, auto& dx, auto& db, const auto&... in) {
                db = zeros<f32>({columns}).on(on);
                kernel<gelu_bias_gradient<32, 128>>(mut(dx), mut(db), in...).on(on);
              });
}

Plan batch_norm_gradient_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels"),
             places = size_of_case(args, "places"), n = images * places;
  const auto x = normal<f32>(1, images, channels, places), dy = normal<f32>(2, images, channels, places);
  const auto mean = uniform<f32>(3, -0.1, 0.1, channels), scale = uniform<f32>(4, 0.5, 1.5, channels);
  struct Sums {
    double plain = 0, by_x = 0;
    bool known = false;
  };
  auto all = std::make_shared<std::vector<Sums>>(static_cast<std::size_t>(channels));
  const auto wanted = [=](Size at) {
    const Size c = at / places % channels;
    const auto normed = [=](Size image, Size k) { return (x(image, c, k) - mean(c)) * scale(c); };
    Sums& s = (*all)[static_cast<std::size_t>(c)];
    if (!s.known) {
      s.plain = sum_over(n, [=](Size k) { return dy(k / places, c, k % places); });
      s.by_x = sum_over(n, [=](Size k) { return dy(k / places, c, k % places) * normed(k / places, k % places); });
      s.known = true;
    }
    const double here = normed(at / places / channels, at % places);
    return (dy.at(at) - (s.plain + here * s.by_x) / static_cast<double>(n)) * scale(c);
  };
  return plan({5 * bytes_of<f32>(n * channels)}, outputs(by_offset<f32>(wanted, images, channels, places).within(1e-4)),
              inputs(x, dy, mean, scale), [=](const Stream& on, auto& dx, const auto&... in) {
                auto plain = empty<f32>({channels}).on(on), by_x = empty<f32>({channels}).on(on);
                kernel<channel_gradient_sums<1024>>(mut(plain), mut(by_x), in...).on(on);
                kernel<batch_norm_gradient<1024>>(mut(dx), in..., plain, by_x).on(on);
              });
}

}  // namespace

std::vector<Entry> attention_gradient_entries() {
  return {
      entry<row_products_plan>("row_products", "gradients", "rows=2097152; rows=1000003; rows=200003",
                               "rows=64; rows=45"),
      entry<query_gradient_plan>("query_gradient", "gradients",
                                 "heads=64 length=2048; heads=77 length=1501; heads=301 length=777",
                                 "heads=2 length=128; heads=3 length=77"),
      entry<key_value_gradient_plan>("key_value_gradient", "gradients",
                                     "heads=64 length=2048; heads=77 length=1501; heads=301 length=777",
                                     "heads=2 length=128; heads=3 length=77"),
      entry<score_gradient_plan>("score_gradient", "gradients",
                                 "rows=65536 keys=2048; rows=60001 keys=1501; rows=100003 keys=777",
                                 "rows=16 keys=1024; rows=5 keys=777"),
      entry<gelu_bias_gradient_plan>("gelu_bias_gradient", "gradients",
                                     "rows=16384 columns=8192; rows=20011 columns=5003; rows=50001 columns=1001",
                                     "rows=64 columns=256; rows=45 columns=177"),
      entry<batch_norm_gradient_plan>(
          "batch_norm_gradient", "gradients",
          "images=64 channels=256 places=4096; images=77 channels=333 places=1777; images=20 channels=1001 places=3001",
          "images=2 channels=4 places=1024; images=3 channels=5 places=333")};
}

}  // namespace generality
