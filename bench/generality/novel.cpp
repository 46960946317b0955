// Kernels of further kinds: images, periodic and reflected borders, strided windows, reductions along other axes,
// sparse products, searches, optimizer steps, attention of one query.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kPad = 3;                           // of reflect_pad
constexpr int kBins = 1000;                       // of weighted_histogram
constexpr int kNeighbours = 27;                   // elements of a sparse row
constexpr int kLimits = 1000, kLimitStep = 1000;  // of bucketize
constexpr int kDepth = 32;                        // of l1_distances
constexpr int kHeadDepth = 128;

// -- images -----------------------------------------------------------------------------------------------------------

/// The neighbours of the last row are the first one and the last but one.
template <int BM, int BN>
void periodic_laplacian(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x) {
  auto m = x.dim(0), n = x.dim(1);
  auto [row, column] = y.origin();
  auto i = iota<i32, BM, 1>(axis<0>) + row;
  auto j = iota<i32, 1, BN>(axis<1>) + column;
  auto vertical = x.gather((i + m - 1) % m, j) + x.gather((i + 1) % m, j);
  auto horizontal = x.gather(i, (j + n - 1) % n) + x.gather(i, (j + 1) % n);
  y.store(vertical + horizontal - 4.0f * x.load_like(y));
}

template <int BM, int BN>
void sobel(Mut<u8, BM, BN> y, In<u8, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto at = [&](int di, int dj) { return cast<i32>(x.load_at(shape<BM, BN>, i + di, j + dj)); };
  auto gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
  auto gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
  auto length = sqrt(cast<f32>(gx * gx + gy * gy));
  y.store(cast<u8>(min(length, 255.0f)));
}

/// The median of 3x3 neighbours; zeros around the image.
template <int BM, int BN>
void median_filter(Mut<u8, BM, BN> y, In<u8, dyn, dyn> x) {
  auto [i, j] = y.origin();
  std::vector<Tile<u8, BM, BN>> v;
  for (int di = -1; di <= 1; ++di)
    for (int dj = -1; dj <= 1; ++dj) v.push_back(x.load_at(shape<BM, BN>, i + di, j + dj));
  for (std::size_t last = 8; last >= 4; --last) {  // the largest ones move to the end
    for (std::size_t k = 0; k < last; ++k) {
      auto low = min(v[k], v[k + 1]), high = max(v[k], v[k + 1]);
      v[k] = low;
      v[k + 1] = high;
    }
  }
  y.store(v[4]);
}

template <int BM, int BN>
void rgb_to_grey(Mut<f32, BM, BN> y, In<u8, dyn, dyn, 3> x) {
  auto [row, column] = y.origin();
  auto i = iota<i32, BM, 1>(axis<0>) + row;
  auto j = iota<i32, 1, BN>(axis<1>) + column;
  auto r = cast<f32>(x.gather(i, j, 0)), g = cast<f32>(x.gather(i, j, 1)), b = cast<f32>(x.gather(i, j, 2));
  y.store((0.299f * r + 0.587f * g + 0.114f * b) / 255.0f);
}

/// Four channels become 2x2 pixels: image, channel, row, column.
template <int BM, int BN>
void pixel_shuffle(Mut<f32, 1, 1, BM, BN> y, In<f32, dyn, dyn, dyn, dyn> x) {
  auto [image, channel, row, column] = y.origin();
  auto i = iota<i32, 1, 1, BM, 1>(axis<2>) + row;
  auto j = iota<i32, 1, 1, 1, BN>(axis<3>) + column;
  y.store(x.gather(image, channel * 4 + i % 2 * 2 + j % 2, i / 2, j / 2));
}

/// 3x3 patches as columns: image, channel * 9 + place in the patch, place of the patch; zeros around the image.
template <int B>
void im2col(Mut<bf16, 1, 1, B> y, In<bf16, dyn, dyn, dyn, dyn> x) {
  auto [image, row, first] = y.origin();
  auto channel = row / 9, di = row % 9 / 3 - 1, dj = row % 3 - 1;
  auto place = iota<i32, 1, 1, B>(axis<2>) + first;
  y.store(x.gather(image, channel, place / x.dim(3) + di, place % x.dim(3) + dj));
}

