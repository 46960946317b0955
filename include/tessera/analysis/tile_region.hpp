// Regions that are loaded through pointers: which positions of a tensor the elements of a tile have, as In::load_at
// records it. docs/compiler/regions_to_tiles.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// The axis of `v` along which it counts 0, 1, ...; nothing if it does not.
std::optional<std::size_t> axis_counted(ir::Value v);
/// The axis along which offsets, i32 or i64, count 0, 1, ...: also through extensions, and nothing for a tile of one
/// element, which may be stretched along any axis.
std::optional<std::size_t> axis_of_offsets(ir::Value v);

/// The axis of the result of `change`, a broadcast or reshape, that has the elements of `axis` of its operand in their
/// order; nothing if a broadcast stretches the axis or a reshape splits or merges it.
std::optional<std::size_t> axis_in_result(const ir::Operation& change, std::size_t axis);

/// The axis of `to` that has the place of `axis` in `from`, a reshape of the same elements; nothing if the reshape
/// merges or splits it.
std::optional<std::size_t> reshaped_axis(ir::Type from, std::size_t axis, ir::Type to);

/// Elements from one place of an axis to the next.
struct Steps {
  std::size_t axis = 0;
  ir::Value stride;  ///< null: 1
};
/// The steps of offsets that count along one axis, times a scalar; nothing for any other value.
std::optional<Steps> steps_of(ir::Value offsets);

/// One axis of a region: the elements of the tile have the positions start, start + 1, ... in the tensor.
struct RegionAxis {
  ir::Value start;                  ///< a scalar; null: 0
  ir::Value stride;                 ///< in elements, i64; null: 1
  ir::Value extent;                 ///< of the tensor; null: no mask compares with it
  ir::Operation* inside = nullptr;  ///< the comparison of the positions with the extent, as unsigned; null: none
  bool steps = false;               ///< false: the axis has one element, at the base, whatever the stride
};
struct Region {
  ir::Value base;  ///< the address of the element at position 0 of each axis
  std::vector<RegionAxis> axes;
};
/// The region that a load through pointers reads where its mask is true; nullopt for loads of any other form (gathers),
/// where positions are not i32, and where it is not certain which number belongs to which axis.
std::optional<Region> region_of_load(const ir::Operation& load);

/// True if `v`, a scalar, is made of multiples of n, a power of two. It is a multiple of n, also where its arithmetic
/// wraps.
bool is_made_of_multiples(ir::Value v, std::int64_t n);

}  // namespace tessera::analysis
