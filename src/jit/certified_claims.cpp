// Every compile asks the checker; nothing is remembered between compiles.
#include "jit/certified_claims.hpp"

#include <cstring>

#include "jit/pipeline.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/certify/certify.hpp"

namespace tessera::jit {
namespace {

const char* name_of(analysis::ClaimKind kind) {
  using enum analysis::ClaimKind;
  switch (kind) {
    case Condition: return "a condition that is decided";
    case Inbounds: return "an access that stays inside its tensor";
    case ArgDivisible: return "an argument that is a multiple";
    case ArgBounded: return "an argument that is bounded";
    case DivisorIsOne: return "a divisor that is 1";
    case StepFits: return "a loop whose steps do not wrap";
  }
  return "a claim";
}

std::string text_of(const analysis::Claim& c, const analysis::Facts& facts) {
  const auto obligations = facts.obligations();
  const auto number = static_cast<std::size_t>(c.obligation);
  return concat(name_of(c.kind),
                c.op ? concat(" (", ir::info(c.op->op()).mnemonic, ", number ", c.index, ")") : concat(" ", c.index),
                c.truth ? "" : ", false", " under '",
                c.obligation == analysis::kHoldsAlways ? "always" : obligations[number].text, "'");
}

}  // namespace

std::vector<analysis::Claim> certified_claims(const ir::Module& copy, const analysis::Facts& facts,
                                              std::uint64_t held) {
  std::vector<analysis::Claim> claims = facts.claims_of(copy), certified;
  if (claims.empty()) return claims;
  const certify::Verdict verdict = certify::check(entry_of(copy), facts.contract(), facts.certificate(), claims, held);
  const char* mode = env(Env::VERIFY);
  const bool strict = mode != nullptr && std::strcmp(mode, "claims") == 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (verdict.certified[i]) {
      certified.push_back(claims[i]);
    } else if (strict && claims[i].holds(held)) {
      throw InternalError(concat("the certificate of kernel ", entry_of(copy).name, " does not prove ",
                                 text_of(claims[i], facts), ": expected a proof from its invariants, of which ",
                                 verdict.bad_invariants, " are not inductive. Please report this kernel."),
                          claims[i].op ? claims[i].op->loc : SourceLocation{});
    }
  }
  return certified;
}

}  // namespace tessera::jit
