// `using namespace tessera` and `using namespace std` together, over everything that API.md shows (but `empty`, where
// C++ prefers std::empty for a braced list of numbers).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <ranges>
#include <string>
#include <tessera/tessera.hpp>
#include <thread>
#include <vector>

namespace THIS_FILE {

using namespace std;
using namespace tessera;

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}
template <int BM, int BN, int D>
void attention(Mut<bf16, 1, 1, BM, D> o, In<bf16, dyn, dyn, dyn, D> q, In<bf16, dyn, dyn, dyn, D> k,
               In<bf16, dyn, dyn, dyn, D> v, Scalar<f32> scale) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, block, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-infinity<f32>), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  for (auto j : range(min(K.count(2), ceil_div((block + 1) * BM, BN)))) {
    auto s = mma(Q, transpose(reshape(K.load(batch, kv_head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) *
             (scale * log2e<f32>);
    tile_if ((j + 1) * BN > block * BM || (j + 1) * BN > k.dim(2)) {
      auto cols = iota<i32, 1, BN>(axis<1>) + j * BN;
      s = where(rows >= cols && cols < k.dim(2), s, -infinity<f32>);
    }
    auto m2 = max(m, max(s, axis<1>));
    auto p = exp2(s - m2);
    auto alpha = exp2(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), reshape(V.load(batch, kv_head, j, 0), shape<BN, D>), acc * alpha);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, 1, BM, D>));
}

TEST(WithStd, HostPrograms) {
  auto x = random::normal<f32>({64, 32}, 1).sync();
  auto b = cast<bf16>(x).sync();
  vector<f32> h = host(x).sync();
  auto t = from(span(h), {64, 32}).sync();
  EXPECT_EQ(host(t).sync(), h);
  auto v = x.view().slice<0>(0, 16).permute<1, 0>();
  auto u = random::uniform<f32>({3}, 1).sync();
  auto f = full<f32>({2, 3}, 1.0).sync();
  auto numbers = arange<i32>(5).sync();
  auto copy = clone(f).sync();
  copy_into(mut(copy), f).sync();
  auto shared = share(std::move(f));
  EXPECT_EQ(to_string(5) + to_string(numbers), "5Tensor<i32, 1> [5] on cpu\n[0, 1, 2, 3, 4]");
  EXPECT_EQ(max(1, 2) + min(3, 4), 5);

  auto y = zeros<f32>({300}).sync(), w = zeros<f32>({300}).sync();
  auto o = ones<f32>({300}).sync();
  auto [p, q] = all(kernel<saxpy<128>>(std::move(y), 2.0f, o), kernel<saxpy<128>>(std::move(w), 2.0f, o)).sync();
  EXPECT_EQ(host(p).sync(), vector<f32>(300, 2.0f));
  auto a = full<bf16>({1, 1, 4, 32}, 0.5f).sync();
  auto out = kernel<attention<32, 32, 32>>(empty_like(a), a, a, a, 1.0f).sync();
  EXPECT_EQ(host(cast<f32>(out)).sync(), vector<f32>(128, 0.5f));
  auto fresh = tessera::empty<f32>({4096, 1024}).sync();
  EXPECT_EQ(fresh.dim(1), 1024);
}

}  // namespace THIS_FILE
