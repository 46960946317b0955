// The launches of the sampling kernels.
#pragma once
#include <vector>

#include "engine/packed_step.hpp"
#include "mortar/sampling.hpp"

namespace mortar {

/// What sequences with penalties or biases need on the device: a row per slot.
struct SlotState {
  tessera::Tensor<tessera::i8, 2> marks;         ///< [slots, vocabulary]: kUnseen, kInPrompt or kInAnswer
  tessera::Tensor<tessera::i32, 2> bias_tokens;  ///< [slots, kMostBiases]; -1: unused
  tessera::Tensor<tessera::f32, 2> bias_values;

  SlotState(std::int64_t slots, std::int64_t vocabulary, const tessera::Stream& stream);
  /// A sequence begins in `slot`: `ids`, of which the first `prompt` are its prompt.
  void begin(std::int64_t slot, std::span<const TokenId> ids, std::int64_t prompt, const Sampling& sampling,
             const tessera::Stream& stream);
};

/// Whether a row's options take the most likely token.
bool is_greedy(const SamplingRow& row);

/// The successor of each row of logits, [rows]; -1 if its largest logit is not finite. `slots`: null if no row has
/// penalties or biases; else the tokens are marked there as parts of their answers. `greedy`: all rows are. `valid`:
/// the number of ids that are tokens.
tessera::Flow<tessera::Tensor<tessera::i32, 1>> choose(const tessera::Tensor<tessera::f32, 2>& logits,
                                                       tessera::View<tessera::i32, 2> options, SlotState* slots,
                                                       bool greedy, std::int64_t valid);

/// Log-probabilities on the host: of the chosen token of each row, and of the `count` most likely ones.
struct RowScores {
  std::int64_t count = 0;
  std::vector<float> chosen, top;        ///< [rows], [rows * count]
  std::vector<tessera::i32> top_tokens;  ///< [rows * count]
};
RowScores score(const tessera::Tensor<tessera::f32, 2>& logits, const tessera::Tensor<tessera::i32, 1>& tokens,
                std::int64_t count, std::int64_t valid, const tessera::Stream& stream);

}  // namespace mortar
