// Matrix products with a prologue or epilogue, of 8-bit integers, of a transposed matrix, many small ones, and kernels
// of the same form: distances, assignments to clusters, two layers at once.
#include <algorithm>
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kBatch = 64;                 // extents of a batched product
constexpr int kInner = 64, kHidden = 256;  // of the two layers
constexpr int kFeatures = 64;              // of k-means
constexpr int kDepth = 32;                 // of l1_distances

/// x sigmoid(1.702 x) of a b + bias.
template <int BM, int BN, int BK>
void product_gelu(MutTiles<bf16, BM, BN> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b, In<bf16, dyn> bias) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    auto t = acc + cast<f32>(bias.load_like(out, axes<1>));
    out.store(cast<bf16>(t / (1.0f + exp(-1.702f * t))));
  }
}

template <int BM, int BN, int BK>
void product_relu(MutTiles<bf16, BM, BN> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b, In<bf16, dyn, dyn> residual) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(cast<bf16>(max(acc, 0.0f) + cast<f32>(residual.load_like(out))));
  }
}

/// A product whose operands are regions at element offsets, as kernels with shifted neighbours read them.
template <int BM, int BN, int BK>
void product_of_regions(MutTiles<bf16, BM, BN> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.origin();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range((a.dim(1) + (BK - 1)) / BK))
      acc = mma(a.load_at(shape<BM, BK>, i, k * BK), b.load_at(shape<BK, BN>, k * BK, j), acc);
    out.store(cast<bf16>(acc));
  }
}

/// Four rows times the transposed w: fewer rows than tensor cores multiply.
template <int BM, int BN, int BK>
void few_rows_product(Mut<f32, BM, BN> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> w) {
  auto A = a.tiles(shape<BM, BK>);
  auto W = w.permuted(order<1, 0>).tiles(shape<BK, BN>);
  auto [i, j] = c.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), W.load(k, j), acc);
  c.store(acc);
}

template <int N>
void batched_product(Mut<f16, 1, N, N> c, In<f16, dyn, N, N> a, In<f16, dyn, N, N> b) {
  auto x = reshape(a.load_like(c), shape<N, N>), y = reshape(b.load_like(c), shape<N, N>);
  c.store(reshape(cast<f16>(mma(x, y, zeros<f32, N, N>())), shape<1, N, N>));
}

/// The transpose of x times x.
template <int B, int BK>
void gram(Mut<f32, B, B> c, In<bf16, dyn, dyn> x) {
  auto X = x.tiles(shape<BK, B>);
  auto [i, j] = c.index();
  auto acc = zeros<f32, B, B>();
  for (auto k : range(X.count(0))) acc = mma(transpose(X.load(k, i)), X.load(k, j), acc);
  c.store(acc);
}

/// Images as batch, channel, place: y = w x for each of the batch.
template <int BM, int BN, int BK>
void convolution_1x1(Mut<bf16, 1, BM, BN> y, In<bf16, dyn, dyn, dyn> x, In<bf16, dyn, dyn> w) {
  auto W = w.tiles(shape<BM, BK>);
  auto X = x.tiles(shape<1, BK, BN>);
  auto [b, i, j] = y.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(W.count(1))) acc = mma(W.load(i, k), reshape(X.load(b, k, j), shape<BK, BN>), acc);
  y.store(reshape(cast<bf16>(acc), shape<1, BM, BN>));
}

/// relu(x a) b.
template <int BM, int D, int H>
void two_layers(Mut<bf16, BM, D> y, In<bf16, dyn, D> x, In<bf16, D, H> a, In<bf16, H, D> b) {
  auto hidden = mma(x.load_like(y), a.tiles(shape<D, H>).load(0, 0), zeros<f32, BM, H>());
  auto h = cast<bf16>(max(hidden, 0.0f));
  y.store(cast<bf16>(mma(h, b.tiles(shape<H, D>).load(0, 0), zeros<f32, BM, D>())));
}

/// |x|^2 + |y|^2 - 2 x y for all pairs of rows.
template <int BM, int BN, int D>
void distances(Mut<f32, BM, BN> d, In<bf16, dyn, D> x, In<bf16, dyn, D> y) {
  auto [i, j] = d.index();
  auto a = x.tiles(shape<BM, D>).load(i, 0), b = y.tiles(shape<BN, D>).load(j, 0);
  auto fa = cast<f32>(a), fb = cast<f32>(b);
  auto ab = mma(a, transpose(b), zeros<f32, BM, BN>());
  d.store(sum(fa * fa, axis<1>) + transpose(sum(fb * fb, axis<1>)) - 2.0f * ab);
}

