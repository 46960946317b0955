// Comparisons of tile indices with numbers whose range is known, as masks are made of them.
#pragma once
#include <cstdint>
#include <optional>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// A signed range of all elements of an integer tile.
struct KnownRange {
  std::int64_t low, high;
};
/// Follows the operations between a tensor's extent and a mask only: `assume`, conversions, minima, changes of shape.
std::optional<KnownRange> known_range(ir::Value v);

/// How far `v` counts 0, 1, ... along one of its axes; 0 if it does not.
std::int64_t counts_to(ir::Value v);

/// A comparison of tile indices with a scalar, the indices on the left: less, at most, greater or at least.
struct IndexMask {
  ir::Value places, number;
  ir::ComparisonPredicate how;
  ir::Signedness sign;
};
std::optional<IndexMask> index_mask(const ir::Operation&);

}  // namespace tessera::passes
