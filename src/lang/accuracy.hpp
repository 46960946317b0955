// Which operations of a recorded kernel may be approximate where neither the call nor the launch says it. The rule is
// kept here alone; docs/language.md and docs/semantics.md state it.
#pragma once
#include <span>

#include "tessera/ir/operation.hpp"

namespace tessera::lang {

/// Marks the operation as approximate, as far as Tile IR can say it: f32 only.
void set_approximate(ir::Operation&);

/// Marks those of `undecided` whose results end in floating-point outputs of at most 16 bits and nowhere else. What
/// reaches an integer, an index, a condition, a comparison, a message or a wider output stays precise.
void decide_accuracy(ir::Function&, std::span<ir::Operation* const> undecided);

}  // namespace tessera::lang