template <int BM, int BN>
void reflect_pad(Mut<f32, 1, BM, BN> y, In<f32, dyn, dyn, dyn> x) {
  auto [image, row, column] = y.origin();
  auto i = abs(iota<i32, 1, BM, 1>(axis<1>) + row - kPad);
  auto j = abs(iota<i32, 1, 1, BN>(axis<2>) + column - kPad);
  auto bottom = x.dim(1) - 1, right = x.dim(2) - 1;
  y.store(x.gather(image, bottom - abs(bottom - i), right - abs(right - j)));
}

/// To one and a half times each extent.
template <int A, int B, int C>
void nearest_3d(Mut<f32, A, B, C> y, In<f32, dyn, dyn, dyn> x) {
  auto [i0, j0, k0] = y.origin();
  auto i = iota<i32, A, 1, 1>(axis<0>) + i0;
  auto j = iota<i32, 1, B, 1>(axis<1>) + j0;
  auto k = iota<i32, 1, 1, C>(axis<2>) + k0;
  y.store(x.gather(i * 2 / 3, j * 2 / 3, k * 2 / 3));
}

/// Windows of 5 with a stride of 3.
template <int B>
void max_pool_1d(Mut<f32, 1, B> y, In<f32, dyn, dyn> x) {
  auto [row, first] = y.origin();
  auto j = (iota<i32, 1, B>(axis<1>) + first) * 3;
  auto best = x.gather(row, j);
  for (int t = 1; t < 5; ++t) best = max(best, x.gather(row, j + t));
  y.store(best);
}

// -- along the first axis ---------------------------------------------------------------------------------------------

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

// -- rows -------------------------------------------------------------------------------------------------------------

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

template <int N>
void cumulative_product(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  y.store(cumprod(x.load_like(y), axis<1>));
}

template <int N>
void take_along(Mut<f32, 1, N> y, In<f32, dyn, dyn> x, In<i32, dyn, dyn> ids) {
  auto [row, column] = y.index();
  y.store(x.gather(row, ids.load_like(y)));
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

/// Rows with few elements, each with its column; y = A x.
template <int B>
void sparse_product(Mut<f32, B> y, In<i32, dyn, kNeighbours> columns, In<f32, dyn, kNeighbours> values,
                    In<f32, dyn> x) {
  auto [i] = y.index();
  auto column = columns.tiles(shape<B, 32>, pad(-1)).load(i, 0);
  auto value = values.tiles(shape<B, 32>).load(i, 0);
  y.store(reshape(sum(value * x.gather(column), axis<1>), shape<B>));
}

/// 32 booleans become the bits of a word, the first one the lowest.
template <int B>
void pack_bits(Mut<i32, B> y, In<bool, dyn, 32> x) {
  auto [i] = y.index();
  auto bits = cast<i32>(x.tiles(shape<B, 32>).load(i, 0));
  y.store(reshape(sum(bits << iota<i32, 1, 32>(axis<1>), axis<1>), shape<B>));
}

/// Points turned by unit quaternions (w, x, y, z).
template <int B>
void rotate_points(Mut<f32, B, 4> y, In<f32, dyn, 4> q, In<f32, dyn, 3> p) {
  auto [first, zero] = y.origin();
  auto i = iota<i32, B, 1>(axis<0>) + first;
  auto w = q.gather(i, 0), a = q.gather(i, 1), b = q.gather(i, 2), c = q.gather(i, 3);
  auto px = p.gather(i, 0), py = p.gather(i, 1), pz = p.gather(i, 2);
  auto tx = 2.0f * (b * pz - c * py), ty = 2.0f * (c * px - a * pz), tz = 2.0f * (a * py - b * px);
  auto x_ = px + w * tx + b * tz - c * ty;
  auto y_ = py + w * ty + c * tx - a * tz;
  auto z_ = pz + w * tz + a * ty - b * tx;
  y.store(cat(cat(x_, y_, axis<1>), cat(z_, zeros<f32, B, 1>(), axis<1>), axis<1>));
}

// -- products ---------------------------------------------------------------------------------------------------------

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

/// One query per head: batch, head, depth; keys and values: batch, head, time, depth.
template <int BN, int D>
void decode_attention(Mut<bf16, 1, 1, D> o, In<bf16, dyn, dyn, D> q, In<bf16, dyn, dyn, dyn, D> k,
                      In<bf16, dyn, dyn, dyn, D> v, Scalar<f32> scale) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = cast<f32>(reshape(q.load_like(o), shape<1, D>)) * scale;
  auto m = full<f32, 1, 1>(-infinity<f32>), l = zeros<f32, 1, 1>();
  auto acc = zeros<f32, 1, D>();
  for (auto j : range(K.count(2))) {
    auto s = sum(cast<f32>(reshape(K.load(batch, kv_head, j, 0), shape<BN, D>)) * Q, axis<1>);
    s = where(iota<i32, BN, 1>(axis<0>) + j * BN < k.dim(2), s, -infinity<f32>);
    auto m2 = max(m, max(s, axis<0>));
    auto p = exp(s - m2);
    auto alpha = exp(m - m2);
    l = l * alpha + sum(p, axis<0>);
    acc = acc * alpha + sum(p * cast<f32>(reshape(V.load(batch, kv_head, j, 0), shape<BN, D>)), axis<0>);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, 1, D>));
}

