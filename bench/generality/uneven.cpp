// Persistent loops whose tiles differ in work: triangles, bands, blocks of a sparse matrix, rows of many lengths,
// iterations until the values have converged.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kBlock = 64;  // rows and columns of a sparse matrix's blocks
constexpr int kBand = 256;  // places beside the diagonal
constexpr int kDepth = 64;  // of causal_scores

/// The lower triangle of a times b.
template <int BM, int BN, int BK>
void lower_product(MutTiles<bf16, BM, BN> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto rows = iota<i32, BM, 1>(axis<0>) + i * BM;
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(min(A.count(1), ceil_div((i + 1) * BM, BK)))) {
      auto columns = iota<i32, 1, BK>(axis<1>) + k * BK;
      acc = mma(where(columns <= rows, A.load(i, k), 0.0f), B.load(k, j), acc);
    }
    out.store(cast<bf16>(acc));
  }
}

/// Scores of queries and the keys before them, as linear attention has them; zeros above the diagonal: head, query,
/// key.
template <int BM, int BN>
void causal_scores(MutTiles<bf16, 1, BM, BN> s, In<bf16, dyn, dyn, kDepth> q, In<bf16, dyn, dyn, kDepth> k) {
  for (auto out : s) {
    auto [head, i, j] = out.index();
    auto scores = zeros<f32, BM, BN>();
    tile_if (j * BN < (i + 1) * BM) {
      auto queries = reshape(q.tiles(shape<1, BM, kDepth>).load(head, i, 0), shape<BM, kDepth>);
      auto keys = reshape(k.tiles(shape<1, BN, kDepth>).load(head, j, 0), shape<BN, kDepth>);
      auto rows = iota<i32, BM, 1>(axis<0>) + i * BM, columns = iota<i32, 1, BN>(axis<1>) + j * BN;
      auto products = mma(queries, transpose(keys), zeros<f32, BM, BN>()) * 0.125f;
      scores = where(columns <= rows, products, 0.0f);
    }
    out.store(reshape(cast<bf16>(scores), shape<1, BM, BN>));
  }
}

/// A matrix of blocks of 64x64 times b: block row i has the blocks from limits[i] on, at `columns`.
template <int BN>
void block_sparse_product(MutTiles<f16, kBlock, BN> c, In<i32, dyn> limits, In<i32, dyn> columns,
                          In<f16, dyn, kBlock, kBlock> blocks, In<f16, dyn, dyn> b) {
  auto B = b.tiles(shape<kBlock, BN>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, kBlock, BN>();
    for (auto at : range(limits.gather(i), limits.gather(i + 1))) {
      auto block = reshape(blocks.load_at(shape<1, kBlock, kBlock>, at, 0, 0), shape<kBlock, kBlock>);
      acc = mma(block, B.load(columns.gather(at), j), acc);
    }
    out.store(cast<f16>(acc));
  }
}

/// For each of the batch the product over the first places of k alone.
template <int BM, int BN, int BK>
void lengths_product(MutTiles<f16, 1, BM, BN> c, In<f16, dyn, dyn, dyn> a, In<f16, dyn, dyn, dyn> b,
                     In<i32, dyn> lengths) {
  auto A = a.tiles(shape<1, BM, BK>);
  auto B = b.tiles(shape<1, BK, BN>);
  for (auto out : c) {
    auto [batch, i, j] = out.index();
    auto length = lengths.gather(batch);
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(ceil_div(length, BK))) {
      auto inside = iota<i32, 1, BK>(axis<1>) + k * BK < length;
      auto left = where(inside, reshape(A.load(batch, i, k), shape<BM, BK>), 0.0f);
      acc = mma(left, reshape(B.load(batch, k, j), shape<BK, BN>), acc);
    }
    out.store(reshape(cast<f16>(acc), shape<1, BM, BN>));
  }
}

/// A band around the diagonal of a, times b.
template <int BM, int BN, int BK>
void banded_product(MutTiles<f32, BM, BN> c, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto rows = iota<i32, BM, 1>(axis<0>) + i * BM;
    auto acc = zeros<f32, BM, BN>();
    auto first = max(i * BM - kBand, 0) / BK, last = min(A.count(1), ceil_div((i + 1) * BM + kBand, BK));
    for (auto k : range(first, last)) {
      auto apart = iota<i32, 1, BK>(axis<1>) + k * BK - rows;
      auto band = where(abs(apart) <= kBand, A.load(i, k), 0.0f);
      acc = mma(cast<tf32>(band), cast<tf32>(B.load(k, j)), acc);
    }
    out.store(acc);
  }
}

