// The gradients of RMS norm and layer norm along the last axis. Statistics are computed again from x.
//
//   auto [dx, d_weight] = kernels::rms_norm_backward(dy, x, weight, 1e-6f).sync();
//   auto [dx, d_weight, d_bias] = kernels::layer_norm_backward(dy, x, weight, 1e-5f).sync();
//
// A block has some rows. It writes their dx and adds what they contribute to the gradients of weight and bias, of which
// a second kernel sums those of all blocks: nothing is added atomically, and the order depends on the extents alone.
// Rows of more than 8192 elements are processed in chunks: their statistics first, then the same. Sums are f32.
#pragma once
#include "tessera/kernels/softmax_backward.hpp"

namespace tessera::kernels {

/// Rows of a block: of many rows, and of fewer.
inline constexpr int kNormRows = 32, kFewNormRows = 8;
inline constexpr std::int64_t kManyNormRows = 8192;

/// The statistics of a row: x - mean is divided by the standard deviation; rms norms have the mean 0.
struct NormOfRow {
  Tile<f32, 1, 1> mean, scale;
  Tile<f32, 1, 1> a, b;  ///< means of the gradients g of the normed elements, and of their products with these
};

template <bool Layer, class T, class W, int R, int N>
void norm_backward_rows(Mut<T, R, N> dx, Mut<f32, 1, N> d_weight, Mut<f32, 1, N> d_bias, In<T, dyn, dyn> dy,
                        In<T, dyn, dyn> x, In<W, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto X = x.tiles(shape<1, N>), G = dy.tiles(shape<1, N>);
  auto Y = dx.sub(shape<1, N>);
  auto [block, zero] = dx.index();
  auto n = x.dim(1);
  auto count = cast<f32>(n);
  auto inside = iota<i32, 1, N>(axis<1>) < n;
  auto w = reshape(cast<f32>(weight.tiles(shape<N>).load(0)), shape<1, N>);
  auto weights = zeros<f32, 1, N>(), biases = zeros<f32, 1, N>();
  for (auto r : range(min(R, x.dim(0) - block * R))) {
    auto t = cast<f32>(X.load(block * R + r, 0)), g = cast<f32>(G.load(block * R + r, 0));
    if constexpr (Layer) t = where(inside, t - sum(t, axis<1>) / count, 0.0f);
    auto scale = rsqrt(sum(t * t, axis<1>) / count + eps);
    t = t * scale;
    weights = fma(g, t, weights);
    if constexpr (Layer) biases = biases + g;
    g = g * w;
    auto b = sum(g * t, axis<1>) / count;
    if constexpr (Layer)
      Y.store(r, 0, cast<T>((g - sum(g, axis<1>) / count - t * b) * scale));
    else
      Y.store(r, 0, cast<T>((g - t * b) * scale));
  }
  d_weight.store(weights);
  if constexpr (Layer) d_bias.store(biases);
}

/// {mean, scale, a, b} of rows of any length: [rows, 4].
template <bool Layer, class T, class W, int C>
void norm_backward_statistics(Mut<f32, 1, 4> statistics, In<T, dyn, dyn> dy, In<T, dyn, dyn> x, In<W, dyn> weight,
                              Scalar<f32> eps) {
  auto X = x.tiles(shape<1, C>), G = dy.tiles(shape<1, C>);
  auto Weight = weight.tiles(shape<C>);
  auto [row, zero] = statistics.index();
  auto n = x.dim(1);
  auto count = cast<f32>(n);
  auto near = zeros<f32, 1, 1>();  // the mean of the first chunk: layer_norm_long_row
  if constexpr (Layer) near = sum(cast<f32>(X.load(row, 0)), axis<1>) / cast<f32>(min(n, C));
  auto sums = zeros<f32, 1, C>(), squares = zeros<f32, 1, C>(), gs = zeros<f32, 1, C>(), products = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto d = where(iota<i32, 1, C>(axis<1>) + c * C < n, cast<f32>(X.load(row, c)) - near, 0.0f);
    auto g = cast<f32>(G.load(row, c)) * reshape(cast<f32>(Weight.load(c)), shape<1, C>);
    squares = fma(d, d, squares);
    products = fma(g, d, products);
    if constexpr (Layer) sums = sums + d, gs = gs + g;
  }
  auto off = sum(sums, axis<1>) / count, g = sum(gs, axis<1>);
  auto scale = rsqrt(max(sum(squares, axis<1>) / count - off * off, 0.0f) + eps);
  auto b = (sum(products, axis<1>) - off * g) * scale / count;  // of differences from the mean
  statistics.store(cat(cat(near + off, scale, axis<1>), cat(g / count, b, axis<1>), axis<1>));
}
/// The gradients of C columns of R rows.
template <bool Layer, class T, class W, int R, int C>
void norm_backward_columns(Mut<T, R, C> dx, Mut<f32, 1, C> d_weight, Mut<f32, 1, C> d_bias,
                           In<f32, dyn, dyn> statistics, In<T, dyn, dyn> dy, In<T, dyn, dyn> x, In<W, dyn> weight) {
  auto X = x.tiles(shape<1, C>), G = dy.tiles(shape<1, C>);
  auto Y = dx.sub(shape<1, C>);
  auto Own = statistics.tiles(shape<1, 1>);
  auto [block, column] = dx.index();
  auto w = reshape(cast<f32>(weight.tiles(shape<C>).load(column)), shape<1, C>);
  auto weights = zeros<f32, 1, C>(), biases = zeros<f32, 1, C>();
  for (auto r : range(min(R, x.dim(0) - block * R))) {
    auto row = block * R + r;
    auto scale = Own.load(row, 1);
    auto t = (cast<f32>(X.load(row, column)) - Own.load(row, 0)) * scale, g = cast<f32>(G.load(row, column));
    weights = fma(g, t, weights);
    if constexpr (Layer) biases = biases + g;
    Y.store(r, 0, cast<T>((g * w - Own.load(row, 2) - t * Own.load(row, 3)) * scale));
  }
  d_weight.store(weights);
  if constexpr (Layer) d_bias.store(biases);
}