// -- element by element -----------------------------------------------------------------------------------------------

template <int B>
void adam_step(Mut<f32, B> new_p, Mut<f32, B> new_m, Mut<f32, B> new_v, In<f32, dyn> p, In<f32, dyn> m, In<f32, dyn> v,
               In<bf16, dyn> gradient, Scalar<f32> rate, Scalar<f32> first_bias, Scalar<f32> second_bias) {
  auto g = cast<f32>(gradient.load_like(new_p));
  auto m2 = 0.9f * m.load_like(new_m) + 0.1f * g;
  auto v2 = 0.999f * v.load_like(new_v) + 0.001f * g * g;
  new_m.store(m2);
  new_v.store(v2);
  new_p.store(p.load_like(new_p) - rate * (m2 / first_bias) / (sqrt(v2 / second_bias) + 1e-8f));
}

/// 0 below 0.1, then linear, and at most 1.
template <int B>
void huber_gradient(Mut<f16, B> y, In<f16, dyn> x, In<f16, dyn> target) {
  auto d = cast<f32>(x.load_like(y)) - cast<f32>(target.load_like(y));
  auto outer = where(d > 0.0f, 1.0f, -1.0f);
  auto g = where(abs(d) < 0.1f, 0.0f, where(abs(d) <= 1.0f, d, outer));
  y.store(cast<f16>(g));
}

template <int B>
void interleave(Mut<f16, B, 2> y, In<f16, dyn> a, In<f16, dyn> b) {
  auto [i, zero] = y.index();
  auto left = reshape(a.tiles(shape<B>).load(i), shape<B, 1>);
  auto right = reshape(b.tiles(shape<B>).load(i), shape<B, 1>);
  y.store(cat(left, right, axis<1>));
}

/// How many limits are not above each number: a binary search.
template <int B>
void bucketize(Mut<i32, B> y, In<i32, dyn> x, In<i32, dyn> limits) {
  auto t = x.load_like(y);
  auto low = zeros<i32, B>(), high = full<i32, B>(limits.dim(0));
  tile_while(any(low < high)) {
    auto middle = (low + high) / 2;
    auto above = low < high && limits.gather(middle) <= t;
    high = where(above, high, middle);
    low = where(above, middle + 1, low);
  }
  y.store(low);
}

/// A step of an FFT: row, half, place.
template <int B>
void butterfly(Mut<f32, 1, 2, B> re, Mut<f32, 1, 2, B> im, In<f32, dyn, 2, dyn> x_re, In<f32, dyn, 2, dyn> x_im,
               In<f32, dyn> w_re, In<f32, dyn> w_im) {
  auto [row, zero, k] = re.origin();
  auto ar = x_re.load_at(shape<1, 1, B>, row, 0, k), ai = x_im.load_at(shape<1, 1, B>, row, 0, k);
  auto br = x_re.load_at(shape<1, 1, B>, row, 1, k), bi = x_im.load_at(shape<1, 1, B>, row, 1, k);
  auto wr = w_re.load_like(re, axes<2>), wi = w_im.load_like(re, axes<2>);
  auto tr = br * wr - bi * wi, ti = br * wi + bi * wr;
  re.store(cat(ar + tr, ar - tr, axis<1>));
  im.store(cat(ai + ti, ai - ti, axis<1>));
}

// -- shared results ---------------------------------------------------------------------------------------------------

/// Rows whose label has the largest number.
template <int N>
void accuracy_count(Acc<i32, dyn> count, In<f16, dyn, dyn> x, In<i32, dyn> labels) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row] = block_id<1>();
  auto largest = max(x.tiles(shape<1, N>, pad::neg_inf).load(row, 0));
  auto chosen = x.gather(row, labels.gather(row));
  count.add(0, where(chosen == largest, 1, 0));
}

