// Rules that replace the only result of an operation by another value. A rule that does not apply changes nothing.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// The replacement of `op`'s only result: an operand, or a value that a rule has inserted before `op`. Null if no rule
/// applies. `op` must be pure.
ir::Value simplified(ir::Operation& op);

}  // namespace tessera::passes
