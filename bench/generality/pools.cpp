// Pooling: the largest of each 2x2, the mean of each 3x3, the largest of windows along rows.
#include <algorithm>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;  // of max_pool_1d

template <int BM, int BN>
void max_pool(Mut<f32, 1, BM, BN> y, In<f32, dyn, dyn, dyn> x) {
  auto [image, i, j] = y.index();
  auto t = reshape(x.tiles(shape<1, 2 * BM, 2 * BN>, pad::neg_inf).load(image, i, j), shape<BM, 2, BN, 2>);
  y.store(reshape(max(max(t, axis<3>), axis<1>), shape<1, BM, BN>));
}

/// Stride 1, zeros around the images.
template <int BM, int BN>
void average_pool(Mut<f32, 1, BM, BN> y, In<f32, dyn, dyn, dyn> x) {
  auto [image, i, j] = y.origin();
  auto s = zeros<f32, 1, BM, BN>();
  for (int di : {-1, 0, 1})
    for (int dj : {-1, 0, 1}) s += x.load_at(shape<1, BM, BN>, image, i + di, j + dj);
  y.store(s / 9.0f);
}

/// Windows of 5 with a stride of 3.
template <int B>
void max_pool_1d(Mut<f32, 1, B> y, In<f32, dyn, dyn> x) {
  auto [row, first] = y.origin();
  auto j = (iota<i32, 1, B>(axis<1>) + first) * 3;
  auto best = x.gather(row, j);
  for (int t = 1; t < 5; ++t) best = max(best, x.gather(row, j + t));
  y.store(best);
}

Plan max_pool_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, 2 * n, 2 * n);
  const auto wanted = [=](Size at) {
    const Size image = at / n / n, i = at / n % n * 2, j = at % n * 2;
    return std::max({x(image, i, j), x(image, i, j + 1), x(image, i + 1, j), x(image, i + 1, j + 1)});
  };
  return plan({5 * bytes_of<f32>(images * n * n)}, outputs(by_offset<f32>(wanted, images, n, n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<max_pool<8, 64>>(mut(y), from).on(on); });
}

Plan average_pool_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, n, n);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size d = 0; d < 9; ++d) s += x(at / n / n, at / n % n + d / 3 - 1, at % n + d % 3 - 1);
    return s / 9;
  };
  return plan({2 * bytes_of<f32>(images * n * n)}, outputs(by_offset<f32>(wanted, images, n, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<average_pool<16, 64>>(mut(y), from).on(on); });
}

Plan max_pool_1d_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), length = size_of_case(args, "length"), to = (length - 5) / 3 + 1;
  const auto x = normal<f32>(1, rows, length);
  const auto wanted = [=](Size at) {
    double best = -INFINITY;
    for (Size t = 0; t < 5; ++t) best = std::max(best, x(at / to, at % to * 3 + t));
    return best;
  };
  return plan({bytes_of<f32>(rows * (length + to))}, outputs(by_offset<f32>(wanted, rows, to).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<max_pool_1d<kPiece>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> pool_entries() {
  return {entry<max_pool_plan>("max_pool", "pools", "images=256 n=512; images=300 n=401; images=2000 n=101",
                               "images=2 n=128; images=2 n=50"),
          entry<average_pool_plan>("average_pool", "pools", "images=256 n=512; images=300 n=401; images=2000 n=101",
                                   "images=2 n=128; images=2 n=50"),
          entry<max_pool_1d_plan>("max_pool_1d", "pools",
                                  "rows=4096 length=20000; rows=10001 length=7001; rows=333 length=150001",
                                  "rows=3 length=5000; rows=2 length=302")};
}

}  // namespace generality
