// The largest element of each row and where it is: {values, indices}. Of equal values the one with the lowest index; a
// NaN counts as the largest.
//
//   auto [value, index] = kernels::argmax(x).sync();     // [rows, n] -> [rows], [rows]
#pragma once
#include "tessera/kernels/rows.hpp"

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

template <Operand X>
Op<std::tuple<Tensor<element_of<X>, 1>, Tensor<i32, 1>>> argmax(const X& x,
                                                                SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "argmax takes a matrix of rows: use reshape({1, n}) for a tensor of rank 1");
  using T = element_of<X>;
  expect_shape(x.dim(1, where) > 0, "argmax", "x", x, "a row needs an element", where);
  const Dims<1> rows(x.dim(0, where), where);
  return with_extent<kShortestTile, kRowChunk>(x.dim(1, where), [&](auto c) {
    return kernel<argmax_row<T, c>>(empty<T>(rows, where), empty<i32>(rows, where), x.view(where), where);
  });
}

}  // namespace tessera::kernels
