// Kernels without their names: Kernel::launcher().
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

template <int B>
void twice(Mut<i32, B> y, In<i32, dyn> x) {
  y.store(x.load_like(y) * 2);
}
template <int B>
void thrice(MutTiles<i32, B> y, In<i32, dyn> x) {
  for (auto piece : y.row_order()) piece.store(x.load_like(piece) * 3);
}

/// Kernels that differ in tiles and in how blocks own them have launchers of one type.
TEST(Launcher, IsOneTypeForEqualParametersOfTheHost) {
  static_assert(std::is_same_v<decltype(kernel<twice<8>>.launcher()), decltype(kernel<twice<64>>.launcher())>);
  static_assert(std::is_same_v<decltype(kernel<twice<8>>.launcher()), decltype(kernel<thrice<16>>.launcher())>);
  const auto x = from(std::vector<i32>{1, 2, 3}, {3}).sync();
  for (const bool three : {false, true}) {
    const auto launch = three ? kernel<thrice<16>>.launcher() : kernel<twice<8>>.launcher();
    const i32 times = three ? 3 : 2;
    EXPECT_EQ(host(launch(empty<i32>({3}), x).sync()).sync(), (std::vector<i32>{times, 2 * times, 3 * times}));
    auto y = empty<i32>({3}).sync();
    launch(mut(y), x).sync();
    EXPECT_EQ(host(y).sync(), (std::vector<i32>{times, 2 * times, 3 * times})) << "lent";
  }
}
TEST(Launcher, HasTheOptionsOfTheKernel) {
  const auto x = from(std::vector<i32>{1, 2, 3}, {3}).sync();
  const auto launch = kernel<twice<8>>.blocks(1).launcher();
  EXPECT_THROW((void)launch(empty<i32>({3}), x).sync(), ShapeError) << "a kernel with Mut takes no number of blocks";
}

/// An operation owns what it is made of, also where it is moved to itself or replaces another one.
TEST(Operation, MayBeMovedToItself) {
  auto op = from(std::vector<i32>{1, 2}, {2});
  auto& same = op;
  op = std::move(same);
  EXPECT_EQ(host(std::move(op).sync()).sync(), (std::vector<i32>{1, 2}));
  auto other = from(std::vector<i32>{3}, {1});
  other = from(std::vector<i32>{4}, {1});
  EXPECT_EQ(host(std::move(other).sync()).sync(), std::vector<i32>{4});
}

}  // namespace THIS_FILE
}  // namespace tessera
