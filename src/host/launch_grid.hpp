// How the blocks of a launch lie in its grid.
#pragma once
#include <cstdint>
#include <span>

#include "tessera/jit/kernel.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::detail {

inline constexpr std::uint64_t kMaxGridAxis = jit::kMaxGridAxis;  ///< blocks along one axis

/// `blocks` blocks along the axes of `grid`, for these argument slots.
runtime::LaunchGrid launch_grid(const calling::GridAxes& grid, std::uint64_t blocks,
                                std::span<const std::uint64_t> slots);
/// The grid of `code` for a launch of `blocks` blocks with these argument slots. `persistent`: `blocks` is only an
/// upper bound.
runtime::LaunchGrid launch_grid(const jit::Code& code, std::uint64_t blocks, bool persistent,
                                std::span<const std::uint64_t> slots);

}  // namespace tessera::detail
