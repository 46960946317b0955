// The frequencies of RoPE, with YaRN (Peng et al. 2023, section 3) as Hugging Face computes it.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "mortar/config.hpp"

namespace mortar {
namespace {

/// The pair (a real number) that turns `rotations` times within the original context.
double pair_of(double rotations, const ModelConfig& c) {
  const auto dim = static_cast<double>(c.head_dim), context = static_cast<double>(c.yarn->original_context);
  return dim * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(c.rope_theta));
}

}  // namespace

RopeAngles rope_angles(const ModelConfig& c) {
  RopeAngles angles;
  double low = 0, high = 0;
  if (c.yarn) {
    angles.attention_factor = static_cast<float>(c.yarn->attention_factor);
    low = pair_of(c.yarn->beta_fast, c);
    high = pair_of(c.yarn->beta_slow, c);
    if (c.yarn->truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(c.head_dim - 1));
    if (low == high) high += 0.001;  // no division by 0
  }
  for (std::int64_t i = 0; i < c.head_dim / 2; ++i) {
    const auto pair = static_cast<double>(i);
    const double kept = std::pow(c.rope_theta, -2 * pair / static_cast<double>(c.head_dim));
    double frequency = kept;
    if (c.yarn) {
      const double ramp = std::clamp((pair - low) / (high - low), 0.0, 1.0);
      frequency = kept / c.yarn->factor * ramp + kept * (1 - ramp);
    }
    angles.inverse_frequencies.push_back(static_cast<float>(frequency));
  }
  return angles;
}

}  // namespace mortar
