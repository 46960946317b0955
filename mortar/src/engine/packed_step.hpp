// The description of a step as one array of i32, which reaches the device in one copy, and the views of its parts.
#pragma once
#include <span>
#include <vector>

#include "engine/row_plan.hpp"
#include "model/decoder.hpp"

namespace mortar {

/// Extents of the parts. A captured graph has fixed ones. The last rows may be answers, of which one token each is
/// computed: their tokens follow those of the prompts without gaps.
struct StepShape {
  int query_tile = kSmallQueryTile;
  std::int64_t tokens = 0, rows = 0, pages = 0, tiles = 0, wanted = 0;
  std::int64_t answers = 0;  ///< rows, and tokens
  std::int64_t prompts = 0;  ///< of the rows before those of answers, how many are in use
  std::int64_t prompt_rows() const { return rows - answers; }
  /// Where the tokens of answers begin.
  std::int64_t first_answer() const { return tokens - answers; }
  /// All rows are answers: a decoding step.
  bool decode() const { return answers > 0 && answers == rows; }
};
/// What extents of steps with prompts are rounded up to on a GPU, where the code of a kernel depends on what divides
/// its extents: few specializations serve all steps. Tensor cores compute so many rows at once, so that the rows
/// between cost next to nothing.
inline constexpr int kGpuRounding = 16;
/// The pages of a row where they are rounded up to a power of two: shorter sequences share graphs and kernels.
inline constexpr std::int64_t kLeastPages = 8;
/// The extents for `rows`, of which the first `prompts` are parts of prompts. In decoding, rows and pages are rounded
/// up to powers of two, so that few graphs serve all steps. Else, they are rounded up by `rounding`; 1: not at all.
StepShape shape_of(std::span<const RowPlan> rows, std::size_t prompts, int query_tile, int rounding = 1);

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
