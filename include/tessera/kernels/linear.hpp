// A few rows times a matrix of weights: y = x w^T for x of [m, k] and weights of [n, k], the products of a decoder.
//
//   auto y = kernels::linear(x, w).sync();               // bias, activation, residual as for gemm
//
// It is bound by reading the weights once. One row: a block owns some rows of weights and loops over k with one
// accumulator tile, which is summed at the end. Up to 64 rows: the longer of both tiles, usually the weights, is the
// left operand of mma, so that no rows of the instruction are empty. More rows: gemm.
#pragma once
#include <iterator>

#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/linear_table.hpp"

namespace tessera::kernels {

/// The steps of K along a row of x: a constant of the code if `length` is not 0, else counted from the row.
template <int K>
Scalar<i32> steps_of_row(const auto& x, const Constant<i32>& length) {
  if (length == 0) return x.tiles(shape<1, K>).count(1);
  require(x.dim(1) == static_cast<i32>(length), "the row must be as long as the code is for");
  return Scalar<i32>(ceil_div(static_cast<i32>(length), K));
}

/// acc + a * b, rounded once if floating.
template <class A, int... D>
Tile<A, D...> multiply_add(const auto& a, const auto& b, const Tile<A, D...>& acc) {
  if constexpr (std::is_integral_v<A>)
    return acc + a * b;
  else
    return fma(a, b, acc);
}

/// `length`: of the rows, if it is to be a constant of the code, else 0.
template <class E, class U, class T, int N, int K, class... P>
void one_row(Mut<U, 1, N> y, In<T, dyn, dyn> x, In<T, dyn, dyn> w, Constant<i32> length, P... operands) {
  require(x.dim(1) == w.dim(1), "x and w must have equally long rows");
  auto X = x.tiles(shape<1, K>);
  auto W = w.tiles(shape<N, K>);
  auto [zero, j] = y.index();
  using A = acc_t<T>;
  auto acc = zeros<A, N, K>();
  for (auto k : range(steps_of_row<K>(x, length)))
    acc = multiply_add(narrow<A>(W.load(j, k)), narrow<A>(X.load(0, k)), acc);
  y.store(narrow<U>(E{}(reshape(sum(acc, axis<1>), shape<1, N>), y, operands...)));
}

template <class E, class U, class T, int M, int N, int K, class... P>
void few_rows(Mut<U, M, N> y, In<T, dyn, dyn> x, In<T, dyn, dyn> w, P... operands) {
  require(x.dim(1) == w.dim(1), "x and w must have equally long rows");
  auto X = x.tiles(shape<M, K>);
  auto W = w.tiles(shape<N, K>);
  auto [i, j] = y.index();
  if constexpr (M > N) {
    auto acc = zeros<acc_t<T>, M, N>();
    for (auto k : range(W.count(1))) acc = multiply<T>(X.load(i, k), transpose(W.load(j, k)), acc);
    y.store(narrow<U>(E{}(acc, y, operands...)));
  } else {
    auto acc = zeros<acc_t<T>, N, M>();
    for (auto k : range(W.count(1))) acc = multiply<T>(W.load(j, k), transpose(X.load(i, k)), acc);
    y.store(narrow<U>(E{}(transpose(acc), y, operands...)));
  }
}

/// x w^T, then the epilogue: [m, n]. `row`: a row of kOneRow for one row of x, of kFewRows up to 64 rows, of gemm's
/// table beyond. Throws ShapeError for other rows, and for extents that do not fit.
template <class U = void, Operand X, Operand W, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<X>>, 2>> linear(const X& x, const W& w,
                                                  const Fused<E, P...>& epilogue = Fused<E, P...>{}, Row row = {},
                                                  SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using C = product_t<U, T>;
  static_assert(std::is_same_v<T, element_of<W>>, "linear: x and w must have one element type: cast one of them");
  const std::int64_t m = x.dim(0, where), k = x.dim(1, where), n = w.dim(0, where);
  expect_dim("linear", "w", w, 1, k, where);
  if (m > 64) return gemm<U>(x, w.template permute<1, 0>(where), epilogue, row, where);
  check_epilogue(epilogue, "linear", Dims<2>({m, n}, where), where);
  const Target target = target_of(x.device(where));
  const auto call = [&](const auto& entry, auto... length) {
    return std::apply(
        [&](const auto&... p) {
          return entry(empty<C>(Dims<2>({m, n}, where), where), x.view(where), w.view(where), length..., p..., where);
        },
        epilogue.operands);
  };
  constexpr int one = static_cast<int>(std::size(kOneRow)), few = static_cast<int>(std::size(kFewRows));
  const int asked = row_of_table(row, m == 1 ? one : few, "linear", where);
  if (m == 1)
    return with_constant<one>(asked >= 0 ? asked : one_row_heuristic(n, k, target), [&](auto r) {
      return call(kernel<one_row<E, C, T, kOneRow[r].n, kOneRow[r].k, epilogue_param<P>...>>,
                  constant_length(n, k, r, target));
    });
  return with_constant<few>(asked >= 0 ? asked : few_rows_heuristic(m, n, target), [&](auto r) {
    return with_extent<8, 64>(m, [&](auto rows) {
      return call(kernel<few_rows<E, C, T, rows, kFewRows[r].n, kFewRows[r].k, epilogue_param<P>...>>);
    });
  });
}

}  // namespace tessera::kernels
