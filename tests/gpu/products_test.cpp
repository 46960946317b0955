// Matrix products whose operands are regions (whole tiles, which the compiler may load through a view, and shifted
// ones, which it must not), and products with fewer rows or columns than tensor cores multiply, GPU against CPU. The
// elements are small integers: every sum is exact in any order, so that results are equal bit for bit.
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

/// Integers from -3 to 3. A sum of 512 products is at most 4,608, which f16 rounds and f32 does not.
template <class T>
std::vector<T> small_integers(std::int64_t n, std::uint64_t seed) {
  const auto drawn = values_in<f32>(static_cast<std::size_t>(n), seed, -3.4, 3.4);
  std::vector<T> values;
  for (const f32 v : drawn)
    values.push_back(static_cast<T>(std::nearbyint(static_cast<double>(v)) + 0.0));  // no zero is negative
  return values;
}

/// Both operands are regions that begin where the tile (i, k) begins, `Shift` elements before it along the inner axis.
template <class T, class C, int M, int N, int K, int Shift>
void product_of_regions(Mut<C, M, N> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto [i, j] = c.origin();
  auto acc = zeros<C, M, N>();
  for (auto k : range((a.dim(1) + (K - 1 + Shift)) / K)) {
    const auto x = a.load_at(shape<M, K>, i, k * K - Shift);
    const auto y = b.load_at(shape<K, N>, k * K - Shift, j);
    acc = mma(x, y, acc);
  }
  c.store(acc);
}

/// The rows of `b` are read as regions of a tensor with a leading axis, as an image's are.
template <class T, int M, int N, int K>
void product_of_layers(Mut<f32, M, N> c, In<T, dyn, dyn> a, In<T, dyn, dyn, dyn> b) {
  auto [i, j] = c.origin();
  auto acc = zeros<f32, M, N>();
  for (auto layer : range(b.dim(0))) {
    for (auto k : range((b.dim(1) + (K - 1)) / K)) {
      const auto x = a.load_at(shape<M, K>, i, layer * b.dim(1) + k * K);
      const auto y = reshape(b.load_at(shape<1, K, N>, layer, k * K, j), shape<K, N>);
      acc = mma(x, y, acc);
    }
  }
  c.store(acc);
}

template <class T, class C, int M, int N, int K, int Shift>
void check_regions() {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{2 * M, 3 * N, 4 * K}, {M + 5, N + 9, 2 * K + 3}}) {
    const auto ha = small_integers<T>(m * k, 1), hb = small_integers<T>(k * n, 2);
    const std::int64_t of_a[] = {m, k}, of_b[] = {k, n}, of_c[] = {m, n};
    for (const Placement p : kPlacements) {
      const auto both = on_both(p, [&](const Side& side) {
        auto a = side.input(ha, of_a);
        auto b = side.input(hb, of_b);
        auto c = side.template output<C>(of_c);
        kernel<product_of_regions<T, C, M, N, K, Shift>>(c.lend(), a.view(), b.view()).sync();
        return c.take();
      });
      EXPECT_EQ(exact(both.cpu, both.gpu), "")
          << type_name<T>() << ", tiles " << M << "x" << N << "x" << K << " of " << m << "x" << n << "x" << k
          << ", shifted by " << Shift << ", placement " << int(p);
    }
  }
}

class ProductsOfRegions : public Gpu {};
TEST_F(ProductsOfRegions, F16) {
  check_regions<f16, f32, 128, 128, 64, 0>();
  check_regions<f16, f32, 64, 64, 64, 0>();
  check_regions<f16, f32, 64, 32, 16, 0>();
}
TEST_F(ProductsOfRegions, Shifted) {
  check_regions<f16, f32, 64, 64, 64, 3>();
  check_regions<bf16, f32, 128, 64, 32, 8>();
}
TEST_F(ProductsOfRegions, I8) { check_regions<i8, i32, 64, 128, 64, 0>(); }
TEST_F(ProductsOfRegions, F32) { check_regions<f32, f32, 32, 64, 16, 0>(); }
TEST_F(ProductsOfRegions, Tf32) { check_regions<tf32, f32, 64, 64, 32, 0>(); }
TEST_F(ProductsOfRegions, Layers) {
  // 96 rows of a layer are whole tiles of 32; 40 are not: the last region of a layer reaches into no other layer
  for (const std::int64_t rows : {std::int64_t{96}, std::int64_t{64}}) {
    const std::int64_t m = 128, n = 200, layers = 3;
    const auto ha = small_integers<f16>(m * rows * layers, 1), hb = small_integers<f16>(layers * rows * n, 2);
    for (const Placement p : kPlacements) {
      const auto both = on_both(p, [&](const Side& side) {
        auto a = side.input(ha, {m, rows * layers});
        auto b = side.input(hb, {layers, rows, n});
        auto c = side.output<f32>({m, n});
        kernel<product_of_layers<f16, 64, 64, 32>>(c.lend(), a.view(), b.view()).sync();
        return c.take();
      });
      EXPECT_EQ(exact(both.cpu, both.gpu), "") << rows << " rows, placement " << int(p);
    }
  }
}

