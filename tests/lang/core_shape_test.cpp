// Creation, shapes and matrix multiplication against the host.
#include <array>

#include "core_support.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::count;
using test::run;
using test::text;

void created(Mut<f32, 4, 4> y, Scalar<f32> s) {
  auto t = zeros<f32, 4, 4>() + ones<f32, 4, 4>() * 2 + full<f32, 4, 4>(0.5f) + full<f32, 4, 4>(s);
  y.store(t + cast<f32>(iota<i32, 4, 4>(axis<0>) * 100) + cast<f32>(iota<u8, 1, 4>(axis<1>)));
}
TEST(Creation, ConstantsAndCounting) {
  std::vector<f32> y(16);
  run<created>(Arguments().tensor(y.data(), {4, 4}).scalar(1000.0f));
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_EQ(y[i], 1002.5f + 100.0f * static_cast<float>(i / 4) + static_cast<float>(i % 4));
}

void permuted(Mut<i32, 4, 2, 8> y, In<i32, 2, 4, 8> x, Mut<i32, 2, 8, 4> z) {
  auto t = x.tiles(shape<2, 4, 8>).load(0, 0, 0);
  y.store(permute(t, order<1, 0, 2>));
  z.store(transpose(t));
}
TEST(Shapes, PermuteAndTranspose) {
  std::vector<i32> x(64), y(64), z(64);
  for (int i = 0; i < 64; ++i) x[static_cast<std::size_t>(i)] = i;
  run<permuted>(Arguments().tensor(y.data(), {4, 2, 8}).tensor(x.data(), {2, 4, 8}).tensor(z.data(), {2, 8, 4}));
  for (std::size_t a = 0; a < 2; ++a)
    for (std::size_t b = 0; b < 4; ++b)
      for (std::size_t c = 0; c < 8; ++c) {
        EXPECT_EQ(y[(b * 2 + a) * 8 + c], x[(a * 4 + b) * 8 + c]);
        EXPECT_EQ(z[(a * 8 + c) * 4 + b], x[(a * 4 + b) * 8 + c]);
      }
}

void extracted(Mut<i32, 2, 2> y, In<i32, 4, 8> x, Scalar<i32> i, Scalar<i32> j) {
  auto t = x.tiles(shape<4, 8>).load(0, 0);
  y.store(extract(t, shape<2, 2>, i, j));
}
TEST(Shapes, ExtractTakesTheNearestSlice) {
  std::vector<i32> x(32), y(4);
  for (int i = 0; i < 32; ++i) x[static_cast<std::size_t>(i)] = i;
  for (auto [i, j, slice_i, slice_j] :
       {std::array{0, 0, 0, 0}, {1, 3, 1, 3}, {-5, 1, 0, 1}, {7, 100, 1, 3}, {INT32_MIN, INT32_MAX, 0, 3}}) {
    run<extracted>(Arguments().tensor(y.data(), {2, 2}).tensor(x.data(), {4, 8}).scalar(i).scalar(j));
    const int first = slice_i * 16 + slice_j * 2;
    EXPECT_EQ(y, (std::vector<i32>{first, first + 1, first + 8, first + 9})) << i << ' ' << j;
  }
}

void joined(Mut<i32, 4, 4> y, In<i32, 4, 2> x) {
  auto t = x.tiles(shape<4, 2>).load(0, 0);
  y.store(cat(t, broadcast(extract(t, shape<4, 1>, 0, 1), shape<4, 2>), axis<1>));
}
TEST(Shapes, CatAndBroadcast) {
  std::vector<i32> x{1, 2, 3, 4, 5, 6, 7, 8}, y(16);
  run<joined>(Arguments().tensor(y.data(), {4, 4}).tensor(x.data(), {4, 2}));
  EXPECT_EQ(y, (std::vector<i32>{1, 2, 2, 2, 3, 4, 4, 4, 5, 6, 6, 6, 7, 8, 8, 8}));
}

