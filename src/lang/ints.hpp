// Emission of small integer expressions over tiles, with folding of scalar constants: what parameters need to compute
// dimensions, indices, offsets and masks. Private to the layer.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/element.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::lang::ints {

using ir::Builder;
using ir::Elem;
using ir::Value;
using Dims = std::span<const std::int64_t>;

using ir::elem_of;

Value i32(Builder&, std::int64_t value);
Value i64(Builder&, std::int64_t value);

/// The value of a constant whose elements are all equal (sign-extended); nullopt for anything else.
std::optional<std::int64_t> constant_of(Value);

// Operands have one type, or shapes that broadcast into each other (rank 0 fits anything). No overflow promises are
// made.
Value add(Builder&, Value, Value);
Value sub(Builder&, Value, Value);
Value mul(Builder&, Value, Value);
Value div_unsigned(Builder&, Value, Value);
Value rem_unsigned(Builder&, Value, Value);
Value ceil_div_unsigned(Builder&, Value, std::int64_t divisor);
Value min_unsigned(Builder&, Value, Value);
Value bit_and(Builder&, Value, Value);
Value bit_or(Builder&, Value, Value);
/// Unsigned a < b: for 0 <= b it also says that a signed `a` is not negative.
Value below(Builder&, Value a, Value b);
Value equal(Builder&, Value a, Value b);
Value greater(Builder&, Value a, Value b);  ///< signed
Value select(Builder&, Value condition, Value if_true, Value if_false);

/// i1 that is a constant.
std::optional<bool> known(Value condition);

/// To another width of integer.
Value extend(Builder&, Value, Elem, bool is_signed);
Value truncate(Builder&, Value, Elem);

Value reshape(Builder&, Value, Dims shape);
/// Broadcasts a scalar, or a tile of the same rank, to `shape`.
Value expand(Builder&, Value, Dims shape);
/// 0, 1, ..., shape[axis] - 1 along `axis`, extent 1 along the others.
Value iota(Builder&, Elem, int axis, Dims shape);
/// The shape that both operands broadcast to.
std::vector<std::int64_t> joint_shape(Value a, Value b);

}  // namespace tessera::lang::ints
