// RMS norm along the last axis (Zhang and Sennrich 2019), alone or fused with the addition of a residual.
//
//   auto y = kernels::rms_norm(x, weight, 1e-6f).sync();                                // x * weight / rms(x)
//   auto [y, sum] = kernels::add_rms_norm(x, std::move(h), weight, 1e-6f).sync();       // sum = h + x, then y from it
//
// weight has one element for each of a row, of x's type or another float. Sums are f32. Few long rows are split into
// parts.
#pragma once
#include "tessera/kernels/row_parts.hpp"

namespace tessera::kernels {

template <class T, class W, int N>
void rms_norm_row(Mut<T, 1, N> y, In<T, dyn, dyn> x, In<W, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(y));
  auto scale = rsqrt(sum(t * t, axis<1>) / cast<f32>(x.dim(1)) + eps);
  y.store(cast<T>(t * scale * cast<f32>(weight.load_like(y, axes<1>))));
}

template <class T, class W, int N>
void add_rms_norm_row(Mut<T, 1, N> y, Mut<T, 1, N> residual, In<T, dyn, dyn> x, In<W, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto h = cast<f32>(residual.load()) + cast<f32>(x.load_like(residual));
  residual.store(cast<T>(h));
  auto scale = rsqrt(sum(h * h, axis<1>) / cast<f32>(x.dim(1)) + eps);
  y.store(cast<T>(h * scale * cast<f32>(weight.load_like(y, axes<1>))));
}

template <class T, class W, int C>
void rms_norm_long_row(Mut<T, 1, kWholeRow> y, In<T, dyn, dyn> x, In<W, dyn> weight, Scalar<f32> eps) {
  auto X = x.tiles(shape<1, C>);
  auto Weight = weight.tiles(shape<C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  auto squares = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto t = cast<f32>(X.load(row, c));
    squares = squares + t * t;
  }
  auto scale = rsqrt(sum(squares, axis<1>) / cast<f32>(x.dim(1)) + eps);
  for (auto c : range(X.count(1))) {
    auto w = reshape(cast<f32>(Weight.load(c)), shape<1, C>);
    Y.store(0, c, cast<T>(cast<f32>(X.load(row, c)) * scale * w));
  }
}