/// The nearest centre of each row.
template <int BM, int BN, int D>
void nearest_centre(Mut<i32, BM> y, In<bf16, dyn, D> x, In<bf16, dyn, D> centres) {
  require(centres.dim(0) % BN == 0, "the centres must fill their tiles");
  auto [i] = y.index();
  auto a = x.tiles(shape<BM, D>).load(i, 0);
  auto C = centres.tiles(shape<BN, D>);
  auto best = full<f32, BM, 1>(infinity<f32>);
  auto place = zeros<i32, BM, 1>();
  for (auto c : range(C.count(0))) {
    auto b = C.load(c, 0);
    auto fb = cast<f32>(b);
    auto d = transpose(sum(fb * fb, axis<1>)) - 2.0f * mma(a, transpose(b), zeros<f32, BM, BN>());
    auto [value, index] = argmin(d, axis<1>);
    place = where(value < best, index + c * BN, place);
    best = min(best, value);
  }
  y.store(reshape(place, shape<BM>));
}

/// a times the transposed w; each row has a scale.
template <int BM, int BN, int BK>
void int8_product(MutTiles<bf16, BM, BN> c, In<i8, dyn, dyn> a, In<i8, dyn, dyn> w, In<f32, dyn> scale) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = w.permuted(order<1, 0>).tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<i32, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(cast<bf16>(cast<f32>(acc) * scale.load_like(out, axes<0>)));
  }
}

template <int BM, int BN, int BK>
void transposed_product(MutTiles<f32, BM, BN> c, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto A = a.permuted(order<1, 0>).tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(acc);
  }
}

template <int BM, int BN>
void l1_distances(Mut<f32, BM, BN> d, In<f32, dyn, dyn> x, In<f32, dyn, dyn> y) {
  auto [i, j] = d.origin();
  auto total = zeros<f32, BM, BN>();
  for (auto k : range(x.dim(1))) {
    auto a = x.load_at(shape<BM, 1>, i, k);
    auto b = y.load_at(shape<BN, 1>, j, k);
    total += abs(a - transpose(b));
  }
  d.store(total);
}

// -- the cases --------------------------------------------------------------------------------------------------------

struct Product {
  Size m, n, k;
  Cost cost;
  explicit Product(const Args& args)
      : m(size_of_case(args, "m")), n(size_of_case(args, "n")), k(size_of_case(args, "k")) {
    cost = {bytes_of<bf16>(m * k + k * n + m * n), 2.0 * static_cast<double>(m * n) * static_cast<double>(k), "bf16"};
  }
  /// Element (i, j) of a b.
  template <class T>
  double at(const Input<T, 2>& a, const Input<T, 2>& b, Size i, Size j) const {
    double s = 0;
    for (Size l = 0; l < k; ++l) s += a(i, l) * b(l, j);
    return s;
  }
};

Plan product_gelu_plan(const Args& args) {
  const Product p(args);
  const auto a = uniform<bf16>(1, -0.1, 0.1, p.m, p.k), b = normal<bf16>(2, p.k, p.n);
  const auto bias = normal<bf16>(3, p.n);
  const auto wanted = [=](Size at) {
    const double t = p.at(a, b, at / p.n, at % p.n) + bias(at % p.n);
    return t / (1 + std::exp(-1.702 * t));
  };
  return plan(
      p.cost, outputs(by_offset<bf16>(wanted, p.m, p.n)), inputs(a, b, bias),
      [](const Stream& on, auto& c, const auto&... x) { kernel<product_gelu<128, 128, 64>>(mut(c), x...).on(on); });
}

Plan product_relu_plan(const Args& args) {
  const Product p(args);
  const auto a = normal<bf16>(1, p.m, p.k), b = normal<bf16>(2, p.k, p.n), residual = normal<bf16>(3, p.m, p.n);
  const auto wanted = [=](Size at) { return std::max(0.0, p.at(a, b, at / p.n, at % p.n)) + residual.at(at); };
  return plan(
      p.cost, outputs(by_offset<bf16>(wanted, p.m, p.n)), inputs(a, b, residual),
      [](const Stream& on, auto& c, const auto&... x) { kernel<product_relu<128, 128, 64>>(mut(c), x...).on(on); });
}

Plan product_of_regions_plan(const Args& args) {
  const Product p(args);
  const auto a = normal<bf16>(1, p.m, p.k), b = normal<bf16>(2, p.k, p.n);
  const auto wanted = [=](Size at) { return p.at(a, b, at / p.n, at % p.n); };
  return plan(p.cost, outputs(by_offset<bf16>(wanted, p.m, p.n)), inputs(a, b),
              [](const Stream& on, auto& c, const auto&... x) {
                kernel<product_of_regions<128, 128, 64>>(mut(c), x...).on(on);
              });
}