template <class A, class B, class C>
void multiply(Mut<C, 4, 2> y, In<A, 4, 8> a, In<B, 8, 2> b) {
  auto acc = y.load();
  y.store(mma(a.tiles(shape<4, 8>).load(0, 0), b.tiles(shape<8, 2>).load(0, 0), acc));
}
template <class A, class B, class C>
void expect_product() {
  std::vector<A> a;
  std::vector<B> b;
  std::vector<C> y;
  for (int i = 0; i < 32; ++i) a.push_back(A(i % 5));
  for (int i = 0; i < 16; ++i) b.push_back(B(i % 3));
  for (int i = 0; i < 8; ++i) y.push_back(C(i));
  run<multiply<A, B, C>>(Arguments().tensor(y.data(), {4, 2}).tensor(a.data(), {4, 8}).tensor(b.data(), {8, 2}));
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j) {
      double sum = i * 2 + j;
      for (int k = 0; k < 8; ++k) sum += ((i * 8 + k) % 5) * ((k * 2 + j) % 3);
      EXPECT_EQ(static_cast<double>(y[static_cast<std::size_t>(i * 2 + j)]), sum) << i << ' ' << j;
    }
}
TEST(Mma, EveryCombinationOfElementTypes) {
  expect_product<f16, f16, f32>();
  expect_product<f16, f16, f16>();
  expect_product<bf16, bf16, f32>();
  expect_product<tf32, tf32, f32>();
  expect_product<f32, f32, f32>();
  expect_product<f64, f64, f64>();
  expect_product<f8e4m3, f8e4m3, f32>();
  expect_product<f8e4m3, f8e4m3, f16>();
  expect_product<f8e5m2, f8e5m2, f32>();
  expect_product<i8, i8, i32>();
  expect_product<u8, u8, i32>();
  expect_product<u8, i8, i32>();
  static_assert(std::is_same_v<acc_t<bf16>, f32> && std::is_same_v<acc_t<f64>, f64> && std::is_same_v<acc_t<u8>, i32>);
}

void signs(Mut<i32, 2, 2> y, In<u8, 2, 2> a, In<i8, 2, 2> b) {
  y.store(mma(a.load_like(y), b.load_like(y), zeros<i32, 2, 2>()));
}
TEST(Mma, MixedSignsOfBytes) {
  std::vector<u8> a{255, 1, 2, 3};
  std::vector<i8> b{-1, 2, 3, -128};
  std::vector<i32> y(4);
  run<signs>(Arguments().tensor(y.data(), {2, 2}).tensor(a.data(), {2, 2}).tensor(b.data(), {2, 2}));
  EXPECT_EQ(y, (std::vector<i32>{-255 + 3, 510 - 128, -2 + 9, 4 - 384}));
}

void batched(Mut<f32, 2, 2, 2> y, In<f32, 2, 2, 4> a, In<f32, 2, 4, 2> b) {
  y.store(mma(a.tiles(shape<2, 2, 4>).load(0, 0, 0), b.tiles(shape<2, 4, 2>).load(0, 0, 0), zeros<f32, 2, 2, 2>()));
}
TEST(Mma, Batched) {
  std::vector<f32> a(16), b(16), y(8);
  for (std::size_t i = 0; i < 16; ++i) a[i] = static_cast<f32>(i), b[i] = static_cast<f32>(i % 3);
  run<batched>(Arguments().tensor(y.data(), {2, 2, 2}).tensor(a.data(), {2, 2, 4}).tensor(b.data(), {2, 4, 2}));
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 2; ++j) {
        float sum = 0;
        for (std::size_t k = 0; k < 4; ++k) sum += a[n * 8 + i * 4 + k] * b[n * 8 + k * 2 + j];
        EXPECT_EQ(y[n * 4 + i * 2 + j], sum);
      }
}

void fast(Mut<f32, 4, 2> y, In<f8e5m2, 4, 8> a, In<f8e5m2, 8, 2> b) {
  y.store(mma(a.tiles(shape<4, 8>).load(0, 0), b.tiles(shape<8, 2>).load(0, 0), y.load(), fast_acc));
}
TEST(Mma, FastAccumulationIsMarked) { EXPECT_EQ(count(text<fast>(), "fast_acc"), 1); }

}  // namespace THIS_FILE
}  // namespace tessera
