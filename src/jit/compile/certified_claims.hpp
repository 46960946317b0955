// The claims of an analysis that may be used: those that the checker has certified. docs/compiler/certificates.md.
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/analysis/facts.hpp"
#include "tessera/passes/certifier.hpp"

namespace tessera::jit {

/// The claims of `facts` about `copy`, a clone of the module that was analysed, for launches that hold `predicates`,
/// without those that could not be certified. With TESSERA_VERIFY=claims these are an InternalError.
std::vector<analysis::Claim> certified_claims(const ir::Module& copy, const analysis::Facts& facts,
                                              std::uint64_t predicates);

/// Verifies claims of passes about a copy of the same kernel, for launches that hold `predicates`; `facts` outlives it.
/// With TESSERA_VERIFY=claims a rejected claim is an InternalError.
class CertifierOfPasses final : public passes::Certifier {
 public:
  CertifierOfPasses(const analysis::Facts& facts, std::uint64_t predicates) : facts_(facts), predicates_(predicates) {}
  std::vector<bool> judge(const ir::Function& f, std::span<const analysis::Claim> claims) const override;
  std::vector<bool> answer(const ir::Function& f, std::span<const analysis::Claim> questions) const override;

 private:
  const analysis::Facts& facts_;
  std::uint64_t predicates_;
};

/// Where no launch contract is known: no claim may be used.
class RejectingCertifier final : public passes::Certifier {
 public:
  std::vector<bool> judge(const ir::Function&, std::span<const analysis::Claim> claims) const override {
    return std::vector<bool>(claims.size(), false);
  }
};

}  // namespace tessera::jit
