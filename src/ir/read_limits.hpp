// Limits of what is read, of text and of bytecode.
#pragma once
#include <cstddef>

namespace tessera::ir {

inline constexpr int kMaxRegionDepth = 200;  ///< regions in each other
inline constexpr std::size_t kMaxAxes = 64;  ///< of a type

}  // namespace tessera::ir
