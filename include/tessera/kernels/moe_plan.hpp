// Sorts tokens by expert, so that one product runs over the tokens of one expert: pairs of a token and an expert are
// placed expert by expert. The number of places of each expert is a multiple of 64 (kMoeRows).
//
//   auto [pairs, owners, places] = kernels::moe_plan(experts, number_of_experts).sync();
//
// experts (i32) is [tokens, k], as from moe_route. pairs[place] is the pair (token * k + slot) at that place, -1 if
// none; owners[place / 64] is the expert of 64 places, -1 if none; places[token * k + slot] is the place of a pair. No
// pair is dropped. The pairs of one expert are in ascending order.
#pragma once
#include <tuple>

#include "tessera/kernels/moe_ranks.hpp"

namespace tessera::kernels {

template <int E>
void list_pairs(MutTiles<i32, kMoeRows> pairs, MutTiles<i32, kMoeRows> owners, MutTiles<i32, kMoeChunk> places,
                In<i32, dyn> experts, In<i32, dyn, dyn> ranks) {
  auto ends = reshape(expert_ends<E>(ranks), shape<1, E>);
  auto number = iota<i32, 1, E>(axis<1>);
  // An expert's first place is the largest end among the experts before it.
  const auto begin_of = [&](const auto& expert) { return max(where(number < expert, ends, 0), axis<1>); };
  for (auto out : places) {
    auto [chunk] = out.index();
    auto mine = reshape(experts.load_like(out, pad(-1)), shape<kMoeChunk, 1>);
    auto rank = ranks.gather(mine, iota<i32, kMoeChunk, 1>(axis<0>) + chunk * kMoeChunk);
    out.store(reshape(where(rank > 0, begin_of(mine) + rank - 1, -1), shape<kMoeChunk>));
  }
  for (auto out : owners) {
    auto [chunk] = out.index();
    auto first = (iota<i32, kMoeRows, 1>(axis<0>) + chunk * kMoeRows) * kMoeRows;
    auto expert = sum(cast<i32>(ends <= first), axis<1>);
    out.store(reshape(where(expert < ranks.dim(0), expert, -1), shape<kMoeRows>));
  }
  for (auto out : pairs) {
    auto [block] = out.index();
    auto first = full<i32, 1, 1>(block * kMoeRows);
    auto expert = sum(cast<i32>(ends <= first), axis<1>);
    auto wanted = iota<i32, kMoeRows, 1>(axis<0>) + (first - begin_of(expert) + 1);  // ranks of the pairs there
    auto low = zeros<i32, kMoeRows, 1>(), high = zeros<i32, kMoeRows, 1>() + ranks.dim(1);
    tile_while(any(low < high)) {  // the first pair of at least that rank
      auto middle = (low + high) / 2;
      auto enough = ranks.gather(expert, middle) >= wanted;
      auto open = low < high;
      high = where(open && enough, middle, high);
      low = where(open && !enough, middle + 1, low);
    }
    out.store(reshape(where(low < ranks.dim(1) && expert < ranks.dim(0), low, -1), shape<kMoeRows>));
  }
}

/// {pairs, owners, places}. An expert number out of range has no place (-1). Throws ShapeError for extents that do not
/// fit.
template <Operand X>
Op<std::tuple<Tensor<i32, 1>, Tensor<i32, 1>, Tensor<i32, 1>>> moe_plan(
    const X& experts, std::int64_t number_of_experts, SourceLocation where = SourceLocation::current()) {
  static_assert(std::is_same_v<element_of<X>, i32> && X::rank == 2, "experts is [tokens, k] of i32");
  const std::int64_t n = experts.size(where);
  if (number_of_experts < 1 || number_of_experts > 1024)
    throw ShapeError("kernels::moe_plan: there are 1 to 1024 experts", where);
  const View<i32, 1> line = tessera::reshape(experts.view(where), Dims<1>(n, where), where);
  const std::int64_t blocks = ceil_div(n + std::min(n, number_of_experts) * (kMoeRows - 1), std::int64_t{kMoeRows});
  auto ranks = kernel<rank_pairs<(1 << 30)>>(empty<i32>(Dims<2>({number_of_experts, n}, where), where), line, where);
  const auto launch =
      with_extent<128, 1024>(number_of_experts, [](auto e) { return kernel<list_pairs<e>>.launcher(); });
  return launch(empty<i32>(Dims<1>(blocks * kMoeRows, where), where), empty<i32>(Dims<1>(blocks, where), where),
                empty<i32>(Dims<1>(n, where), where), line, std::move(ranks), where);
}

}  // namespace tessera::kernels
