// The order of the passes.
#include "tessera/passes/optimize.hpp"

#include <limits>

#include "tessera/passes/passes.hpp"

namespace tessera::passes {

namespace {

void choose_overlap(ir::Function& f, const Target& target, Overlap wanted, Choices& choices) {
  if (wanted == Overlap::Never) return;
  choices.overlaps = overlap_launches(f, target, wanted);
  if (!choices.overlaps || wanted == Overlap::CodeOnly) return;
  choices.early_blocks = wanted == Overlap::WhereItPays ? early_blocks(f) : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

Choices optimize(ir::Module& module, const Target& target, const Tuning* given) {
  const Tuning tuning = given ? *given : Tuning{};
  Choices choices;
  for (const auto& function : module.functions) {
    if (!function->entry) continue;
    ir::Function& f = *function;
    order_tokens(f);
    clean_up(f);
    if (!target.is_gpu()) continue;
    if (const bool iterations = unchain_iterations(f); unchain_parts(f) || iterations) {
      order_tokens(f);
      clean_up(f);
    }
    order_loads(f);
    if (tuning.pipeline_mma) pipeline_mma(f, target);
    if (tuning.split_loops.value_or(true)) {
      // Behind it: in a loop with a branch nothing overlaps across the branch, whatever was issued ahead.
      hoist_invariants(f);
      split_loops(f);
    }
    if (const int ahead = tuning.ahead.value_or(1); ahead > 0) load_ahead(f, ahead > 1);
    relax_math(f);
    unroll_scans(f);
    define_results(f);
    choose_access_paths(f, target, tuning);
    clean_up(f);
    choices = choose_hints(f, target, tuning);
    if (tuning.order_blocks) order_blocks(f);
    choose_overlap(f, target, tuning.overlap, choices);
    hide_zeros(f, target);
  }
  return choices;
}

}  // namespace tessera::passes