template <int B>
void weighted_histogram(Acc<f32, dyn> y, In<i32, dyn> bins, In<f32, dyn> weights) {
  auto [i] = block_id<1>();
  y.add(bins.tiles(shape<B>, pad(-1)).load(i), weights.tiles(shape<B>).load(i));
}

template <int B>
void sum_of_squares(Acc<f32, dyn> y, In<f32, dyn> x) {
  auto [i] = block_id<1>();
  auto t = x.tiles(shape<B>).load(i);
  y.add(0, sum(t * t));
}

template <int B>
void min_max(Acc<i32, dyn> least, Acc<i32, dyn> most, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  least.min(0, min(x.tiles(shape<B>, pad(std::numeric_limits<i32>::max())).load(i)));
  most.max(0, max(x.tiles(shape<B>, pad(std::numeric_limits<i32>::min())).load(i)));
}

// -- the cases: images ------------------------------------------------------------------------------------------------

Plan periodic_laplacian_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    return x((i + m - 1) % m, j) + x((i + 1) % m, j) + x(i, (j + n - 1) % n) + x(i, (j + 1) % n) - 4 * x(i, j);
  };
  return plan(
      {2 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<periodic_laplacian<32, 64>>(mut(y), from).on(on); });
}

Plan sobel_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, m, n);
  const auto wanted = [=](Size offset) {
    const Size i = offset / n, j = offset % n;
    const auto at = [&](Size di, Size dj) { return x(i + di, j + dj); };
    const double gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
    const double gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
    return std::floor(std::min(std::sqrt(gx * gx + gy * gy), 255.0));
  };
  return plan({2 * bytes_of<u8>(m * n)}, outputs(by_offset<u8>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<sobel<32, 64>>(mut(y), from).on(on); });
}

Plan median_filter_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, m, n);
  const auto wanted = [=](Size at) {
    std::vector<double> v;
    for (Size d = 0; d < 9; ++d) v.push_back(x(at / n + d / 3 - 1, at % n + d % 3 - 1));
    std::sort(v.begin(), v.end());
    return v[4];
  };
  return plan({2 * bytes_of<u8>(m * n)}, outputs(by_offset<u8>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<median_filter<32, 64>>(mut(y), from).on(on); });
}

Plan rgb_to_grey_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, m, n, 3);
  const auto wanted = [=](Size at) {
    return (0.299 * x.at(3 * at) + 0.587 * x.at(3 * at + 1) + 0.114 * x.at(3 * at + 2)) / 255;
  };
  return plan({bytes_of<u8>(3 * m * n) + bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<rgb_to_grey<32, 64>>(mut(y), from).on(on); });
}

Plan pixel_shuffle_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, 12, n, n);
  const auto wanted = [=](Size at) {
    const Size j = at % (2 * n), i = at / (2 * n) % (2 * n), channel = at / (4 * n * n);
    return x(channel / 3, channel % 3 * 4 + i % 2 * 2 + j % 2, i / 2, j / 2);
  };
  return plan({2 * bytes_of<f32>(images * 12 * n * n)},
              outputs(by_offset<f32>(wanted, images, 3, 2 * n, 2 * n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<pixel_shuffle<16, 64>>(mut(y), from).on(on); });
}

Plan im2col_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels"),
             n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, images, channels, n, n);
  const auto wanted = [=](Size at) {
    const Size place = at % (n * n), line = at / (n * n), row = line % (9 * channels);
    return x(line / (9 * channels), row / 9, place / n + row % 9 / 3 - 1, place % n + row % 3 - 1);
  };
  return plan({10 * bytes_of<bf16>(images * channels * n * n)},
              outputs(by_offset<bf16>(wanted, images, 9 * channels, n * n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<im2col<kPiece>>(mut(y), from).on(on); });
}

Plan reflect_pad_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, m, n);
  const Size to_m = m + 2 * kPad, to_n = n + 2 * kPad;
  const auto wanted = [=](Size at) {
    const Size i = std::abs(at / to_n % to_m - kPad), j = std::abs(at % to_n - kPad);
    return x(at / to_n / to_m, m - 1 - std::abs(m - 1 - i), n - 1 - std::abs(n - 1 - j));
  };
  return plan({bytes_of<f32>(images * (m * n + to_m * to_n))},
              outputs(by_offset<f32>(wanted, images, to_m, to_n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<reflect_pad<16, 64>>(mut(y), from).on(on); });
}

