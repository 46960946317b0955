// Pooling: the largest of each 2x2, the mean of each 3x3, the largest of windows along rows and of overlapping
// squares, means of whole planes, lengths of each 4x4.
#include <algorithm>
#include <cmath>

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

/// 3x3 with a stride of 2, which overlap; what is outside of the images does not count.
template <int BM, int BN>
void overlapping_max_pool(Mut<f16, 1, BM, BN> y, In<f16, dyn, dyn, dyn> x) {
  auto [image, i, j] = y.origin();
  auto rows = (iota<i32, 1, BM, 1>(axis<1>) + i) * 2 - 1, columns = (iota<i32, 1, 1, BN>(axis<2>) + j) * 2 - 1;
  auto best = full<f16, 1, BM, BN>(-65504.0f);
  for (int di = 0; di < 3; ++di)
    for (int dj = 0; dj < 3; ++dj) best = max(best, x.gather(image, rows + di, columns + dj, pad::neg_inf));
  y.store(best);
}

/// The mean of each plane: image, channel, place.
template <int C>
void plane_means(Mut<f32, 1, 1> y, In<bf16, dyn, dyn, dyn> x) {
  auto [image, channel] = y.index();
  auto X = x.tiles(shape<1, 1, C>);
  auto total = zeros<f32, 1, 1, C>();
  for (auto k : range(X.count(2))) total += cast<f32>(X.load(image, channel, k));
  y.store(full<f32, 1, 1>(sum(total) / cast<f32>(x.dim(2))));
}

/// The length of each 4x4 as a vector: plane, row of squares, row, square, column.
template <int BM, int BN>
void square_lengths(Mut<f32, 1, BM, BN> y, In<f32, dyn, dyn, 4, dyn, 4> x) {
  auto [plane, i, j] = y.index();
  auto t = x.tiles(shape<1, BM, 4, BN, 4>).load(plane, i, 0, j, 0);
  y.store(reshape(sqrt(sum(sum(t * t, axis<4>), axis<2>)), shape<1, BM, BN>));
}

Plan overlapping_max_pool_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f16>(1, images, m, n);
  const Size rows = (m - 1) / 2 + 1, columns = (n - 1) / 2 + 1;
  const auto wanted = [=](Size at) {
    const Size image = at / (rows * columns), i = at / columns % rows * 2, j = at % columns * 2;
    double best = -INFINITY;
    for (Size a = std::max<Size>(i - 1, 0); a <= std::min(i + 1, m - 1); ++a) {
      for (Size b = std::max<Size>(j - 1, 0); b <= std::min(j + 1, n - 1); ++b) best = std::max(best, x(image, a, b));
    }
    return best;
  };
  return plan(
      {bytes_of<f16>(images * (m * n + rows * columns))},
      outputs(by_offset<f16>(wanted, images, rows, columns).within(0)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<overlapping_max_pool<16, 64>>(mut(y), from).on(on); });
}

Plan plane_means_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels"),
             places = size_of_case(args, "places");
  const auto x = uniform<bf16>(1, 0, 1, images, channels, places);
  const auto wanted = [=](Size at) {
    return sum_over(places, [=](Size k) { return x.at(at * places + k); }) / static_cast<double>(places);
  };
  return plan({bytes_of<bf16>(images * channels * places)},
              outputs(by_offset<f32>(wanted, images, channels).within(1e-4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<plane_means<1024>>(mut(y), from).on(on); });
}

Plan square_lengths_plan(const Args& args) {
  const Size planes = size_of_case(args, "planes"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, planes, m, 4, n, 4);
  const auto wanted = [=](Size at) {
    const Size plane = at / (m * n), i = at / n % m, j = at % n;
    return std::sqrt(sum_over(16, [=](Size k) { return std::pow(x(plane, i, k / 4, j, k % 4), 2); }));
  };
  return plan({17 * bytes_of<f32>(planes * m * n)}, outputs(by_offset<f32>(wanted, planes, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<square_lengths<8, 32>>(mut(y), from).on(on); });
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
          entry<overlapping_max_pool_plan>("overlapping_max_pool", "pools",
                                           "images=2048 m=256 n=256; images=3001 m=133 n=201; images=301 m=301 n=333",
                                           "images=2 m=64 n=128; images=3 m=37 n=51"),
          entry<plane_means_plan>("plane_means", "pools",
                                  "images=128 channels=512 places=4096; images=301 channels=777 places=1001; "
                                  "images=2001 channels=2048 places=49",
                                  "images=2 channels=4 places=2048; images=3 channels=5 places=77"),
          entry<square_lengths_plan>("square_lengths", "pools",
                                     "planes=512 m=64 n=128; planes=301 m=77 n=133; planes=5 m=333 n=1001",
                                     "planes=2 m=16 n=32; planes=3 m=13 n=21"),
          entry<max_pool_1d_plan>("max_pool_1d", "pools",
                                  "rows=4096 length=20000; rows=10001 length=7001; rows=333 length=150001",
                                  "rows=3 length=5000; rows=2 length=302")};
}

}  // namespace generality
