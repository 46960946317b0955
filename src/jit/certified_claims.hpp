// The claims of an analysis that may be used: those that the checker has certified. docs/compiler/certificates.md.
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/analysis/facts.hpp"
#include "tessera/passes/certifier.hpp"

namespace tessera::jit {

/// The claims of `facts` about `copy`, a clone of the module that was analysed, for launches that hold `held`, without
/// those that could not be certified. With TESSERA_VERIFY=claims these are an InternalError.
std::vector<analysis::Claim> certified_claims(const ir::Module& copy, const analysis::Facts& facts, std::uint64_t held);

/// Judges what passes claim of a copy of the same kernel, for launches that hold `held`; `facts` outlives it. With
/// TESSERA_VERIFY=claims a refusal is an InternalError.
passes::Certifier certifier_of_passes(const analysis::Facts& facts, std::uint64_t held);
/// Where no launch contract is known: no claim may be used.
passes::Certifier refusing_certifier();

}  // namespace tessera::jit
