// Verifies what an analysis claims of a kernel, from the recording, the launch contract and the certificate alone.
// docs/compiler/certificates.md says what is checked and why a claim that passes is true.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/analysis/certificate.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::certify {

struct Verdict {
  std::vector<bool> certified;     ///< per claim; false also for claims whose obligation does not hold
  std::size_t unproven = 0;        ///< claims of obligations that hold that could not be verified, and ill-formed ones
  std::size_t bad_invariants = 0;  ///< bounds of the certificate that are not inductive: claims are judged without them
};

/// Judges `claims` (about operations of `entry`) for launches that keep `contract` and fulfil `predicates`. A
/// claim is certified only if it follows for every such launch; an ill-formed one (about an operand that there is not,
/// for example) never is. Deterministic; keeps nothing between calls. Never throws for wrong claims or a wrong
/// certificate; `entry` is valid IR, and `contract` that of its launches.
Verdict check(const ir::Function& entry, const analysis::LaunchContract& contract,
              const analysis::Certificate& certificate, std::span<const analysis::Claim> claims,
              std::uint64_t predicates);

}  // namespace tessera::certify
