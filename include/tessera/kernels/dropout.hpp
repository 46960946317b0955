// Dropout (Srivastava et al. 2014): each element becomes 0 with probability p; the others are divided by 1 - p.
//
//   auto y = kernels::dropout(x, 0.1f, seed).sync();
//   x = kernels::dropout(std::move(x), 0.1f, seed).sync();
//
// Which elements are dropped depends only on the seed and the element's offset (random::uniform), so it is the same on
// every device, and the backward pass is dropout of the gradient with the same seed.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// Reads x, or y itself if no x is given.
template <class T, int B, class... X>
void dropout_elements(Mut<T, B> y, Scalar<f32> p, Scalar<u64> seed, X... x) {
  auto u = random::uniform<f32>(seed, y.offsets());
  const auto source = [&] {
    if constexpr (sizeof...(X) == 0)
      return y.load();
    else
      return (x.load_like(y), ...);
  };
  y.store(narrow<T>(where(u < p, 0.0f, widen(source()) / (1.0f - p))));
}

inline void check_probability(float p, SourceLocation where) {
  if (!(p >= 0 && p < 1)) throw ShapeError("kernels::dropout: p must be at least 0 and below 1", where);
}

/// Into a new tensor. Throws ShapeError unless 0 <= p < 1.
template <Operand X>
Op<Tensor<element_of<X>, X::rank>> dropout(const X& x, float p, u64 seed,
                                           SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  check_probability(p, where);
  const Dims<1> line(x.size(where), where);
  return tessera::reshape(kernel<dropout_elements<T, 1024, In<T, dyn>>>(
                              empty<T>(line, where), p, seed, tessera::reshape(x.view(where), line, where), where),
                          x.dims(where), where);
}
/// In x's memory. x is unchanged if this throws.
template <Element T, int R>
Op<Tensor<T, R>> dropout(TESSERA_ARG_LIVE Tensor<T, R>&& x, float p, u64 seed,
                         SourceLocation where = SourceLocation::current()) {
  check_probability(p, where);
  const Dims<R> dims = x.dims(where);
  Tensor<T, 1> line = tessera::reshape(std::move(x), Dims<1>(dims.numel(), where), where);
  try {
    return tessera::reshape(kernel<dropout_elements<T, 1024>>(std::move(line), p, seed, where), dims, where);
  } catch (...) {
    x = tessera::reshape(std::move(line), dims, where);
    throw;
  }
}

}  // namespace tessera::kernels
