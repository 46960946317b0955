// Which experts a token goes to: the k largest of its scores, and their softmax as weights.
//
//   auto [weights, experts] = kernels::moe_route(scores, 8).sync();     // [tokens, experts] -> [tokens, 8], [tokens,
//   8]
//
// Up to 1024 experts, k up to 16. With `normalize` the weights of a token add to 1 (softmax over the chosen); without,
// they are the softmax over all experts. Equal scores go to the lower number.
#pragma once
#include "tessera/kernels/rows.hpp"

namespace tessera::kernels {

template <bool Normalize, class T, int K, int N>
void route_row(Mut<f32, 1, K> weights, Mut<i32, 1, K> experts, In<T, dyn, dyn> scores) {
  require(scores.dim(1) <= N, "a row must fit in one piece");
  auto [row, zero] = weights.index();
  auto slots = iota<i32, 1, K>(axis<1>);
  auto columns = iota<i32, 1, N>(axis<1>);
  auto t = cast<f32>(scores.load_at(shape<1, N>, row, 0, pad::neg_inf));
  t = exp(t - max(t, axis<1>));  // at least 0: what was taken becomes -1
  auto total = sum(t, axis<1>);
  t = where(columns < scores.dim(1), t, -1.0f);
  auto top = zeros<f32, 1, K>();
  auto at = zeros<i32, 1, K>();
  for (auto k : range(weights.dim(1))) {
    auto best = argmax(t, axis<1>);
    top = where(slots == k, best.value, top);
    at = where(slots == k, best.index, at);
    t = where(columns == best.index, -1.0f, t);
  }
  if constexpr (Normalize) total = sum(top, axis<1>);
  weights.store(top / total);
  experts.store(at);
}

/// {weights, experts}, by falling weight.
template <Operand X>
Op<std::tuple<Tensor<f32, 2>, Tensor<i32, 2>>> moe_route(const X& scores, std::int64_t k, bool normalize = true,
                                                         SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "scores is [tokens, experts]");
  const std::int64_t n = scores.dim(1, where);
  expect_shape(n <= 1024, "moe_route", "scores", scores, "at most 1024 experts", where);
  expect_shape(k >= 1 && k <= 16 && k <= n, "moe_route", "scores", scores,
               "k is 1 to 16 and at most the number of experts", where);
  const Dims<2> dims(scores.dim(0), k);
  return with_constant<2>(normalize, [&](auto one) {
    return with_extent<128, 1024>(n, [&](auto width) {
      return kernel<route_row<one != 0, element_of<X>, 16, width>>(empty<f32>(dims, where), empty<i32>(dims, where),
                                                                   scores.view(), where);
    });
  });
}

}  // namespace tessera::kernels