Plan few_rows_product_plan(const Args& args) {
  constexpr Size kRows = 4;
  const Size n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto a = normal<f16>(1, kRows, inner), w = normal<f16>(2, n, inner);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < inner; ++k) s += a(at / n, k) * w(at % n, k);
    return s;
  };
  return plan(
      {bytes_of<f16>((n + kRows) * inner) + bytes_of<f32>(n * kRows)},
      outputs(by_offset<f32>(wanted, kRows, n).within(1e-4)), inputs(a, w),
      [](const Stream& on, auto& c, const auto&... in) { kernel<few_rows_product<4, 32, 128>>(mut(c), in...).on(on); });
}

Plan batched_product_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch");
  const auto a = normal<f16>(1, batch, kBatch, kBatch), b = normal<f16>(2, batch, kBatch, kBatch);
  const auto wanted = [=](Size at) {
    const Size j = at % kBatch, i = at / kBatch % kBatch, z = at / kBatch / kBatch;
    double s = 0;
    for (Size k = 0; k < kBatch; ++k) s += a(z, i, k) * b(z, k, j);
    return s;
  };
  return plan({3 * bytes_of<f16>(batch * kBatch * kBatch)}, outputs(by_offset<f16>(wanted, batch, kBatch, kBatch)),
              inputs(a, b), [](const Stream& on, auto& c, const auto&... x) {
                kernel<batched_product<kBatch>>(mut(c), x...).on(on);
              });
}

Plan gram_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), k = size_of_case(args, "k");
  const auto x = normal<bf16>(1, k, n);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size l = 0; l < k; ++l) s += x(l, at / n) * x(l, at % n);
    return s;
  };
  return plan(
      {bytes_of<bf16>(k * n) + bytes_of<f32>(n * n), 2.0 * static_cast<double>(n * n) * static_cast<double>(k), "bf16"},
      outputs(by_offset<f32>(wanted, n, n).within(1e-4)), inputs(x),
      [](const Stream& on, auto& c, const auto& from) { kernel<gram<128, 64>>(mut(c), from).on(on); });
}

Plan convolution_1x1_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), from = size_of_case(args, "from"), to = size_of_case(args, "to"),
             places = size_of_case(args, "places");
  const auto x = normal<bf16>(1, batch, from, places);
  const auto w = normal<bf16>(2, to, from);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size c = 0; c < from; ++c) s += w(at / places % to, c) * x(at / places / to, c, at % places);
    return s;
  };
  return plan(
      {bytes_of<bf16>(batch * places * (from + to)), 2.0 * static_cast<double>(batch * places * from * to), "bf16"},
      outputs(by_offset<bf16>(wanted, batch, to, places)), inputs(x, w),
      [](const Stream& on, auto& y, const auto&... in) {
        kernel<convolution_1x1<128, 128, 64>>(mut(y), in...).on(on);
      });
}

Plan two_layers_plan(const Args& args) {
  const Size m = size_of_case(args, "m");
  const auto x = normal<bf16>(1, m, kInner), a = normal<bf16>(2, kInner, kHidden), b = normal<bf16>(3, kHidden, kInner);
  const auto wanted = [=](Size i) {
    std::vector<double> y(kInner, 0.0);
    for (Size h = 0; h < kHidden; ++h) {
      double t = 0;
      for (Size k = 0; k < kInner; ++k) t += x(i, k) * a(k, h);
      for (Size j = 0; j < kInner; ++j) y[static_cast<std::size_t>(j)] += std::max(t, 0.0) * b(h, j);
    }
    return y;
  };
  return plan({2 * bytes_of<bf16>(m * kInner), 4.0 * static_cast<double>(m) * kInner * kHidden, "bf16"},
              outputs(by_line<bf16>(wanted, m, kInner).within(1e-2)), inputs(x, a, b),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<two_layers<128, kInner, kHidden>>(mut(y), in...).on(on);
              });
}

Plan distances_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, m, kFeatures), y = normal<bf16>(2, n, kFeatures);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < kFeatures; ++k) s += std::pow(x(at / n, k) - y(at % n, k), 2);
    return s;
  };
  return plan({bytes_of<f32>(m * n), 2.0 * static_cast<double>(m * n) * kFeatures, "bf16"},
              outputs(by_offset<f32>(wanted, m, n)), inputs(x, y), [](const Stream& on, auto& d, const auto&... in) {
                kernel<distances<128, 128, kFeatures>>(mut(d), in...).on(on);
              });
}

Plan nearest_centre_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), centres = size_of_case(args, "centres");
  const auto x = normal<bf16>(1, m, kFeatures), c = normal<bf16>(2, centres, kFeatures);
  const auto wanted = [=](Size i) {
    double best = INFINITY;
    Size place = 0;
    for (Size j = 0; j < centres; ++j) {
      double s = 0;
      for (Size k = 0; k < kFeatures; ++k) s += std::pow(x(i, k) - c(j, k), 2);
      if (s < best) best = s, place = j;
    }
    return static_cast<double>(place);
  };
  return plan({bytes_of<bf16>(m * kFeatures), 2.0 * static_cast<double>(m * centres) * kFeatures, "bf16"},
              outputs(by_offset<i32>(wanted, m)), inputs(x, c), [](const Stream& on, auto& y, const auto&... in) {
                kernel<nearest_centre<128, 128, kFeatures>>(mut(y), in...).on(on);
              });
}

