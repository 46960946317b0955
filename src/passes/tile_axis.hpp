// The tiles of a kernel that share an axis: those that operations combine element by element along it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/analysis/tile_region.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

using analysis::axis_counted;
using analysis::axis_in_result;
using analysis::axis_of_offsets;
using analysis::reshaped_axis;

/// All tiles that are connected with one tile along one of its axes, through elementwise operations, accesses, changes
/// of shape and reductions along other axes. A broadcast starts the axis and a reduction along it ends it.
class TileAxis {
 public:
  /// Collects the tiles. Not ok() if an operation that cannot be done in parts along the axis uses one of them.
  TileAxis(ir::Value tile, std::size_t axis);

  bool ok() const { return ok_; }
  std::int64_t extent() const { return extent_; }
  /// The axis of `v`; nothing for values without it.
  std::optional<std::size_t> of(ir::Value v) const;
  /// Operations with such an operand or result.
  bool has(const ir::Operation& op) const { return operations_.contains(&op); }

 private:
  void add(ir::Value v, std::optional<std::size_t> axis);
  void add_all(const ir::Operation& op, std::size_t axis);
  /// `op` has a value with the axis: `axis` of its operands (`of_operand`) or of its results.
  void relate(const ir::Operation& op, std::size_t axis, bool of_operand);
  void relate_access(const ir::Operation& op, std::size_t axis);
  void relate_reduce(const ir::Operation& op, std::size_t axis, bool of_operand);
  void relate_permute(const ir::Operation& op, std::size_t axis, bool of_operand);

  std::int64_t extent_;
  bool ok_ = true;
  std::unordered_map<const ir::ValueImpl*, std::size_t> axes_;
  std::unordered_set<const ir::Operation*> operations_;
  std::vector<ir::Value> work_;
};

}  // namespace tessera::passes
