// Helpers of several passes that build small pieces of IR. Helpers that only read it are in analysis.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/analysis/values.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

using analysis::behind_shapes;
using analysis::constant_float;
using analysis::constant_int;
using analysis::defined_outside;
using analysis::is_pure;
using analysis::splat_bits;

/// An upper bound of all elements of an integer tile, read as unsigned, derived from the operations that compute it.
std::optional<std::uint64_t> unsigned_most(ir::Value v, int depth = 12);

/// True if a floating-point operation rounds to nearest (even) and keeps denormal numbers.
bool rounds_plainly(const ir::Operation&);

/// True for elementwise operations on tiles of one shape.
bool is_elementwise(const ir::Operation&);

/// ceil(extent / tile) of an entry argument `extent`, as kernels count their tiles along an axis.
struct TileCount {
  std::size_t argument = 0;
  std::int64_t tile = 1;
};
/// What `v` seems to count; nothing if it is something else. The operations between are conversions and assumptions.
std::optional<TileCount> tiles_counted(ir::Value v);

/// `scalar` in every element of a tile of this shape.
ir::Value splat(ir::Builder&, ir::Value scalar, std::span<const std::int64_t> shape);
/// 0, 1, ... along `axis` of a tile whose other extents are 1 (i32).
ir::Value iota_along(ir::Builder&, std::int64_t extent, std::size_t axis, std::size_t rank);
/// `v` stretched to `shape` (its axes are 1 or as in `shape`).
ir::Value broadcast_to(ir::Builder&, ir::Value v, std::span<const std::int64_t> shape);
/// How two tiles of integers compare, element by element.
ir::Value compared(ir::Builder&, ir::ComparisonPredicate, ir::Value x, ir::Value y,
                   ir::Signedness = ir::Signedness::Signed);
/// A scalar integer as i64.
ir::Value as_i64(ir::Builder&, ir::Value v, ir::Signedness);

}  // namespace tessera::passes
