// The experts of each token: the k largest of its scores, and their softmax as weights.
//
//   auto [weights, experts] = kernels::moe_route(scores, 8).sync();     // [tokens, experts] -> [tokens, 8], [tokens,
//   8]
//
// Up to 1024 experts, k up to 16. With `normalize` the weights of a token add to 1 (softmax over the chosen); without,
// they are the softmax over all experts. The scores are ranked as top_k does: equal ones go to the lower number, a NaN
// counts as the largest. A score of -infinity has the weight 0, so a token with only such scores has the weights 0. If
// the largest score is +infinity, all infinite scores share the weight. A NaN among the scores that are weighed (the
// chosen ones with `normalize`, else all) makes every weight of its token NaN.
#pragma once
#include "tessera/kernels/rows.hpp"
#include "tessera/kernels/top_k_tile.hpp"

namespace tessera::kernels {

/// e^(t - top), 1 if both are infinite; 0 for -infinity.
template <class F, int N>
Tile<F, 1, N> softmax_terms(const Tile<F, 1, N>& t, const Tile<F, 1, 1>& top) {
  return where(t == -infinity<F>, F(0), where(t == top, F(1), exp(t - top)));
}

template <bool Normalize, class T, int K, int N>
void route_row(Mut<f32, 1, K> weights, Mut<i32, 1, K> experts, In<T, dyn, dyn> scores) {
  require(scores.dim(1) <= N, "a row must fit in one piece");
  require(weights.dim(1) <= scores.dim(1), "k may not exceed the number of experts");
  using F = std::conditional_t<std::is_same_v<T, f64>, f64, f32>;
  auto [row, zero] = weights.index();
  auto t = widen(scores.tiles(shape<1, N>).load(row, 0));
  auto inside = iota<i32, 1, N>(axis<1>) < scores.dim(1);
  auto found = k_largest<K>(t, inside, weights.dim(1));
  auto chosen = where(iota<i32, 1, K>(axis<1>) < weights.dim(1), narrow<F>(found.values), -infinity<F>);
  auto all = where(inside, narrow<F>(t), -infinity<F>);
  auto top = max(all, axis<1>);
  auto terms = softmax_terms(chosen, top);
  auto total = sum(terms, axis<1>);
  if constexpr (!Normalize) total = sum(softmax_terms(all, top), axis<1>);
  weights.store(narrow<f32>(terms / where(total == F(0), F(1), total)));
  experts.store(found.columns);
}

/// {weights, experts}, in descending order of weight. Throws ShapeError for more than 1024 experts and for k out of
/// range.
template <Operand X>
Op<std::tuple<Tensor<f32, 2>, Tensor<i32, 2>>> moe_route(const X& scores, std::int64_t k, bool normalize = true,
                                                         SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "scores is [tokens, experts]");
  const std::int64_t n = scores.dim(1, where);
  expect_shape(n <= 1024, "moe_route", "scores", scores, "at most 1024 experts", where);
  expect_shape(k >= 1 && k <= 16 && k <= n, "moe_route", "scores", scores,
               "k is 1 to 16 and at most the number of experts", where);
  const Dims<2> dims({scores.dim(0, where), k}, where);
  const auto launch = with_constant<2>(normalize, [&](auto one) {
    return with_extent<128, 1024>(
        n, [&](auto width) { return kernel<route_row<one != 0, element_of<X>, 16, width>>.launcher(); });
  });
  return launch(empty<f32>(dims, where), empty<i32>(dims, where), scores.view(where), where);
}

}  // namespace tessera::kernels
