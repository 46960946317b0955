// A transposed copy of a matrix: y[j, i] = x[i, j]. (Most kernels take x.permute<1, 0>(), which copies nothing.)
//
//   auto y = kernels::transpose(x).sync();
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// A tile is read along the rows of x and written along those of y.
template <class T, int BM, int BN>
void transpose_tile(Mut<T, BN, BM> y, In<T, dyn, dyn> x) {
  require(y.dim(0) == x.dim(1) && y.dim(1) == x.dim(0), "y has x's extents in the other order");
  auto [j, i] = y.index();
  y.store(transpose(x.tiles(shape<BM, BN>).load(i, j)));
}

template <Operand X>
Op<Tensor<element_of<X>, 2>> transpose(const X& x, SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "transpose takes a matrix");
  using T = element_of<X>;
  return kernel<transpose_tile<T, 64, 64>>(empty<T>(Dims<2>({x.dim(1, where), x.dim(0, where)}, where), where),
                                           x.view(where), where);
}

}  // namespace tessera::kernels
