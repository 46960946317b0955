// The largest and the k largest elements of rows, against sorting.
#include <algorithm>
#include <numeric>

#include "kernels/support.hpp"
#include "tessera/kernels/argmax.hpp"
#include "tessera/kernels/top_k.hpp"

namespace tessera::kernels {
namespace {

/// The columns of a row by falling value, equal ones by rising column.
std::vector<i32> sorted_columns(const double* row, std::size_t n) {
  std::vector<i32> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) { return row[a] > row[b]; });
  return order;
}

TEST(Argmax, RowsOfAnyLength) {
  for (const auto& [rows, n] : {std::pair{5, 1000}, {3, 1}, {2, 9001}, {0, 7}}) {
    const auto x = random_tensor<bf16>({rows, n}, 1);  // few values: many are equal
    const auto in = doubles(x);
    const auto [value, index] = argmax(x).sync();
    const auto v = doubles(value);
    const auto at = host(index).sync();
    for (std::size_t r = 0; r < at.size(); ++r) {
      const double* row = in.data() + r * static_cast<std::size_t>(n);
      EXPECT_EQ(at[r], std::max_element(row, row + n) - row) << rows << "x" << n;
      EXPECT_EQ(v[r], row[at[r]]);
    }
  }
  EXPECT_ERROR(ShapeError, (void)argmax(zeros<f32>({3, 0}).sync()), "a row needs an element");
}
TEST(Argmax, NotANumberAndInfinity) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto x = cast<f32>(from(std::vector<double>{-inf, -inf, 1, nan, 5, nan}, {3, 2})).sync();
  const auto [value, index] = argmax(x).sync();
  EXPECT_EQ(host(index).sync(), (std::vector<i32>{0, 1, 1}));
  EXPECT_EQ(doubles(value)[0], -inf);
  EXPECT_TRUE(std::isnan(doubles(value)[2]));
}

TEST(TopK, AgainstSorting) {
  for (const auto& [rows, n, k] : {std::tuple{4, 1000, 50}, {3, 64, 64}, {2, 5, 1}, {0, 9, 3}, {2, 40963, 20}}) {
    const auto x = random_tensor<bf16>({rows, n}, 2);
    const auto in = doubles(x);
    const auto [values, indices] = top_k(x, k).sync();
    const auto v = doubles(values);
    const auto at = host(indices).sync();
    const auto count = static_cast<std::size_t>(k), length = static_cast<std::size_t>(n);
    for (std::size_t r = 0; r * count < at.size(); ++r) {
      const auto order = sorted_columns(in.data() + r * length, length);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(at[r * count + i], order[i]) << n << ": " << i;
        ASSERT_EQ(v[r * count + i], in[r * length + static_cast<std::size_t>(order[i])]);
      }
    }
  }
}
TEST(TopK, LowestValuesAndShapesThatDoNotFit) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto x = cast<f32>(from(std::vector<double>{-inf, 2, -inf, std::nan(""), -inf}, {1, 5})).sync();
  const auto [values, indices] = top_k(x, 5).sync();
  EXPECT_EQ(host(indices).sync(), (std::vector<i32>{3, 1, 0, 2, 4}));
  EXPECT_ERROR(ShapeError, (void)top_k(x, 6), "k is 1 to 64");
  EXPECT_ERROR(ShapeError, (void)top_k(x, 0), "k is 1 to 64");
}

}  // namespace
}  // namespace tessera::kernels