template <class T, class C, int M, int N, int K>
void small_product(Mut<C, M, N> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto x = a.tiles(shape<M, K>);
  auto y = b.tiles(shape<K, N>);
  auto [i, j] = c.index();
  auto acc = zeros<C, M, N>();
  for (auto k : range(x.count(1))) acc = mma(x.load(i, k), y.load(k, j), acc);
  c.store(acc);
}

template <class T, class C, int M, int N, int K>
void check_small() {
  const std::int64_t m = 2 * M + 1, n = 2 * N + 1;
  for (const std::int64_t k : {std::int64_t{3 * K}, std::int64_t{K + 5}}) {
    const auto ha = small_integers<T>(m * k, 1), hb = small_integers<T>(k * n, 2);
    for (const Placement p : {Placement::Aligned, Placement::Shifted}) {
      const auto both = on_both(p, [&](const Side& side) {
        auto a = side.input(ha, {m, k});
        auto b = side.input(hb, {k, n});
        auto c = side.template output<C>({m, n});
        kernel<small_product<T, C, M, N, K>>(c.lend(), a.view(), b.view()).sync();
        return c.take();
      });
      EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>() << ", tiles " << M << "x" << N << "x" << K << " of "
                                               << m << "x" << n << "x" << k << ", placement " << int(p);
    }
  }
}

class SmallProducts : public Gpu {};
TEST_F(SmallProducts, FewRows) {
  check_small<f16, f32, 1, 128, 64>();
  check_small<f16, f32, 2, 64, 128>();
  check_small<bf16, f32, 4, 256, 32>();
  check_small<bf16, f32, 8, 128, 128>();
}
TEST_F(SmallProducts, FewColumns) {
  check_small<f16, f32, 128, 1, 64>();
  check_small<f16, f32, 64, 2, 128>();
  check_small<bf16, f32, 256, 4, 32>();
  check_small<f16, f32, 4, 4, 256>();
}
TEST_F(SmallProducts, F64) {
  check_small<f64, f64, 4, 64, 32>();
  check_small<f64, f64, 64, 2, 32>();
}
TEST_F(SmallProducts, I8) {
  check_small<i8, i32, 4, 128, 64>();
  check_small<i8, i32, 128, 4, 64>();
  check_small<i8, i32, 64, 2, 128>();
}
/// Operands of less than 128 bytes, the rows in which the assembler arranges shared memory.
TEST_F(SmallProducts, TinyOperands) {
  check_small<i8, i32, 128, 1, 64>();
  check_small<i8, i32, 2, 64, 16>();
  check_small<f16, f32, 64, 4, 8>();
  check_small<bf16, f32, 2, 64, 16>();
  check_small<f32, f32, 64, 2, 8>();
  check_small<f64, f64, 2, 32, 4>();
}
TEST_F(SmallProducts, F32AndTf32) {
  check_small<f32, f32, 4, 128, 32>();
  check_small<tf32, f32, 8, 64, 64>();
}

/// Scans of more elements than one operation of the assembler takes, along each axis, beside what the scan is of.
template <class T, int M, int N, int Axis>
void long_scan(Mut<T, M, N> y, In<T, dyn, dyn> x) {
  y.store(cumsum(x.load_like(y), axis<Axis>) + x.load_like(y));
}
template <class T, int M, int N, int Axis>
void check_long_scan() {
  const std::int64_t m = 2 * M, n = 2 * N;
  const auto values = small_integers<T>(m * n, 1);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {m, n});
    auto y = side.template output<T>({m, n});
    kernel<long_scan<T, M, N, Axis>>(y.lend(), x.view()).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>() << ' ' << M << 'x' << N << " along " << Axis;
}
class LongScans : public Gpu {};
TEST_F(LongScans, AlongTheLastAxis) {
  check_long_scan<f32, 1, 8192, 1>();
  check_long_scan<i32, 4, 2048, 1>();
  check_long_scan<f16, 2, 1024, 1>();
}
TEST_F(LongScans, AlongTheFirstAxis) {
  check_long_scan<f32, 8192, 1, 0>();
  check_long_scan<i32, 1024, 8, 0>();
}

}  // namespace
}  // namespace gpu_test
