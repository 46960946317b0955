// The launches of the sampling kernels.
#pragma once
#include <optional>
#include <vector>

#include "engine/row_plan.hpp"
#include "mortar/sampling.hpp"
#include "tessera/host/tensor.hpp"
#include "tessera/tessera.hpp"

namespace mortar {

/// What sequences with penalties or biases need on the device: a row per slot.
struct SlotState {
  tessera::Tensor<tessera::i8, 2> marks;         ///< [slots, vocabulary]: kUnseen, kInPrompt or kInAnswer
  tessera::Tensor<tessera::i32, 2> bias_tokens;  ///< [slots, kMaxBiases]; -1: unused
  tessera::Tensor<tessera::f32, 2> bias_values;
  /// [slots, vocabulary]: how often an answer has a token, of sequences with a frequency penalty; made for the first.
  std::optional<tessera::Tensor<tessera::i32, 2>> counts;

  SlotState(std::int64_t slots, std::int64_t vocabulary, const tessera::Stream& stream);
  /// A sequence begins in `slot`: `ids`, of which the first `prompt` are its prompt.
  void begin(std::int64_t slot, const TokenRange& ids, std::int64_t prompt, const Sampling& sampling,
             const tessera::Stream& stream);
};

/// Whether a row's options take the most likely token.
bool is_greedy(const SamplingRow& row);

/// How the rows of a step are chosen from.
struct Choosing {
  SlotState* slots = nullptr;  ///< null if no row has penalties or biases; else tokens are marked there
  bool counted = false;        ///< a row has a frequency penalty
  bool greedy = false;         ///< all rows are
  auto operator<=>(const Choosing&) const = default;
};

/// The successor of each row of logits, [rows]; -1 if its largest logit is not finite. `valid`: the number of ids that
/// are tokens. `masks`, if it is not null: [masks, words], of rows with kMask.
tessera::Flow<tessera::Tensor<tessera::i32, 1>> choose(const tessera::Tensor<tessera::f32, 2>& logits,
                                                       tessera::View<tessera::i32, 2> options, Choosing how,
                                                       std::int64_t valid,
                                                       const tessera::Tensor<tessera::i32, 2>* masks = nullptr);

/// Log-probabilities on the host: of the chosen token of each row, and of the `count` most likely ones.
struct RowScores {
  std::int64_t count = 0;
  std::vector<float> chosen, top;        ///< [rows], [rows * count]
  std::vector<tessera::i32> top_tokens;  ///< [rows * count]
};
RowScores score(const tessera::Tensor<tessera::f32, 2>& logits, const tessera::Tensor<tessera::i32, 1>& tokens,
                std::int64_t count, std::int64_t valid, const tessera::Stream& stream);

}  // namespace mortar
