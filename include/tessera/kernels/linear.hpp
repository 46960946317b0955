// A few rows times a matrix of weights: y = x w^T for x of [m, k] and weights of [n, k], the products of a decoder.
//
//   auto y = kernels::linear(x, w).sync();               // bias, activation, residual as for gemm
//
// It is bound by reading the weights once. One row, and on a GPU two: a block owns some rows of weights and loops
// over k with one accumulator tile for each row of x, which is summed at the end. Up to 64 rows: the longer of both
// tiles, usually the weights, is the left operand of mma, so that no rows of the instruction are empty. More rows:
// gemm.
#pragma once
#include <array>
#include <iterator>
#include <utility>

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

/// f(0), ..., f(M - 1), which are tiles of one type.
template <int M>
auto each_row(const auto& f) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return std::array{f(I)...};
  }(std::make_integer_sequence<int, M>());
}
/// The rows, M tiles of one row each from `first` on, as one tile.
template <int M, class T, int N, std::size_t R>
Tile<T, M, N> as_one_tile(const std::array<Tile<T, 1, N>, R>& rows, std::size_t first = 0) {
  if constexpr (M == 1)
    return rows[first];
  else
    return cat(as_one_tile<M / 2>(rows, first), as_one_tile<M / 2>(rows, first + M / 2), axis<0>);
}

/// For up to M rows of x, a power of two. `length`: of the rows, if it is to be a constant of the code, else 0.
template <class E, class U, class T, int M, int N, int K, class... P>
void summed_rows(Mut<U, M, N> y, In<T, dyn, dyn> x, In<T, dyn, dyn> w, Constant<i32> length, P... operands) {
  require(x.dim(1) == w.dim(1), "x and w must have equally long rows");
  auto X = x.tiles(shape<1, K>);
  auto W = w.tiles(shape<N, K>);
  auto [i, j] = y.index();
  using A = acc_t<T>;
  auto acc = each_row<M>([](int) { return zeros<A, N, K>(); });
  for (auto k : range(steps_of_row<K>(x, length))) {
    auto weights = narrow<A>(W.load(j, k));
    for (int m = 0; m < M; ++m) {
      auto& sums = acc[static_cast<std::size_t>(m)];
      sums = multiply_add(weights, narrow<A>(X.load(M == 1 ? Scalar<i32>(0) : i * M + m, k)), sums);
    }
  }
  const auto results =
      each_row<M>([&](int m) { return reshape(sum(acc[static_cast<std::size_t>(m)], axis<1>), shape<1, N>); });
  y.store(narrow<U>(E{}(as_one_tile<M>(results), y, operands...)));
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

/// x w^T, then the epilogue: [m, n]. `row`: a row of kOneRow for one row of x, of kFewRows (mma) up to 64 rows, of
/// gemm's table beyond. Throws ShapeError for other rows, and for extents that do not fit.
template <class U = void, Operand X, Operand W, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<X>>, 2>> linear(const X& x, const W& w,
                                                  const Fused<E, P...>& epilogue = Fused<E, P...>{}, Row row = {},
                                                  SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using C = product_t<U, T>;
  static_assert(std::is_same_v<T, element_of<W>>, "linear: x and w must have one element type: cast one of them");
  const std::int64_t m = x.dim(0, where), k = x.dim(1, where), n = w.dim(0, where);
  expect_dim("linear", "w", w, 1, k, where);
  if (m > kFewRowsLimit) return gemm<U>(x, w.template permute<1, 0>(where), epilogue, row, where);
  check_epilogue(epilogue, "linear", Dims<2>({m, n}, where), where);
  const Target target = target_of(x.device(where));
  const auto call = [&](const auto& launch, auto... length) {
    return std::apply(
        [&](const auto&... p) {
          return launch(empty<C>(Dims<2>({m, n}, where), where), x.view(where), w.view(where), length..., p..., where);
        },
        epilogue.operands);
  };
  constexpr int one = static_cast<int>(std::size(kOneRow)), few = static_cast<int>(std::size(kFewRows));
  const int asked = row_of_table(row, m == 1 ? one : few, "linear", where);
  if (m == 1) {
    const int number = asked >= 0 ? asked : one_row_heuristic(n, k, target);
    const auto launch = with_constant<one>(number, [&](auto r) {
      return kernel<summed_rows<E, C, T, 1, kOneRow[r].n, kOneRow[r].k, epilogue_param<P>...>>.launcher();
    });
    return call(launch, constant_length(n, k, number, target));
  }
  if (asked < 0 && sizeof(T) > 1 && are_summed(m, target))  // of 8 bits: not measured
    return call(kernel<summed_rows<E, C, T, kMaxSummed, kSummedRows.n, kSummedRows.k, epilogue_param<P>...>>.launcher(),
                i32{0});
  return call(with_constant<few>(asked >= 0 ? asked : few_rows_heuristic(m, n, target), [&](auto r) {
    return with_extent<8, kFewRowsLimit>(m, [&](auto rows) {
      return kernel<few_rows<E, C, T, rows, kFewRows[r].n, kFewRows[r].k, epilogue_param<P>...>>.launcher();
    });
  }));
}

}  // namespace tessera::kernels
