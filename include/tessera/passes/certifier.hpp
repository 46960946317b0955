// The interface through which passes have their own claims verified before they remove a guard or relax an order.
#pragma once
#include <span>
#include <vector>

#include "tessera/analysis/facts.hpp"

namespace tessera::passes {

/// Verifies claims about a kernel in its current form. docs/compiler/certificates.md.
class Certifier {
 public:
  virtual ~Certifier() = default;
  /// True for each that may be used. The pass has reasons to believe all of them: with TESSERA_VERIFY=claims one that
  /// is not proven is an error.
  virtual std::vector<bool> judge(const ir::Function& f, std::span<const analysis::Claim> claims) const = 0;
  /// True for each that is proven, of claims that a pass has no reason to believe.
  virtual std::vector<bool> answer(const ir::Function& f, std::span<const analysis::Claim> questions) const {
    return judge(f, questions);
  }
};

/// Without a certifier no claim may be used: none is verified.
inline std::vector<bool> certified(const Certifier* certifier, const ir::Function& f,
                                   std::span<const analysis::Claim> claims) {
  return certifier && !claims.empty() ? certifier->judge(f, claims) : std::vector<bool>(claims.size(), false);
}
/// Without a certifier no question is answered with yes.
inline std::vector<bool> answered(const Certifier* certifier, const ir::Function& f,
                                  std::span<const analysis::Claim> questions) {
  return certifier && !questions.empty() ? certifier->answer(f, questions) : std::vector<bool>(questions.size(), false);
}

}  // namespace tessera::passes