/// The same for rows at any alignment: the first pass reads aligned tiles of the flat tensor.
template <class T, class W, int C>
void rms_norm_odd_row(Mut<T, 1, kWholeRow> y, In<T, dyn, dyn> x, In<T, dyn> whole, In<T, dyn> rest, In<W, dyn> weight,
                      Scalar<f32> eps) {
  auto X = x.tiles(shape<1, C>);
  auto Whole = whole.tiles(shape<C>), Rest = rest.tiles(shape<C>);
  auto Weight = weight.tiles(shape<C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  const TouchedTiles<C> tiles(row, x.dim(1), whole);
  auto squares = zeros<f32, 1, C>();
  for (auto c : range(tiles.first(), tiles.whole_end())) {
    auto t = tiles.own(cast<f32>(Whole.load(c)), c, 0.0f);
    squares = squares + t * t;
  }
  auto total = sum(squares, axis<1>);
  tile_if (tiles.has_rest()) {
    auto t = tiles.own_rest(cast<f32>(Rest.load(0)), 0.0f);
    total = total + sum(t * t, axis<1>);
  }
  auto scale = rsqrt(total / cast<f32>(x.dim(1)) + eps);
  for (auto c : range(X.count(1))) {
    auto w = reshape(cast<f32>(Weight.load(c)), shape<1, C>);
    Y.store(0, c, cast<T>(cast<f32>(X.load(row, c)) * scale * w));
  }
}

/// The sum of the squares of a part of a row: [rows, parts].
template <class T, int C>
void rms_norm_part(Mut<f32, 1, 1> sums, In<T, dyn, dyn> x, Scalar<i32> steps) {
  auto X = x.tiles(shape<1, C>);
  auto [row, part] = sums.index();
  auto squares = zeros<f32, 1, C>();
  for (auto c : steps_of_row_part(part, steps, X.count(1))) {
    auto t = cast<f32>(X.load(row, c));
    squares = squares + t * t;
  }
  sums.store(sum(squares, axis<1>));
}
/// Neighbouring blocks take one place of several rows, where they share the weights.
template <class T, class W, int C, int P>
void rms_norm_apply(MutTiles<T, 1, C> y, In<f32, dyn, dyn> sums, In<T, dyn, dyn> x, In<W, dyn> weight,
                    Scalar<f32> eps) {
  require(sums.dim(1) <= P, "the parts of a row must fit in one tile");
  auto Sums = sums.tiles(shape<1, P>);
  for (auto out : y.column_order()) {
    auto [row, c] = out.index();
    auto t = cast<f32>(x.load_like(out)), w = cast<f32>(weight.load_like(out, axes<1>));
    auto scale = rsqrt(sum(Sums.load(row, 0), axis<1>) / cast<f32>(x.dim(1)) + eps);
    out.store(cast<T>(t * scale * w));
  }
}
template <Element T, Element W>
Op<Tensor<T, 2>> rms_norm_in_parts(const RowSplit& split, const View<T, 2>& x, const View<W, 1>& weight, float eps,
                                   SourceLocation where) {
  return with_parts_tile(split, [&](auto tile) {
    auto sums = kernel<rms_norm_part<T, kPartChunk<T>>>(empty<f32>(Dims<2>({x.dim(0), split.parts}, where), where), x,
                                                        split.steps, where);
    return kernel<rms_norm_apply<T, W, kPartChunk<T>, tile>>(empty<T>(x.dims(where), where), std::move(sums), x, weight,
                                                             eps, where);
  });
}

/// x * weight / sqrt(mean of x^2 over the row + eps). `parts`: of each row, if there are few long rows. Throws
/// ShapeError if weight has another length than a row.
template <Operand X, Operand W>
Op<Tensor<element_of<X>, X::rank>> rms_norm(const X& x, const W& weight, float eps = 1e-6f, RowParts parts = {},
                                            SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using E = element_of<W>;
  constexpr int kOddRowsInParts = 2 * kLongestTile;  // in one tile as long as a row fits one
  const View<T, 2> rows = rows_of(x, where);
  expect_dim("rms_norm", "weight", weight, 0, rows.dim(1), where);
  const RowSplit split = chosen_split("rms_norm", rows, parts, normalizing(sizeof(T)), where);
  const auto run = [&]() -> Op<Tensor<T, 2>> {
    if (split.parts > 1) return rms_norm_in_parts<T, E>(split, rows, weight.view(where), eps, where);
    auto y = empty<T>(rows.dims(where), where);
    if (const int chunk = odd_row_chunk<kOddRowsInParts>(rows)) {
      const auto launch = with_odd_row_chunk<kOddRowsInParts>(
          chunk, [](auto n) { return kernel<rms_norm_odd_row<T, E, n>>.launcher(); });
      const FlatRows<T> flat(rows, chunk, where);
      return launch(std::move(y), rows, flat.whole, flat.rest, weight.view(where), eps, where);
    }
    if (rows.dim(1) > kLongestTile)
      return kernel<rms_norm_long_row<T, E, kRowChunk>>(std::move(y), rows, weight.view(where), eps, where);
    const auto launch = with_extent<kShortestTile, kLongestTile>(
        rows.dim(1), [](auto n) { return kernel<rms_norm_row<T, E, n>>.launcher(); });
    return launch(std::move(y), rows, weight.view(where), eps, where);
  };
  return as_rank_of(run(), x, where);
}
/// residual + x in residual's memory, and its RMS norm: {norm, residual}. Rows of up to 16384 elements.
template <Operand X, Element T, Operand W>
Op<std::tuple<Tensor<T, 2>, Tensor<T, 2>>> add_rms_norm(const X& x, TESSERA_ARG_LIVE Tensor<T, 2>&& residual,
                                                        const W& weight, float eps = 1e-6f,
                                                        SourceLocation where = SourceLocation::current()) {
  expect_shape(x.dims(where) == residual.dims(where), "add_rms_norm", "x", x, "they must equal the extents of residual",
               where);
  expect_shape(x.dim(1, where) <= kLongestTile, "add_rms_norm", "x", x, "a row has at most 16384 elements", where);
  expect_dim("add_rms_norm", "weight", weight, 0, x.dim(1, where), where);
  const auto launch = with_extent<kShortestTile, kLongestTile>(
      x.dim(1, where), [](auto n) { return kernel<add_rms_norm_row<T, element_of<W>, n>>.launcher(); });
  return launch(empty<T>(x.dims(where), where), std::move(residual), x.view(where), weight.view(where), eps, where);
}

}  // namespace tessera::kernels
