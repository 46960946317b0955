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
  /// True for each that may be used.
  virtual std::vector<bool> judge(const ir::Function& f, std::span<const analysis::Claim> claims) const = 0;
};

/// Without a certifier no claim may be used: none is verified.
inline std::vector<bool> certified(const Certifier* certifier, const ir::Function& f,
                                   std::span<const analysis::Claim> claims) {
  return certifier && !claims.empty() ? certifier->judge(f, claims) : std::vector<bool>(claims.size(), false);
}

}  // namespace tessera::passes
