// The description of a step as one array of i32, which reaches the device in one copy, and the views of its parts.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "engine/pages.hpp"
#include "engine/sampling_fields.hpp"
#include "model/qwen3.hpp"

namespace mortar {

using SamplingRow = std::array<tessera::i32, kSamplingFields>;

/// One sequence of a step. In decoding, a row without tokens keeps its place and computes nothing.
struct RowPlan {
  std::span<const TokenId> ids;  ///< the tokens to compute
  std::int64_t first = 0;        ///< position of the first of them
  std::span<const PageId> pages;
  bool wants_token = false;  ///< the last of them is followed by a token to choose
  SamplingRow sampling{};
};

/// Extents of the parts. A captured graph has fixed ones.
struct StepShape {
  bool decode = false;
  int query_tile = kSmallQueryTile;
  std::int64_t tokens = 0, rows = 0, pages = 0, tiles = 0, wanted = 0;
};
/// The extents for `rows`; in decoding, with rows and pages rounded up, so that few graphs serve all steps.
StepShape shape_of(std::span<const RowPlan> rows, bool decode, int query_tile);

class PackedStep {
 public:
  PackedStep(std::span<const RowPlan> rows, const StepShape& shape);
  const std::vector<tessera::i32>& data() const { return data_; }

 private:
  std::vector<tessera::i32> data_;
};

/// The parts of a step on the device.
struct StepViews {
  Step step;
  tessera::View<tessera::i32, 1> last;     ///< [wanted]: the tokens whose successors are chosen
  tessera::View<tessera::i32, 2> options;  ///< [wanted, kSamplingFields]
};
StepViews views_of(const tessera::Tensor<tessera::i32, 1>& data, const StepShape& shape);
/// Where the ids begin in the array.
inline constexpr std::int64_t kIdsBegin = 0;
/// Elements of the array.
std::int64_t packed_size(const StepShape& shape);

}  // namespace mortar
