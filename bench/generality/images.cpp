// Images: edges, medians, grey values, patches, reflected borders, other sizes.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;  // of im2col
constexpr int kPad = 3;       // of reflect_pad

template <int BM, int BN>
void sobel(Mut<u8, BM, BN> y, In<u8, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto at = [&](int di, int dj) { return cast<i32>(x.load_at(shape<BM, BN>, i + di, j + dj)); };
  auto gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
  auto gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
  auto length = sqrt(cast<f32>(gx * gx + gy * gy));
  y.store(cast<u8>(min(length, 255.0f)));
}

/// The median of 3x3 neighbours; zeros around the image.
template <int BM, int BN>
void median_filter(Mut<u8, BM, BN> y, In<u8, dyn, dyn> x) {
  auto [i, j] = y.origin();
  std::vector<Tile<u8, BM, BN>> v;
  for (int di = -1; di <= 1; ++di)
    for (int dj = -1; dj <= 1; ++dj) v.push_back(x.load_at(shape<BM, BN>, i + di, j + dj));
  for (std::size_t last = 8; last >= 4; --last) {  // the largest ones move to the end
    for (std::size_t k = 0; k < last; ++k) {
      auto low = min(v[k], v[k + 1]), high = max(v[k], v[k + 1]);
      v[k] = low;
      v[k + 1] = high;
    }
  }
  y.store(v[4]);
}

template <int BM, int BN>
void rgb_to_grey(Mut<f32, BM, BN> y, In<u8, dyn, dyn, 3> x) {
  auto [row, column] = y.origin();
  auto i = iota<i32, BM, 1>(axis<0>) + row;
  auto j = iota<i32, 1, BN>(axis<1>) + column;
  auto r = cast<f32>(x.gather(i, j, 0)), g = cast<f32>(x.gather(i, j, 1)), b = cast<f32>(x.gather(i, j, 2));
  y.store((0.299f * r + 0.587f * g + 0.114f * b) / 255.0f);
}

/// Four channels become 2x2 pixels: image, channel, row, column.
template <int BM, int BN>
void pixel_shuffle(Mut<f32, 1, 1, BM, BN> y, In<f32, dyn, dyn, dyn, dyn> x) {
  auto [image, channel, row, column] = y.origin();
  auto i = iota<i32, 1, 1, BM, 1>(axis<2>) + row;
  auto j = iota<i32, 1, 1, 1, BN>(axis<3>) + column;
  y.store(x.gather(image, channel * 4 + i % 2 * 2 + j % 2, i / 2, j / 2));
}

/// 3x3 patches as columns: image, channel * 9 + place in the patch, place of the patch; zeros around the image.
template <int B>
void im2col(Mut<bf16, 1, 1, B> y, In<bf16, dyn, dyn, dyn, dyn> x) {
  auto [image, row, first] = y.origin();
  auto channel = row / 9, di = row % 9 / 3 - 1, dj = row % 3 - 1;
  auto place = iota<i32, 1, 1, B>(axis<2>) + first;
  y.store(x.gather(image, channel, place / x.dim(3) + di, place % x.dim(3) + dj));
}

template <int BM, int BN>
void reflect_pad(Mut<f32, 1, BM, BN> y, In<f32, dyn, dyn, dyn> x) {
  auto [image, row, column] = y.origin();
  auto i = abs(iota<i32, 1, BM, 1>(axis<1>) + row - kPad);
  auto j = abs(iota<i32, 1, 1, BN>(axis<2>) + column - kPad);
  auto bottom = x.dim(1) - 1, right = x.dim(2) - 1;
  y.store(x.gather(image, bottom - abs(bottom - i), right - abs(right - j)));
}

/// To one and a half times each extent.
template <int A, int B, int C>
void nearest_3d(Mut<f32, A, B, C> y, In<f32, dyn, dyn, dyn> x) {
  auto [i0, j0, k0] = y.origin();
  auto i = iota<i32, A, 1, 1>(axis<0>) + i0;
  auto j = iota<i32, 1, B, 1>(axis<1>) + j0;
  auto k = iota<i32, 1, 1, C>(axis<2>) + k0;
  y.store(x.gather(i * 2 / 3, j * 2 / 3, k * 2 / 3));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan sobel_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, m, n);
  const auto wanted = [=](Size offset) {
    const Size i = offset / n, j = offset % n;
    const auto at = [&](Size di, Size dj) { return x(i + di, j + dj); };
    const double gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
    const double gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
    return std::floor(std::min(std::sqrt(gx * gx + gy * gy), 255.0));
  };
  return plan({2 * bytes_of<u8>(m * n)}, outputs(by_offset<u8>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<sobel<32, 64>>(mut(y), from).on(on); });
}

