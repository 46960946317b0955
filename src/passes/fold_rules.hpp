// Rules that give an operation's only result as another value. A rule changes nothing unless it answers.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// A value that `op`'s only result may be replaced by: an operand, or something that a rule has made before `op`. Null
/// if no rule applies. `op` is pure.
ir::Value simplified(ir::Operation& op);

}  // namespace tessera::passes
