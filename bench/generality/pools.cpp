// Pooling: the largest of each 2x2, the mean of each 3x3.
#include <algorithm>

#include "cases.hpp"

namespace generality {
namespace {

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

}  // namespace

std::vector<Entry> pool_entries() {
  return {entry<max_pool_plan>("max_pool", "images=256 n=512", "images=2 n=128; images=2 n=50"),
          entry<average_pool_plan>("average_pool", "images=256 n=512", "images=2 n=128; images=2 n=50")};
}

}  // namespace generality
