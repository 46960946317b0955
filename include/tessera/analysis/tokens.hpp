// Empty tokens: those of chains without an access. docs/compiler/relax_tokens.md.
#pragma once
#include <unordered_set>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// Tokens of chains without an access: waiting for them has no effect.
class EmptyTokens {
 public:
  explicit EmptyTokens(const ir::Function&);
  bool contains(ir::Value token) const { return empty_.contains(token.impl()); }

 private:
  std::unordered_set<const ir::ValueImpl*> empty_;
};

}  // namespace tessera::analysis
