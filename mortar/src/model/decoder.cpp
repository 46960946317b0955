// The layers of a decoder, in the order of their computation.
#include "model/decoder.hpp"

#include "model/attention.hpp"
#include "tessera/kernels/embedding.hpp"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace mortar {

using namespace tessera;

namespace {

/// A decoding step is captured into a graph.
Numerics numerics_of(const Network& net, bool decode) {
  Numerics numerics = net.numerics;
  numerics.may_dequantize = !decode;
  return numerics;
}

/// x + output(attention(q, k, v)), with q, k, v from the norm of x.
Flow<Tensor<bf16, 2>> attend(const Network& net, std::size_t layer, KvCache& cache, const Step& step,
                             const Tensor<f32, 3>& rotation, Tensor<bf16, 2> x) {
  const LayerWeights& w = net.weights.layers[layer];
  const Norm norm{w.attention_norm, net.epsilon()};
  const Numerics numerics = numerics_of(net, step.decode());
  const auto qkv = co_await normed_linear(x.view(), norm, w.qkv, numerics);
  auto o = co_await attention(net, layer, cache, step, rotation, qkv);
  co_return co_await joined_add(net.parallel, std::move(o), w.output, x.view(), numerics);
}

/// x + mlp(norm(x))
Flow<Tensor<bf16, 2>> feed_forward(const Network& net, const LayerWeights& w, bool decode, Tensor<bf16, 2> x) {
  const Norm norm{w.mlp_norm, net.epsilon()};
  const Numerics numerics = numerics_of(net, decode);
  if (w.experts)
    co_return co_await experts(x.view(), norm, *w.experts, *net.config.mlp.experts, numerics, net.observer,
                               net.parallel);
  if (net.parallel == nullptr) co_return co_await dense_mlp(x.view(), norm, *w.dense, numerics);
  auto h = co_await normed_gates(x.view(), norm, w.dense->gate_up, numerics);
  co_return co_await joined_add(net.parallel, std::move(h), w.dense->down, x.view(), numerics);
}

}  // namespace

Flow<Tensor<f32, 2>> logits_of(const Network& net, Rows hidden) {
  if (net.parallel == nullptr) co_return co_await logits_of(hidden, net.weights.head(), net.numerics);
  const Parallel& p = *net.parallel;
  const Rows head =
      net.weights.tied ? net.weights.embedding.slice<0>(p.first_id, p.first_id + p.ids) : net.weights.lm_head.view();
  auto part = co_await logits_of(hidden, head, net.numerics);
  co_return co_await logits_of_ranks(p, std::move(part));
}

Flow<Tensor<bf16, 2>> forward(const Network& net, KvCache& cache, const Step& step) {
  auto x = co_await kernels::embedding(net.weights.embedding, step.ids);
  const auto rotation = co_await rotation_of(net, step);
  const std::size_t layers = step.layers.empty() ? net.weights.layers.size() : step.layers.size();
  for (std::size_t i = 0; i < layers; ++i) {
    const std::size_t layer = step.layers.empty() ? i : step.layers[i];
    x = co_await attend(net, layer, cache, step, rotation, std::move(x));
    x = co_await feed_forward(net, net.weights.layers[layer], step.decode(), std::move(x));
  }
  const Norm norm{net.weights.final_norm, net.epsilon()};
  co_return co_await normed(x.view(), norm, net.numerics);
}

}  // namespace mortar
