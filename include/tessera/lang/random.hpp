// Random numbers in kernels: Philox 4x32-10 by seed and element offset, so that a result does not depend on the grid or
// the device. Integers and floats are bit-identical to uniform_at and normal_at of base/philox.hpp on every device.
#pragma once
#include "tessera/lang/access.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

namespace random {

/// Uniform in [0, 1) for floats (f64, f32, f16, bf16), all values for u32 and u64. `offsets` are element offsets,
/// usually y.offsets().
template <class T, int... D>
Tile<T, D...> uniform(const Tile<u64>& seed, const Tile<i64, D...>& offsets,
                      SourceLocation loc = SourceLocation::current()) {
  static_assert(std::is_same_v<T, f64> || std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> ||
                    std::is_same_v<T, u32> || std::is_same_v<T, u64>,
                "random::uniform gives f64, f32, f16, bf16, u32 or u64");
  return Tile<T, D...>(
      lang::random_tile(lang::Distribution::Uniform, element_type<T>, seed.value(), offsets.value(), loc));
}

/// Standard normal (mean 0, variance 1) for f64, f32, f16, bf16.
template <class T, int... D>
Tile<T, D...> normal(const Tile<u64>& seed, const Tile<i64, D...>& offsets,
                     SourceLocation loc = SourceLocation::current()) {
  static_assert(std::is_same_v<T, f64> || std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>,
                "random::normal gives f64, f32, f16 or bf16");
  return Tile<T, D...>(
      lang::random_tile(lang::Distribution::Normal, element_type<T>, seed.value(), offsets.value(), loc));
}

}  // namespace random
}  // namespace tessera