Plan nearest_3d_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), to = n * 3 / 2;
  const auto x = normal<f32>(1, n, n, n);
  const auto wanted = [=](Size at) { return x(at / to / to * 2 / 3, at / to % to * 2 / 3, at % to * 2 / 3); };
  return plan({bytes_of<f32>(n * n * n + to * to * to)}, outputs(by_offset<f32>(wanted, to, to, to).within(0)),
              inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<nearest_3d<4, 8, 64>>(mut(y), from).on(on); });
}

Plan max_pool_1d_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), length = size_of_case(args, "length"), to = (length - 5) / 3 + 1;
  const auto x = normal<f32>(1, rows, length);
  const auto wanted = [=](Size at) {
    double best = -INFINITY;
    for (Size t = 0; t < 5; ++t) best = std::max(best, x(at / to, at % to * 3 + t));
    return best;
  };
  return plan({bytes_of<f32>(rows * (length + to))}, outputs(by_offset<f32>(wanted, rows, to).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<max_pool_1d<kPiece>>(mut(y), from).on(on); });
}

// -- the cases: along the first axis ----------------------------------------------------------------------------------

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

// -- the cases: rows --------------------------------------------------------------------------------------------------

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

Plan take_along_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns"), taken = columns / 4;
  const auto x = normal<f32>(1, rows, columns);
  const auto ids = whole<i32>(2, 0, columns, rows, taken);
  const auto wanted = [=](Size at) { return x(at / taken, static_cast<Size>(ids.at(at))); };
  return plan({bytes_of<f32>(rows * columns) + 2 * bytes_of<f32>(rows * taken)},
              outputs(by_offset<f32>(wanted, rows, taken).within(0)), inputs(x, ids),
              [](const Stream& on, auto& y, const auto&... in) { kernel<take_along<512>>(mut(y), in...).on(on); });
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

Plan sparse_product_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto columns = whole<i32>(1, 0, n, n, kNeighbours);
  const auto values = normal<f32>(2, n, kNeighbours);
  const auto x = normal<f32>(3, n);
  const auto wanted = [=](Size i) {
    double s = 0;
    for (Size k = 0; k < kNeighbours; ++k) s += values(i, k) * x(static_cast<Size>(columns(i, k)));
    return s;
  };
  return plan({bytes_of<f32>(2 * n * (kNeighbours + 1))}, outputs(by_offset<f32>(wanted, n)),
              inputs(columns, values, x),
              [](const Stream& on, auto& y, const auto&... in) { kernel<sparse_product<64>>(mut(y), in...).on(on); });
}

Plan pack_bits_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<bool>(1, 0, 2, n, 32);
  const auto wanted = [=](Size i) {
    std::uint32_t word = 0;
    for (Size k = 0; k < 32; ++k) word |= static_cast<std::uint32_t>(x(i, k)) << k;
    return static_cast<double>(static_cast<std::int32_t>(word));
  };
  return plan({36.0 * static_cast<double>(n)}, outputs(by_offset<i32>(wanted, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<pack_bits<128>>(mut(y), from).on(on); });
}

Plan rotate_points_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto q = uniform<f32>(1, -1, 1, n, 4);
  const auto p = normal<f32>(2, n, 3);
  const auto wanted = [=](Size at) {  // p + w t + v x t, t = 2 v x p
    const Size i = at / 3;
    const double w = q(i, 0), v[3] = {q(i, 1), q(i, 2), q(i, 3)}, u[3] = {p(i, 0), p(i, 1), p(i, 2)};
    double t[3];
    for (int k = 0; k < 3; ++k) t[k] = 2 * (v[(k + 1) % 3] * u[(k + 2) % 3] - v[(k + 2) % 3] * u[(k + 1) % 3]);
    const Size k = at % 3, k1 = (k + 1) % 3, k2 = (k + 2) % 3;
    return u[k] + w * t[k] + v[k1] * t[k2] - v[k2] * t[k1];
  };
  return plan({bytes_of<f32>(10 * n)}, outputs(by_offset<f32>(wanted, n, 3)), inputs(q, p),
              [](const Stream& on, auto& y, const auto&... in) { kernel<rotate_points<256>>(mut(y), in...).on(on); });
}

// -- the cases: products ----------------------------------------------------------------------------------------------

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

