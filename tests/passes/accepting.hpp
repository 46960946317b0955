// Uses the claims of passes without a proof: for tests of what a pass makes of a claim, which are about kernels of
// which no launch contract says enough to prove it.
#pragma once
#include "tessera/passes/pipeline.hpp"

namespace tessera::test {

/// Certifies every claim, also false ones.
struct Accepting final : passes::Certifier {
  std::vector<bool> judge(const ir::Function&, std::span<const analysis::Claim> claims) const override {
    return std::vector<bool>(claims.size(), true);
  }
};
inline const Accepting kAcceptAll;

/// passes::optimize with the claims of passes.
inline passes::Choices optimize_with_claims(ir::Module& module, const passes::Target& target,
                                            const passes::Tuning* tuning = nullptr) {
  passes::Work work;
  work.certifier = &kAcceptAll;
  return passes::run_passes(module, target, tuning, work).choices;
}

}  // namespace tessera::test
