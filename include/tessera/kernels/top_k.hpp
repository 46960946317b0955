// The k largest elements of each row in descending order, and their columns: {values, indices}. Equal values come in
// the order of their indices; a NaN counts as the largest.
//
//   auto [values, indices] = kernels::top_k(logits, 50).sync();      // [rows, n] -> [rows, 50], [rows, 50]
//
// k is up to 64. Rows of up to 16384 elements are one tile; for longer ones a first kernel selects the k largest of
// each chunk.
#pragma once
#include <tuple>

#include "tessera/kernels/top_k_tile.hpp"

namespace tessera::kernels {

template <class T, int K, int N>
void top_k_row(Mut<T, 1, K> values, Mut<i32, 1, K> indices, In<T, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  require(values.dim(1) <= x.dim(1), "k may not exceed the length of a row");
  auto [row, zero] = values.index();
  auto found =
      k_largest<K>(widen(x.tiles(shape<1, N>).load(row, 0)), iota<i32, 1, N>(axis<1>) < x.dim(1), values.dim(1));
  values.store(narrow<T>(found.values));
  indices.store(found.columns);
}
template <class T, int K, int N>
void top_k_chunk(Mut<T, 1, 1, K> values, Mut<i32, 1, 1, K> indices, In<T, dyn, dyn> x) {
  auto [row, chunk, zero] = values.index();
  auto first = chunk * N;
  auto found = k_largest<K>(widen(x.tiles(shape<1, N>).load(row, chunk)), iota<i32, 1, N>(axis<1>) + first < x.dim(1),
                            values.dim(2));
  values.store(reshape(narrow<T>(found.values), shape<1, 1, K>));
  indices.store(reshape(found.columns + first, shape<1, 1, K>));
}
/// Selects among candidates with known columns.
template <class T, int K, int N>
void top_k_merge(Mut<T, 1, K> values, Mut<i32, 1, K> indices, In<T, dyn, dyn> x, In<i32, dyn, dyn> at) {
  require(x.dim(1) <= N, "the candidates must fit in one piece");
  auto [row, zero] = values.index();
  auto found =
      k_largest<K>(widen(x.tiles(shape<1, N>).load(row, 0)), iota<i32, 1, N>(axis<1>) < x.dim(1), values.dim(1));
  values.store(narrow<T>(found.values));
  indices.store(at.gather(row, found.columns));
}

template <Operand X>
Op<std::tuple<Tensor<element_of<X>, 2>, Tensor<i32, 2>>> top_k(const X& x, std::int64_t k,
                                                               SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "top_k takes a matrix of rows: use reshape({1, n}) for a tensor of rank 1");
  using T = element_of<X>;
  constexpr int kChunk = 8192;
  const std::int64_t n = x.dim(1, where), rows = x.dim(0, where), chunks = ceil_div(n, std::int64_t{kChunk});
  expect_shape(k >= 1 && k <= 64 && k <= n, "top_k", "x", x, "k is 1 to 64 and at most the length of a row", where);
  expect_shape(chunks * k <= kLongestTile, "top_k", "x", x, "a row has at most 8192 * 16384 / k elements", where);
  const Dims<2> dims({rows, k}, where);
  if (n <= kLongestTile) {
    const auto launch = with_extent<8, 64>(k, [&](auto slots) {
      return with_extent<256, kLongestTile>(n,
                                            [&](auto width) { return kernel<top_k_row<T, slots, width>>.launcher(); });
    });
    return launch(empty<T>(dims, where), empty<i32>(dims, where), x.view(where), where);
  }
  const auto [chunk, merge] = with_extent<8, 64>(k, [&](auto slots) {
    return std::pair(kernel<top_k_chunk<T, slots, kChunk>>.launcher(),
                     kernel<top_k_merge<T, slots, kLongestTile>>.launcher());
  });
  const Dims<3> parts({rows, chunks, k}, where);
  return chunk(empty<T>(parts, where), empty<i32>(parts, where), x.view(where), where)
      .then([dims, chunks, where, merge = merge](std::tuple<Tensor<T, 3>, Tensor<i32, 3>> made) {
        const Dims<2> candidates({dims[0], chunks * dims[1]}, where);
        return merge(empty<T>(dims, where), empty<i32>(dims, where),
                     tessera::reshape(std::get<0>(made).view(where), candidates, where),
                     tessera::reshape(std::get<1>(made).view(where), candidates, where), where);
      });
}

}  // namespace tessera::kernels
