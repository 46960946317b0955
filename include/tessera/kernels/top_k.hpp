// The k largest elements of each row in falling order, and where they are: {values, indices}. Equal values come in the
// order of their indices; a NaN counts as the largest.
//
//   auto [values, indices] = kernels::top_k(logits, 50).sync();      // [rows, n] -> [rows, 50], [rows, 50]
//
// Rows of up to 16384 elements. k times: the largest of what is left (k up to 64); the row stays in registers.
#pragma once
#include "tessera/kernels/rows.hpp"

namespace tessera::kernels {

template <class T, int K, int N>
void top_k_row(Mut<T, 1, K> values, Mut<i32, 1, K> indices, In<T, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  require(values.dim(1) <= x.dim(1), "k may not exceed the length of a row");
  using U = compute_t<T>;
  auto [row, zero] = values.index();
  auto columns = iota<i32, 1, N>(axis<1>);
  auto slots = iota<i32, 1, K>(axis<1>);
  auto t = widen(x.load_at(shape<1, N>, row, 0));
  auto left = columns < x.dim(1);  // neither taken nor padding
  auto top = zeros<U, 1, K>();
  auto at = zeros<i32, 1, K>();
  for (auto k : range(values.dim(1))) {
    auto best = argmax(where(left, t, full<U, 1, N>(lowest<U>)), axis<1>);
    // Where only elements of the lowest value are left, the padding is equal to them: take the first that is left.
    auto first = min(where(left && t == best.value, columns, N), axis<1>);
    auto index = where(best.value == best.value, first, best.index);
    top = where(slots == k, best.value, top);
    at = where(slots == k, index, at);
    left = left && columns != index;
  }
  values.store(narrow<T>(top));
  indices.store(at);
}

template <Operand X>
Op<std::tuple<Tensor<element_of<X>, 2>, Tensor<i32, 2>>> top_k(const X& x, std::int64_t k,
                                                               SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "top_k takes a matrix of rows: reshape({1, n}) makes a line one");
  using T = element_of<X>;
  const std::int64_t n = x.dim(1, where);
  expect_shape(n <= kLongestTile, "top_k", "x", x, "a row has at most 16384 elements", where);
  expect_shape(k >= 1 && k <= 64 && k <= n, "top_k", "x", x, "k is 1 to 64 and at most the length of a row", where);
  const Dims<2> dims(x.dim(0), k);
  return with_extent<8, 64>(k, [&](auto slots) {
    return with_extent<256, kLongestTile>(n, [&](auto width) {
      return kernel<top_k_row<T, slots, width>>(empty<T>(dims, where), empty<i32>(dims, where), x.view(), where);
    });
  });
}

}  // namespace tessera::kernels
