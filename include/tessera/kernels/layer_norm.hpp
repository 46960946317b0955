// Layer norm along the last axis (Ba, Kiros and Hinton 2016), alone or fused with the addition of a residual.
//
//   auto y = kernels::layer_norm(x, weight, bias, 1e-5f).sync();
//   auto [y, sum] = kernels::add_layer_norm(x, std::move(h), weight, bias, 1e-5f).sync();    // sum = h + x, then y
//   from it
//
// The variance is that of the differences from the mean (two passes over the tile, which stays in registers), in f32.
// Rows longer than one tile are read twice in chunks: first the differences from the mean of the first chunk are
// summed, which is so near the row's mean that nothing cancels, then the row is read again. Few long rows are split
// into parts, whose means and variances are combined (Chan, Golub and LeVeque 1983).
#pragma once
#include "tessera/kernels/row_parts.hpp"

namespace tessera::kernels {

/// The differences of a row of n elements from its mean (0 in the padding), divided by the standard deviation.
template <int N>
auto normalized(const Tile<f32, 1, N>& t, const Scalar<i32>& n, const Scalar<f32>& eps) {
  auto count = cast<f32>(n);
  auto d = where(iota<i32, 1, N>(axis<1>) < n, t - sum(t, axis<1>) / count, 0.0f);
  return d * rsqrt(sum(d * d, axis<1>) / count + eps);
}

template <class T, class W, int N>
void layer_norm_row(Mut<T, 1, N> y, In<T, dyn, dyn> x, In<W, dyn> weight, In<W, dyn> bias, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = normalized(cast<f32>(x.load_like(y)), x.dim(1), eps);
  y.store(cast<T>(fma(t, cast<f32>(weight.load_like(y, axes<1>)), cast<f32>(bias.load_like(y, axes<1>)))));
}

template <class T, class W, int N>
void add_layer_norm_row(Mut<T, 1, N> y, Mut<T, 1, N> residual, In<T, dyn, dyn> x, In<W, dyn> weight, In<W, dyn> bias,
                        Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto h = cast<f32>(residual.load()) + cast<f32>(x.load_like(residual));
  residual.store(cast<T>(h));
  auto t = normalized(h, x.dim(1), eps);
  y.store(cast<T>(fma(t, cast<f32>(weight.load_like(y, axes<1>)), cast<f32>(bias.load_like(y, axes<1>)))));
}

/// With d = x - near, where near is the mean of the first C elements, the variance is mean(d^2) - mean(d)^2. By Cauchy
/// and Schwarz (near - mean)^2 is at most n / C variances, so the subtraction loses no more than log2(1 + n / C) bits.
template <class T, class W, int C>
void layer_norm_long_row(Mut<T, 1, kWholeRow> y, In<T, dyn, dyn> x, In<W, dyn> weight, In<W, dyn> bias,
                         Scalar<f32> eps) {
  auto X = x.tiles(shape<1, C>);
  auto Weight = weight.tiles(shape<C>), Bias = bias.tiles(shape<C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  auto n = x.dim(1);
  auto near = sum(cast<f32>(X.load(row, 0)), axis<1>) / cast<f32>(min(n, C));
  auto sums = zeros<f32, 1, C>(), squares = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto d = where(iota<i32, 1, C>(axis<1>) + c * C < n, cast<f32>(X.load(row, c)) - near, 0.0f);
    sums = sums + d;
    squares = squares + d * d;
  }
  auto off = sum(sums, axis<1>) / cast<f32>(n);
  auto scale = rsqrt(max(sum(squares, axis<1>) / cast<f32>(n) - off * off, 0.0f) + eps);
  auto mean = near + off;
  for (auto c : range(X.count(1))) {
    auto w = reshape(cast<f32>(Weight.load(c)), shape<1, C>), b = reshape(cast<f32>(Bias.load(c)), shape<1, C>);
    Y.store(0, c, cast<T>(fma((cast<f32>(X.load(row, c)) - mean) * scale, w, b)));
  }
}

/// The same for rows at any alignment: the first pass reads aligned tiles of the flat tensor.
template <class T, class W, int C>
void layer_norm_odd_row(Mut<T, 1, kWholeRow> y, In<T, dyn, dyn> x, In<T, dyn> whole, In<T, dyn> rest, In<W, dyn> weight,
                        In<W, dyn> bias, Scalar<f32> eps) {
  auto X = x.tiles(shape<1, C>);
  auto Whole = whole.tiles(shape<C>), Rest = rest.tiles(shape<C>);
  auto Weight = weight.tiles(shape<C>), Bias = bias.tiles(shape<C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  auto n = x.dim(1);
  const TouchedTiles<C> tiles(row, n, whole);
  auto near = sum(cast<f32>(X.load(row, 0)), axis<1>) / cast<f32>(min(n, C));
  auto sums = zeros<f32, 1, C>(), squares = zeros<f32, 1, C>();
  for (auto c : range(tiles.first(), tiles.whole_end())) {
    auto d = tiles.own(cast<f32>(Whole.load(c)) - reshape(near, shape<1>), c, 0.0f);
    sums = sums + d;
    squares = squares + d * d;
  }
  auto total = sum(sums, axis<1>), total_squares = sum(squares, axis<1>);
  tile_if (tiles.has_rest()) {
    auto d = tiles.own_rest(cast<f32>(Rest.load(0)) - reshape(near, shape<1>), 0.0f);
    total = total + sum(d, axis<1>);
    total_squares = total_squares + sum(d * d, axis<1>);
  }
  auto off = total / cast<f32>(n);
  auto scale = rsqrt(max(total_squares / cast<f32>(n) - off * off, 0.0f) + eps);
  auto mean = near + off;
  for (auto c : range(X.count(1))) {
    auto w = reshape(cast<f32>(Weight.load(c)), shape<1, C>), b = reshape(cast<f32>(Bias.load(c)), shape<1, C>);
    Y.store(0, c, cast<T>(fma((cast<f32>(X.load(row, c)) - mean) * scale, w, b)));
  }
}

/// The mean of a part of a row, and the sum of the squared differences from it, in the same way: [rows, 2, parts].
template <class T, int C>
void layer_norm_part(Mut<f32, 1, 2, 1> moments, In<T, dyn, dyn> x, Scalar<i32> steps) {
  auto X = x.tiles(shape<1, C>);
  auto [row, zero, part] = moments.index();
  auto n = x.dim(1), first = part * steps;
  auto near = sum(cast<f32>(X.load(row, first)), axis<1>) / cast<f32>(min(n - first * C, C));
  auto sums = zeros<f32, 1, C>(), squares = zeros<f32, 1, C>();
  for (auto c : steps_of_row_part(part, steps, X.count(1))) {
    auto d = where(iota<i32, 1, C>(axis<1>) + c * C < n, cast<f32>(X.load(row, c)) - near, 0.0f);
    sums = sums + d;
    squares = squares + d * d;
  }
  auto count = cast<f32>(min(n - first * C, steps * C));
  auto off = sum(sums, axis<1>) / count;
  auto rest = sum(squares, axis<1>) - count * off * off;
  rest = where(rest < 0.0f, 0.0f, rest);  // a NaN stays
  moments.store(reshape(cat(near + off, rest, axis<1>), shape<1, 2, 1>));
}
struct Moments {
  Tile<f32, 1, 1> mean, variance;
};
/// Combines the statistics of a row of n elements in parts of `length`, the last of which may be shorter. Means are
/// added as differences from the first one: with a large mean nothing is lost to the rounding of the weights.
template <int P>
Moments combined_moments(const In<f32, dyn, dyn, dyn>& moments, const Scalar<i32>& row, const Scalar<i32>& n,
                         const Scalar<i32>& length) {
  auto Parts = moments.tiles(shape<1, 1, P>);
  auto means = reshape(Parts.load(row, 0, 0), shape<1, P>), rests = reshape(Parts.load(row, 1, 0), shape<1, P>);
  auto first = reshape(moments.load_at(shape<1, 1, 1>, row, 0, 0), shape<1, 1>);
  auto part = iota<i32, 1, P>(axis<1>);
  auto last = moments.dim(2) - 1;
  auto counts = cast<f32>(where(part < last, length, where(part == last, n - last * length, 0)));
  auto total = cast<f32>(n);
  auto mean = first + sum(counts * (means - first), axis<1>) / total;
  auto d = means - mean;
  return {mean, sum(fma(counts * d, d, rests), axis<1>) / total};
}
/// Neighbouring blocks take one place of several rows, where they share the weights.
template <class T, class W, int C, int P>
void layer_norm_apply(MutTiles<T, 1, C> y, In<f32, dyn, dyn, dyn> moments, In<T, dyn, dyn> x, In<W, dyn> weight,
                      In<W, dyn> bias, Scalar<i32> steps, Scalar<f32> eps) {
  require(moments.dim(2) <= P, "the parts of a row must fit in one tile");
  for (auto out : y.column_order()) {
    auto [row, c] = out.index();
    auto t = cast<f32>(x.load_like(out));
    auto w = cast<f32>(weight.load_like(out, axes<1>)), b = cast<f32>(bias.load_like(out, axes<1>));
    auto m = combined_moments<P>(moments, row, x.dim(1), steps * C);
    out.store(cast<T>(fma((t - m.mean) * rsqrt(m.variance + eps), w, b)));
  }
}
template <Element T, Element W>
Op<Tensor<T, 2>> layer_norm_in_parts(const RowSplit& split, const View<T, 2>& x, const View<W, 1>& weight,
                                     const View<W, 1>& bias, float eps, SourceLocation where) {
  return with_parts_tile(split, [&](auto tile) {
    auto moments = kernel<layer_norm_part<T, kPartChunk<T>>>(
        empty<f32>(Dims<3>({x.dim(0), 2, split.parts}, where), where), x, split.steps, where);
    return kernel<layer_norm_apply<T, W, kPartChunk<T>, tile>>(empty<T>(x.dims(where), where), std::move(moments), x,
                                                               weight, bias, split.steps, eps, where);
  });
}

template <Operand X, Operand W, Operand B>
void check_layer_norm(const char* name, const X& x, const W& weight, const B& bias, SourceLocation where) {
  const std::int64_t n = x.dim(X::rank - 1, where);
  expect_dim(name, "weight", weight, 0, n, where);
  expect_dim(name, "bias", bias, 0, n, where);
}

/// (x - mean) / sqrt(variance + eps) * weight + bias over each row. `parts`: of each row, if there are few long rows.
/// Throws ShapeError if weight or bias have another length than a row.
template <Operand X, Operand W, Operand B>
Op<Tensor<element_of<X>, X::rank>> layer_norm(const X& x, const W& weight, const B& bias, float eps = 1e-5f,
                                              RowParts parts = {}, SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  check_layer_norm("layer_norm", x, weight, bias, where);
  using E = element_of<W>;
  constexpr int kOddRowsInParts = 8192;  // elements of a tile: rows.hpp
  const View<T, 2> rows = rows_of(x, where);
  const RowSplit split = chosen_split("layer_norm", rows, parts, normalizing(sizeof(T)), where);
  const auto run = [&]() -> Op<Tensor<T, 2>> {
    if (split.parts > 1)
      return layer_norm_in_parts<T, E>(split, rows, weight.view(where), bias.view(where), eps, where);
    auto y = empty<T>(rows.dims(where), where);
    if (const int chunk = odd_row_chunk<kOddRowsInParts>(rows)) {
      const auto launch = with_odd_row_chunk<kOddRowsInParts>(
          chunk, [](auto n) { return kernel<layer_norm_odd_row<T, E, n>>.launcher(); });
      const FlatRows<T> flat(rows, chunk, where);
      return launch(std::move(y), rows, flat.whole, flat.rest, weight.view(where), bias.view(where), eps, where);
    }
    if (rows.dim(1) > kLongestTile)
      return kernel<layer_norm_long_row<T, E, kRowChunk>>(std::move(y), rows, weight.view(where), bias.view(where), eps,
                                                          where);
    const auto launch = with_extent<kShortestTile, kLongestTile>(
        rows.dim(1), [](auto n) { return kernel<layer_norm_row<T, E, n>>.launcher(); });
    return launch(std::move(y), rows, weight.view(where), bias.view(where), eps, where);
  };
  return as_rank_of(run(), x, where);
}
/// residual + x in residual's memory, and its layer norm: {norm, residual}. Rows of up to 16384 elements.
template <Operand X, Element T, Operand W, Operand B>
Op<std::tuple<Tensor<T, 2>, Tensor<T, 2>>> add_layer_norm(const X& x, TESSERA_ARG_LIVE Tensor<T, 2>&& residual,
                                                          const W& weight, const B& bias, float eps = 1e-5f,
                                                          SourceLocation where = SourceLocation::current()) {
  expect_shape(x.dims(where) == residual.dims(where), "add_layer_norm", "x", x,
               "they must equal the extents of residual", where);
  expect_shape(x.dim(1, where) <= kLongestTile, "add_layer_norm", "x", x, "a row has at most 16384 elements", where);
  check_layer_norm("add_layer_norm", x, weight, bias, where);
  const auto launch = with_extent<kShortestTile, kLongestTile>(
      x.dim(1, where), [](auto n) { return kernel<add_layer_norm_row<T, element_of<W>, n>>.launcher(); });
  return launch(empty<T>(x.dims(where), where), std::move(residual), x.view(where), weight.view(where),
                bias.view(where), eps, where);
}

}  // namespace tessera::kernels
