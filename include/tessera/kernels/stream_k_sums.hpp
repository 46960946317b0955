// The second half of a stream-K product: how tiles are divided, and the kernel that adds the parts.
#pragma once
#include <algorithm>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// How stream-K divides tiles: the full waves whole, each of the rest in as many parts as fill a wave.
struct StreamShare {
  int whole, rest, share;
};
inline StreamShare stream_share(std::int64_t tiles, int slots) {
  const auto rest = static_cast<int>(tiles % slots);
  return {static_cast<int>(tiles) - rest, rest, rest > 0 ? std::max(1, slots / rest) : 1};
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