/// The sums of the columns of `parts`: [parts, n].
template <class W, int C>
void sum_of_parts(Mut<W, C> y, In<f32, dyn, dyn> parts) {
  constexpr int kRows = 16;
  auto P = parts.tiles(shape<kRows, C>);
  auto [column] = y.index();
  auto sums = zeros<f32, kRows, C>();
  for (auto r : range(P.count(0))) sums = sums + P.load(r, column);
  y.store(cast<W>(reshape(sum(sums, axis<0>), shape<C>)));
}

/// {dx, parts of d_weight, parts of d_bias}; of an RMS norm the last is not written.
template <bool Layer, Element T, Element W>
Op<std::tuple<Tensor<T, 2>, Tensor<f32, 2>, Tensor<f32, 2>>> norm_backward_parts(const View<T, 2>& dy,
                                                                                 const View<T, 2>& x,
                                                                                 const View<W, 1>& weight, float eps,
                                                                                 SourceLocation where) {
  const std::int64_t rows = x.dim(0), n = x.dim(1);
  return with_constant<2>(rows < kManyNormRows ? 0 : 1, [&](auto many) {
    constexpr int R = many == 1 ? kNormRows : kFewNormRows;
    const Dims<2> parts({ceil_div(rows, std::int64_t{R}), n}, where);
    auto dx = empty<T>(x.dims(), where);
    auto d_weight = empty<f32>(parts, where), d_bias = empty<f32>(parts, where);
    if (n > kLongestGradientTile) {
      auto statistics = kernel<norm_backward_statistics<Layer, T, W, kRowChunk>>(
          empty<f32>(Dims<2>({rows, 4}, where), where), dy, x, weight, eps, where);
      return kernel<norm_backward_columns<Layer, T, W, R, kRowChunk / 2>>(
          std::move(dx), std::move(d_weight), std::move(d_bias), std::move(statistics), dy, x, weight, where);
    }
    const auto launch = with_extent<kShortestTile, kLongestGradientTile>(n, [](auto length) {
      // Five tiles of a row are in registers: up to 8 warps share them. Two blocks of 8 warps fit on an SM if a thread
      // has 128 registers; longer rows get as many as they need.
      constexpr Hints hints{.warps = std::clamp(length() / 256, 1, 8), .occupancy = length() > 4096 ? 1 : 2};
      return kernel<norm_backward_rows<Layer, T, W, R, length>>.hints(hints).launcher();
    });
    return launch(std::move(dx), std::move(d_weight), std::move(d_bias), dy, x, weight, eps, where);
  });
}
template <Element W>
Op<Tensor<W, 1>> sum_norm_parts(Tensor<f32, 2>&& parts, SourceLocation where) {
  constexpr int kColumns = 64;
  const auto held = share(std::move(parts));
  return kernel<sum_of_parts<W, kColumns>>(empty<W>(Dims<1>({held.dim(1)}, where), where), held, where);
}
template <Operand G, Operand X, Operand V>
void check_norm_backward(const char* name, const G& dy, const X& x, const V& weight, SourceLocation where) {
  static_assert(G::rank == X::rank && std::is_same_v<element_of<G>, element_of<X>>,
                "dy has the element type and rank of x");
  expect_shape(dy.dims(where) == x.dims(where), name, "dy", dy, "they must equal the extents of x", where);
  expect_dim(name, "weight", weight, 0, x.dim(X::rank - 1, where), where);
}

