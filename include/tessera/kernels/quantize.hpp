// Conversion between element types, and quantisation of rows to 8 bits with one scale each.
//
//   auto y = kernels::convert<f16>(x).sync();                       // any rank, views too
//   auto [q, scale] = kernels::quantize_rows<f8e4m3>(x).sync();     // x = q * scale[row]; also i8
//   auto x = kernels::dequantize_rows<bf16>(q, scale).sync();
//
// A row's scale maps its largest magnitude to the type's largest number (448 of f8e4m3, 57344 of f8e5m2, 127 of i8),
// and is at least the least normal f32: smaller rows round to zeros. It is 1 for rows of zeros and of no elements. NaN
// stays NaN (in i8 it becomes 0) and does not affect the scale; with an infinity the scale is infinite, and
// dequantizing the row gives NaN. gemm(qa, qb, scaled(scale_a, scale_b)) multiplies quantised matrices.
#pragma once
#include "tessera/kernels/elementwise.hpp"
#include "tessera/kernels/rows.hpp"

namespace tessera::kernels {

/// x with elements of type U, rounded once, as cast on tiles.
template <Element U, Operand X>
auto convert(const X& x, SourceLocation where = SourceLocation::current()) {
  return map_to<U>(functions::Identity{}, where, x);
}

template <class Q>
inline constexpr float largest_of = std::is_same_v<Q, f8e4m3>   ? 448.0f
                                    : std::is_same_v<Q, f8e5m2> ? 57344.0f
                                                                : 127.0f;

/// The scale that maps `top`, the largest magnitude, to the type's largest number; 1 if there is none above 0. Not
/// below the least normal number, so that nothing divides by zero.
template <class Q, int... D>
Tile<f32, D...> scale_of(const Tile<f32, D...>& top) {
  return where(top > 0.0f, max(top / largest_of<Q>, std::numeric_limits<f32>::min()), 1.0f);
}

template <class Q, class T, int N>
void quantize_row(Mut<Q, 1, N> q, Mut<f32, 1> scale, In<T, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(q));
  auto top = max(abs(t), axis<1>);
  auto s = scale_of<Q>(top);
  auto scaled = t / s;
  if constexpr (element_class<Q> == ElementClass::Float)
    q.store(cast<Q>(scaled));
  else
    q.store(cast<Q>(scaled, rounding::nearest, saturate));
  scale.store(reshape(s, shape<1>));
}
template <class U, class Q, int B>
void dequantize_row(Mut<U, 1, B> x, In<Q, dyn, dyn> q, In<f32, dyn> scale) {
  x.store(narrow<U>(cast<f32>(q.load_like(x)) * scale.load_like(x, axes<0>)));
}

/// {q, scale}: x [rows, n] in f8e4m3, f8e5m2 or i8 with one f32 scale per row. Throws ShapeError for n above 16384.
template <Element Q, Operand X>
Op<std::tuple<Tensor<Q, 2>, Tensor<f32, 1>>> quantize_rows(const X& x,
                                                           SourceLocation where = SourceLocation::current()) {
  static_assert(std::is_same_v<Q, f8e4m3> || std::is_same_v<Q, f8e5m2> || std::is_same_v<Q, i8>,
                "f8e4m3, f8e5m2 or i8");
  static_assert(X::rank == 2, "quantize_rows takes a matrix of rows");
  expect_shape(x.dim(1, where) <= kLongestTile, "quantize_rows", "x", x, "a row has at most 16384 elements", where);
  if (x.dim(1, where) == 0)
    return all(empty<Q>(x.dims(where), where), ones<f32>(Dims<1>(x.dim(0, where), where), where));
  const auto launch = with_extent<kShortestTile, kLongestTile>(
      x.dim(1, where), [](auto n) { return kernel<quantize_row<Q, element_of<X>, n>>.launcher(); });
  return launch(empty<Q>(x.dims(where), where), empty<f32>(Dims<1>(x.dim(0, where), where), where), x.view(where),
                where);
}
/// q [rows, n] times scale [rows], as U. Throws ShapeError if the rows do not agree.
template <Element U, Operand Q, Operand S>
Op<Tensor<U, 2>> dequantize_rows(const Q& q, const S& scale, SourceLocation where = SourceLocation::current()) {
  static_assert(Q::rank == 2 && S::rank == 1 && std::is_same_v<element_of<S>, f32>,
                "q must have rank 2, scale must be f32 of rank 1");
  expect_dim("dequantize_rows", "scale", scale, 0, q.dim(0, where), where);
  return kernel<dequantize_row<U, element_of<Q>, 1024>>(empty<U>(q.dims(where), where), q.view(where),
                                                        scale.view(where), where);
}

}  // namespace tessera::kernels
