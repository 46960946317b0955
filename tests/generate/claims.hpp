// Claims as assertions: what the analysis says of a condition is asked where it says so.
#pragma once
#include "tessera/analysis/facts.hpp"

namespace tessera::generate {

/// Asserts in `copy`, a clone of the module that was analysed, every claim about a condition or a divisor that holds.
/// Returns how many there were.
int assert_claims(ir::Module& copy, const analysis::Facts& facts, std::uint64_t held);

}  // namespace tessera::generate
