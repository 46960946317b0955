// Reading and building small pieces of IR: what several passes need.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// The one element of a splat constant, raw bits; nullopt for anything else.
std::optional<std::uint64_t> splat_bits(ir::Value);
/// The number of an integer splat constant, read as signed (i1: 0 or 1).
std::optional<std::int64_t> constant_int(ir::Value);

/// True if `op` has no effect and reads no memory: it may be dropped, copied and moved to wherever its operands are.
/// Of operations with regions only reduce and scan are.
bool is_pure(const ir::Operation& op);

/// True if `v` is computed outside `block` and everything nested in it (arguments of `block` are inside).
bool defined_outside(ir::Value v, const ir::Block& block);

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
