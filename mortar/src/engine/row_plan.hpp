// What a step computes of one sequence.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "engine/pages.hpp"
#include "engine/sampling_fields.hpp"
#include "engine/token_range.hpp"

namespace mortar {

using SamplingRow = std::array<std::int32_t, kSamplingFields>;

struct RowPlan {
  TokenRange ids;          ///< the tokens to compute
  std::int64_t first = 0;  ///< position of the first of them
  std::span<const PageId> pages;
  bool wants_token = false;  ///< the last of them is followed by a token to choose
  /// Their keys and values are in the pages already, which others may read: they are not written again.
  bool stored = false;
  /// If not -1, ids has one element that means nothing: the token is the one that the step before chooses for this one
  /// of its rows that want a token.
  std::int32_t after = -1;
  SamplingRow sampling{};
};

}  // namespace mortar