/// {dx, d_weight}: the gradients of rms_norm(x, weight, eps) for the gradient dy of its result, with the extents and
/// element types of x and weight. Throws ShapeError for extents that do not fit, and if x has more than two axes and an
/// operand is not contiguous.
template <Operand G, Operand X, Operand V>
Op<std::tuple<Tensor<element_of<X>, X::rank>, Tensor<element_of<V>, 1>>> rms_norm_backward(
    const G& dy, const X& x, const V& weight, float eps = 1e-6f, SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using W = element_of<V>;
  check_norm_backward("rms_norm_backward", dy, x, weight, where);
  const auto dims = x.dims(where);
  return norm_backward_parts<false>(rows_of(dy, where), rows_of(x, where), weight.view(where), eps, where)
      .then(
          [=](std::tuple<Tensor<T, 2>, Tensor<f32, 2>, Tensor<f32, 2>> made) {
            return all(ready(tessera::reshape(std::move(std::get<0>(made)), dims, where)),
                       sum_norm_parts<W>(std::move(std::get<1>(made)), where));
          },
          where);
}
/// {dx, d_weight, d_bias}: the gradients of layer_norm(x, weight, bias, eps), in the same way. d_bias has the element
/// type of weight.
template <Operand G, Operand X, Operand V>
Op<std::tuple<Tensor<element_of<X>, X::rank>, Tensor<element_of<V>, 1>, Tensor<element_of<V>, 1>>> layer_norm_backward(
    const G& dy, const X& x, const V& weight, float eps = 1e-5f, SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using W = element_of<V>;
  check_norm_backward("layer_norm_backward", dy, x, weight, where);
  const auto dims = x.dims(where);
  return norm_backward_parts<true>(rows_of(dy, where), rows_of(x, where), weight.view(where), eps, where)
      .then(
          [=](std::tuple<Tensor<T, 2>, Tensor<f32, 2>, Tensor<f32, 2>> made) {
            return all(ready(tessera::reshape(std::move(std::get<0>(made)), dims, where)),
                       sum_norm_parts<W>(std::move(std::get<1>(made)), where),
                       sum_norm_parts<W>(std::move(std::get<2>(made)), where));
          },
          where);
}

}  // namespace tessera::kernels