Plan int8_product_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto a = whole<i8>(1, -100, 100, m, inner), w = whole<i8>(2, -100, 100, n, inner);
  const auto scale = uniform<f32>(3, 0.001, 0.002, m);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < inner; ++k) s += a(at / n, k) * w(at % n, k);
    return s * scale(at / n);
  };
  return plan(
      {bytes_of<i8>((m + n) * inner) + bytes_of<bf16>(m * n),
       2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(inner), "i8"},
      outputs(by_offset<bf16>(wanted, m, n)), inputs(a, w, scale),
      [](const Stream& on, auto& y, const auto&... in) { kernel<int8_product<128, 128, 64>>(mut(y), in...).on(on); });
}

Plan transposed_product_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto a = normal<f32>(1, n, n), b = normal<f32>(2, n, n);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < n; ++k) s += a(k, at / n) * b(k, at % n);
    return s;
  };
  return plan({3 * bytes_of<f32>(n * n), 2 * std::pow(static_cast<double>(n), 3), "f32"},
              outputs(by_offset<f32>(wanted, n, n).within(1e-4)), inputs(a, b),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<transposed_product<64, 64, 32>>(mut(y), in...).on(on);
              });
}

Plan l1_distances_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, m, kDepth), y = normal<f32>(2, n, kDepth);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < kDepth; ++k) s += std::abs(x(at / n, k) - y(at % n, k));
    return s;
  };
  return plan({bytes_of<f32>(m * n + (m + n) * kDepth)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x, y),
              [](const Stream& on, auto& d, const auto&... in) { kernel<l1_distances<64, 64>>(mut(d), in...).on(on); });
}

}  // namespace

std::vector<Entry> product_entries() {
  return {
      entry<product_gelu_plan>("product_gelu", "products",
                               "m=3840 n=2304 k=1792; m=5001 n=1600 k=1304; m=1000 n=3001 k=3003",
                               "m=256 n=256 k=128; m=100 n=72 k=40"),
      entry<product_relu_plan>("product_relu_residual", "products",
                               "m=4096 n=4096 k=2048; m=3001 n=3600 k=1800; m=7001 n=1501 k=1003",
                               "m=256 n=256 k=128; m=100 n=72 k=40"),
      entry<product_of_regions_plan>("product_of_regions", "products",
                                     "m=4096 n=4096 k=2048; m=3001 n=3600 k=1800; m=7001 n=1501 k=1003",
                                     "m=256 n=256 k=128; m=100 n=72 k=40"),
      entry<few_rows_product_plan>("few_rows_product", "matrix_vectors",
                                   "n=14336 k=4096; n=10001 k=5000; n=32003 k=1501", "n=256 k=512; n=70 k=90"),
      entry<batched_product_plan>("batched_product", "products", "batch=32768; batch=20001; batch=3333",
                                  "batch=16; batch=3"),
      entry<gram_plan>("gram", "products", "n=4096 k=8192; n=3001 k=9001; n=1544 k=20008", "n=256 k=128; n=72 k=40"),
      entry<convolution_1x1_plan>("convolution_1x1", "convolutions",
                                  "batch=32 from=256 to=512 places=4096; batch=50 from=200 to=360 places=3136; "
                                  "batch=500 from=67 to=133 places=777",
                                  "batch=2 from=128 to=256 places=256; batch=2 from=40 to=24 places=72"),
      entry<two_layers_plan>("two_layers", "products", "m=524288; m=400001; m=200003", "m=256; m=100"),
      entry<distances_plan>("pairwise_distances", "distances", "m=16384 n=16384; m=5001 n=30003; m=50001 n=1777",
                            "m=256 n=256; m=100 n=70"),
      entry<nearest_centre_plan>("nearest_centre", "distances",
                                 "m=1048576 centres=1024; m=900001 centres=640; m=2000003 centres=256",
                                 "m=256 centres=256; m=100 centres=128"),
      entry<int8_product_plan>("int8_product", "products",
                               "m=8192 n=8192 k=8192; m=3001 n=8200 k=5000; m=10001 n=2504 k=4104",
                               "m=128 n=256 k=128; m=100 n=70 k=90"),
      entry<transposed_product_plan>("transposed_product", "products", "n=4000; n=3001; n=2200", "n=96; n=75"),
      entry<l1_distances_plan>("l1_distances", "distances", "m=8000 n=8000; m=5001 n=9003; m=20001 n=1111",
                               "m=128 n=64; m=50 n=70")};
}

}  // namespace generality
