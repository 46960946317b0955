// The first half of moe_plan: how many pairs of each expert come before each pair.
#pragma once
#include <algorithm>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// Consecutive places that belong to one expert: the rows of a tile of grouped_gemm.
inline constexpr int kMoeRows = 64;
/// Pairs that one step counts.
inline constexpr int kMoeChunk = 1024;

/// ranks[e, p]: how many of the pairs 0 to p belong to expert e. One block per expert; it loads its row in chunks.
template <int Row>
void rank_pairs(Mut<i32, 1, Row> ranks, In<i32, dyn> experts) {
  auto Experts = experts.tiles(shape<kMoeChunk>, pad(-1));
  auto Ranks = ranks.sub(shape<1, kMoeChunk>);
  auto [expert, zero] = ranks.index();
  auto before = zeros<i32, 1, 1>();
  for (auto c : range(Experts.count(0))) {
    auto mine = cast<i32>(reshape(Experts.load(c), shape<1, kMoeChunk>) == expert);
    Ranks.store(0, c, before + cumsum(mine, axis<1>));
    before = before + sum(mine, axis<1>);
  }
}

/// One past the last place of each expert (E of them, of which the first `ranks.dim(0)` exist).
template <int E>
auto expert_ends(const In<i32, dyn, dyn>& ranks) {
  auto counts = reshape(ranks.load_at(shape<E, 1>, 0, ranks.dim(1) - 1), shape<E>);
  return cumsum(ceil_div(counts, kMoeRows) * kMoeRows, axis<0>);
}

}  // namespace tessera::kernels
