// The rows of predicates.def as a table.
#include "tessera/passes/predicates.hpp"

#include <algorithm>

#include "passes/asks.hpp"
#include "tessera/passes/pipeline.hpp"

namespace tessera::passes {
namespace {

constexpr analysis::LaunchPredicate kPredicates[] = {
#define TESSERA_PREDICATE(name, pass, text) {#name, #pass, text, ask_##name},
#include "passes/predicates.def"
};

}  // namespace

std::span<const analysis::LaunchPredicate> predicate_table() noexcept { return kPredicates; }

bool holds(const Work& work, Predicate predicate) noexcept {
  return work.claims && std::ranges::any_of(*work.claims, [&](const analysis::Claim& c) {
           return c.kind == analysis::ClaimKind::OfLaunch && c.index == static_cast<int>(predicate) &&
                  c.holds(work.predicates);
         });
}

}  // namespace tessera::passes
