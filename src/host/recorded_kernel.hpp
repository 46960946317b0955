// Recordings of a kernel: the facts about a launch that they are specialized by, and their compiled code.
#pragma once
#include <memory>
#include <vector>

#include "host/launch.hpp"
#include "tessera/jit/kernel.hpp"

namespace tessera::detail {

struct RecordedKernel {
  RecordingKey key;
  std::vector<std::uint64_t> constants;  ///< those of `key`
  bool checked = false;                  ///< for checked mode
  lang::Trace trace;                     ///< its module has been moved to `kernel`
  std::unique_ptr<jit::Kernel> kernel;   ///< the module and its code, per device and set of obligations that hold
  // By slot: the bits that the checks and the grid of a launch depend on, its addresses' bits that its code depends on.
  std::vector<std::uint64_t> shape_masks, address_masks;
  RecordedKernel* next = nullptr;
};

/// Bits of RecordingKey::flags; above them is the number of the tuning record.
inline constexpr std::uint32_t kWide = 1, kChecked = 2, kAccuracyGiven = 4, kApproximate = 8, kStrict = 16;
inline constexpr int kTuningShift = 8;
static_assert(std::uint64_t{jit::kMaxTunings} << kTuningShift <= UINT32_MAX);
/// Bits of RecordingKey::tensors: the unit axis plus one (0: there is none; kMaxRank fits), then which extents are 1.
inline constexpr int kAxisBits = 4;

/// The facts about a tensor that recordings are specialized by.
inline std::uint32_t tensor_bits(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) noexcept {
  std::uint32_t units = 0;
  int unit_axis = -1;
  bool proper = false;  // the unit axis has more than one element
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) units |= 1u << i;
    if (strides[i] != 1 || proper) continue;
    if (unit_axis < 0 || dims[i] != 1) unit_axis = static_cast<int>(i);
    proper = dims[i] != 1;
  }
  return static_cast<std::uint32_t>(unit_axis + 1) | units << kAxisBits;
}

inline std::uint32_t flag_bits(bool wide_grid, CheckMode mode, bool accuracy_given, lang::Accuracy accuracy,
                               jit::TuningId tuning = 0) noexcept {
  const bool approximate = accuracy_given && accuracy == lang::Accuracy::Approximate;
  return (wide_grid ? kWide : 0) | (mode != CheckMode::Off ? kChecked : 0) | (mode == CheckMode::Strict ? kStrict : 0) |
         (accuracy_given ? kAccuracyGiven : 0) | (approximate ? kApproximate : 0) | tuning << kTuningShift;
}

/// What kernels that are launched now check.
CheckMode current_check_mode();
lang::Specialization specialization(const RecordingKey& key, std::span<const lang::ParamInfo> params);

}  // namespace tessera::detail
