// Which steps are computed before the first request, so that none of them compiles a kernel while requests wait.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "engine/packed_step.hpp"
#include "mortar/weights.hpp"

namespace mortar {

/// How large steps may become.
struct WarmUpLimits {
  std::int64_t batch = 1;    ///< sequences
  std::int64_t prefill = 1;  ///< tokens of prompts in a step
  std::int64_t pages = 1;    ///< of a sequence
  std::int64_t memory = 0;   ///< bytes that steps may use beside each other
  /// A step that takes longer compiles kernels: then all others are compiled in threads first.
  std::chrono::milliseconds compiling{1000};
};

/// Steps such that each one within the limits takes the kernels of one of these: what a kernel is chosen by (tokens,
/// sequences, pages) has thresholds, and between two neighbours here there is at most one that matters. Steps of
/// answers alone come first, the smallest ones at the beginning.
std::vector<StepShape> steps_to_prepare(const WarmUpLimits& limits, int query_tile, int rounding);

/// Numbers of rows that are chosen for in a step, up to `batch`.
std::vector<std::int64_t> choices_to_prepare(std::int64_t batch, int rounding);

/// The first layer of each kind: layers whose weights have the same types and extents take the same kernels.
std::vector<std::size_t> layers_to_prepare(const Weights& weights);

}  // namespace mortar
