// Products of operands whose rows no tensor copy can load, by aligned copies: equal to those of the operands
// themselves. The choice is in programs/spills_test.cpp; GPUs run the products of odd extents in tests/gpu.
#include "tessera/kernels/aligned_rows.hpp"

#include "kernels/support.hpp"
#include "tessera/kernels/batched_gemm.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/stream_k.hpp"

namespace tessera::kernels {
namespace {

template <class T, int R>
void expect_rows_of_64_bytes(const View<T, R>& x) {
  EXPECT_EQ(row_starts(x), RowStarts::At64);
}

TEST(AlignedRows, ACopyHasTheElementsAndZeros) {
  const auto x = random_tensor<bf16>({5, 47}, 1);
  const auto y = aligned_copy(x.view(), SourceLocation::current()).sync();
  ASSERT_EQ(y.dims(), Dims<2>({5, 64}));
  const auto from = host(x).sync(), to = host(y).sync();
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 64; ++j)
      EXPECT_EQ(static_cast<float>(to[i * 64 + j]), j < 47 ? static_cast<float>(from[i * 47 + j]) : 0.0f)
          << i << " " << j;
}

TEST(AlignedRows, ReplaceOnlyWhatIsNotAligned) {
  const auto a = random_tensor<bf16>({33, 64}, 1), b = random_tensor<bf16>({64, 47}, 2),
             c = random_tensor<bf16>({47, 33}, 3);
  int calls = 0;
  const auto seen = [&](const View<bf16, 2>& x, const View<bf16, 2>& y) {
    ++calls;
    expect_rows_of_64_bytes(x);
    expect_rows_of_64_bytes(y);
    return gemm(x, y);
  };
  const SourceLocation where = SourceLocation::current();
  const auto one = host(with_aligned_rows(a.view(), b.view(), where, seen).sync()).sync();
  EXPECT_EQ(one, host(gemm(a, b).sync()).sync());
  const auto both = host(with_aligned_rows(b.view(), c.view(), where, seen).sync()).sync();
  EXPECT_EQ(both, host(gemm(b, c).sync()).sync());
  const auto transposed =
      host(with_aligned_rows(c.view().permute<1, 0>(), b.view().permute<1, 0>(), where, seen).sync()).sync();
  EXPECT_EQ(transposed, host(gemm(c.view().permute<1, 0>(), b.view().permute<1, 0>()).sync()).sync());
  EXPECT_EQ(calls, 3);
}

/// What only the second kernel of a product reads is leased when the product is made: between that and its run nothing
/// writes it.
TEST(AlignedRows, EveryOperandIsLeasedAtOnce) {
  auto a = random_tensor<bf16>({33, 64}, 1), b = random_tensor<bf16>({64, 47}, 2),
       odd = random_tensor<bf16>({47, 33}, 3);
  const SourceLocation where = SourceLocation::current();
  const auto product = [](const View<bf16, 2>& x, const View<bf16, 2>& y) { return gemm(x, y); };
  const auto is_leased = [](auto& x) {
    const auto other = random_tensor<bf16>(Dims<2>({x.dim(0), x.dim(1)}), 5);
    EXPECT_ERROR(BorrowError, (void)copy_into(mut(x), other), "");
  };
  {
    auto op = with_aligned_rows(a.view(), b.view(), where, product);  // b is copied
    is_leased(a);
    (void)std::move(op).sync();
    auto other = with_aligned_rows(odd.view(), a.view(), where, product);  // odd is copied
    is_leased(a);
    (void)std::move(other).sync();
  }
  copy_into(mut(a), random_tensor<bf16>({33, 64}, 6)).sync();
  auto r = random_tensor<bf16>({33, 47}, 7);
  auto streams = gemm_stream_k(a, b, residual(r));
  is_leased(r);
  (void)std::move(streams).sync();
  copy_into(mut(r), random_tensor<bf16>({33, 47}, 8)).sync();
}

TEST(AlignedRows, OfBatches) {
  const auto a = random_tensor<f16>({3, 9, 21}, 1), b = random_tensor<f16>({3, 35, 21}, 2);
  const auto product = [](const View<f16, 3>& x, const View<f16, 3>& y) {
    expect_rows_of_64_bytes(x);
    expect_rows_of_64_bytes(y);
    return batched_gemm(x, y);
  };
  const auto copied =
      with_aligned_rows(a.view(), b.view().permute<0, 2, 1>(), SourceLocation::current(), product).sync();
  EXPECT_EQ(host(copied).sync(), host(batched_gemm(a, b.view().permute<0, 2, 1>()).sync()).sync());
}

/// Neither axis is contiguous.
TEST(AlignedRows, OfStridedViews) {
  const auto wide = random_tensor<f32>({2, 24, 40}, 1);
  const auto x = wide.view().permute<1, 2, 0>();  // [24, 40, 2], of which no pair of neighbours is contiguous but one
  const auto y = aligned_copy(x, SourceLocation::current()).sync();
  EXPECT_EQ(y.dims(), Dims<3>({24, 40, 16}));
  const auto from = host(wide).sync(), to = host(y).sync();
  for (std::size_t i = 0; i < 24; ++i)
    for (std::size_t j = 0; j < 40; ++j)
      for (std::size_t s = 0; s < 2; ++s) EXPECT_EQ(to[(i * 40 + j) * 16 + s], from[(s * 24 + i) * 40 + j]);
}

}  // namespace
}  // namespace tessera::kernels
