// Softmax and log-softmax along the last axis, for rows of any length and tensors of any rank.
//
//   auto p = kernels::softmax(x).sync();        auto q = kernels::log_softmax(x).sync();
//
// Rows of up to 16384 elements are one tile; longer ones are read twice in chunks, with the online recurrence of
// Milakov and Gimelshein (2018) at each position of a chunk, so that the loop contains no reduction. Few long
// rows are split into parts. Sums and exponentials are f32 (f64 for f64). A row of only -infinity gives NaN; a NaN
// makes its row NaN.
#pragma once
#include "tessera/kernels/row_parts.hpp"

namespace tessera::kernels {

template <bool Log, class T, int N>
void softmax_row(Mut<T, 1, N> y, In<T, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = widen(x.load_like(y, pad::neg_inf));
  t = t - max(t, axis<1>);
  if constexpr (Log) {
    y.store(narrow<T>(t - log(sum(exp(t), axis<1>))));
  } else {
    t = exp(t);
    y.store(narrow<T>(t / sum(t, axis<1>)));
  }
}

/// The maximum and the sum of exponentials so far, for each position of the chunks of a row. The maximum starts at the
/// lowest finite number, because -infinity minus -infinity is NaN.
template <class F, int C>
struct LanesSoftmax {
  Tile<F, 1, C> m = full<F, 1, C>(std::numeric_limits<F>::lowest());
  Tile<F, 1, C> l = zeros<F, 1, C>();

