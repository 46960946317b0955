// Tensors of the layout become members of Weights.
#pragma once
#include <utility>

#include "files/layout.hpp"
#include "mortar/weights.hpp"
#include "tessera/host/transfer.hpp"

namespace mortar::model {

/// Weights without tensors: a layer for each of the model's.
inline Weights empty_weights(const ModelSpec& model) {
  Weights w;
  w.tied = model.tied;
  w.layers.resize(static_cast<std::size_t>(model.layers));
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    if (model.has_experts(static_cast<std::int64_t>(i)))
      w.layers[i].experts.emplace();
    else
      w.layers[i].dense.emplace();
  }
  return w;
}

template <tessera::Element T, class M, int R>
void put(M& matrix, tessera::Tensor<T, R>&& t) {
  if constexpr (std::is_same_v<T, tessera::bf16>) {
    matrix.values = std::move(t);
  } else if constexpr (std::is_same_v<T, tessera::f8e4m3>) {
    matrix.quantized = std::move(t);
    matrix.is_fp8 = true;
  } else {
    matrix.scales = std::move(t);
  }
}

/// `t` is [rows, columns] of `info`.
template <tessera::Element T>
void place(Weights& weights, const files::WeightTensor& info, tessera::Tensor<T, 2>&& t) {
  using files::Role;
  LayerWeights& layer = weights.layers[static_cast<std::size_t>(info.layer)];
  const auto stacked = [&](tessera::Tensor<T, 2>&& all) {
    return reshape(std::move(all), tessera::Dims<3>({info.experts, info.rows / info.experts, info.columns}));
  };
  switch (info.role) {
    case Role::Qkv: return put(layer.qkv, std::move(t));
    case Role::Output: return put(layer.output, std::move(t));
    case Role::GateUp: return put(layer.dense->gate_up, std::move(t));
    case Role::Down: return put(layer.dense->down, std::move(t));
    case Role::ExpertGateUp: return put(layer.experts->gate_up, stacked(std::move(t)));
    case Role::ExpertDown: return put(layer.experts->down, stacked(std::move(t)));
    default: break;
  }
  if constexpr (std::is_same_v<T, tessera::bf16>) {  // the layout stores the others as bf16 alone
    const auto vector = [&] { return reshape(std::move(t), tessera::Dims<1>({info.columns})); };
    switch (info.role) {
      case Role::Embedding: weights.embedding = std::move(t); break;
      case Role::LmHead: weights.lm_head = std::move(t); break;
      case Role::Router: layer.experts->router = std::move(t); break;
      case Role::FinalNorm: weights.final_norm = vector(); break;
      case Role::AttentionNorm: layer.attention_norm = vector(); break;
      case Role::MlpNorm: layer.mlp_norm = vector(); break;
      case Role::QueryNorm: layer.query_norm = vector(); break;
      case Role::KeyNorm: layer.key_norm = vector(); break;
      default: break;
    }
  }
}

/// f.template operator()<T>() with the element type of the device's tensor.
template <class F>
decltype(auto) with_element(files::Stored stored, F&& f) {
  if (stored == files::Stored::Fp8) return f.template operator()<tessera::f8e4m3>();
  if (stored == files::Stored::Scales) return f.template operator()<tessera::f32>();
  return f.template operator()<tessera::bf16>();
}

}  // namespace mortar::model
