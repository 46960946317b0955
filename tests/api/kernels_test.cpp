// The kernels of API.md section 1, verbatim, run on real data and compared with plain C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tessera/tessera.hpp>
#include <vector>

#include "api/kernels.hpp"
#include "api/reference.hpp"
#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace api_kernels;

TEST(Api, Saxpy) {
  for (const int n : {1, 127, 128, 1000, 1024, 4096}) {
    const auto x = random::normal<f32>({n}, 1).sync();
    auto y = random::normal<f32>({n}, 2).sync();
    const auto hx = host(x).sync(), hy = host(y).sync();
    y = kernel<saxpy<128>>(std::move(y), 2.0f, x).sync();
    kernel<saxpy<128>>(mut(y), 3.0f, x).sync();
    const auto got = host(y).sync();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], hy[i] + 5.0f * hx[i], 1e-5f) << n << ": " << i;
  }
}

TEST(Api, Softmax) {
  for (const auto& [rows, columns] : {std::pair{5, 1024}, {3, 1000}, {7, 1}}) {
    const auto x = random::normal<f32>({rows, columns}, 3).sync();
    const auto b = cast<bf16>(x).sync();
    const auto y = kernel<softmax<1024>>(empty_like(b), b).sync();
    const auto in = doubles(b), got = doubles(y);
    for (int r = 0; r < rows; ++r) {
      double top = -1e300, total = 0;
      for (int c = 0; c < columns; ++c) top = std::max(top, in[at(r, c, columns)]);
      for (int c = 0; c < columns; ++c) total += std::exp(in[at(r, c, columns)] - top);
      for (int c = 0; c < columns; ++c) {
        const double want = std::exp(in[at(r, c, columns)] - top) / total;
        ASSERT_NEAR(got[at(r, c, columns)], want, want * 0x1p-8 + 1e-9)
            << rows << "x" << columns << ": " << r << "," << c;
      }
    }
  }
}

TEST(Api, AddRmsNorm) {
  const int rows = 6, columns = 1000;
  const auto x = cast<bf16>(random::normal<f32>({rows, columns}, 4)).sync();
  auto residual = cast<bf16>(random::normal<f32>({rows, columns}, 5)).sync();
  const auto w = cast<bf16>(random::uniform<f32>({columns}, 6)).sync();
  const auto hx = doubles(x), hr = doubles(residual), hw = doubles(w);
  auto [n, r] = kernel<add_rms_norm<1024>>(empty_like(x), std::move(residual), x, w, 1e-6f).sync();
  const auto gn = doubles(n), gr = doubles(r);
  for (int i = 0; i < rows; ++i) {
    double square = 0;
    for (int c = 0; c < columns; ++c) square += std::pow(hx[at(i, c, columns)] + hr[at(i, c, columns)], 2);
    const double scale = 1 / std::sqrt(square / columns + 1e-6);
    for (int c = 0; c < columns; ++c) {
      const double h = hx[at(i, c, columns)] + hr[at(i, c, columns)];
      ASSERT_NEAR(gr[at(i, c, columns)], h, std::abs(h) * 0x1p-8);
      const double want = h * scale * hw[static_cast<std::size_t>(c)];
      ASSERT_NEAR(gn[at(i, c, columns)], want, std::abs(want) * 0x1p-7 + 1e-6);
    }
  }
}

TEST(Api, Logsumexp) {
  const int rows = 4;
  for (const int columns : {1, 128, 300, 1000}) {
    const auto x = cast<bf16>(random::normal<f32>({rows, columns}, 7)).sync();
    const auto y = kernel<logsumexp<128>>(empty<f32>({rows}), x).sync();
    const auto in = doubles(x), got = doubles(y);
    for (int r = 0; r < rows; ++r) {
      double total = 0;
      for (int c = 0; c < columns; ++c) total += std::exp(in[at(r, c, columns)]);
      ASSERT_NEAR(got[static_cast<std::size_t>(r)], std::log(total), 1e-4) << columns;
    }
  }
}

