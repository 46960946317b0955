// Random programs: whatever the checker certifies about their comparisons, divisors and loops, claimed at random and
// not by the analysis, is asserted while the program runs on the CPU. And what the analysis claims is certified.
#include <cstdio>

#include "analysis/random_launch.hpp"
#include "certify/support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/verifier.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;

std::vector<Claim> every_claim(const ir::Module& module) {
  std::vector<Claim> claims;
  ir::walk(entry_of(module).body(), [&](ir::Operation& op) {
    if (op.num_results() != 1 || !op.result().type().is_tile() || op.result().type().is_pointer() ||
        op.result().type().elem() != ir::Elem::I1)
      return;
    for (const bool truth : {true, false}) claims.push_back(condition_claim(op, truth));
  });
  return claims;
}

void assert_claim(const Claim& c) {
  ir::Builder b = c.op->next() ? ir::Builder::before(c.op->next()) : ir::Builder(*c.op->block());
  ir::Value v = c.op->result();
  if (!c.truth) {
    const ir::Value one = b.constant_int(ir::Elem::I1, 1, v.type().shape());
    v = b.create(ir::Op::XOrI, {v, one}, {v.type()})->result();
  }
  b.create(ir::Op::Assert, {v}, {}, {{ir::AttrName::message, std::string("certified")}});
}

TEST(CertifySoundness, WhatIsCertifiedOfRandomProgramsHolds) {
  std::size_t certified = 0, asked = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 rng(seed * 7 + 3);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract);
    for (int launch = 0; launch < 2; ++launch) {
      const auto slots = random_launch(rng, contract);
      const std::uint64_t held = facts.evaluate(slots);
      const auto copy = ir::clone(*module);
      const auto claims = every_claim(*copy);
      const auto verdict = certify::check(entry_of(*copy), contract, facts.certificate(), claims, held);
      asked += claims.size();
      for (std::size_t i = 0; i < claims.size(); ++i)
        if (verdict.certified[i]) assert_claim(claims[i]), ++certified;
      cpu::RunOptions options;
      options.threads = 1;
      try {
        cpu::Program::compile(*copy)->run(grid_of(contract, slots), slots, options);
      } catch (const Error& e) { FAIL() << "seed " << seed << ": " << e.what() << "\n" << ir::print(*copy); }
    }
  }
  EXPECT_GT(certified, asked / 20);  // otherwise this test has seen nothing
}

TEST(CertifySoundness, WhatTheAnalysisClaimsOfRandomProgramsIsCertified) {
  std::size_t refuted = 0, claims = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract);
    for (int launch = 0; launch < 2; ++launch) {
      const std::uint64_t held = facts.evaluate(random_launch(rng, contract));
      const auto verdict = judge(*module, facts, held);
      for (const Claim& c : facts.claims()) claims += c.holds(held) ? 1 : 0;
      refuted += verdict.refuted;
    }
  }
  RecordProperty("refuted", static_cast<int>(refuted));
  std::printf("%zu of %zu claims are not certified\n", refuted, claims);
  EXPECT_LE(refuted, claims / 100);
}

}  // namespace
}  // namespace tessera::test
