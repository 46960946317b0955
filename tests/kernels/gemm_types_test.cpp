// The matrix product in every element type that it takes.
#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/kernels/gemm.hpp"

namespace tessera::kernels {
namespace {

template <Element T, class U = void, class M = void>
void check(double allowed, double scale = 1) {
  const auto a = random_tensor<T>({70, 130}, 1, scale), b = random_tensor<T>({130, 40}, 2, scale);
  expect_close(gemm<U, M>(a, b).sync(), product(doubles(a), doubles(b), 70, 40), allowed, "");
}

TEST(GemmTypes, Halves) {
  check<f16>(tolerance<f16>());
  check<bf16>(tolerance<bf16>());
  check<bf16, f32>(1e-5);  // an f32 result of bf16 operands
}
TEST(GemmTypes, WideAndTf32) {
  check<f64>(1e-13);
  check<f32, void, tf32>(1e-3);
}
TEST(GemmTypes, Bytes) {
  check<f8e4m3>(tolerance<bf16>());
  check<i8>(0, 30);  // exact
}

}  // namespace
}  // namespace tessera::kernels
