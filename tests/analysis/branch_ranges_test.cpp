// Guards that a branch makes unnecessary are removed; guards of an index that a loop inside the branch changes are
// kept.
#include "analysis/support.hpp"
#include "api/branch_kernels.hpp"

namespace tessera::test {
namespace {

/// Branches left of the kernel in launches of one piece: those that it wrote, and the guards of its accesses.
int branches_left(const Recorded& r) { return count(*r.claimed({{128}}), ir::Op::If); }

TEST(BranchRanges, AnIndexMovedInsideTheArmStaysGuarded) {
  const Recorded r = recorded<branch_kernels::store_parts>();
  EXPECT_EQ(branches_left(r), 3) << ir::print(*r.claimed({{128}}));
}

TEST(BranchRanges, AnIndexThatTheArmBoundsIsNotGuarded) {
  const Recorded r = recorded<branch_kernels::store_bounded_part>();
  EXPECT_EQ(branches_left(r), 2) << ir::print(*r.claimed({{128}}));
}

}  // namespace
}  // namespace tessera::test
