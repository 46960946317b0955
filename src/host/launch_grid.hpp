// How the blocks of a launch lie in its grid.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "tessera/jit/kernel.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::detail {

/// At least 1, and no more than a grid has along x, whatever the slots hold: the blocks of a launch are divided by x
/// and y. (A note of the cache may name any argument.)
inline std::uint64_t blocks_along(const calling::GridAxis& axis, std::span<const std::uint64_t> slots) {
  if (axis.argument < 0) return 1;
  const auto extent = static_cast<std::uint64_t>(axis.extent);
  const std::uint64_t n = slots[static_cast<std::size_t>(axis.argument)];
  return std::clamp<std::uint64_t>(n / extent + (n % extent != 0 ? 1 : 0), 1, 0x7FFFFFFF);
}

inline constexpr std::uint64_t kMaxGridAxis = jit::kMaxGridAxis;  ///< blocks along one axis

/// `blocks` blocks along the axes of `grid`, for these argument slots.
inline runtime::LaunchGrid launch_grid(const calling::GridAxes& grid, std::uint64_t blocks,
                                       std::span<const std::uint64_t> slots) {
  std::uint64_t x = blocks, y = 1, z = 1;
  if (grid.used) {
    x = blocks_along(grid.x, slots);
    y = blocks_along(grid.y, slots);
    z = blocks / (x * y);
  } else if (blocks > kMaxGridAxis) {
    y = (blocks + kMaxGridAxis - 1) / kMaxGridAxis;
    x = (blocks + y - 1) / y;
  }
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z)};
}
/// The grid of `code` for a launch of `blocks` blocks with these argument slots. `persistent`: `blocks` is only an
/// upper bound.
inline runtime::LaunchGrid launch_grid(const jit::Code& code, std::uint64_t blocks, bool persistent,
                                       std::span<const std::uint64_t> slots) {
  const auto most = static_cast<std::uint64_t>(code.abi.persistent_blocks);
  const auto pieces = static_cast<std::uint64_t>(code.abi.pieces);
  blocks = persistent ? std::min(blocks, most) : (blocks + pieces - 1) / pieces;
  return launch_grid(code.abi.grid, blocks, slots);
}

}  // namespace tessera::detail
