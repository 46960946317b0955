// The order of the passes.
#include "tessera/passes/optimize.hpp"

#include "passes/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

namespace {

/// Which loads go an iteration ahead: all where long chunks are walked, of which few are on a processor at once. (H200:
/// softmax of 32768, 3.09 instead of 2.89 TB/s; of 50257, 2.43 instead of 2.34. With chunks of 1024, layer norm of 4097
/// 1.93 instead of 2.21.) Not beside a row that every step repeats: it comes from the caches.
int loads_ahead(const ir::Function& f) {
  constexpr std::int64_t kLongChunk = 4096;
  const KernelFacts facts = kernel_facts(f);
  const bool walks = facts.products.empty() && facts.reduces_after_loop && facts.repeated_bytes == 0;
  return walks && facts.largest_tile >= kLongChunk ? 2 : 1;
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
    if (tuning.split_loops) {
      // Behind it: in a loop with a branch nothing overlaps across the branch, whatever was issued ahead.
      hoist_invariants(f);
      split_loops(f, target);
    }
    if (const int ahead = tuning.ahead ? *tuning.ahead : loads_ahead(f); ahead > 0) load_ahead(f, ahead > 1);
    relax_math(f);
    unroll_scans(f);
    define_results(f);
    choose_access_paths(f, target, tuning);
    if (tuning.unmask) unmask(f);
    clean_up(f);
    choices = choose_hints(f, target, tuning);
    if (tuning.order_blocks) order_blocks(f);
    overlap_launches(f, target, tuning, choices);
    hide_zeros(f, target);
  }
  return choices;
}

}  // namespace tessera::passes