  void add(const Tile<F, 1, C>& t) {
    auto m2 = max(m, t);
    auto less = exp(-abs(t - m));  // the one of exp(m - m2) and exp(t - m2) that is not 1
    l = where(t > m, l * less + F(1), l + less);
    m = m2;
  }
  Tile<F, 1, 1> top() const { return max(m, axis<1>); }
  Tile<F, 1, 1> total(const Tile<F, 1, 1>& top) const { return sum(l * exp(m - top), axis<1>); }
};

/// The second pass: reads the row's chunks again and computes the results.
template <bool Log, class T, class X, class Y, class F>
void store_softmax(const X& x, Y& y, const Scalar<i32>& row, const Tile<F, 1, 1>& top, const Tile<F, 1, 1>& total) {
  for (auto c : range(x.count(1))) {
    auto t = widen(x.load(row, c)) - top;
    if constexpr (Log)
      y.store(0, c, narrow<T>(t - log(total)));
    else
      y.store(0, c, narrow<T>(exp(t) / total));
  }
}

template <bool Log, class T, int C>
void softmax_long_row(Mut<T, 1, kWholeRow> y, In<T, dyn, dyn> x) {
  using F = compute_t<T>;
  auto X = x.tiles(shape<1, C>, pad::neg_inf);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  LanesSoftmax<F, C> seen;
  for (auto c : range(X.count(1))) {
    auto t = widen(X.load(row, c));
    seen.add(t);
  }
  auto top = seen.top();
  auto total = seen.total(top);
  store_softmax<Log, T>(X, Y, row, top, total);
}

/// The same for rows at any alignment: the first pass reads aligned tiles of the flat tensor.
template <bool Log, class T, int C>
void softmax_odd_row(Mut<T, 1, kWholeRow> y, In<T, dyn, dyn> x, In<T, dyn> whole, In<T, dyn> rest) {
  using F = compute_t<T>;
  auto X = x.tiles(shape<1, C>);
  auto Whole = whole.tiles(shape<C>), Rest = rest.tiles(shape<C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  const TouchedTiles<C> tiles(row, x.dim(1), whole);
  LanesSoftmax<F, C> seen;
  for (auto c : range(tiles.first(), tiles.whole_end())) {
    auto t = tiles.own(widen(Whole.load(c)), c, lowest<F>);
    seen.add(t);
  }
  auto top = seen.top();
  auto total = seen.total(top);
  tile_if (tiles.has_rest()) {
    auto t = tiles.own_rest(widen(Rest.load(0)), lowest<F>);
    auto top2 = max(top, max(t, axis<1>));
    total = total * exp(top - top2) + sum(exp(t - top2), axis<1>);
    top = top2;
  }
  store_softmax<Log, T>(X, Y, row, top, total);
}

/// The maximum of a part of a row (at least the lowest finite number) and the sum of exponentials relative to it:
/// [rows, 2, parts].
template <class T, class F, int C>
void softmax_part(Mut<F, 1, 2, 1> states, In<T, dyn, dyn> x, Scalar<i32> steps) {
  auto X = x.tiles(shape<1, C>, pad::neg_inf);
  auto [row, zero, part] = states.index();
  LanesSoftmax<F, C> seen;
  for (auto c : steps_of_row_part(part, steps, X.count(1))) {
    auto t = widen(X.load(row, c));
    seen.add(t);
  }
  auto top = seen.top();
  states.store(reshape(cat(top, seen.total(top), axis<1>), shape<1, 2, 1>));
}
template <bool Log, class T, class F, int C, int P>
void softmax_apply(Mut<T, 1, C> y, In<F, dyn, dyn, dyn> states, In<T, dyn, dyn> x) {
  require(states.dim(2) <= P, "the parts of a row must fit in one tile");
  auto [row, chunk] = y.index();
  auto t = widen(x.load_like(y));
  auto tops = reshape(states.tiles(shape<1, 1, P>, pad::neg_inf).load(row, 0, 0), shape<1, P>);
  auto totals = reshape(states.tiles(shape<1, 1, P>).load(row, 1, 0), shape<1, P>);
  auto top = max(tops, axis<1>);
  auto total = sum(totals * exp(tops - top), axis<1>);
  if constexpr (Log)
    y.store(narrow<T>(t - top - log(total)));
  else
    y.store(narrow<T>(exp(t - top) / total));
}
template <bool Log, Element T>
Op<Tensor<T, 2>> softmax_in_parts(const RowSplit& split, const View<T, 2>& x, SourceLocation where) {
  using F = compute_t<T>;
  return with_parts_tile(split, [&](auto tile) {
    auto states = kernel<softmax_part<T, F, kPartChunk<T>>>(empty<F>(Dims<3>({x.dim(0), 2, split.parts}, where), where),
                                                            x, split.steps, where);
    return kernel<softmax_apply<Log, T, F, kPartChunk<T>, tile>>(empty<T>(x.dims(where), where), std::move(states), x,
                                                                 where);
  });
}

template <bool Log, Operand X>
auto softmax_of(const X& x, RowParts parts, SourceLocation where) {
  using T = element_of<X>;
  constexpr int kOddRowsInParts = 16384;  // elements of a tile: rows.hpp
  const View<T, 2> rows = rows_of(x, where);
  const RowSplit split = chosen_split("softmax", rows, parts, normalizing(sizeof(T)), where);
  const auto run = [&]() -> Op<Tensor<T, 2>> {
    if (split.parts > 1) return softmax_in_parts<Log>(split, rows, where);
    if (const int chunk = odd_row_chunk<kOddRowsInParts>(rows)) {
      const auto launch = with_odd_row_chunk<kOddRowsInParts>(
          chunk, [](auto n) { return kernel<softmax_odd_row<Log, T, n>>.launcher(); });
      const FlatRows<T> flat(rows, chunk, where);
      return launch(empty<T>(rows.dims(where), where), rows, flat.whole, flat.rest, where);
    }
    if (rows.dim(1) > kLongestTile)
      return kernel<softmax_long_row<Log, T, kRowChunk>>(empty<T>(rows.dims(where), where), rows, where);
    const auto launch = with_extent<kShortestTile, kLongestTile>(
        rows.dim(1), [](auto n) { return kernel<softmax_row<Log, T, n>>.launcher(); });
    return launch(empty<T>(rows.dims(where), where), rows, where);
  };
  return as_rank_of(run(), x, where);
}

/// e^x / sum of e^x over each row of the last axis, with x's extents and element type. `parts`: of each row, if
/// there are few long rows. Throws ShapeError if x has more than two axes and is not contiguous.
template <Operand X>
Op<Tensor<element_of<X>, X::rank>> softmax(const X& x, RowParts parts = {},
                                           SourceLocation where = SourceLocation::current()) {
  return softmax_of<false>(x, parts, where);
}
/// The logarithm of softmax(x), computed without underflow.
template <Operand X>
Op<Tensor<element_of<X>, X::rank>> log_softmax(const X& x, RowParts parts = {},
                                               SourceLocation where = SourceLocation::current()) {
  return softmax_of<true>(x, parts, where);
}

}  // namespace tessera::kernels
