// Claims are checked in every compile; nothing is cached between compiles.
#include "jit/compile/certified_claims.hpp"

#include <algorithm>
#include <cstring>

#include "jit/compile/pipeline.hpp"
#include "tessera/analysis/certificate.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/certify/certify.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::jit {
namespace {

/// With TESSERA_VERIFY=claims, what is not certified is an error.
bool is_strict() {
  const char* mode = env(Env::VERIFY);
  return mode != nullptr && std::strcmp(mode, "claims") == 0;
}

std::string text_of(const analysis::Claim& c, const analysis::Facts& facts) {
  const auto obligations = facts.obligations();
  const auto number = static_cast<std::size_t>(c.obligation);
  const auto rows = passes::predicate_table();
  const bool of_launch =
      c.kind == analysis::ClaimKind::OfLaunch && c.index >= 0 && static_cast<std::size_t>(c.index) < rows.size();
  return concat(of_launch ? rows[static_cast<std::size_t>(c.index)].text : analysis::info(c.kind).text,
                c.op ? concat(" (", ir::info(c.op->op()).mnemonic, ", number ", c.index, ")") : concat(" ", c.index),
                c.truth ? "" : ", false", " under '",
                c.obligation == analysis::kHoldsAlways ? "always" : obligations[number].text, "'");
}

[[noreturn]] void reject(const ir::Function& f, const analysis::Claim& c, const analysis::Facts& facts,
                         std::size_t bad_invariants) {
  throw InternalError(concat("the certificate of kernel ", f.name, " does not prove ", text_of(c, facts),
                             ": expected a proof from its invariants, of which ", bad_invariants,
                             " are not inductive. Please report this kernel."),
                      c.op ? c.op->loc : SourceLocation{});
}

}  // namespace

std::vector<analysis::Claim> certified_claims(const ir::Module& copy, const analysis::Facts& facts,
                                              std::uint64_t predicates) {
  std::vector<analysis::Claim> claims = facts.claims_of(copy), certified;
  if (claims.empty()) return claims;
  const certify::Verdict verdict =
      certify::check(entry_of(copy), facts.contract(), facts.certificate(), claims, predicates);
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (verdict.certified[i]) {
      certified.push_back(claims[i]);
    } else if (claims[i].holds(predicates) && is_strict()) {
      reject(entry_of(copy), claims[i], facts, verdict.bad_invariants);
    }
  }
  return certified;
}

std::vector<bool> CertifierOfPasses::judge(const ir::Function& f, std::span<const analysis::Claim> claims) const {
  std::vector<bool> certified = answer(f, claims);
  const auto first = std::find(certified.begin(), certified.end(), false);
  if (first != certified.end() && is_strict())
    reject(f, claims[static_cast<std::size_t>(first - certified.begin())], facts_, 0);
  return certified;
}

std::vector<bool> CertifierOfPasses::answer(const ir::Function& f, std::span<const analysis::Claim> questions) const {
  const analysis::Certificate& made = facts_.certificate();
  // Without the invariants: the operations have other numbers by now.
  const analysis::Certificate certificate{made.terms, made.conditions, made.obligations, {}};
  return certify::check(f, facts_.contract(), certificate, questions, predicates_).certified;
}

}  // namespace tessera::jit
