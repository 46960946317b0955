// The forward pass of one step, as a flow over kernels: what the spec of the model says.
#pragma once
#include <span>
#include <vector>

#include "model/parallel.hpp"
#include "mortar/plan.hpp"
#include "mortar/weights.hpp"

namespace mortar {

/// Queries of a tile of prompt attention: on a GPU as many as the tensor cores take at once.
inline constexpr int kSmallQueryTile = 16, kQueryTile = 64;

/// The keys and values of all positions, by page: see model/kernels.hpp. One tensor each per layer, [kv_heads, slots,
/// 2, head_dim / 2], in the type of the cache.
struct KvCache {
  KvType type = KvType::Bf16;
  std::vector<tessera::Tensor<tessera::bf16, 4>> keys, values;          ///< of KvType::Bf16
  std::vector<tessera::Tensor<tessera::f8e4m3, 4>> f8_keys, f8_values;  ///< of KvType::Fp8, in Network::cache_scales
};

/// What a step computes: the tokens of one or more sequences, on the device. "Rows" are sequences of the step: first
/// prompts, then answers, of which one token each is computed.
struct Step {
  tessera::View<tessera::i32, 1> ids, positions;  ///< [tokens]
  tessera::View<tessera::i32, 1> slots;           ///< [tokens]: where keys and values are written; -1: nowhere
  tessera::View<tessera::i32, 2> table;           ///< [rows, pages]: the pages of each sequence
  tessera::View<tessera::i32, 1> lengths;         ///< [rows]: keys in use, those of this step included
  std::int64_t answers = 0;                       ///< of the rows, and of the tokens: the last ones
  // Tokens of prompts are packed in tiles that belong to one sequence each.
  int query_tile = kSmallQueryTile;  ///< kSmallQueryTile or kQueryTile
  tessera::View<tessera::i32, 1> tile_rows, tile_positions;
  std::int64_t prompts = 0;                  ///< the first of the rows: those of prompts that are in use
  std::int64_t prompt_pages = 1;             ///< at most so many pages hold the keys that tokens of prompts see
  std::span<const std::size_t> layers = {};  ///< only these are computed; none: all

  std::int64_t tokens() const { return ids.dim(0); }
  /// Every token is an answer's: such steps are captured into graphs.
  bool decode() const { return answers == tokens(); }
};

/// The parts of a model that the forward pass reads.
struct Network {
  ModelSpec config;  ///< of a rank: local_spec()
  Weights weights;
  tessera::Tensor<tessera::f32, 1> frequencies;  ///< [head_dim / 2]: rotation per position (rope_angles)
  float rope_factor = 1;
  /// An FP8 cache has scales: for each layer those of its key heads, [2, kv_heads] (model/cache_scales.hpp).
  std::vector<tessera::Tensor<tessera::f32, 2>> cache_scales;
  Numerics numerics;
  RouterObserver* observer = nullptr;  ///< of every layer with experts
  const Parallel* parallel = nullptr;  ///< the ranks that compute the model together; null: one device
  float epsilon() const { return static_cast<float>(config.norm_epsilon); }
};

/// The logits of hidden states, [rows, vocabulary].
tessera::Flow<tessera::Tensor<tessera::f32, 2>> logits_of(const Network& network, Rows hidden);

/// The hidden states of the step's tokens after the last norm, [tokens, hidden]; writes keys and values into the cache.
tessera::Flow<tessera::Tensor<tessera::bf16, 2>> forward(const Network& network, KvCache& cache, const Step& step);

}  // namespace mortar