Plan median_filter_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, m, n);
  const auto wanted = [=](Size at) {
    std::vector<double> v;
    for (Size d = 0; d < 9; ++d) v.push_back(x(at / n + d / 3 - 1, at % n + d % 3 - 1));
    std::sort(v.begin(), v.end());
    return v[4];
  };
  return plan({2 * bytes_of<u8>(m * n)}, outputs(by_offset<u8>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<median_filter<32, 64>>(mut(y), from).on(on); });
}

Plan rgb_to_grey_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, m, n, 3);
  const auto wanted = [=](Size at) {
    return (0.299 * x.at(3 * at) + 0.587 * x.at(3 * at + 1) + 0.114 * x.at(3 * at + 2)) / 255;
  };
  return plan({bytes_of<u8>(3 * m * n) + bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<rgb_to_grey<32, 64>>(mut(y), from).on(on); });
}

Plan pixel_shuffle_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, 12, n, n);
  const auto wanted = [=](Size at) {
    const Size j = at % (2 * n), i = at / (2 * n) % (2 * n), channel = at / (4 * n * n);
    return x(channel / 3, channel % 3 * 4 + i % 2 * 2 + j % 2, i / 2, j / 2);
  };
  return plan({2 * bytes_of<f32>(images * 12 * n * n)},
              outputs(by_offset<f32>(wanted, images, 3, 2 * n, 2 * n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<pixel_shuffle<16, 64>>(mut(y), from).on(on); });
}

Plan im2col_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels"),
             n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, images, channels, n, n);
  const auto wanted = [=](Size at) {
    const Size place = at % (n * n), line = at / (n * n), row = line % (9 * channels);
    return x(line / (9 * channels), row / 9, place / n + row % 9 / 3 - 1, place % n + row % 3 - 1);
  };
  return plan({10 * bytes_of<bf16>(images * channels * n * n)},
              outputs(by_offset<bf16>(wanted, images, 9 * channels, n * n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<im2col<kPiece>>(mut(y), from).on(on); });
}

Plan reflect_pad_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, m, n);
  const Size to_m = m + 2 * kPad, to_n = n + 2 * kPad;
  const auto wanted = [=](Size at) {
    const Size i = std::abs(at / to_n % to_m - kPad), j = std::abs(at % to_n - kPad);
    return x(at / to_n / to_m, m - 1 - std::abs(m - 1 - i), n - 1 - std::abs(n - 1 - j));
  };
  return plan({bytes_of<f32>(images * (m * n + to_m * to_n))},
              outputs(by_offset<f32>(wanted, images, to_m, to_n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<reflect_pad<16, 64>>(mut(y), from).on(on); });
}

Plan nearest_3d_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), to = n * 3 / 2;
  const auto x = normal<f32>(1, n, n, n);
  const auto wanted = [=](Size at) { return x(at / to / to * 2 / 3, at / to % to * 2 / 3, at % to * 2 / 3); };
  return plan({bytes_of<f32>(n * n * n + to * to * to)}, outputs(by_offset<f32>(wanted, to, to, to).within(0)),
              inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<nearest_3d<4, 8, 64>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> image_entries() {
  return {
      entry<sobel_plan>("sobel", "images", "m=16000 n=16000; m=9001 n=20003; m=50001 n=1333", "m=64 n=128; m=37 n=71"),
      entry<median_filter_plan>("median_filter", "images", "m=16000 n=16000; m=9001 n=20003; m=30001 n=1333",
                                "m=64 n=128; m=37 n=71"),
      entry<rgb_to_grey_plan>("rgb_to_grey", "images", "m=8192 n=10000; m=5001 n=11003; m=30007 n=777",
                              "m=64 n=80; m=37 n=71"),
      entry<pixel_shuffle_plan>("pixel_shuffle", "moves", "images=32 n=512; images=20 n=401; images=500 n=53",
                                "images=1 n=64; images=2 n=21"),
      entry<im2col_plan>("im2col", "moves",
                         "images=32 channels=32 n=120; images=20 channels=24 n=113; images=100 channels=67 n=29",
                         "images=1 channels=4 n=40; images=2 channels=3 n=13"),
      entry<reflect_pad_plan>("reflect_pad", "moves",
                              "images=64 m=1000 n=1000; images=30 m=777 n=1501; images=500 m=211 n=333",
                              "images=2 m=40 n=80; images=3 m=11 n=21"),
      entry<nearest_3d_plan>("nearest_3d", "moves", "n=320; n=250; n=171", "n=64; n=22")};
}

}  // namespace generality
