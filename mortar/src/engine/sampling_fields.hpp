// The options of sampling as they reach the device.
#pragma once

namespace mortar {

/// The options of a row, as i32: floats by their bits.
enum SamplingField {
  kTemperature,  ///< 0: greedy
  kTopK,         ///< 0: all
  kTopP,
  kMinP,
  kRepetition,
  kPresence,
  kSeedLow,
  kSeedHigh,
  kPosition,  ///< of the token that is chosen: with the seed it determines the random number
  kSlot,      ///< row of the marks and biases of the sequence; -1: none
  kFrequency,
  kMask,  ///< row of the masks of the step; -1: none
  kSamplingFields = 16
};

/// What a sequence has seen of a token, for penalties.
inline constexpr int kUnseen = 0, kInPrompt = 1, kInAnswer = 2;

}  // namespace mortar
