// Claims carried over to a clone are those that analysing the clone gives.
#include <gtest/gtest.h>

#include "tessera/analysis/facts.hpp"
#include "tessera/ir/ir.hpp"
#include "tessera/lang/lang.hpp"
#include "tessera/lang/trace.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::analysis {
namespace {

template <int B>
void chunks(Mut<f32, B> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<1, B>);
  auto [i] = y.index();
  auto sum = zeros<f32, 1, B>();
  for (auto k : range(X.count(1))) {
    tile_if (k < i) { sum = sum + X.load(i, k); }
  }
  y.store(reshape(sum, shape<B>));
}

LaunchContract contract() {
  using Role = ArgRole;
  return {{{Role::Base, 0},
           {Role::Dim, 0, 0},
           {Role::Stride, 0, 0},
           {Role::Base, 1},
           {Role::Dim, 1, 0},
           {Role::Dim, 1, 1},
           {Role::Stride, 1, 0},
           {Role::Stride, 1, 1}},
          {{0, 1, true, true}, {3, 2, false, false}},
          0,
          -1,
          {64},
          false,
          {}};
}

TEST(ClaimsOf, AreThoseOfTheClone) {
  lang::Specialization specialization;
  specialization.tensors = {{0, 0, 1}, {1, 0, 3}};
  const lang::Trace trace = lang::trace<chunks<64>>(specialization);
  const Facts facts = Facts::analyze(*trace.module, contract(), passes::predicate_table());
  const auto carried = ir::clone(*trace.module), analysed = ir::clone(*trace.module);
  const std::vector<Claim> claims = facts.claims_of(*carried);
  const Facts anew = Facts::analyze(*analysed, contract(), passes::predicate_table());
  ASSERT_EQ(claims.size(), anew.claims().size());
  std::size_t about_operations = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    EXPECT_EQ(claims[i].kind, anew.claims()[i].kind);
    EXPECT_EQ(claims[i].obligation, anew.claims()[i].obligation);
    about_operations += claims[i].op != nullptr ? 1 : 0;
  }
  EXPECT_GT(about_operations, 0u);
  const std::uint64_t all = ~std::uint64_t{0};
  passes::apply_claims(*carried, claims, all);
  passes::apply_claims(*analysed, anew, all);
  EXPECT_EQ(ir::print(*carried), ir::print(*analysed));
  EXPECT_NE(ir::print(*carried), ir::print(*trace.module));
}

}  // namespace
}  // namespace tessera::analysis
