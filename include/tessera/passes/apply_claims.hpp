// Uses the claims that hold in a launch. docs/compiler/apply_claims.md.
#pragma once
#include <cstdint>
#include <span>

#include "tessera/analysis/facts.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/passes/certifier.hpp"

namespace tessera::passes {

/// Rewrites `module` by every claim of `facts` (made by analysing this very module) whose obligation is among `held`:
/// conditions become constants, and the `if`s, `select`s and masks that they decide go; accesses are marked `inbounds`;
/// `assume` says what is known of the entry's arguments. `facts` names operations that are gone afterwards: its claims
/// must not be used again.
void apply_claims(ir::Module& module, const analysis::Facts& facts, std::uint64_t held);
/// The same for claims about the operations of `module` (Facts::claims_of).
void apply_claims(ir::Module& module, std::span<const analysis::Claim> claims, std::uint64_t held);
/// The same for claims about the operations of `entry`, the first of its module, which facts are about.
void apply_claims(ir::Function& entry, std::span<const analysis::Claim> claims, std::uint64_t held);

/// For GPUs, before the claims are applied: a loop of which no claim that holds says that its step fits its type counts
/// its iterations instead, which ends where docs/semantics.md says. True if anything changed.
bool count_loops(ir::Function& entry, std::span<const analysis::Claim> claims = {}, std::uint64_t held = 0);

/// Lets no loop end near the smallest number of its type, from which the assembler's code subtracts the iterations
/// whose loads are in flight: the upper bound becomes at least the lower one, or, where that one may be there as well,
/// the iterations are counted. Asks `certifier` what the operations themselves do not tell. True if anything changed.
bool bound_loops(ir::Function& entry, const Certifier* certifier = nullptr);

}  // namespace tessera::passes
