// The rows of predicates.def: which kernels ask, what a launch answers, and that a row needs nothing but itself.
#include "tessera/passes/predicates.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "passes/asks.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

using analysis::AskedKernel;
using analysis::Claim;
using analysis::ClaimKind;
using analysis::LaunchBound;
using analysis::LaunchPredicate;
using analysis::LaunchQuestion;
using passes::Predicate;

TEST(Predicates, RowsNameTheirPassAndNothingTwice) {
  std::set<std::string> names;
  for (const LaunchPredicate& row : passes::predicate_table()) {
    EXPECT_NE(passes::find_pass(row.pass), nullptr) << row.name << " is asked by " << row.pass;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(std::string(row.text), "") << row.name;
  }
  EXPECT_EQ(std::string(passes::predicate_table()[static_cast<std::size_t>(Predicate::many_pieces)].name),
            "many_pieces");
}

void row_sums(Mut<f32, 1> y, In<f32, dyn, dyn> x) {
  auto [i] = y.index();
  y.store(reshape(sum(x.tiles(shape<1, 1024>).load(i, 0), axis<1>), shape<1>));
}
void scaled(Mut<f32, 4, 64> y, In<f32, dyn, dyn> x) { y.store(2.0f * x.load_like(y)); }
void copied(Mut<f32, 64, 64> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y)); }

/// Whether claims of the row are made of the kernel, and hold in the launch.
struct Answer {
  bool asked = false, holds = false;
};
Answer answer(const Recorded& r, Predicate predicate, const std::vector<std::vector<std::int64_t>>& dims) {
  const passes::Work work{.claims = r.facts.claims(), .predicates = r.held(dims), .contract = &r.contract};
  const bool asked = std::ranges::any_of(r.facts.claims(), [&](const Claim& c) {
    return c.kind == ClaimKind::OfLaunch && c.index == static_cast<int>(predicate);
  });
  return {asked, passes::holds(work, predicate)};
}

TEST(Predicates, SmallPiecesAreCounted) {
  const Recorded small = recorded<&scaled>(), large = recorded<&copied>();
  EXPECT_TRUE(answer(small, Predicate::many_pieces, {{65536, 64}, {65536, 64}}).holds) << "16384 pieces";
  const Answer fewer = answer(small, Predicate::many_pieces, {{65532, 64}, {65532, 64}});
  EXPECT_TRUE(fewer.asked);
  EXPECT_FALSE(fewer.holds);
  EXPECT_FALSE(answer(large, Predicate::many_pieces, {{1 << 20, 64}, {1 << 20, 64}}).asked) << "its tiles are large";
  EXPECT_FALSE(answer(small, Predicate::few_pieces, {{4, 64}, {4, 64}}).asked) << "no loop reduces";
  EXPECT_FALSE(answer(small, Predicate::one_wave, {{4, 64}, {4, 64}}).asked) << "it has no product";
}

TEST(Predicates, APieceAlongTwoAxesAsksForTheGrid) {
  const Recorded r = recorded<&copied>();
  EXPECT_TRUE(answer(r, Predicate::grid_fits, {{640, 640}, {640, 640}}).holds);
  EXPECT_FALSE(answer(r, Predicate::grid_fits, {{64 * 65536, 64}, {64 * 65536, 64}}).holds);
  EXPECT_FALSE(answer(recorded<&row_sums>(), Predicate::grid_fits, {{640}, {640, 640}}).asked) << "nothing is divided";
}

/// The rows' lengths are about arguments, so that claims of the launch say nothing of them.
TEST(Predicates, LengthsOfRowsAreClaimsAboutArguments) {
  const Recorded r = recorded<&row_sums>();
  EXPECT_FALSE(answer(r, Predicate::row_lengths, {{8}, {8, 1000}}).asked);
  const auto bounds = [&](std::int64_t columns) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    const std::uint64_t held = r.held({{8}, {8, columns}});
    for (const Claim& c : r.facts.claims())
      if (c.kind == ClaimKind::ArgBounded && c.upper < 0x7FFFFFFF && c.holds(held))
        found.emplace_back(c.lower, c.upper);
    return found;
  };
  EXPECT_EQ(bounds(1000), (std::vector<std::pair<std::int64_t, std::int64_t>>{{513, 1023}, {769, 1023}}));
  EXPECT_EQ(bounds(600), (std::vector<std::pair<std::int64_t, std::int64_t>>{{513, 1023}, {513, 640}, {513, 768}}));
  EXPECT_EQ(bounds(1024).size(), 0u);
}

std::vector<LaunchQuestion> nothing(const AskedKernel&) { return {}; }
/// At least three pieces, and both tensors with equally many columns. The kernel is looked at.
std::vector<LaunchQuestion> three_pieces(const AskedKernel& kernel) {
  EXPECT_EQ(kernel.contract.tensors.size(), 2u);
  EXPECT_FALSE(kernel.has_products);
  const int columns = kernel.contract.tensors[0].base_arg + 2, others = kernel.contract.tensors[1].base_arg + 2;
  LaunchQuestion q{.use = analysis::ObligationUse::Guard};
  q.bounds = {{LaunchBound::Of::Pieces, 0, 3, LaunchBound::kNoMost}, {LaunchBound::Of::Argument, columns, 8, 4096}};
  q.equal = {{columns, others}};
  return {q};
}

/// A table of its own: the analysis, the launch and the certificate answer what they have never seen.
TEST(Predicates, ANewRowIsAnsweredWithoutFurtherWork) {
  constexpr LaunchPredicate kTable[] = {{"nothing", "clean_up", "nothing holds", nothing},
                                        {"three_pieces", "clean_up", "three pieces", three_pieces}};
  Recorded r = recorded<&copied>();
  r.facts = analysis::Facts::analyze(*r.trace.module, r.contract, kTable);
  const auto holds = [&](std::int64_t rows, std::int64_t columns, std::int64_t others) {
    const std::uint64_t held = r.held({{rows, columns}, {rows, others}});
    const auto claims = r.facts.claims();
    const certify::Verdict verdict =
        certify::check(*r.trace.module->functions.front(), r.contract, r.facts.certificate(), claims, held);
    int of_launch = 0, of_columns = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (!claims[i].holds(held)) continue;
      EXPECT_TRUE(verdict.certified[i]) << i;
      if (claims[i].kind == ClaimKind::OfLaunch) of_launch += claims[i].index == 1 ? 1 : 100;
      if (claims[i].kind == ClaimKind::ArgBounded && claims[i].upper == 4096) ++of_columns;
    }
    EXPECT_EQ(of_launch, of_columns) << "both come with one obligation";
    return of_launch == 1;
  };
  EXPECT_TRUE(holds(129, 64, 64));
  EXPECT_TRUE(holds(64, 129, 129));
  EXPECT_FALSE(holds(128, 64, 64)) << "two pieces";
  EXPECT_FALSE(holds(129, 64, 128)) << "the tensors differ";
  EXPECT_FALSE(holds(1000, 7, 7));
  EXPECT_FALSE(holds(1000, 4097, 4097));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
