// The order of the passes.
#include "tessera/passes/optimize.hpp"

#include "tessera/passes/passes.hpp"

namespace tessera::passes {

Choices optimize(ir::Module& module, const Target& target, const Tuning* given) {
  const Tuning tuning = given ? *given : Tuning{};
  Choices choices;
  for (const auto& function : module.functions) {
    if (!function->entry) continue;
    ir::Function& f = *function;
    order_tokens(f);
    clean_up(f);
    if (!target.is_gpu()) continue;
    if (unchain_iterations(f)) {
      order_tokens(f);
      clean_up(f);
    }
    if (tuning.pipeline_mma) pipeline_mma(f, target);
    if (tuning.split_loops) {
      hoist_invariants(f);
      split_loops(f);
    }
    relax_math(f);
    scan_last_axis(f);
    define_results(f);
    choose_access_paths(f, target, tuning);
    clean_up(f);
    choices = choose_hints(f, target, tuning);
  }
  return choices;
}

}  // namespace tessera::passes
