// Into which parts rows that are shorter than their tile are sorted. Private to the layer.
#pragma once
#include <cstdint>

namespace tessera::passes {

/// Elements of the shortest tile that a row is divided into: one for each thread of a warp (docs/compiler/
/// split_tiles.md).
inline constexpr std::int64_t kLeastPartOfRow = 32;
/// The shortest tile that the length of a row is compared with is the kernel's divided by this.
inline constexpr std::int64_t kTileOverSmallest = 4;

}  // namespace tessera::passes
