// Small queries about values and loops, used by analyses and passes.
#pragma once
#include <cstdint>
#include <optional>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// The one element of a splat constant, raw bits; nullopt for anything else.
std::optional<std::uint64_t> splat_bits(ir::Value);
/// The number of an integer splat constant, read as signed (i1: 0 or 1).
std::optional<std::int64_t> constant_int(ir::Value);
/// The number of a floating-point splat constant.
std::optional<double> constant_float(ir::Value);

/// The value that `v` broadcasts, through broadcasts and reshapes.
ir::Value behind_shapes(ir::Value v);

/// True if `op` has no effect and reads no memory: it may be erased, copied and moved to where its operands
/// are available. Of operations with regions only reduce and scan are pure.
bool is_pure(const ir::Operation& op);

/// True if `v` is computed outside `block` and everything nested in it (arguments of `block` are inside).
bool defined_outside(ir::Value v, const ir::Block& block);

/// Operands of a loop before its carried values, and arguments of its body before them.
inline std::size_t first_carried_operand(const ir::Operation& loop) { return loop.op() == ir::Op::For ? 3 : 0; }
inline std::size_t first_carried_arg(const ir::Operation& loop) { return loop.op() == ir::Op::For ? 1 : 0; }

/// The operation that a reduce or scan of one tile combines two elements by; null if there are several, or several
/// tiles.
const ir::Operation* single_combiner(const ir::Operation& reduce);

/// True if something inside a loop's body leaves it or starts its next iteration before its end.
bool leaves_early(const ir::Operation& loop);

}  // namespace tessera::analysis
