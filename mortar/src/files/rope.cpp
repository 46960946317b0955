// The frequencies of RoPE, with its scaling as Hugging Face computes it.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "mortar/config.hpp"

namespace mortar {
namespace {

double frequency_of(std::int64_t pair, const AttentionSpec& a) {
  return std::pow(a.rotary.base, -2 * static_cast<double>(pair) / static_cast<double>(a.head_dim));
}

/// What becomes of the frequency of each pair: `operator()(pair, frequency)`. One form for each kind of scaling.
struct Unscaled {
  double operator()(std::int64_t, double frequency) const { return frequency; }
};
struct Linear {
  double factor;
  double operator()(std::int64_t, double frequency) const { return frequency / factor; }
};

/// YaRN (Peng et al. 2023, section 3).
class Yarn {
 public:
  Yarn(const YarnScaling& yarn, const AttentionSpec& a) : factor_(yarn.factor) {
    low_ = pair_of(yarn.beta_fast, yarn, a);
    high_ = pair_of(yarn.beta_slow, yarn, a);
    if (yarn.truncate) low_ = std::floor(low_), high_ = std::ceil(high_);
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(a.head_dim - 1));
    if (low_ == high_) high_ += 0.001;  // no division by 0
  }
  double operator()(std::int64_t pair, double frequency) const {
    const double ramp = std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
    return frequency / factor_ * ramp + frequency * (1 - ramp);
  }

 private:
  /// The pair (a real number) that turns `rotations` times within the original context.
  static double pair_of(double rotations, const YarnScaling& yarn, const AttentionSpec& a) {
    const auto dim = static_cast<double>(a.head_dim), context = static_cast<double>(yarn.original_context);
    return dim * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(a.rotary.base));
  }
  double factor_, low_, high_;
};

struct Llama3 {
  Llama3Scaling scaling;
  double operator()(std::int64_t, double frequency) const {
    const double rotations = frequency * static_cast<double>(scaling.original_context) / (2 * std::numbers::pi);
    const double kept =
        std::clamp((rotations - scaling.low_rotations) / (scaling.high_rotations - scaling.low_rotations), 0.0, 1.0);
    return (1 - kept) * frequency / scaling.factor + kept * frequency;
  }
};

}  // namespace

RopeAngles rope_angles(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  RopeAngles angles;
  const auto fill = [&](const auto& scaled) {
    for (std::int64_t pair = 0; pair < a.head_dim / 2; ++pair)
      angles.inverse_frequencies.push_back(static_cast<float>(scaled(pair, frequency_of(pair, a))));
  };
  if (const auto* linear = std::get_if<LinearScaling>(&a.rotary.scaling)) {
    fill(Linear{linear->factor});
  } else if (const auto* yarn = std::get_if<YarnScaling>(&a.rotary.scaling)) {
    angles.attention_factor = static_cast<float>(yarn->attention_factor);
    fill(Yarn(*yarn, a));
  } else if (const auto* llama3 = std::get_if<Llama3Scaling>(&a.rotary.scaling)) {
    fill(Llama3{*llama3});
  } else {
    fill(Unscaled{});
  }
  return angles;
}

}  // namespace mortar
