// Convolutions over one, two or three axes in space, channels last, as products: [positions, channels] times
// [channels, outputs] for each position of the filter. No matrix of windows is made in memory.
//
//   auto y = kernels::convolution(x, w, {.stride = 2, .padding = {1, 1}}).sync();
//   auto y = kernels::convolution(x, w, {.padding = 1}, kernels::bias_then<kernels::functions::Relu>(b)).sync();
//   auto x = kernels::convolution_transposed(y, w, {.stride = 2}).sync();
//
// x is [images, space..., channels], w [outputs, filter..., channels / groups], y [images, space..., outputs]. The
// input is copied into a frame of zeros where there is padding (docs/kernels.md).
#pragma once
#include "tessera/kernels/convolution_transposed.hpp"

namespace tessera::kernels {

/// Each output is the sum of the products of a window of x with the filter of its channel: [images, space...,
/// outputs]. U: the element type of the result (void: product_t); M: the element type that is multiplied (void: x's).
/// The epilogue sees an output of the axes [images, three in space, outputs]; of several groups, [images, three in
/// space, groups, outputs of a group], and a vector with an element for each output as [groups, outputs of a group].
/// Throws ShapeError for extents and options that do not fit, BorrowError for operands that are empty or in use.
template <class U = void, class M = void, Operand X, Operand W, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<X>>, X::rank>> convolution(const X& x, const W& w,
                                                             const ConvolutionOptions<X::rank - 2>& options = {},
                                                             const Fused<E, P...>& epilogue = Fused<E, P...>{},
                                                             SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using C = product_t<U, T>;
  using Y = std::conditional_t<std::is_void_v<M>, T, M>;
  constexpr int R = X::rank, S = R - 2;
  constexpr const char* name = "convolution";
  convolutions::check<S>(name, x, w, options.groups, where);
  convolutions::expect_option(name, "stride", options.stride, 1, where);
  convolutions::expect_option(name, "dilation", options.dilation, 1, where);
  convolutions::expect_option(name, "padding", options.padding, 0, where);
  expect_dim(name, "w", w, R - 1, x.dim(R - 1, where) / options.groups, where);
  expect_shape(w.dim(0, where) % options.groups == 0, name, "w", w, "its outputs must be a multiple of groups", where);
  const Dims<5> in = convolutions::in_space(x.dims(where), where),
                filter = convolutions::in_space(w.dims(where), where);
  convolutions::Sizes s;
  s.images = in[0], s.groups = options.groups;
  s.channels = in[4] / s.groups, s.outputs = filter[0] / s.groups;
  s.stride = convolutions::on_axes(options.stride, 1), s.dilation = convolutions::on_axes(options.dilation, 1);
  s.before = convolutions::on_axes(options.padding, 0);
  for (std::size_t a = 0; a < 3; ++a) {
    s.in[a] = in[static_cast<int>(a) + 1], s.filter[a] = filter[static_cast<int>(a) + 1];
    expect_shape(s.in[a] + 2 * s.before[a] >= s.window(a), name, "w", w,
                 "with its dilation it must fit into x with its padding", where);
    s.out[a] = (s.in[a] + 2 * s.before[a] - s.window(a)) / s.stride[a] + 1;
  }
  check_epilogue(epilogue, name, convolutions::output_dims<R>(s, where), where);
  const Dims<4> by_output({s.groups, s.outputs, s.filter[0] * s.filter[1] * s.filter[2], s.channels}, where);
  expect_shape(x.contiguous(where), name, "x", x, "it must be contiguous: clone it", where);
  expect_shape(w.contiguous(where), name, "w", w, "it must be contiguous: clone it", where);
  const View<T, 4> filters = tessera::reshape(w.view(where), by_output, where);
  auto y = convolutions::run<C, Y>(s, tessera::reshape(x.view(where), in, where), filters, false,
                                   convolutions::epilogue_in_space<R>(epilogue, where), where);
  return convolutions::reading_all(convolutions::of_rank<R>(s, std::move(y), where), x, w, epilogue, where);
}

}  // namespace tessera::kernels
