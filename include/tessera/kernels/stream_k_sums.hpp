// The last wave of a stream-K product: the kernel that computes its tiles in partials, and the one that adds them.
#pragma once
#include "tessera/kernels/gemm_table.hpp"

namespace tessera::kernels {

/// Computes `share` partials of each tile after `whole`.
template <class M, int BK, class S, class T, int BM, int BN>
void shared_tiles(Mut<S, 1, BM, BN> parts, In<T, dyn, dyn> a, In<T, dyn, dyn> b, Scalar<i32> whole, Scalar<i32> share) {
  require(a.dim(1) == b.dim(0), "a's columns must be b's rows");
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  auto [number, zero, none] = parts.index();
  auto tile = whole + number / share;
  auto part = number % share;
  auto i = tile / B.count(1), j = tile % B.count(1);
  auto steps = ceil_div(A.count(1), share);
  auto acc = zeros<S, BM, BN>();
  for (auto k : range(part * steps, min((part + 1) * steps, A.count(1))))
    acc = multiply<M>(A.load(i, k), B.load(k, j), acc);
  parts.store(reshape(acc, shape<1, BM, BN>));
}

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