/// Softmax of the first places of each row; zeros behind them.
template <int N, int C>
void lengths_softmax(MutTiles<f32, 1, N> y, In<f32, dyn, dyn> x, In<i32, dyn> lengths) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto X = x.tiles(shape<1, C>);
  for (auto out : y) {
    auto [row, zero] = out.index();
    auto length = lengths.gather(row);
    auto parts = out.sub(shape<1, C>);
    auto m = full<f32, 1, 1>(-1e30f), l = zeros<f32, 1, 1>();
    for (auto k : range(ceil_div(length, C))) {
      auto t = where(iota<i32, 1, C>(axis<1>) + k * C < length, X.load(row, k), -1e30f);
      auto top = max(m, max(t, axis<1>));
      l = l * exp(m - top) + sum(exp(t - top), axis<1>);
      m = top;
    }
    for (auto k : range(X.count(1))) {
      auto inside = iota<i32, 1, C>(axis<1>) + k * C < length;
      parts.store(0, k, where(inside, exp(X.load(row, k) - m) / l, 0.0f));
    }
  }
}

/// Kepler's equation by Newton's steps until every element of a tile has converged.
template <int B>
void kepler(MutTiles<f64, B> y, In<f64, dyn> anomaly, In<f64, dyn> eccentricity) {
  for (auto out : y) {
    auto m = anomaly.load_like(out), e = eccentricity.load_like(out);
    auto x = m;
    auto step = ones<f64, B>();
    tile_while(any(abs(step) > 1e-12)) {
      step = (x - e * sin(x) - m) / (1.0 - e * cos(x));
      x -= step;
    }
    out.store(x);
  }
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan lower_product_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), columns = size_of_case(args, "columns");
  const auto a = normal<bf16>(1, n, n), b = normal<bf16>(2, n, columns);
  const auto wanted = [=](Size at) {
    const Size i = at / columns;
    return sum_over(i + 1, [=](Size k) { return a(i, k) * b(k, at % columns); });
  };
  return plan(
      {bytes_of<bf16>(n * (n / 2 + 2 * columns)), static_cast<double>(n * n) * static_cast<double>(columns), "bf16"},
      outputs(by_offset<bf16>(wanted, n, columns)), inputs(a, b),
      [](const Stream& on, auto& c, const auto&... in) { kernel<lower_product<128, 128, 64>>(mut(c), in...).on(on); });
}

Plan causal_scores_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), length = size_of_case(args, "length");
  const auto q = normal<bf16>(1, heads, length, kDepth), k = normal<bf16>(2, heads, length, kDepth);
  const auto wanted = [=](Size at) {
    const Size head = at / (length * length), i = at / length % length, j = at % length;
    return j > i ? 0 : 0.125 * sum_over(kDepth, [=](Size d) { return q(head, i, d) * k(head, j, d); });
  };
  return plan(
      {bytes_of<bf16>(heads * length * (length + 2 * kDepth))}, outputs(by_offset<bf16>(wanted, heads, length, length)),
      inputs(q, k),
      [](const Stream& on, auto& s, const auto&... in) { kernel<causal_scores<64, 128>>(mut(s), in...).on(on); });
}

Plan block_sparse_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), degree = size_of_case(args, "degree"), n = size_of_case(args, "n");
  const Size all = (rows + 1) * degree;
  const auto limits = steps(1, degree, rows + 1);
  const auto columns = whole<i32>(2, 0, rows, all);
  const auto blocks = normal<f16>(3, all, kBlock, kBlock);
  const auto right = normal<f16>(4, rows * kBlock, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, block_row = i / kBlock;
    double s = 0;
    for (auto k = static_cast<Size>(limits(block_row)); k < static_cast<Size>(limits(block_row + 1)); ++k) {
      const auto first = static_cast<Size>(columns(k)) * kBlock;
      s += sum_over(kBlock, [=](Size c) { return blocks(k, i % kBlock, c) * right(first + c, at % n); });
    }
    return s;
  };
  return plan(
      {bytes_of<f16>(all * kBlock * kBlock + 2 * rows * kBlock * n),
       2.0 * kBlock * kBlock * static_cast<double>(rows * degree * n), "f16"},
      outputs(by_offset<f16>(wanted, rows * kBlock, n)), inputs(limits, columns, blocks, right),
      [](const Stream& on, auto& c, const auto&... in) { kernel<block_sparse_product<128>>(mut(c), in...).on(on); });
}

