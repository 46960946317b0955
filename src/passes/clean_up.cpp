// The simplifying passes together. Each makes work for the others: a folded branch leaves equal loads in one block, a
// merged value makes an operation invariant.
#include "tessera/ir/dead_code.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

void clean_up(ir::Function& f) {
  constexpr int kRounds = 4;  // each is linear; more never changed anything in the kernels of the tests
  for (int round = 0; round < kRounds; ++round) {
    const bool folded = fold(f);
    if (folded) ir::remove_dead_code(f);  // a dead value must not be the one that equal ones are merged into
    const bool merged = eliminate_common(f);
    const bool hoisted = hoist_invariants(f);
    ir::remove_dead_code(f);
    if (!folded && !merged && !hoisted) return;
  }
}

}  // namespace tessera::passes
