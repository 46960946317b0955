// The predicates of a launch that passes ask for: the rows of src/passes/predicates.def. docs/compiler/obligations.md.
#pragma once
#include <span>

#include "tessera/analysis/launch_question.hpp"

namespace tessera::passes {

/// All rows, for analysis::Facts::analyze. An OfLaunch claim counts them from 0.
std::span<const analysis::LaunchPredicate> predicate_table() noexcept;

}  // namespace tessera::passes
