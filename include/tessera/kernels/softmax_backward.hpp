// The gradients of softmax and log-softmax along the last axis, from their results.
//
//   auto dx = kernels::softmax_backward(dy, y).sync();          // y = softmax(x)
//   auto dx = kernels::log_softmax_backward(dy, y).sync();      // y = log_softmax(x)
//
// Rows of up to 8192 elements are one tile; longer ones are read twice in chunks. Sums are f32 (f64 for f64).
#pragma once
#include "tessera/kernels/rows.hpp"

namespace tessera::kernels {

/// The longest rows whose gradients are computed in one tile: of each row, two tiles are in registers.
inline constexpr int kLongestGradientTile = 8192;

/// What is summed along the row, and the gradient from that sum.
template <bool Log>
struct SoftmaxGradient {
  static auto summand(const auto& g, const auto& y) {
    if constexpr (Log)
      return g;
    else
      return g * y;
  }
  static auto gradient(const auto& g, const auto& y, const auto& total) {
    if constexpr (Log)
      return g - exp(y) * total;
    else
      return y * (g - total);
  }
};

template <bool Log, class T, int N>
void softmax_backward_row(Mut<T, 1, N> dx, In<T, dyn, dyn> dy, In<T, dyn, dyn> y) {
  require(y.dim(1) <= N, "a row must fit in one piece");
  using Of = SoftmaxGradient<Log>;
  auto g = widen(dy.load_like(dx)), v = widen(y.load_like(dx));
  dx.store(narrow<T>(Of::gradient(g, v, sum(Of::summand(g, v), axis<1>))));
}
template <bool Log, class T, int C>
void softmax_backward_long_row(Mut<T, 1, kWholeRow> dx, In<T, dyn, dyn> dy, In<T, dyn, dyn> y) {
  using Of = SoftmaxGradient<Log>;
  auto G = dy.tiles(shape<1, C>), Y = y.tiles(shape<1, C>);
  auto X = dx.sub(shape<1, C>);
  auto [row, zero] = dx.index();
  auto sums = zeros<compute_t<T>, 1, C>();
  for (auto c : range(Y.count(1))) sums = sums + Of::summand(widen(G.load(row, c)), widen(Y.load(row, c)));
  auto total = sum(sums, axis<1>);
  for (auto c : range(Y.count(1)))
    X.store(0, c, narrow<T>(Of::gradient(widen(G.load(row, c)), widen(Y.load(row, c)), total)));
}

template <bool Log, Operand G, Operand Y>
auto softmax_backward_of(const char* name, const G& dy, const Y& y, SourceLocation where) {
  using T = element_of<Y>;
  static_assert(G::rank == Y::rank && std::is_same_v<element_of<G>, T>, "dy has the element type and rank of y");
  expect_shape(dy.dims(where) == y.dims(where), name, "dy", dy, "they must equal the extents of y", where);
  const View<T, 2> g = rows_of(dy, where), rows = rows_of(y, where);
  const auto run = [&]() -> Op<Tensor<T, 2>> {
    auto dx = empty<T>(rows.dims(where), where);
    if (rows.dim(1) > kLongestGradientTile)
      return kernel<softmax_backward_long_row<Log, T, kRowChunk>>(std::move(dx), g, rows, where);
    const auto launch = with_extent<kShortestTile, kLongestGradientTile>(
        rows.dim(1), [](auto n) { return kernel<softmax_backward_row<Log, T, n>>.launcher(); });
    return launch(std::move(dx), g, rows, where);
  };
  return as_rank_of(run(), y, where);
}

/// The gradient of softmax for its argument: y (dy - sum of y dy over the row), with y's extents. y: its result. Throws
/// ShapeError if dy has other extents, or if y has more than two axes and one of them is not contiguous.
template <Operand G, Operand Y>
Op<Tensor<element_of<Y>, Y::rank>> softmax_backward(const G& dy, const Y& y,
                                                    SourceLocation where = SourceLocation::current()) {
  return softmax_backward_of<false>("softmax_backward", dy, y, where);
}
/// The gradient of log_softmax: dy - e^y times the sum of dy over the row. y: its result.
template <Operand G, Operand Y>
Op<Tensor<element_of<Y>, Y::rank>> log_softmax_backward(const G& dy, const Y& y,
                                                        SourceLocation where = SourceLocation::current()) {
  return softmax_backward_of<true>("log_softmax_backward", dy, y, where);
}

}  // namespace tessera::kernels