template <class T>
void check_gemm(int m, int n, int k, double tolerance) {
  const auto a = cast<T>(random::normal<f32>({m, k}, 8)).sync();
  const auto b = cast<T>(random::normal<f32>({k, n}, 9)).sync();
  const auto bt = cast<T>(random::normal<f32>({n, k}, 10)).sync();
  const auto c = kernel<gemm<T, 32, 32, 32>>(empty<T>({m, n}), a, b).sync();
  expect_matrix(doubles(c), matmul(doubles(a), doubles(b), m, n, k), tolerance);
  const auto limited = kernel<gemm<T, 32, 32, 32>>.blocks(2)(empty<T>({m, n}), a, b).sync();
  EXPECT_EQ(doubles(limited), doubles(c));
  const auto transposed = kernel<gemm<T, 32, 32, 32>>(empty<T>({m, n}), a, bt.template permute<1, 0>()).sync();
  expect_matrix(doubles(transposed), matmul(doubles(a), doubles(bt.template permute<1, 0>()), m, n, k), tolerance);
  const auto one = kernel<gemm_blocks<T, 32, 32, 32>>(empty<T>({m, n}), a, b).sync();
  EXPECT_EQ(doubles(one), doubles(c));
}

TEST(Api, Gemm) {
  check_gemm<f32>(64, 96, 128, 1e-4);
  check_gemm<f32>(65, 33, 70, 1e-4);
  check_gemm<f16>(40, 70, 50, 2e-2);
  check_gemm<bf16>(33, 64, 100, 1e-1);
  check_gemm<f64>(33, 20, 17, 1e-10);
}

TEST(Api, Attention) {
  constexpr int batch = 2, heads = 4, kv_heads = 2, length = 100, d = 32;
  const auto q = cast<bf16>(random::normal<f32>({batch, heads, length, d}, 11)).sync();
  const auto k = cast<bf16>(random::normal<f32>({batch, kv_heads, length, d}, 12)).sync();
  const auto v = cast<bf16>(random::normal<f32>({batch, kv_heads, length, d}, 13)).sync();
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  const auto o = kernel<attention<32, 32, d>>(empty_like(q), q, k, v, scale).sync();
  expect_matrix(doubles(o),
                causal_attention(doubles(q), doubles(k), doubles(v), batch, heads, kv_heads, length, d, scale), 2e-2);
  const auto three = cast<bf16>(random::normal<f32>({batch, 3, length, d}, 14)).sync();
  EXPECT_ERROR(ShapeError, (void)(kernel<attention<32, 32, d>>(empty_like(q), q, three, three, scale)),
               "query heads must be a multiple");
}

TEST(Api, Blur) {
  const int h = 37, w = 50;
  const auto x = random::uniform<f32>({h, w}, 15).sync();
  const auto y = kernel<blur<16, 16>>(empty_like(x), x).sync();
  const auto in = doubles(x), got = doubles(y);
  for (int i = 0; i < h; ++i) {
    for (int j = 0; j < w; ++j) {
      double s = 0;
      for (int di = -1; di <= 1; ++di) {
        for (int dj = -1; dj <= 1; ++dj) {
          if (i + di >= 0 && i + di < h && j + dj >= 0 && j + dj < w) s += in[at(i + di, j + dj, w)];
        }
      }
      ASSERT_NEAR(got[at(i, j, w)], s / 9, 1e-5) << i << "," << j;
    }
  }
}

TEST(Api, Embed) {
  constexpr int d = 64;
  const auto table = cast<bf16>(random::normal<f32>({50, d}, 16)).sync();
  const std::vector<i32> rows{0, 49, 7, 7, -1, 50, 1000000, 3, 12};
  const auto ids = from(rows, {rows.size()}).sync();
  const auto y = kernel<embed<4, d>>(empty<bf16>({rows.size(), d}), table, ids).sync();
  const auto in = doubles(table), got = doubles(y);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (int c = 0; c < d; ++c) {
      const double want = rows[r] >= 0 && rows[r] < 50 ? in[at(rows[r], c, d)] : 0;
      ASSERT_EQ(got[r * d + static_cast<std::size_t>(c)], want) << r;
    }
  }
}

