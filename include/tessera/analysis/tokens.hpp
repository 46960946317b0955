// Tokens that stand for nothing. docs/compiler/order_tokens.md.
#pragma once
#include <unordered_set>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// Tokens behind which no access stands: what waits for them waits for nobody.
class EmptyTokens {
 public:
  explicit EmptyTokens(const ir::Function&);
  bool contains(ir::Value token) const { return empty_.contains(token.impl()); }

 private:
  std::unordered_set<const ir::ValueImpl*> empty_;
};

}  // namespace tessera::analysis