Plan decode_attention_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             kv_heads = size_of_case(args, "kv_heads"), length = size_of_case(args, "length");
  const auto q = normal<bf16>(1, batch, heads, kHeadDepth);
  const auto k = normal<bf16>(2, batch, kv_heads, length, kHeadDepth),
             v = normal<bf16>(3, batch, kv_heads, length, kHeadDepth);
  const float scale = 1.0f / std::sqrt(static_cast<float>(kHeadDepth));
  const auto wanted = [=](Size line) {
    const Size b = line / heads, head = line % heads, from = head / (heads / kv_heads);
    std::vector<double> s(static_cast<std::size_t>(length), 0.0), o(kHeadDepth, 0.0);
    for (Size t = 0; t < length; ++t) {
      for (Size d = 0; d < kHeadDepth; ++d)
        s[static_cast<std::size_t>(t)] += q(b, head, d) * k(b, from, t, d) * static_cast<double>(scale);
    }
    s = softmax_of(s);
    for (Size t = 0; t < length; ++t) {
      for (Size d = 0; d < kHeadDepth; ++d)
        o[static_cast<std::size_t>(d)] += s[static_cast<std::size_t>(t)] * v(b, from, t, d);
    }
    return o;
  };
  return plan({2 * bytes_of<bf16>(batch * (kv_heads * length + heads) * kHeadDepth)},
              outputs(by_line<bf16>(wanted, batch, heads, kHeadDepth)), inputs(q, k, v),
              [=](const Stream& on, auto& y, const auto&... in) {
                kernel<decode_attention<64, kHeadDepth>>(mut(y), in..., scale).on(on);
              });
}

// -- the cases: element by element ------------------------------------------------------------------------------------

Plan adam_step_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto p = normal<f32>(1, n), m = normal<f32>(2, n), v = uniform<f32>(3, 0, 1, n);
  const auto g = normal<bf16>(4, n);
  constexpr float kRate = 0.01f, kFirst = 0.5f, kSecond = 0.01f;
  const auto m2 = [=](Size i) { return 0.9 * m.at(i) + 0.1 * g.at(i); };
  const auto v2 = [=](Size i) { return 0.999 * v.at(i) + 0.001 * g.at(i) * g.at(i); };
  const auto p2 = [=](Size i) {
    return p.at(i) - static_cast<double>(kRate) * (m2(i) / static_cast<double>(kFirst)) /
                         (std::sqrt(v2(i) / static_cast<double>(kSecond)) + 1e-8);
  };
  return plan({bytes_of<f32>(6 * n) + bytes_of<bf16>(n)},
              outputs(by_offset<f32>(p2, n), by_offset<f32>(m2, n), by_offset<f32>(v2, n)), inputs(p, m, v, g),
              [](const Stream& on, auto& a, auto& b, auto& c, const auto&... in) {
                kernel<adam_step<kPiece>>(mut(a), mut(b), mut(c), in..., kRate, kFirst, kSecond).on(on);
              });
}

Plan huber_gradient_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f16>(1, n), t = normal<f16>(2, n);
  const auto wanted = [=](Size i) {
    const double d = x.at(i) - t.at(i);
    if (std::abs(d) < static_cast<double>(0.1f)) return 0.0;
    return std::clamp(d, -1.0, 1.0);
  };
  return plan(
      {3 * bytes_of<f16>(n)}, outputs(by_offset<f16>(wanted, n)), inputs(x, t),
      [](const Stream& on, auto& y, const auto&... in) { kernel<huber_gradient<kPiece>>(mut(y), in...).on(on); });
}

Plan interleave_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto a = normal<f16>(1, n), b = normal<f16>(2, n);
  const auto wanted = [=](Size at) { return at % 2 == 0 ? a.at(at / 2) : b.at(at / 2); };
  return plan({4 * bytes_of<f16>(n)}, outputs(by_offset<f16>(wanted, n, 2).within(0)), inputs(a, b),
              [](const Stream& on, auto& y, const auto&... in) { kernel<interleave<kPiece>>(mut(y), in...).on(on); });
}

Plan bucketize_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<i32>(1, 0, kLimits * kLimitStep, n);
  const auto limits = steps(2, kLimitStep, kLimits);
  const auto wanted = [=](Size i) {
    Size count = 0;
    while (count < kLimits && limits(count) <= x.at(i)) ++count;
    return static_cast<double>(count);
  };
  return plan({2 * bytes_of<i32>(n)}, outputs(by_offset<i32>(wanted, n)), inputs(x, limits),
              [](const Stream& on, auto& y, const auto&... in) { kernel<bucketize<kPiece>>(mut(y), in...).on(on); });
}