TEST(Api, Dropout) {
  const auto x = ones<f32>({1000}).sync();
  const auto y = kernel<dropout<128>>(empty_like(x), x, 0.25f, u64{99}).sync();
  const auto u = host(random::uniform<f32>({1000}, 99)).sync();
  const auto got = host(y).sync();
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(got[i], u[i] < 0.25f ? 0.0f : 1.0f / 0.75f);
}

TEST(Api, RunningProduct) {
  const int rows = 3, columns = 20;
  const auto x = random::uniform<f32>({rows, columns}, 17).sync();
  const auto y = kernel<running_product<32>>(empty_like(x), x).sync();
  const auto in = doubles(x), got = doubles(y);
  for (int r = 0; r < rows; ++r) {
    double p = 1;
    for (int c = 0; c < columns; ++c) {
      p *= in[at(r, c, columns)];
      ASSERT_NEAR(got[at(r, c, columns)], p, 1e-5 * p);
    }
  }
}

TEST(Api, Histogram) {
  const int n = 10000, bins = 37;
  std::vector<i32> values(n);
  for (int i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = (i * 7919) % 41 - 2;  // some outside on both sides
  const auto x = from(values, {n}).sync();
  auto counts = zeros<i32>({bins}).sync();
  kernel<histogram<1024>>.blocks(ceil_div(n, 1024))(mut(counts), x).sync();
  std::vector<i32> want(bins, 0);
  for (const i32 v : values) {
    if (v >= 0 && v < bins) ++want[static_cast<std::size_t>(v)];
  }
  EXPECT_EQ(host(counts).sync(), want);
  counts = kernel<histogram<1024>>.blocks(ceil_div(n, 1024))(std::move(counts), x).sync();
  for (i32& w : want) w *= 2;
  EXPECT_EQ(host(counts).sync(), want);
}

TEST(Api, ReduceAndArgmax) {
  const int rows = 5, columns = 30;
  const auto x = random::normal<f32>({rows, columns}, 18).sync();
  auto [value, index, total] =
      kernel<row_extremes<32>>(empty<f32>({rows}), empty<i32>({rows}), empty<f32>({rows}), x).sync();
  const auto in = doubles(x), gv = doubles(value), gt = doubles(total);
  const auto gi = host(index).sync();
  for (int r = 0; r < rows; ++r) {
    const auto row = in.begin() + r * columns;
    const auto best = std::max_element(row, row + columns);
    EXPECT_EQ(gv[static_cast<std::size_t>(r)], *best);
    EXPECT_EQ(gi[static_cast<std::size_t>(r)], best - row);
    double longest = 0;
    std::for_each(row, row + columns, [&](double v) { longest = std::max(longest, std::abs(v)); });
    EXPECT_EQ(gt[static_cast<std::size_t>(r)], longest);
  }
}

TEST(Api, DeviceControlFlow) {
  auto y = kernel<collatz<64>>(empty<i32>({200}), arange<i32>(200)).sync();
  const auto got = host(y).sync();
  for (int i = 0; i < 200; ++i) {
    int largest = 0;
    for (int k = i / 64 * 64; k < std::min(200, i / 64 * 64 + 64);
         ++k) {  // a block goes on until all its elements have arrived
      int steps = 0;
      for (long v = k; v > 1; v = v % 2 ? 3 * v + 1 : v / 2) ++steps;
      if (k == i) largest = steps;
    }
    ASSERT_EQ(got[static_cast<std::size_t>(i)], largest) << i;
  }
}

}  // namespace THIS_FILE
