// The mixture of experts of a layer. Few tokens: each reads the weights of its experts, as a product with one row does.
// More: tokens are sorted by expert, and each expert's weights are read once.
#include "model/parallel.hpp"
#include "model/products.hpp"
#include "model/weight_kernels.hpp"
#include "tessera/kernels/moe_route.hpp"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace mortar {

using namespace tessera;

namespace {

/// Up to this many tokens of a step, sorting them does not pay.
constexpr std::int64_t kFewTokens = 8;

/// Rows of gate, and of up, of a block of expert_gates: whole blocks, because up follows gate.
constexpr int kGateRows = 4;

/// f(weights) or f(weights, scales)
template <class F>
auto with_weights(const ExpertMatrices& w, F f) {
  return w.is_fp8 ? f(w.quantized, w.scales) : f(w.values);
}

/// The kernel parameter of the scales of FP8 weights.
template <class Scales>
using ScalesParam = In<f32, dyn, dyn, dyn>;

RowsOp gates_of_few(const Rows& x, const Norm& norm, const ExpertMatrices& w, const Tensor<i32, 2>& chosen) {
  const Dims<2> dims({chosen.size(), (w.is_fp8 ? w.quantized.dim(1) : w.values.dim(1)) / 2});
  if (!w.is_fp8 && kernels::target_of(x.device()).gpu) {  // bench/notes/mortar.md
    constexpr auto& gates = kernel<expert_gates<bf16, kGateRows, 256, 8>>;
    return gates.hints({.warps = 1})(empty<bf16>(dims), x, norm.weight, w.values, chosen, norm.epsilon);
  }
  return with_weights(w, [&](const auto& values, const auto&... scales) {
    using T = typename std::remove_cvref_t<decltype(values)>::element;
    return kernel<expert_gates<T, kGateRows, 512, 1, ScalesParam<decltype(scales)>...>>(
        empty<bf16>(dims), x, norm.weight, values, chosen, norm.epsilon, scales...);
  });
}

RowsOp sums_of_few(const Rows& residual, const Tensor<bf16, 2>& h, const ExpertMatrices& w,
                   const Tensor<i32, 2>& chosen, const Tensor<f32, 2>& weights) {
  return with_weights(w, [&](const auto& values, const auto&... scales) {
    using T = typename std::remove_cvref_t<decltype(values)>::element;
    return kernel<expert_sums<T, 2, 256, ScalesParam<decltype(scales)>...>>(
        empty<bf16>(residual.dims()), residual, h, values, chosen, weights, static_cast<int>(chosen.dim(1)), scales...);
  });
}

Op<Tensor<f32, 2>> summands_of_few(const Rows& x, const Tensor<bf16, 2>& h, const ExpertMatrices& w,
                                   const Tensor<i32, 2>& chosen, const Tensor<f32, 2>& weights) {
  return with_weights(w, [&](const auto& values, const auto&... scales) {
    using T = typename std::remove_cvref_t<decltype(values)>::element;
    return kernel<expert_summands<T, 2, 256, ScalesParam<decltype(scales)>...>>(
        empty<f32>(x.dims()), h, values, chosen, weights, static_cast<int>(chosen.dim(1)), scales...);
  });
}

/// The rows of x, each times its expert's weights. `slots`: experts of a token; 0: rows are in the order of places.
/// Owners that are not experts of w give rows of zeros.
template <class U = bf16>
Op<Tensor<U, 2>> grouped(const Rows& x, const ExpertMatrices& w, const Tensor<i32, 1>& pairs,
                         const Tensor<i32, 1>& owners, int slots) {
  if (w.is_fp8)
    return kernel<scaled_groups<128, U>>(empty<U>({pairs.dim(0), w.quantized.dim(1)}), x, w.quantized, w.scales, pairs,
                                         owners, slots);
  const auto transposed = w.values.permute<0, 2, 1>();
  if constexpr (std::is_same_v<U, bf16>) {
    return slots > 0 ? kernels::grouped_gemm(x, transposed, pairs, owners, slots)
                     : kernels::grouped_gemm(x, transposed, owners);
  } else {
    return kernel<kernels::grouped_gemm_placed<U, bf16, 128, 64>>(empty<U>({x.dim(0), w.values.dim(1)}), x, transposed,
                                                                  owners);
  }
}

/// How ranks share a layer's experts, as one rank sees it.
struct SharedExperts {
  const Parallel& parallel;
  std::int64_t first, count;  ///< the experts that the rank has
  bool whole;                 ///< no other rank has a part of them
  SharedExperts(const Parallel& p, const ExpertMlp& w, const ExpertSpec& config)
      : parallel(p),
        first(p.first_expert(w)),
        count(w.down.is_fp8 ? w.down.quantized.dim(0) : w.down.values.dim(0)),
        whole(count < config.count) {
    if (!whole) first = 0;
  }
  /// Numbers of the model's experts as the rank's.
  Op<Tensor<i32, 1>> numbers(const Tensor<i32, 1>& experts) const {
    return kernel<number_experts<128>>(empty<i32>(experts.dims()), experts, static_cast<i32>(first),
                                       static_cast<i32>(count));
  }
};

/// The experts of each token and their weights. Scores are f32: a rounded score may choose another expert.
Flow<Routing> routing_of(const Tensor<f32, 2>& scores, const ExpertSpec& config, RouterObserver* observer) {
  auto [weights, chosen] = co_await kernels::moe_route(scores, config.per_token, config.normalize);
  Routing routing{std::move(weights), std::move(chosen)};
  if (observer != nullptr) observer->routed(scores, routing);
  co_return routing;
}

Flow<Tensor<bf16, 2>> experts_of_few(Rows x, Norm norm, const ExpertMlp& w, const ExpertSpec& config, Numerics numerics,
                                     RouterObserver* observer) {
  const auto scores = co_await normed_logits(x, norm, w.router, numerics);
  const auto [weights, chosen] = co_await routing_of(scores, config, observer);
  const auto h = co_await gates_of_few(x, norm, w.gate_up, chosen);
  co_return co_await sums_of_few(x, h, w.down, chosen, weights);
}

/// Ranks have columns of all experts, or whole ones: a token's experts on other ranks are then multiplied with 0.
Flow<Tensor<bf16, 2>> shared_experts_of_few(Rows x, Norm norm, const ExpertMlp& w, const ExpertSpec& config,
                                            Numerics numerics, RouterObserver* observer, const Parallel& parallel) {
  const SharedExperts shared(parallel, w, config);
  const auto scores = co_await normed_logits(x, norm, w.router, numerics);
  auto [weights, chosen] = co_await routing_of(scores, config, observer);
  if (shared.whole) {
    const Dims<2> dims = chosen.dims();
    const Dims<1> flat({dims.numel()});
    const auto all = reshape(std::move(chosen), flat);
    auto own = co_await shared.numbers(all);
    const auto all_weights = reshape(std::move(weights), flat);
    auto kept = co_await kernel<keep_own_weights<128>>(empty<f32>(flat), all_weights, own);
    weights = reshape(std::move(kept), dims);
    chosen = reshape(std::move(own), dims);
  }
  const auto h = co_await gates_of_few(x, norm, w.gate_up, chosen);
  auto summands = co_await summands_of_few(x, h, w.down, chosen, weights);
  const auto sums = co_await sum_of_ranks(parallel, std::move(summands));
  co_return co_await add_sums(x, sums, numerics);
}

/// What the products of tokens with their experts need.
struct Grouping {
  const Tensor<f32, 2>& weights;
  const Tensor<i32, 1>&pairs, &owners, &places;
};

/// x + the sums over each token's experts of weight * down(h): h has a row for each place, of the rank's columns, and
/// zeros in those of other ranks' experts.
Flow<Tensor<bf16, 2>> shared_down(Rows x, Tensor<bf16, 2> h, const ExpertMlp& w, Grouping by, Numerics numerics,
                                  const SharedExperts& shared) {
  const Parallel& parallel = shared.parallel;
  if (!parallel.ranks.exact) {
    const auto placed = co_await grouped<f32>(h.view(), w.down, by.pairs, by.owners, 0);
    auto summands = co_await kernel<add_summands<1024>>(empty<f32>(x.dims()), placed, by.weights, by.places);
    const auto sums = co_await sum_of_ranks(parallel, std::move(summands));
    co_return co_await add_sums(x, sums, numerics);
  }
  if (shared.whole) {
    auto own = co_await grouped(h.view(), w.down, by.pairs, by.owners, 0);
    const auto placed = co_await rows_of_ranks(parallel, std::move(own));
    co_return co_await kernel<add_experts<1024>>(empty<bf16>(x.dims()), x, placed, by.weights, by.places);
  }
  const auto all = co_await columns_of_ranks(parallel, std::move(h));
  const auto placed = co_await grouped(all.view(), w.down, by.pairs, by.owners, 0);
  const std::int64_t outputs = placed.dim(1), first = parallel.ranks.rank * outputs;
  if (outputs == x.dim(1))
    co_return co_await kernel<add_experts<1024>>(empty<bf16>(x.dims()), x, placed, by.weights, by.places);
  const Dims<2> dims({x.dim(0), outputs});
  auto part = co_await kernel<add_experts<1024>>(empty<bf16>(dims), x.slice<1>(first, first + outputs), placed,
                                                 by.weights, by.places);
  co_return co_await columns_of_ranks(parallel, std::move(part));
}

Flow<Tensor<bf16, 2>> experts_of_many(Rows x, Norm norm, const ExpertMlp& w, const ExpertSpec& config,
                                      Numerics numerics, RouterObserver* observer, const Parallel* parallel) {
  const auto n = co_await normed(x, norm, numerics);
  const auto scores = co_await logits_of(n.view(), w.router, numerics);
  const auto [weights, chosen] = co_await routing_of(scores, config, observer);
  auto [pairs, owners, places] = co_await kernels::moe_plan(chosen, config.count);
  if (parallel != nullptr) {
    const SharedExperts shared(*parallel, w, config);
    if (shared.whole) owners = co_await shared.numbers(owners);
  }
  const auto gate_up = co_await grouped(n.view(), w.gate_up, pairs, owners, static_cast<int>(config.per_token));
  auto h = co_await gated(gate_up.view(), numerics);
  if (parallel != nullptr) {
    const SharedExperts shared(*parallel, w, config);
    co_return co_await shared_down(x, std::move(h), w, {weights, pairs, owners, places}, numerics, shared);
  }
  const auto placed = co_await grouped(h.view(), w.down, pairs, owners, 0);
  co_return co_await kernel<add_experts<1024>>(empty<bf16>(x.dims()), x, placed, weights, places);
}

}  // namespace

Flow<Tensor<bf16, 2>> experts(Rows x, Norm norm, const ExpertMlp& w, const ExpertSpec& config, Numerics numerics,
                              RouterObserver* observer, const Parallel* parallel) {
  const bool whole = config.intermediate % kGateRows == 0;
  const bool few = x.dim(0) <= kFewTokens && whole && !numerics.one_way();
  if (few && parallel != nullptr)
    co_return co_await shared_experts_of_few(x, norm, w, config, numerics, observer, *parallel);
  if (few) co_return co_await experts_of_few(x, norm, w, config, numerics, observer);
  co_return co_await experts_of_many(x, norm, w, config, numerics, observer, parallel);
}

}  // namespace mortar
