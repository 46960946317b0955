// Decides which operations of a recorded kernel are approximate if neither the call nor the launch sets it.
// docs/language.md and docs/semantics.md state the rule.
#pragma once
#include <span>

#include "tessera/ir/operation.hpp"

namespace tessera::lang {

/// Marks the operation as approximate if Tile IR has an approximate form: f32 only.
void set_approximate(ir::Operation&);

/// Marks those of `undecided` whose results end in floating-point outputs of at most 16 bits and nowhere else. What
/// reaches an integer, an index, a condition, a comparison, a message or a wider output stays precise.
void decide_accuracy(ir::Function&, std::span<ir::Operation* const> undecided);

}  // namespace tessera::lang
