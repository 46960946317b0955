// Applies the claims that hold in a launch. docs/compiler/apply_claims.md.
#pragma once
#include <cstdint>
#include <span>

#include "tessera/analysis/facts.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/passes/certifier.hpp"

namespace tessera::passes {

/// Rewrites `module` by every claim of `facts` (made by analysing this very module) whose obligation is among
/// `predicates`: conditions become constants, and the `if`s, `select`s and masks that they decide are removed; accesses
/// are marked `inbounds`; `assume` operations state what is known about the entry's arguments. `facts` names operations
/// that no longer exist afterwards: its claims must not be used again.
void apply_claims(ir::Module& module, const analysis::Facts& facts, std::uint64_t predicates);
/// The same for claims about the operations of `module` (Facts::claims_of).
void apply_claims(ir::Module& module, std::span<const analysis::Claim> claims, std::uint64_t predicates);
/// The same for claims about the operations of `entry`, the first of its module, which facts are about.
void apply_claims(ir::Function& entry, std::span<const analysis::Claim> claims, std::uint64_t predicates);

/// For GPUs, before claims are applied: every loop without a claim that its last step fits the type is rewritten to
/// count its iterations, so that it ends where docs/semantics.md says. True if anything changed.
bool count_loops(ir::Function& entry, std::span<const analysis::Claim> claims = {}, std::uint64_t predicates = 0);

/// Keeps upper bounds of loops away from the smallest number of the type, because the assembler's code subtracts the
/// iterations whose loads are in flight: the upper bound becomes max(upper, lower), or, where the lower bound may be
/// that small too, the iterations are counted. Bounds that the operations do not show are certified by `certifier`.
/// True if anything changed.
bool bound_loops(ir::Function& entry, const Certifier* certifier);

}  // namespace tessera::passes
