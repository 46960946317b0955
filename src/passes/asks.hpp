// The rows of predicates.def as names, and the functions behind them, which the files of the passes define. Private to
// the layer.
#pragma once
#include <vector>

#include "tessera/analysis/launch_question.hpp"

namespace tessera::passes {

struct Work;

enum class Predicate : int {
#define TESSERA_PREDICATE(name, pass, text) name,
#include "passes/predicates.def"
};

/// True if the launch is known to fulfil what the row asks.
bool holds(const Work& work, Predicate predicate) noexcept;

#define TESSERA_PREDICATE(name, pass, text) \
  std::vector<analysis::LaunchQuestion> ask_##name(const analysis::AskedKernel& kernel);
#include "passes/predicates.def"

}  // namespace tessera::passes
