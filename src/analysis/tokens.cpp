// Empty tokens as an analysis of the dataflow driver.
#include "tessera/analysis/tokens.hpp"

#include <algorithm>
#include <optional>

#include "analysis/dataflow.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;

namespace {

struct TokenFact {
  bool empty = false;
  bool operator==(const TokenFact&) const = default;
};

class TokenAnalysis final : public Dataflow<TokenFact> {
 public:
  TokenAnalysis() : Dataflow(false) {}

 private:
  bool follows(ir::Type t) const override { return t.is_token(); }
  TokenFact unknown(ir::Type) const override { return {}; }
  TokenFact join(const TokenFact& a, const TokenFact& b) const override { return {a.empty && b.empty}; }
  TokenFact induction(const Operation&) override { return {}; }  // a number
  /// An access gives a token that is not empty.
  std::optional<TokenFact> transfer(const Operation& op, std::size_t) override {
    if (op.op() == Op::MakeToken) return TokenFact{true};
    if (op.op() != Op::JoinTokens) return std::nullopt;
    const auto joined = op.operands();
    return TokenFact{
        std::all_of(joined.begin(), joined.end(), [&](const ir::OpOperand& use) { return fact(use.value).empty; })};
  }
};

}  // namespace

EmptyTokens::EmptyTokens(const ir::Function& f) {
  TokenAnalysis analysis;
  analysis.run(f);
  for (const auto& [token, fact] : std::move(analysis).facts())
    if (fact.empty) empty_.insert(token);
}

}  // namespace tessera::analysis
