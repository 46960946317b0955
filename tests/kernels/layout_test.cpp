// Rotary embedding, transposed copies and rows by number, against plain C++.
#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/kernels/embedding.hpp"
#include "tessera/kernels/rope.hpp"
#include "tessera/kernels/transpose.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // a rejected operation takes nothing, which the analysis cannot know
#endif

namespace tessera::kernels {
namespace {

template <Element T>
void check_rope(int d, const RopeOptions& options) {
  const std::vector<i32> at{0, 1, 7, 40000, 3};
  const auto positions = from(at, {at.size()}).sync();
  auto x = random_tensor<T>({5, 3, d}, 1);
  const auto in = doubles(x);
  auto want = in;
  for (std::size_t token = 0; token < 5; ++token) {
    for (std::size_t head = 0; head < 3; ++head) {
      for (int i = 0; i < d / 2; ++i) {
        const double angle = at[token] * std::pow(static_cast<double>(options.base), -2.0 * i / d);
        const std::size_t row = (token * 3 + head) * static_cast<std::size_t>(d);
        const auto a = row + static_cast<std::size_t>(options.interleaved ? 2 * i : i);
        const auto b = row + static_cast<std::size_t>(options.interleaved ? 2 * i + 1 : i + d / 2);
        want[a] = in[a] * std::cos(angle) - in[b] * std::sin(angle);
        want[b] = in[a] * std::sin(angle) + in[b] * std::cos(angle);
      }
    }
  }
  x = rope(std::move(x), positions, options).sync();
  expect_close(x, want, 5e-3, "d " + std::to_string(d));  // f32 angles of 40000 are 2e-3 apart
}
TEST(Rope, HalvesAndInterleaved) {
  check_rope<bf16>(64, {});
  check_rope<bf16>(32, {.interleaved = true, .base = 1e6f});
  check_rope<bf16>(128, {.base = 500});
  auto x = random_tensor<bf16>({5, 3, 24}, 1);
  const auto positions = zeros<i32>({5}).sync(), four = zeros<i32>({4}).sync();
  EXPECT_ERROR(ShapeError, (void)rope(std::move(x), positions), "argument x has the extents [5, 3, 24]");
  auto y = random_tensor<bf16>({5, 3, 32}, 1);
  EXPECT_ERROR(ShapeError, (void)rope(std::move(y), four), "argument positions has the extents [4]: axis 0 must be 5");
  EXPECT_EQ(y.dims(), Dims(5, 3, 32));
}

TEST(Transpose, CopiesExactly) {
  for (const auto& [m, n] : {std::pair{130, 70}, {1, 1000}, {64, 64}, {0, 5}}) {
    const auto x = random_tensor<f32>({m, n}, 2);
    const auto y = transpose(x).sync();
    EXPECT_EQ(y.dims(), Dims(n, m));
    if (m > 0) { EXPECT_EQ(doubles(y), turned(doubles(x), n)); }
  }
}

TEST(Embedding, RowsAndNumbersOutside) {
  const auto table = random_tensor<bf16>({50, 300}, 3);
  const std::vector<i32> ids{3, 49, -1, 50, 3, 0};
  const auto in = doubles(table);
  std::vector<double> want;
  for (const i32 id : ids) {
    for (int c = 0; c < 300; ++c) want.push_back(id >= 0 && id < 50 ? in[static_cast<std::size_t>(id * 300 + c)] : 0);
  }
  EXPECT_EQ(doubles(embedding(table, from(ids, {ids.size()}).sync()).sync()), want);
  EXPECT_EQ(embedding(table, zeros<i32>({0}).sync()).sync().dims(), Dims(0, 300));
}

}  // namespace
}  // namespace tessera::kernels
