#include <algorithm>
// On the GPU, indices that a branch bounds and a loop inside the branch moves out of these bounds: nothing outside the
#include <algorithm>
// tensor is read, nothing outside the piece or the lent part is written.
#include <algorithm>
#include "api/branch_kernels.hpp"
#include "gpu/gpu_test.hpp"

#include <algorithm>
namespace gpu_test {
#include <algorithm>
namespace {
#include <algorithm>

#include <algorithm>
using namespace branch_kernels;
#include <algorithm>

#include <algorithm>
class BranchRanges : public Gpu {};
#include <algorithm>

#include <algorithm>
TEST_F(BranchRanges, LoadsPadAndStoresAreDropped) {
#include <algorithm>
  std::vector<f32> values(256, 1000.0f);
#include <algorithm>
  std::fill_n(values.begin(), 32, 0.0f);
#include <algorithm>
  auto all = from(std::span<const f32>(values), {256}).sync();
#include <algorithm>
  auto y = kernel<sum_tiles>(zeros<f32>({16}).sync(), all.view().slice<0>(0, 32), 1).sync();
#include <algorithm>
  EXPECT_EQ(host(y).sync(), std::vector<f32>(16, -12.0f));
#include <algorithm>

#include <algorithm>
  auto pieces = host(kernel<store_parts>(zeros<f32>({256}).sync(), 1).sync()).sync();
#include <algorithm>
  EXPECT_EQ(std::count(pieces.begin() + 128, pieces.end(), 0.0f), 128);
#include <algorithm>

#include <algorithm>
  auto t = zeros<f32>({512}).sync();
#include <algorithm>
  kernel<store_parts>(mut(t).slice<0>(0, 128), 1).sync();
#include <algorithm>
  const auto h = host(t).sync();
#include <algorithm>
  EXPECT_EQ(std::count(h.begin(), h.begin() + 128, 7.0f), 128);
#include <algorithm>
  EXPECT_EQ(std::count(h.begin() + 128, h.end(), 0.0f), 384);
#include <algorithm>
}
#include <algorithm>

#include <algorithm>
}  // namespace
#include <algorithm>
}  // namespace gpu_test
