// How the next token of a sequence is chosen.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mortar/config.hpp"

namespace mortar {

/// Applied in this order: penalties and biases, temperature, top_k, top_p of the rest, min_p. A limit keeps all tokens
/// that are as likely as the last one it keeps, so the result does not depend on an order of equal ones.
struct Sampling {
  bool greedy = false;     ///< the most likely token, of equal ones the lowest id; the options from `temperature` to
                           ///< `min_p` are ignored
  float temperature = 1;   ///< 0: greedy
  std::int64_t top_k = 0;  ///< keeps the k most likely tokens; 0: all
  float top_p = 1;         ///< keeps the most likely tokens that have this probability together
  float min_p = 0;         ///< keeps tokens with this share of the probability of the most likely one
  float repetition_penalty =
      1;  ///< > 1: logits of tokens of the prompt and the answer are divided by it, negative ones multiplied
  float presence_penalty = 0;   ///< subtracted from the logits of tokens of the answer
  float frequency_penalty = 0;  ///< subtracted from the logit of a token as often as the answer has it
  std::vector<std::pair<std::int32_t, float>> logit_bias =
      {};  ///< added to the logits of these tokens; biases of one token are added to each other first, in their order
  std::optional<std::uint64_t> seed =
      std::nullopt;  ///< the same seed gives the same tokens for the same logits; else one is drawn
};

/// The most logit biases of a request.
inline constexpr std::size_t kMaxBiases = 512;

/// The options of generation_config.json.
Sampling sampling_of(const GenerationConfig& config);
/// Throws RequestError for an option out of range; `vocabulary` bounds the ids of logit_bias.
void check(const Sampling& sampling, std::int64_t vocabulary);

}  // namespace mortar
