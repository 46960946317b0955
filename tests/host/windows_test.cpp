// Views of windows, and what helps functions given to then(): flattened(), ready(), reading().
#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

TEST(Windows, RepeatElements) {
  const auto x = arange<i32>(6).sync();
  EXPECT_EQ(host(windows(x.view(), Dims(4, 3), {1, 1})).sync(), (std::vector<i32>{0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5}));
  EXPECT_EQ(host(windows(x.view(), Dims(2, 2), {3, 2})).sync(), (std::vector<i32>{0, 2, 3, 5}));
  EXPECT_EQ(windows(x.view(), Dims(0, 100), {7, 7}).dims(), Dims(0, 100));
}
TEST(Windows, StayInsideTheirTensor) {
  const auto x = arange<i32>(6).sync();
  EXPECT_ERROR(ShapeError, (void)windows(x.view(), Dims(4, 4), {1, 1}), "reach beyond the 6 elements");
  EXPECT_ERROR(ShapeError, (void)windows(x.view(), Dims(2, 2), {4, 2}), "reach beyond the 6 elements");
  EXPECT_ERROR(ShapeError, (void)windows(x.view(), Dims(2, 2), {-1, 1}), "reach beyond");
  EXPECT_ERROR(ShapeError, (void)windows(x.view(), Dims<1>(3), {std::int64_t{1} << 62}), "reach beyond");
  const auto m = arange<i32>({2, 3}).sync();
  EXPECT_ERROR(ShapeError, (void)windows(m.view().permute<1, 0>(), Dims(2, 2), {1, 1}), "contiguous");
}
TEST(Flattened, TuplesBecomeTheirElements) {
  auto op = all(zeros<i32>({1}), all(zeros<i32>({2}), zeros<i32>({3})));
  const auto [a, b, c] = flattened(std::move(op)).sync();
  EXPECT_EQ(a.dim(0) + 10 * b.dim(0) + 100 * c.dim(0), 321);
  EXPECT_ERROR(BorrowError, (void)flattened(std::move(op)), "");  // NOLINT(bugprone-use-after-move)
}
TEST(Ready, HasItsResult) {
  auto x = arange<i32>(3).sync();
  EXPECT_EQ(host(ready(std::move(x)).sync()).sync(), (std::vector<i32>{0, 1, 2}));
}
/// What a function of then() will read cannot be written before it has run.
TEST(Reading, LeasesUntilItHasRun) {
  auto x = arange<i32>(3).sync();
  const auto other = zeros<i32>({3}).sync();
  auto op = reading(zeros<i32>({1}), SourceLocation::current(), x);
  EXPECT_ERROR(BorrowError, (void)copy_into(mut(x), other), "a function of then()");
  (void)std::move(op).sync();
  copy_into(mut(x), other).sync();
  const auto writer = copy_into(mut(x), other);
  EXPECT_ERROR(BorrowError, (void)reading(zeros<i32>({1}), SourceLocation::current(), x), "");
}

}  // namespace THIS_FILE
}  // namespace tessera
