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

/// The facts about a tensor that recordings are specialized by, in 20 bits: the unit axis plus one, and which extents
/// are 1.
std::uint32_t tensor_bits(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) noexcept;
std::uint32_t flag_bits(bool wide_grid, bool checked, bool strict, bool accuracy_given, lang::Accuracy accuracy,
                        jit::TuningId tuning = 0) noexcept;
lang::Specialization specialization(const RecordingKey& key, std::span<const lang::ParamInfo> params);

}  // namespace tessera::detail
