// Passes that take a guard or an order away because of what they have found out themselves ask whether it is so.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "tessera/analysis/facts.hpp"

namespace tessera::passes {

/// Judges claims about a kernel as it stands: true for each that may be used. Without one everything may, as in tests
/// of a single pass. docs/compiler/certificates.md.
using Certifier = std::function<std::vector<bool>(const ir::Function&, std::span<const analysis::Claim>)>;

inline std::vector<bool> certified(const Certifier& certifier, const ir::Function& f,
                                   std::span<const analysis::Claim> claims) {
  return certifier && !claims.empty() ? certifier(f, claims) : std::vector<bool>(claims.size(), true);
}

}  // namespace tessera::passes
