// Matrix products of every combination of element types, GPU against CPU: exact for integers, by relative norm for
// floats (sums are rounded in the device's order).
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

template <class A, class B, class C, int M, int N, int K, bool Fast>
void product(Mut<C, M, N> c, In<A, dyn, dyn> a, In<B, dyn, dyn> b) {
  auto x = a.tiles(shape<M, K>);
  auto y = b.tiles(shape<K, N>);
  auto acc = c.load();
  auto [i, j] = c.index();
  for (auto k : range(x.count(1))) {
    if constexpr (Fast)
      acc = mma(x.load(i, k), y.load(k, j), acc, fast_acc);
    else
      acc = mma(x.load(i, k), y.load(k, j), acc);
  }
  c.store(acc);
}

template <class T>
std::vector<T> operand(std::size_t n, std::uint64_t seed) {
  if constexpr (std::is_integral_v<T>)
    return any_values<T>(n, seed);
  else
    return values_in<T>(n, seed, -2, 2);
}

template <class A, class B, class C, int M = 32, int N = 32, int K = 32, bool Fast = false>
void check_product(double tolerance) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 96, 128}, {70, 40, 50}}) {
    const auto ha = operand<A>(static_cast<std::size_t>(m * k), 1);
    const auto hb = operand<B>(static_cast<std::size_t>(k * n), 2);
    const auto hc = values_in<C>(static_cast<std::size_t>(m * n), 3, -2, 2);
    const std::int64_t M2 = m, N2 = n, K2 = k;
    for (const Placement p : {Placement::Aligned, Placement::Shifted}) {
      const auto both = on_both(p, [&](const Side& side) {
        auto a = side.input(ha, {M2, K2});
        auto b = side.input(hb, {K2, N2});
        auto c = side.input(hc, {M2, N2});
        kernel<product<A, B, C, M, N, K, Fast>>(c.lend(), a.view(), b.view()).sync();
        return c.take();
      });
      EXPECT_EQ(tolerance == 0 ? exact(both.cpu, both.gpu) : close(both.cpu, both.gpu, tolerance), "")
          << type_name<A>() << " x " << type_name<B>() << " into " << type_name<C>() << ", tiles " << M << "x" << N
          << "x" << K << " of " << m << "x" << n << "x" << k << (p == Placement::Shifted ? ", shifted" : "");
    }
  }
}

class Mma : public Gpu {};
TEST_F(Mma, F16) {
  check_product<f16, f16, f32>(1e-5);
  check_product<f16, f16, f32, 64, 64, 64>(1e-5);
  check_product<f16, f16, f32, 128, 128, 64>(1e-5);
  check_product<f16, f16, f32, 8, 16, 16>(1e-5);
}
TEST_F(Mma, F16IntoF16) { check_product<f16, f16, f16>(2e-2); }
TEST_F(Mma, BF16) {
  check_product<bf16, bf16, f32>(1e-5);
  check_product<bf16, bf16, f32, 128, 64, 64>(1e-5);
}
TEST_F(Mma, TF32) { check_product<tf32, tf32, f32>(1e-5); }
TEST_F(Mma, F32) { check_product<f32, f32, f32>(1e-5); }
TEST_F(Mma, F64) { check_product<f64, f64, f64, 16, 16, 16>(1e-14); }
TEST_F(Mma, F8E4M3) {
  check_product<f8e4m3, f8e4m3, f32>(1e-4);
  check_product<f8e4m3, f8e4m3, f32, 64, 64, 64>(1e-4);
}
TEST_F(Mma, F8E4M3Fast) { check_product<f8e4m3, f8e4m3, f32, 64, 64, 64, true>(1e-2); }
TEST_F(Mma, F8E4M3IntoF16) { check_product<f8e4m3, f8e4m3, f16>(2e-2); }
TEST_F(Mma, F8E5M2) { check_product<f8e5m2, f8e5m2, f32>(1e-4); }
TEST_F(Mma, I8) { check_product<i8, i8, i32>(0); }
TEST_F(Mma, U8) { check_product<u8, u8, i32>(0); }
TEST_F(Mma, I8U8) { check_product<i8, u8, i32>(0); }
TEST_F(Mma, U8I8) { check_product<u8, i8, i32>(0); }

template <class T>
void batched(Mut<f32, 2, 16, 32> c, In<T, dyn, dyn, dyn> a, In<T, dyn, dyn, dyn> b) {
  auto x = a.tiles(shape<2, 16, 16>).load(0, 0, 0);
  auto y = b.tiles(shape<2, 32, 16>).load(0, 0, 0);
  c.store(mma(x, transpose(y), zeros<f32, 2, 16, 32>()));
}
TEST_F(Mma, BatchedAndTransposed) {
  const auto ha = values_in<bf16>(2 * 16 * 16, 1, -2, 2), hb = values_in<bf16>(2 * 32 * 16, 2, -2, 2);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto a = side.input(ha, {2, 16, 16}), b = side.input(hb, {2, 32, 16});
    auto c = side.output<f32>({2, 16, 32});
    kernel<batched<bf16>>(c.lend(), a.view(), b.view()).sync();
    return c.take();
  });
  EXPECT_EQ(close(both.cpu, both.gpu, 1e-5), "");
}

// A product that feeds elementwise work that feeds a product: the pattern that software pipelining rearranges.
void chain(Mut<f32, 32, 32> y, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto A = a.tiles(shape<32, 32>), B = b.tiles(shape<32, 32>);
  auto acc = zeros<f32, 32, 32>();
  auto top = full<f32, 32, 1>(-infinity<f32>);
  for (auto j : range(B.count(0))) {
    auto s = mma(A.load(0, 0), transpose(B.load(j, 0)), zeros<f32, 32, 32>());
    auto m = max(top, max(s, axis<1>));
    acc = mma(cast<bf16>(exp(s - m)), B.load(j, 0), acc * exp(top - m));
    top = m;
  }
  y.store(acc);
}
TEST_F(Mma, Chain) {
  for (const std::int64_t n : {0, 1, 2, 3, 7}) {
    const auto ha = values_in<bf16>(32 * 32, 1, -1, 1),
               hb = values_in<bf16>(static_cast<std::size_t>(n) * 1024, 2, -1, 1);
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto a = side.input(ha, {32, 32}), b = side.input(hb, {n * 32, 32});
      auto y = side.output<f32>({32, 32});
      kernel<chain>(y.lend(), a.view(), b.view()).sync();
      return y.take();
    });
    EXPECT_EQ(close(both.cpu, both.gpu, 5e-3), "") << n << " steps";
  }
}

}  // namespace
}  // namespace gpu_test
