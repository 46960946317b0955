// The claims of an analysis that may be used: those that the checker has certified. docs/compiler/certificates.md.
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/analysis/facts.hpp"

namespace tessera::jit {

/// The claims of `facts` about `copy`, a clone of the module that was analysed, for launches that hold `held`, without
/// those that could not be certified. With TESSERA_VERIFY=claims these are an InternalError.
std::vector<analysis::Claim> certified_claims(const ir::Module& copy, const analysis::Facts& facts, std::uint64_t held);

}  // namespace tessera::jit
