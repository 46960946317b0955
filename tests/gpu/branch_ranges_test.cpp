// On the GPU, indices that a branch bounds and a loop inside the branch moves out of these bounds: nothing outside the
// tensor is read, nothing outside the piece or the lent part is written.
#include <algorithm>

#include "api/branch_kernels.hpp"
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace branch_kernels;

class BranchRanges : public Gpu {};

TEST_F(BranchRanges, LoadsPadAndStoresAreDropped) {
  std::vector<f32> values(256, 1000.0f);
  std::fill_n(values.begin(), 32, 0.0f);
  auto all = from(std::span<const f32>(values), {256}).sync();
  auto y = kernel<sum_tiles>(zeros<f32>({16}).sync(), all.view().slice<0>(0, 32), 1).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(16, -12.0f));

  auto pieces = host(kernel<store_parts>(zeros<f32>({256}).sync(), 1).sync()).sync();
  EXPECT_EQ(std::count(pieces.begin() + 128, pieces.end(), 0.0f), 128);

  auto t = zeros<f32>({512}).sync();
  kernel<store_parts>(mut(t).slice<0>(0, 128), 1).sync();
  const auto h = host(t).sync();
  EXPECT_EQ(std::count(h.begin(), h.begin() + 128, 7.0f), 128);
  EXPECT_EQ(std::count(h.begin() + 128, h.end(), 0.0f), 384);
}

}  // namespace
}  // namespace gpu_test
