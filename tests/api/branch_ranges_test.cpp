// The condition of a branch bounds an index only if the arm does not change the index: if a loop inside the arm changes
// it, its accesses keep their bounds checks, at the edge of the tensor, of the piece and of the part that was lent.
#include <gtest/gtest.h>

#include <algorithm>

#include "api/branch_kernels.hpp"

namespace THIS_FILE {

using namespace branch_kernels;

TEST(BranchRanges, LoadsOfAnIndexThatLeavesTheTensorPad) {
  std::vector<f32> values(256, 1000.0f);  // after the view
  std::fill_n(values.begin(), 32, 0.0f);
  auto all = from(std::span<const f32>(values), {256}).sync();
  auto x = all.view().slice<0>(0, 32);
  auto y = kernel<sum_tiles>(zeros<f32>({16}).sync(), x, 1).sync();
  // Tiles 0 to 7, of which x has two: six paddings in each of two rounds.
  EXPECT_EQ(host(y).sync(), std::vector<f32>(16, -12.0f));
}

TEST(BranchRanges, StoresOfAnIndexThatLeavesThePieceAreDropped) {
  const auto h = host(kernel<store_parts>(zeros<f32>({256}).sync(), 1).sync()).sync();
  EXPECT_EQ(std::count(h.begin(), h.begin() + 128, 7.0f), 128);
  EXPECT_EQ(std::count(h.begin() + 128, h.end(), 0.0f), 128);
}

TEST(BranchRanges, StoresOfAnIndexThatLeavesTheLentPartAreDropped) {
  auto t = zeros<f32>({512}).sync();
  kernel<store_parts>(mut(t).slice<0>(0, 128), 1).sync();
  const auto h = host(t).sync();
  EXPECT_EQ(std::count(h.begin(), h.begin() + 128, 7.0f), 128);
  EXPECT_EQ(std::count(h.begin() + 128, h.end(), 0.0f), 384);
}

TEST(BranchRanges, AnIndexThatTheBranchBoundsIsStored) {
  const auto h = host(kernel<store_bounded_part>(zeros<f32>({128}).sync(), 2).sync()).sync();
  EXPECT_EQ(std::count(h.begin() + 16, h.begin() + 32, 7.0f), 16);
  EXPECT_EQ(std::count(h.begin(), h.end(), 7.0f), 16);
}

}  // namespace THIS_FILE