Plan butterfly_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), half = size_of_case(args, "half");
  const auto re = normal<f32>(1, rows, 2, half), im = normal<f32>(2, rows, 2, half);
  const auto w_re = normal<f32>(3, half), w_im = normal<f32>(4, half);
  const auto wanted = [=](Size at, bool real) {
    const Size k = at % half, row = at / half / 2;
    const double sign = at / half % 2 == 0 ? 1 : -1;
    const double br = re(row, 1, k), bi = im(row, 1, k);
    return real ? re(row, 0, k) + sign * (br * w_re(k) - bi * w_im(k))
                : im(row, 0, k) + sign * (br * w_im(k) + bi * w_re(k));
  };
  return plan({4 * bytes_of<f32>(rows * 2 * half)},
              outputs(by_offset<f32>([=](Size at) { return wanted(at, true); }, rows, 2, half),
                      by_offset<f32>([=](Size at) { return wanted(at, false); }, rows, 2, half)),
              inputs(re, im, w_re, w_im), [](const Stream& on, auto& y_re, auto& y_im, const auto&... in) {
                kernel<butterfly<512>>(mut(y_re), mut(y_im), in...).on(on);
              });
}

// -- the cases: shared results ----------------------------------------------------------------------------------------

Plan accuracy_count_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = whole<f16>(1, -1000, 1000, rows, columns);
  const auto labels = whole<i32>(2, 0, columns, rows);
  const auto wanted = [=](Size) {
    double count = 0;
    for (Size i = 0; i < rows; ++i) {
      const double chosen = x(i, static_cast<Size>(labels(i)));
      bool largest = true;
      for (Size j = 0; j < columns && largest; ++j) largest = x(i, j) <= chosen;
      count += largest ? 1 : 0;
    }
    return count;
  };
  return plan({bytes_of<f16>(rows * columns)}, outputs(by_offset<i32>(wanted, 1)), inputs(x, labels),
              [=](const Stream& on, auto& y, const auto&... in) {
                y = zeros<i32>({1}).on(on);
                kernel<accuracy_count<1024>>.blocks(rows)(mut(y), in...).on(on);
              });
}

Plan weighted_histogram_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto bins = whole<i32>(1, 0, kBins, n);
  const auto weights = uniform<f32>(2, 0, 1, n);
  const auto wanted = [=](Size) {
    std::vector<double> sums(kBins, 0.0);
    for (Size i = 0; i < n; ++i) sums[static_cast<std::size_t>(bins.at(i))] += weights.at(i);
    return sums;
  };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_line<f32>(wanted, kBins).within(1e-3)), inputs(bins, weights),
              [=](const Stream& on, auto& y, const auto&... in) {
                y = zeros<f32>({kBins}).on(on);
                kernel<weighted_histogram<kPiece>>.blocks(ceil_div(n, kPiece))(mut(y), in...).on(on);
              });
}

Plan sum_of_squares_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<f32>(1, -100, 100, n);
  const auto wanted = [=](Size) {
    double s = 0;
    for (Size i = 0; i < n; ++i) s += x.at(i) * x.at(i);
    return s;
  };
  return plan({bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, 1).within(1e-3)), inputs(x),
              [=](const Stream& on, auto& y, const auto& from) {
                y = zeros<f32>({1}).on(on);
                kernel<sum_of_squares<kPiece>>.blocks(ceil_div(n, kPiece))(mut(y), from).on(on);
              });
}

Plan min_max_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<i32>(1, -1000000, 1000000, n);
  const auto least = [=](Size) {
    double s = INFINITY;
    for (Size i = 0; i < n; ++i) s = std::min(s, x.at(i));
    return s;
  };
  const auto most = [=](Size) {
    double s = -INFINITY;
    for (Size i = 0; i < n; ++i) s = std::max(s, x.at(i));
    return s;
  };
  return plan({bytes_of<i32>(n)}, outputs(by_offset<i32>(least, 1), by_offset<i32>(most, 1)), inputs(x),
              [=](const Stream& on, auto& low, auto& high, const auto& from) {
                low = full<i32>({1}, std::numeric_limits<i32>::max()).on(on);
                high = full<i32>({1}, std::numeric_limits<i32>::min()).on(on);
                kernel<min_max<kPiece>>.blocks(ceil_div(n, kPiece))(mut(low), mut(high), from).on(on);
              });
}

}  // namespace

