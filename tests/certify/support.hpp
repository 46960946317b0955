// What tests of the checker share.
#pragma once
#include "analysis/support.hpp"
#include "tessera/analysis/certificate.hpp"
#include "tessera/certify/certify.hpp"

namespace tessera::test {

inline certify::Verdict judge(const ir::Module& module, const analysis::Facts& facts, std::uint64_t held) {
  return certify::check(entry_of(module), facts.contract(), facts.certificate(), facts.claims(), held);
}

/// The claim that result `index` of `op` is always `truth`.
inline analysis::Claim condition_claim(ir::Operation& op, bool truth) {
  analysis::Claim c;
  c.op = &op;
  c.truth = truth;
  return c;
}

}  // namespace tessera::test
