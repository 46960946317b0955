// The weighted sum of the results of a token's experts, for a mixture of experts (grouped_gemm.hpp shows a complete
// one).
//
//   auto y = kernels::moe_combine(placed, weights, places).sync();     // [places, d] -> [tokens, d]
//
// weights (f32) is [tokens, k], places (i32) tokens * k long. A pair whose place is not a row of `placed` (-1, which
// moe_plan gives a pair without a place, or any number out of range) adds nothing.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

template <class T, int B>
void combine_pairs(Mut<T, 1, B> y, In<T, dyn, dyn> placed, In<f32, dyn, dyn> weights, In<i32, dyn> places) {
  auto Placed = placed.tiles(shape<1, B>);
  auto [token, part] = y.index();
  auto acc = zeros<f32, 1, B>();
  for (auto slot : range(weights.dim(1))) {
    auto place = places.gather(token * weights.dim(1) + slot);
    auto row = cast<f32>(Placed.load(clamp(place, 0, placed.dim(0) - 1), part));
    acc = acc + where(place >= 0 && place < placed.dim(0), row * weights.gather(token, slot), zeros<f32, 1, B>());
  }
  y.store(narrow<T>(acc));
}

/// The sum of each token's rows times their weights: [tokens, d].
template <Operand X, Operand W, Operand P>
Op<Tensor<element_of<X>, 2>> moe_combine(const X& placed, const W& weights, const P& places,
                                         SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  expect_dim("moe_combine", "places", places, 0, weights.size(where), where);
  return kernel<combine_pairs<T, 1024>>(empty<T>(Dims<2>({weights.dim(0, where), placed.dim(1, where)}, where), where),
                                        placed.view(where), weights.view(where), places.view(where), where);
}

}  // namespace tessera::kernels
