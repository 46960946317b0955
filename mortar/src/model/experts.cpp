// The mixture of experts of a layer. Few tokens: each reads the weights of its experts, as a product with one row does.
// More: tokens are sorted by expert, and each expert's weights are read once.
#include "model/hints.hpp"
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
    static const TuningRecord one_warp = hinted("warps=", 1);
    return gates.tuned(one_warp)(empty<bf16>(dims), x, norm.weight, w.values, chosen, norm.epsilon);
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

/// The rows of x, each times its expert's weights. `slots`: experts of a token; 0: rows are in the order of places.
RowsOp grouped(const Rows& x, const ExpertMatrices& w, const Tensor<i32, 1>& pairs, const Tensor<i32, 1>& owners,
               int slots) {
  if (w.is_fp8)
    return kernel<scaled_groups<128>>(empty<bf16>({pairs.dim(0), w.quantized.dim(1)}), x, w.quantized, w.scales, pairs,
                                      owners, slots);
  const auto transposed = w.values.permute<0, 2, 1>();
  return slots > 0 ? kernels::grouped_gemm(x, transposed, pairs, owners, slots)
                   : kernels::grouped_gemm(x, transposed, owners);
}

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

Flow<Tensor<bf16, 2>> experts_of_many(Rows x, Norm norm, const ExpertMlp& w, const ExpertSpec& config,
                                      Numerics numerics, RouterObserver* observer) {
  const auto n = co_await normed(x, norm, numerics);
  const auto scores = co_await logits_of(n.view(), w.router, numerics);
  const auto [weights, chosen] = co_await routing_of(scores, config, observer);
  const auto [pairs, owners, places] = co_await kernels::moe_plan(chosen, config.count);
  const auto gate_up = co_await grouped(n.view(), w.gate_up, pairs, owners, static_cast<int>(config.per_token));
  const auto h = co_await gated(gate_up.view(), numerics);
  const auto placed = co_await grouped(h.view(), w.down, pairs, owners, 0);
  co_return co_await kernel<add_experts<1024>>(empty<bf16>(x.dims()), x, placed, weights, places);
}

}  // namespace

Flow<Tensor<bf16, 2>> experts(Rows x, Norm norm, const ExpertMlp& w, const ExpertSpec& config, Numerics numerics,
                              RouterObserver* observer) {
  const bool whole = config.intermediate % kGateRows == 0;
  if (x.dim(0) <= kFewTokens && whole && !numerics.one_way())
    co_return co_await experts_of_few(x, norm, w, config, numerics, observer);
  co_return co_await experts_of_many(x, norm, w, config, numerics, observer);
}

}  // namespace mortar