std::vector<Entry> novel_entries() {
  return {
      entry<periodic_laplacian_plan>("periodic_laplacian", "m=10000 n=10000", "m=40 n=80; m=37 n=71"),
      entry<sobel_plan>("sobel", "m=16000 n=16000", "m=64 n=128; m=37 n=71"),
      entry<median_filter_plan>("median_filter", "m=16000 n=16000", "m=64 n=128; m=37 n=71"),
      entry<rgb_to_grey_plan>("rgb_to_grey", "m=8192 n=10000", "m=64 n=80; m=37 n=71"),
      entry<pixel_shuffle_plan>("pixel_shuffle", "images=32 n=512", "images=1 n=64; images=2 n=21"),
      entry<im2col_plan>("im2col", "images=32 channels=32 n=120", "images=1 channels=4 n=40; images=2 channels=3 n=13"),
      entry<reflect_pad_plan>("reflect_pad", "images=64 m=1000 n=1000", "images=2 m=40 n=80; images=3 m=11 n=21"),
      entry<nearest_3d_plan>("nearest_3d", "n=320", "n=64; n=22"),
      entry<max_pool_1d_plan>("max_pool_1d", "rows=4096 length=20000", "rows=3 length=5000; rows=2 length=302"),
      entry<column_argmin_plan>("column_argmin", "rows=16384 columns=16000",
                                "rows=128 columns=256; rows=99 columns=200"),
      entry<column_variance_plan>("column_variance", "rows=16384 columns=16000",
                                  "rows=128 columns=256; rows=99 columns=200"),
      entry<softmax_columns_plan>("softmax_columns", "rows=1000 columns=65536",
                                  "rows=1000 columns=16; rows=333 columns=13"),
      entry<channel_norm_plan>("channel_norm", "images=32 channels=96 n=128",
                               "images=1 channels=96 n=64; images=2 channels=40 n=11"),
      entry<triplet_loss_plan>("triplet_loss", "rows=300000 columns=200", "rows=16 columns=200; rows=5 columns=77"),
      entry<kl_divergence_plan>("kl_divergence", "rows=131072 columns=1000",
                                "rows=16 columns=1000; rows=3 columns=333"),
      entry<cumulative_product_plan>("cumulative_product", "rows=65536 columns=1000",
                                     "rows=16 columns=1000; rows=3 columns=333"),
      entry<take_along_plan>("take_along", "rows=50000 columns=2000", "rows=8 columns=2000; rows=3 columns=333"),
      entry<prefix_softmax_plan>("prefix_softmax", "batch=32 n=2000", "batch=2 n=112; batch=3 n=37"),
      entry<sparse_product_plan>("sparse_product", "n=2000000", "n=640; n=501"),
      entry<pack_bits_plan>("pack_bits", "n=16777216", "n=1024; n=501"),
      entry<rotate_points_plan>("rotate_points", "n=10000000", "n=640; n=501"),
      entry<int8_product_plan>("int8_product", "m=8192 n=8192 k=8192", "m=128 n=256 k=128; m=100 n=70 k=90"),
      entry<transposed_product_plan>("transposed_product", "n=4000", "n=96; n=75"),
      entry<l1_distances_plan>("l1_distances", "m=8000 n=8000", "m=128 n=64; m=50 n=70"),
      entry<decode_attention_plan>("decode_attention", "batch=32 heads=32 kv_heads=8 length=4000",
                                   "batch=2 heads=4 kv_heads=2 length=96; batch=1 heads=2 kv_heads=1 length=77"),
      entry<adam_step_plan>("adam_step", "n=20000000", "n=7936; n=5001"),
      entry<huber_gradient_plan>("huber_gradient", "n=100000000", "n=7936; n=5001"),
      entry<interleave_plan>("interleave", "n=67108864", "n=8192; n=5001"),
      entry<bucketize_plan>("bucketize", "n=67108864", "n=8192; n=5001"),
      entry<butterfly_plan>("butterfly", "rows=8192 half=2048", "rows=4 half=1024; rows=3 half=333"),
      entry<accuracy_count_plan>("accuracy_count", "rows=131072 columns=1000", "rows=96 columns=8; rows=50 columns=7"),
      entry<weighted_histogram_plan>("weighted_histogram", "n=67108864", "n=16384; n=5001"),
      entry<sum_of_squares_plan>("sum_of_squares", "n=134217728", "n=16384; n=5001"),
      entry<min_max_plan>("min_max", "n=134217728", "n=16384; n=5001")};
}

}  // namespace generality
