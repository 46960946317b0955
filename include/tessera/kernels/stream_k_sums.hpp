// The last third of a stream-K product: the kernel that adds the parts.
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

template <class E, class U, class S, int BM, int BN, class... P>
void stream_k_sums(Mut<U, BM, BN> c, In<S, dyn, dyn, dyn> parts, Scalar<i32> whole, Scalar<i32> share, P... operands) {
  auto [i, j] = c.index();
  auto tile = i * c.count(1) + j;
  tile_if (tile >= whole) {
    auto Parts = parts.tiles(shape<1, BM, BN>);
    auto acc = zeros<S, BM, BN>();
    for (auto part : range(max((tile - whole) * share, 0), min((tile - whole + 1) * share, parts.dim(0))))
      acc = acc + reshape(Parts.load(part, 0, 0), shape<BM, BN>);
    c.store(narrow<U>(E{}(acc, c, operands...)));
  }
}

}  // namespace tessera::kernels