Plan lengths_product_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), m = size_of_case(args, "m"), n = size_of_case(args, "n"),
             inner = size_of_case(args, "k");
  const auto a = normal<f16>(1, batch, m, inner), b = normal<f16>(2, batch, inner, n);
  const auto lengths = whole<i32>(3, 1, inner + 1, batch);
  const auto wanted = [=](Size at) {
    const Size z = at / (m * n), i = at / n % m;
    return sum_over(static_cast<Size>(lengths(z)), [=](Size k) { return a(z, i, k) * b(z, k, at % n); });
  };
  return plan(
      {bytes_of<f16>(batch * (m * n + (m + n) * inner / 2)),
       static_cast<double>(batch * m * n) * static_cast<double>(inner), "f16"},
      outputs(by_offset<f16>(wanted, batch, m, n)), inputs(a, b, lengths),
      [](const Stream& on, auto& c, const auto&... in) { kernel<lengths_product<128, 64, 64>>(mut(c), in...).on(on); });
}

Plan banded_product_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), columns = size_of_case(args, "columns");
  const auto a = normal<f32>(1, n, n), b = normal<f32>(2, n, columns);
  const auto wanted = [=](Size at) {
    const Size i = at / columns, first = std::max<Size>(i - kBand, 0), last = std::min<Size>(i + kBand + 1, n);
    return sum_over(last - first, [=](Size k) { return a(i, first + k) * b(first + k, at % columns); });
  };
  return plan(
      {bytes_of<f32>(n * (2 * kBand + 2 * columns)), 4.0 * kBand * static_cast<double>(n * columns), "tf32"},
      outputs(by_offset<f32>(wanted, n, columns).within(2e-3)), inputs(a, b),
      [](const Stream& on, auto& c, const auto&... in) { kernel<banded_product<64, 128, 32>>(mut(c), in...).on(on); });
}

Plan lengths_softmax_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto lengths = whole<i32>(2, 1, columns + 1, rows);
  const auto wanted = [=](Size i) {
    std::vector<double> y(static_cast<std::size_t>(columns), 0.0);
    const auto length = static_cast<Size>(lengths(i));
    const double total = sum_over(length, [=](Size j) { return std::exp(x(i, j)); });
    for (Size j = 0; j < length; ++j) y[static_cast<std::size_t>(j)] = std::exp(x(i, j)) / total;
    return y;
  };
  return plan(
      {1.5 * bytes_of<f32>(rows * columns)}, outputs(by_line<f32>(wanted, rows, columns)), inputs(x, lengths),
      [](const Stream& on, auto& y, const auto&... in) { kernel<lengths_softmax<16384, 1024>>(mut(y), in...).on(on); });
}

Plan kepler_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto anomaly = uniform<f64>(1, 0, 3, n), eccentricity = uniform<f64>(2, 0, 0.8, n);
  const auto wanted = [=](Size i) {
    const double m = anomaly.at(i), e = eccentricity.at(i);
    double x = m;
    for (int k = 0; k < 50; ++k) x -= (x - e * std::sin(x) - m) / (1 - e * std::cos(x));
    return x;
  };
  return plan({3 * bytes_of<f64>(n)}, outputs(by_offset<f64>(wanted, n)), inputs(anomaly, eccentricity),
              [](const Stream& on, auto& y, const auto&... in) { kernel<kepler<512>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> uneven_entries() {
  return {entry<lower_product_plan>("lower_product", "uneven",
                                    "n=4096 columns=4096; n=3001 columns=5003; n=5003 columns=1100",
                                    "n=256 columns=128; n=177 columns=99"),
          entry<causal_scores_plan>("causal_scores", "uneven",
                                    "heads=16 length=4096; heads=20 length=3001; heads=301 length=777",
                                    "heads=2 length=128; heads=3 length=77"),
          entry<block_sparse_plan>("block_sparse_product", "uneven",
                                   "rows=128 degree=16 n=2048; rows=77 degree=21 n=3001; rows=333 degree=7 n=1100",
                                   "rows=4 degree=2 n=128; rows=3 degree=3 n=77"),
          entry<lengths_product_plan>(
              "lengths_product", "uneven",
              "batch=64 m=512 n=512 k=2048; batch=77 m=333 n=501 k=1777; batch=501 m=133 n=104 k=1001",
              "batch=2 m=128 n=64 k=128; batch=3 m=45 n=37 k=77"),
          entry<banded_product_plan>("banded_product", "uneven",
                                     "n=8192 columns=4096; n=7001 columns=3003; n=12001 columns=1100",
                                     "n=512 columns=128; n=377 columns=99"),
          entry<lengths_softmax_plan>("lengths_softmax", "uneven",
                                      "rows=16384 columns=8192; rows=30001 columns=3003; rows=9001 columns=10007",
                                      "rows=4 columns=2048; rows=3 columns=1777"),
          entry<kepler_plan>("kepler", "uneven", "n=16777216; n=10000019; n=5000011", "n=4096; n=1501")};
}

}  // namespace generality
