// The largest element of each row and where it is: {values, indices}. Of equal values the one with the lowest index; a
// NaN counts as the largest. Few long rows are split into parts.
//
//   auto [value, index] = kernels::argmax(x).sync();     // [rows, n] -> [rows], [rows]
#pragma once
#include "tessera/kernels/reductions.hpp"
#include "tessera/kernels/row_parts.hpp"

namespace tessera::kernels {

template <class T, int C>
void argmax_row(Mut<T, 1> value, Mut<i32, 1> index, In<T, dyn, dyn> x) {
  using U = compute_t<T>;
  auto X = x.tiles(shape<1, C>);
  auto [row] = value.index();
  auto best = widen(x.load_at(shape<1, 1>, row, 0));
  auto at = zeros<i32, 1, 1>();
  for (auto c : range(X.count(1))) {
    auto inside = iota<i32, 1, C>(axis<1>) + c * C < x.dim(1);
    auto t = argmax(where(inside, widen(X.load(row, c)), full<U, 1, C>(lowest<U>)), axis<1>);
    auto better = t.value > best;
    if constexpr (element_class<T> == ElementClass::Float) better = better || (t.value != t.value && best == best);
    at = where(better, t.index + c * C, at);
    best = where(better, t.value, best);
  }
  value.store(reshape(narrow<T>(best), shape<1>));
  index.store(reshape(at, shape<1>));
}

/// Rows of at most C elements, several in a block.
template <class T, int R, int C>
void argmax_rows(Mut<T, R> value, Mut<i32, R> index, In<T, dyn, dyn> x) {
  using U = compute_t<T>;
  auto [block] = value.index();
  auto inside = iota<i32, 1, C>(axis<1>) < x.dim(1);
  auto t = widen(x.tiles(shape<R, C>).load(block, 0));
  auto best = argmax(where(inside, t, lowest<U>), axis<1>);
  value.store(reshape(narrow<T>(best.value), shape<R>));
  index.store(reshape(best.index, shape<R>));
}

/// The largest element of each part of a row: [rows, parts]. The largest is found for each position of the chunks, so
/// that the loop contains no reduction.
template <class T, int C>
void argmax_part(Mut<T, 1, 1> value, Mut<i32, 1, 1> index, In<T, dyn, dyn> x, Scalar<i32> steps) {
  using U = compute_t<T>;
  constexpr bool kFloat = element_class<T> == ElementClass::Float;
  constexpr i32 kNone = std::numeric_limits<i32>::max();
  auto X = x.tiles(shape<1, C>, reductions::Max::padding<T>());
  auto [row, part] = value.index();
  auto first = part * steps;
  auto best = full<U, 1, C>(lowest<U>);
  auto at = full<i32, 1, C>(first);  // the chunk of the largest; padding is never larger
  for (auto c : steps_of_row_part(part, steps, X.count(1))) {
    auto t = widen(X.load(row, c));
    auto better = t > best;
    if constexpr (kFloat) better = !(t <= best) && best == best;  // a NaN is larger than a number
    at = where(better, c, at);
    best = where(better, t, best);
  }
  auto columns = at * C + iota<i32, 1, C>(axis<1>);
  auto inside = columns < x.dim(1);
  auto top = max(best, axis<1>);
  auto found = min(where(inside && best == top, columns, kNone), axis<1>);
  if constexpr (kFloat) {
    auto not_number = min(where(best != best, columns, kNone), axis<1>);
    top = where(not_number < kNone, std::numeric_limits<U>::quiet_NaN(), top);
    found = where(not_number < kNone, not_number, found);
  }
  value.store(narrow<T>(top));
  index.store(found);
}
/// Merges the parts of a row, which are in the order of their columns.
template <class T, int P>
void argmax_merge(Mut<T, 1> value, Mut<i32, 1> index, In<T, dyn, dyn> values, In<i32, dyn, dyn> indices) {
  require(values.dim(1) <= P, "the parts of a row must fit in one tile");
  using U = compute_t<T>;
  auto [row] = value.index();
  auto inside = iota<i32, 1, P>(axis<1>) < values.dim(1);
  auto t = where(inside, widen(values.tiles(shape<1, P>).load(row, 0)), full<U, 1, P>(lowest<U>));
  auto best = argmax(t, axis<1>);
  value.store(reshape(narrow<T>(best.value), shape<1>));
  index.store(reshape(indices.gather(row, best.index), shape<1>));
}
template <Element T>
Op<std::tuple<Tensor<T, 1>, Tensor<i32, 1>>> argmax_in_parts(const RowSplit& split, const View<T, 2>& x,
                                                             SourceLocation where) {
  const Dims<1> rows(x.dim(0), where);
  const Dims<2> parts({x.dim(0), split.parts}, where);
  return kernel<argmax_part<T, kPartChunk<T>>>(empty<T>(parts, where), empty<i32>(parts, where), x, split.steps, where)
      .then([rows, split, where](std::tuple<Tensor<T, 2>, Tensor<i32, 2>> made) {
        return with_parts_tile(split, [&](auto tile) {
          return kernel<argmax_merge<T, tile>>(empty<T>(rows, where), empty<i32>(rows, where), std::get<0>(made),
                                               std::get<1>(made), where);
        });
      });
}

/// `parts`: of each row, if there are few long rows. Throws ShapeError for rows without elements.
template <Operand X>
Op<std::tuple<Tensor<element_of<X>, 1>, Tensor<i32, 1>>> argmax(const X& x, RowParts parts = {},
                                                                SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "argmax takes a matrix of rows: use reshape({1, n}) for a tensor of rank 1");
  using T = element_of<X>;
  expect_shape(x.dim(1, where) > 0, "argmax", "x", x, "a row needs an element", where);
  constexpr RowTraffic traffic{sizeof(T), 1, 2 * kSecondKernel};  // what it merges depends on what it has found
  const RowSplit split = chosen_split("argmax", x.view(where), parts, traffic, where);
  if (split.parts > 1) return argmax_in_parts(split, x.view(where), where);
  const Dims<1> rows(x.dim(0, where), where);
  const auto launch = [&] {
    if (shares_block(x.dim(0, where), x.dim(1, where)))
      return with_extent<kShortestSharedRow, kLongestSharedRow>(
          x.dim(1, where), [](auto c) { return kernel<argmax_rows<T, kSharedElements / c, c>>.launcher(); });
    return with_extent<kShortestTile, kRowChunk>(x.dim(1, where),
                                                 [](auto c) { return kernel<argmax_row<T, c>>.launcher(); });
  }();
  return launch(empty<T>(rows, where), empty<i32>(rows, where), x.view(where), where);
}

}  // namespace tessera::kernels
