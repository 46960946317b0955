// Accesses through tiles of pointers whose addresses and masks come from one axis at a time: regions at any offset,
// slices by index, rows. Their tiles of pointers and masks need not be computed.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::cpu {

inline constexpr int kNoAxis = -1;

/// A load or a store of the elements at `base` + the sum of the offsets, those that are within all limits.
struct SeparableAccess {
  /// Added to the address, `bytes` for each place.
  struct Offset {
    int axis = kNoAxis;    ///< along which the places differ; kNoAxis: one for all
    bool counted = false;  ///< the places are 0, 1, 2, ... times `places`, one number (null: times 1)
    ir::Value places;      ///< i32 or i64; not counted: one for each index of the axis
    std::int64_t bytes = 1;
  };
  /// What has to be true of an element.
  struct Limit {
    int axis = kNoAxis;
    bool counted = false;  ///< first + 0, 1, 2, ... is below `bound`, both read as unsigned and of one type
    ir::Value first;       ///< null: 0
    ir::Value bound;       ///< not counted: i1 for each index of the axis
  };
  ir::Value base;  ///< one pointer
  std::vector<Offset> offsets;
  std::vector<Limit> limits;
  int listed = kNoAxis;  ///< the one axis that has something that is not counted
};

/// The separable accesses of a kernel, and the operations that compute nothing but their pointers and masks. `checked`:
/// operations whose results checked mode looks at, which stay.
struct SeparableAccesses {
  explicit SeparableAccesses(const ir::Block& body, const std::unordered_set<const ir::Operation*>& checked = {});
  std::unordered_map<const ir::Operation*, SeparableAccess> accesses;
  std::unordered_set<const ir::Operation*> unneeded;
};

}  // namespace tessera::cpu
