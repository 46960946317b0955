// The elementwise family: kernels::add(x, y), kernels::silu(x), ... of tensors of any rank and numbers. The result is a
// new tensor, or is written in place if the first tensor is given: kernels::silu(std::move(x)).
//
// Axes of 1 broadcast; operands of other extents are a ShapeError. Results have the first tensor's element type;
// 16-bit floats are computed in f32 and rounded once.
#pragma once
#include "tessera/kernels/functions.hpp"
#include "tessera/kernels/map.hpp"

namespace tessera::kernels {

/// f(x...) as a tensor of U (by default the first tensor's element type) with the broadcast extents, for any function
/// of tiles. Operands are passed to f as tiles of compute_t. Throws ShapeError if the extents do not fit.
template <class U = void, class F, Operand X>
auto map(F f, const X& x, SourceLocation where = SourceLocation::current()) {
  return map_to<std::conditional_t<std::is_void_v<U>, element_of<X>, U>>(f, where, x);
}
template <class U = void, class F, Operand X, class Y>
auto map(F f, const X& x, const Y& y, SourceLocation where = SourceLocation::current()) {
  return map_to<std::conditional_t<std::is_void_v<U>, element_of<X>, U>>(f, where, x, y);
}
template <class U = void, class F, Operand X, class Y, class Z>
auto map(F f, const X& x, const Y& y, const Z& z, SourceLocation where = SourceLocation::current()) {
  return map_to<std::conditional_t<std::is_void_v<U>, element_of<X>, U>>(f, where, x, y, z);
}
/// x = f(x, ...) in x's memory; x is unchanged if this throws. Throws ShapeError if another operand is longer than x.
template <class F, Element T, int R>
auto map_in_place(F f, TESSERA_ARG_LIVE Tensor<T, R>&& x, SourceLocation where = SourceLocation::current()) {
  return map_onto(f, where, std::move(x));
}
template <class F, Element T, int R, class Y>
auto map_in_place(F f, TESSERA_ARG_LIVE Tensor<T, R>&& x, const Y& y,
                  SourceLocation where = SourceLocation::current()) {
  return map_onto(f, where, std::move(x), y);
}

#define TESSERA_UNARY(name, Function)                                                              \
  template <Operand X>                                                                             \
  auto name(const X& x, SourceLocation where = SourceLocation::current()) {                        \
    return map_to<element_of<X>>(functions::Function{}, where, x);                                 \
  }                                                                                                \
  template <Element T, int R>                                                                      \
  auto name(TESSERA_ARG_LIVE Tensor<T, R>&& x, SourceLocation where = SourceLocation::current()) { \
    return map_onto(functions::Function{}, where, std::move(x));                                   \
  }
#define TESSERA_BINARY(name, Function)                                                                         \
  template <Operand X, class Y>                                                                                \
  auto name(const X& x, const Y& y, SourceLocation where = SourceLocation::current()) {                        \
    return map_to<element_of<X>>(functions::Function{}, where, x, y);                                          \
  }                                                                                                            \
  template <Element T, int R, class Y>                                                                         \
  auto name(TESSERA_ARG_LIVE Tensor<T, R>&& x, const Y& y, SourceLocation where = SourceLocation::current()) { \
    return map_onto(functions::Function{}, where, std::move(x), y);                                            \
  }
TESSERA_UNARY(relu, Relu)
TESSERA_UNARY(sigmoid, Sigmoid)
TESSERA_UNARY(silu, Silu)
TESSERA_UNARY(gelu, Gelu)  // by erf
TESSERA_UNARY(gelu_tanh, GeluTanh)
TESSERA_BINARY(add, Add)
TESSERA_BINARY(sub, Sub)
TESSERA_BINARY(mul, Mul)  // y may be a number: scaling
TESSERA_BINARY(div, Div)
TESSERA_BINARY(maximum, Maximum)
TESSERA_BINARY(minimum, Minimum)
TESSERA_BINARY(silu_mul, SiluMul)  // silu(gate) * up
TESSERA_BINARY(gelu_mul, GeluMul)
#undef TESSERA_UNARY
#undef TESSERA_BINARY

/// y + a * x in y's memory.
template <Element T, int R, HostNumber N, Operand X>
auto saxpy(TESSERA_ARG_LIVE Tensor<T, R>&& y, N a, const X& x, SourceLocation where = SourceLocation::current()) {
  return map_onto(functions::Saxpy{}, where, std::move(y), x, a);
}

}  // namespace tessera::kernels
