// Random programs: claims of every kind, made at random and not by the analysis. What the checker certifies of them
// must hold while the program runs on the CPU: claims about numbers are asserted, accesses write down where they are.
// And what the analysis itself claims is certified.
#include <array>
#include <cstdio>

#include "analysis/random_launch.hpp"
#include "base/rounds.hpp"
#include "certify/random_claims.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;
using analysis::ClaimKind;

constexpr std::size_t kKinds = static_cast<std::size_t>(ClaimKind::DisjointIterations) + 1;

/// How many pieces the launch has along each axis; empty: it has none.
std::vector<std::int64_t> pieces_of(const analysis::LaunchContract& c, const std::vector<std::uint64_t>& slots) {
  std::vector<std::int64_t> pieces;
  if (c.blocks_arg >= 0) pieces.push_back(static_cast<std::int64_t>(slots[static_cast<std::size_t>(c.blocks_arg)]));
  if (c.pieces_of_tensor < 0) return pieces;
  const int first = c.tensors[static_cast<std::size_t>(c.pieces_of_tensor)].base_arg + 1;
  for (const std::int64_t piece : c.piece) {
    const std::size_t dim = static_cast<std::size_t>(first) + pieces.size();
    pieces.push_back((static_cast<std::int64_t>(slots[dim]) + piece - 1) / piece);
  }
  return pieces;
}

TEST(CertifySoundness, WhatIsCertifiedOfRandomProgramsHolds) {
  std::array<std::size_t, kKinds> certified{}, asked{};  // by kinds
  for (std::uint64_t seed = 0; seed < rounds(60); ++seed) {
    std::mt19937_64 rng(seed * 7 + 3);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract, Accesses::Some).take();
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract, passes::predicate_table());
    for (int launch = 0; launch < 2; ++launch) {
      const auto slots = random_launch(rng, contract);
      const std::uint64_t held = facts.evaluate(slots);
      const auto copy = ir::clone(*module);
      const auto claims = random_claims(*copy, rng);
      const auto verdict = certify::check(entry_of(*copy), contract, facts.certificate(), claims, held);
      std::vector<Claim> used;
      for (std::size_t i = 0; i < claims.size(); ++i) {
        const auto kind = static_cast<std::size_t>(claims[i].kind);
        ++asked.at(kind);
        if (!verdict.certified[i]) continue;
        ++certified.at(kind);
        used.push_back(claims[i]);
      }
      const std::string text = ir::print(*copy);
      Observed observed(*copy, used, pieces_of(contract, slots));
      cpu::RunOptions options;
      options.threads = 1;
      try {
        cpu::Program::compile(*copy)->run(grid_of(contract, slots), slots, options);
      } catch (const Error& e) { FAIL() << "seed " << seed << ": " << e.what() << "\n" << text; }
      ASSERT_EQ(observed.refuted(slots), "") << "seed " << seed << "\n" << text;
    }
  }
  for (std::size_t kind = 0; kind < asked.size(); ++kind) {
    std::printf("kind %zu: %zu of %zu claims certified\n", kind, certified[kind], asked[kind]);
    EXPECT_GE(certified[kind], kSanitizer ? 0u : 5u) << "this test has seen nothing of kind " << kind;
    EXPECT_GE(asked[kind] - certified[kind], kSanitizer ? 0u : 5u) << "all are true, of kind " << kind;
  }
}

TEST(CertifySoundness, WhatTheAnalysisClaimsOfRandomProgramsIsCertified) {
  std::size_t unproven = 0, claims = 0;
  for (std::uint64_t seed = 0; seed < rounds(200); ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const analysis::Facts facts = analysis::Facts::analyze(*module, contract, passes::predicate_table());
    for (int launch = 0; launch < 2; ++launch) {
      const std::uint64_t held = facts.evaluate(random_launch(rng, contract));
      const auto verdict = judge(*module, facts, held);
      for (const Claim& c : facts.claims()) claims += c.holds(held) ? 1 : 0;
      unproven += verdict.unproven;
    }
  }
  RecordProperty("unproven", static_cast<int>(unproven));
  std::printf("%zu of %zu claims are not certified\n", unproven, claims);
  // The checker searches within limits, and these programs have long chains of arithmetic that no kernel has: a few
  // proofs are longer. A claim without a proof costs a guard. The kernels of tests, examples and library have none.
  EXPECT_LE(unproven, claims / 100);
}

}  // namespace
}  // namespace tessera::test
