// Images: samples at places of a grid, overlaps of boxes, sharpening, colours by hue, halves of images, the gradient of
// a pool, norms of channels, the cosine transform of blocks.
#include <algorithm>
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr float kNormEps = 1e-5f;  // of instance_norm
constexpr float kAmount = 1.5f;    // of unsharp_mask

/// Samples between four pixels, at places from -1 to 1 (x before y); zeros outside of the image.
template <int BM, int BN>
void grid_sample(Mut<f32, 1, 1, BM, BN> y, In<f32, dyn, dyn, dyn, dyn> x, In<f32, dyn, dyn, dyn, 2> grid) {
  auto [image, channel, i, j] = y.index();
  auto places = grid.tiles(shape<1, BM, BN, 2>).load(image, i, j, 0);
  auto coordinate = [&](int which, auto extent) {
    auto g = reshape(extract(places, shape<1, BM, BN, 1>, 0, 0, 0, which), shape<1, 1, BM, BN>);
    return ((g + 1.0f) * cast<f32>(extent) - 1.0f) * 0.5f;
  };
  auto h = coordinate(1, x.dim(2)), w = coordinate(0, x.dim(3));
  auto top = floor(h), left = floor(w);
  auto a = h - top, b = w - left;
  auto r = cast<i32>(top), c = cast<i32>(left);
  auto upper = x.gather(image, channel, r, c) * (1.0f - b) + x.gather(image, channel, r, c + 1) * b;
  auto lower = x.gather(image, channel, r + 1, c) * (1.0f - b) + x.gather(image, channel, r + 1, c + 1) * b;
  y.store(upper * (1.0f - a) + lower * a);
}

/// The common area of each pair of boxes (left, top, width, height), as a share of the area of both.
template <int BM, int BN>
void box_overlaps(Mut<f32, BM, BN> y, In<f32, dyn, 4> a, In<f32, dyn, 4> b) {
  auto [i, j] = y.index();
  auto A = a.tiles(shape<BM, 1>), B = b.tiles(shape<BN, 1>);
  auto row = [&](int k) { return A.load(i, k); };
  auto column = [&](int k) { return reshape(B.load(j, k), shape<1, BN>); };
  auto width = min(row(0) + row(2), column(0) + column(2)) - max(row(0), column(0));
  auto height = min(row(1) + row(3), column(1) + column(3)) - max(row(1), column(1));
  auto common = max(width, 0.0f) * max(height, 0.0f);
  y.store(common / (row(2) * row(3) + column(2) * column(3) - common));
}

/// The image, and more of what differs from its blur by the weights 1 4 6 4 1.
template <int BM, int BN>
void unsharp_mask(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x, Scalar<f32> amount) {
  constexpr float kWeights[] = {1, 4, 6, 4, 1};
  auto [i, j] = y.origin();
  auto blurred = zeros<f32, BM, BN>();
  for (int di = 0; di < 5; ++di) {
    for (int dj = 0; dj < 5; ++dj)
      blurred += kWeights[di] * kWeights[dj] / 256.0f * x.load_at(shape<BM, BN>, i + di - 2, j + dj - 2);
  }
  auto here = x.load_like(y);
  y.store(clamp(here + amount * (here - blurred), 0.0f, 1.0f));
}

/// Hue, saturation and value of planes of red, green and blue.
template <int B>
void rgb_to_hsv(Mut<f32, B> hue, Mut<f32, B> saturation, Mut<f32, B> value, In<f32, 3, dyn> x) {
  auto [start] = hue.origin();
  auto plane = [&](int k) { return reshape(x.load_at(shape<1, B>, k, start), shape<B>); };
  auto r = plane(0), g = plane(1), b = plane(2);
  auto most = max(max(r, g), b), range = most - min(min(r, g), b);
  auto divisor = where(range == 0.0f, 1.0f, range);
  auto sixth =
      where(most == r, (g - b) / divisor, where(most == g, (b - r) / divisor + 2.0f, (r - g) / divisor + 4.0f));
  auto h = sixth / 6.0f;
  hue.store(where(h < 0.0f, h + 1.0f, h));
  saturation.store(where(most == 0.0f, 0.0f, range / where(most == 0.0f, 1.0f, most)));
  value.store(most);
}

/// Images of half the width and height: means of four pixels of four bytes, rounded.
template <int BM, int BN>
void half_size(Mut<u8, BM, BN, 4> y, In<u8, dyn, dyn, 4> x) {
  auto [i, j, zero] = y.index();
  auto t = cast<i32>(x.tiles(shape<2 * BM, 2 * BN, 4>).load(i, j, 0));
  auto total = sum(sum(reshape(t, shape<BM, 2, BN, 2, 4>), axis<1>), axis<3>);
  y.store(cast<u8>((reshape(total, shape<BM, BN, 4>) + 2) / 4));
}

/// The gradient of a pool of 2x2: it goes to the first of the largest elements.
template <int BM, int BN>
void max_pool_gradient(Mut<f32, 1, 2 * BM, 2 * BN> dx, In<f32, dyn, dyn, dyn> x, In<f32, dyn, dyn, dyn> dy) {
  auto [plane, i, j] = dx.index();
  auto windows = reshape(permute(reshape(x.load_like(dx), shape<BM, 2, BN, 2>), order<0, 2, 1, 3>), shape<BM, BN, 4>);
  auto [most, place] = argmax(windows, axis<2>);
  auto d = reshape(dy.tiles(shape<1, BM, BN>).load(plane, i, j), shape<BM, BN, 1>);
  auto g = where(iota<i32, 1, 1, 4>(axis<2>) == place, d, 0.0f);
  dx.store(reshape(permute(reshape(g, shape<BM, BN, 2, 2>), order<0, 2, 1, 3>), shape<1, 2 * BM, 2 * BN>));
}

/// Each channel of each image without its mean, divided by its deviation; image, channel, pixel.
template <int N>
void instance_norm(Mut<bf16, 1, 1, N> y, In<bf16, dyn, dyn, dyn> x, In<f32, dyn> weight, In<f32, dyn> bias,
                   Scalar<f32> eps) {
  require(x.dim(2) <= N, "all pixels must fit in one piece");
  auto t = cast<f32>(x.load_like(y));
  auto n = cast<f32>(x.dim(2));
  auto inside = iota<i32, 1, 1, N>(axis<2>) < x.dim(2);
  auto d = where(inside, t - sum(t, axis<2>) / n, 0.0f);
  auto scale = rsqrt(sum(d * d, axis<2>) / n + eps);
  y.store(cast<bf16>(d * scale * weight.load_like(y, axes<1>) + bias.load_like(y, axes<1>)));
}

/// The cosine transform of each block of 8x8 pixels: C x C^T.
template <int B>
void block_transform(Mut<f32, 8, 8 * B> y, In<f32, dyn, dyn> x, In<f32, 8, 8> cosines) {
  auto blocks = permute(reshape(x.load_like(y), shape<8, B, 8>), order<1, 0, 2>);
  auto c = reshape(cosines.load_at(shape<8, 8>, 0, 0), shape<1, 8, 8>);
  auto left = broadcast(c, shape<B, 8, 8>), right = broadcast(transpose(c), shape<B, 8, 8>);
  auto t = mma(mma(left, blocks, zeros<f32, B, 8, 8>()), right, zeros<f32, B, 8, 8>());
  y.store(reshape(permute(t, order<1, 0, 2>), shape<8, 8 * B>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan grid_sample_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels");
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, channels, m, n);
  const auto grid = uniform<f32>(2, -1.1, 1.1, images, m, n, 2);
  const auto wanted = [=](Size at) {
    const Size image = at / (channels * m * n), channel = at / (m * n) % channels, i = at / n % m, j = at % n;
    const double h = ((grid(image, i, j, 1) + 1) * static_cast<double>(m) - 1) / 2;
    const double w = ((grid(image, i, j, 0) + 1) * static_cast<double>(n) - 1) / 2;
    const auto r = static_cast<Size>(std::floor(h)), c = static_cast<Size>(std::floor(w));
    const double a = h - std::floor(h), b = w - std::floor(w);
    const auto at_row = [&](Size row) {
      return x(image, channel, row, c) * (1 - b) + x(image, channel, row, c + 1) * b;
    };
    return at_row(r) * (1 - a) + at_row(r + 1) * a;
  };
  // The places are rounded in f32, and count in pixels.
  return plan({bytes_of<f32>(2 * images * m * n * (channels + 1))},
              outputs(by_offset<f32>(wanted, images, channels, m, n).within(2e-4)), inputs(x, grid),
              [](const Stream& on, auto& y, const auto&... in) { kernel<grid_sample<8, 64>>(mut(y), in...).on(on); });
}

Plan box_overlaps_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto a = uniform<f32>(1, 1, 50, m, 4), b = uniform<f32>(2, 1, 50, n, 4);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    const auto length = [&](Size k) {
      return std::max(std::min(a(i, k) + a(i, k + 2), b(j, k) + b(j, k + 2)) - std::max(a(i, k), b(j, k)), 0.0);
    };
    const double common = length(0) * length(1);
    return common / (a(i, 2) * a(i, 3) + b(j, 2) * b(j, 3) - common);
  };
  return plan({bytes_of<f32>(m * n + 4 * (m + n))}, outputs(by_offset<f32>(wanted, m, n)), inputs(a, b),
              [](const Stream& on, auto& y, const auto&... in) { kernel<box_overlaps<32, 64>>(mut(y), in...).on(on); });
}

Plan unsharp_mask_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, 1, m, n);
  const auto wanted = [=](Size at) {
    constexpr double kWeights[] = {1, 4, 6, 4, 1};
    double blurred = 0;
    for (Size di = -2; di <= 2; ++di) {
      for (Size dj = -2; dj <= 2; ++dj)
        blurred += kWeights[di + 2] * kWeights[dj + 2] / 256 * x(at / n + di, at % n + dj);
    }
    const double here = x.at(at);
    return std::clamp(here + static_cast<double>(kAmount) * (here - blurred), 0.0, 1.0);
  };
  return plan(
      {2 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<unsharp_mask<32, 64>>(mut(y), from, kAmount).on(on); });
}

Plan rgb_to_hsv_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, 1, 3, n);
  const auto wanted = [=](int which) {
    return [=](Size i) {
      const double r = x(0, i), g = x(1, i), b = x(2, i);
      const double most = std::max({r, g, b}), range = most - std::min({r, g, b});
      if (which == 2) return most;
      if (which == 1) return most == 0 ? 0.0 : range / most;
      if (range == 0) return 0.0;
      const double sixth = most == r ? (g - b) / range : most == g ? (b - r) / range + 2 : (r - g) / range + 4;
      return sixth < 0 ? sixth / 6 + 1 : sixth / 6;
    };
  };
  return plan({6 * bytes_of<f32>(n)},
              outputs(by_offset<f32>(wanted(0), n), by_offset<f32>(wanted(1), n), by_offset<f32>(wanted(2), n)),
              inputs(x), [](const Stream& on, auto& h, auto& s, auto& v, const auto& from) {
                kernel<rgb_to_hsv<kPiece>>(mut(h), mut(s), mut(v), from).on(on);
              });
}

Plan half_size_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, 2 * m, 2 * n, 4);
  const auto wanted = [=](Size at) {
    const Size i = at / (4 * n) * 2, j = at / 4 % n * 2, k = at % 4;
    return std::floor((x(i, j, k) + x(i, j + 1, k) + x(i + 1, j, k) + x(i + 1, j + 1, k) + 2) / 4);
  };
  return plan({5 * bytes_of<u8>(4 * m * n)}, outputs(by_offset<u8>(wanted, m, n, 4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<half_size<16, 64>>(mut(y), from).on(on); });
}

Plan max_pool_gradient_plan(const Args& args) {
  const Size planes = size_of_case(args, "planes"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, planes, 2 * m, 2 * n), dy = normal<f32>(2, planes, m, n);
  const auto wanted = [=](Size at) {
    const Size plane = at / (4 * m * n), i = at / (2 * n) % (2 * m), j = at % (2 * n), r = i / 2, c = j / 2;
    Size best = 0;
    for (Size k = 1; k < 4; ++k) {
      if (x(plane, 2 * r + k / 2, 2 * c + k % 2) > x(plane, 2 * r + best / 2, 2 * c + best % 2)) best = k;
    }
    return i % 2 * 2 + j % 2 == best ? dy(plane, r, c) : 0.0;
  };
  return plan(
      {9 * bytes_of<f32>(planes * m * n)}, outputs(by_offset<f32>(wanted, planes, 2 * m, 2 * n)), inputs(x, dy),
      [](const Stream& on, auto& dx, const auto&... in) { kernel<max_pool_gradient<16, 32>>(mut(dx), in...).on(on); });
}

Plan instance_norm_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels");
  const Size pixels = size_of_case(args, "pixels");
  const auto x = normal<bf16>(1, images, channels, pixels);
  const auto weight = uniform<f32>(2, 0.5, 1.5, channels), bias = normal<f32>(3, channels);
  const auto wanted = [=](Size line) {
    std::vector<double> t;
    double mean = 0, square = 0;
    for (Size k = 0; k < pixels; ++k) t.push_back(x.at(line * pixels + k));
    for (const double v : t) mean += v / static_cast<double>(pixels);
    for (const double v : t) square += (v - mean) * (v - mean) / static_cast<double>(pixels);
    const double scale = weight(line % channels) / std::sqrt(square + static_cast<double>(kNormEps));
    for (double& v : t) v = (v - mean) * scale + bias(line % channels);
    return t;
  };
  return plan({2 * bytes_of<bf16>(images * channels * pixels)},
              outputs(by_line<bf16>(wanted, images, channels, pixels)), inputs(x, weight, bias),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<instance_norm<4096>>(mut(y), in..., kNormEps).on(on);
              });
}

Plan block_transform_plan(const Args& args) {
  const Size m = 8 * size_of_case(args, "m"), n = 8 * size_of_case(args, "n");
  const auto x = normal<f32>(1, m, n), cosines = normal<f32>(2, 8, 8);  // any matrix does
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n, r = i / 8 * 8, c = j / 8 * 8;
    double s = 0;
    for (Size a = 0; a < 8; ++a) {
      for (Size b = 0; b < 8; ++b) s += cosines(i - r, a) * x(r + a, c + b) * cosines(j - c, b);
    }
    return s;
  };
  return plan({2 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x, cosines),
              [](const Stream& on, auto& y, const auto&... in) { kernel<block_transform<16>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> vision_entries() {
  return {entry<grid_sample_plan>(
              "grid_sample", "images",
              "images=16 channels=32 m=250 n=300; images=20 channels=24 m=201 n=333; images=100 channels=67 m=53 n=77",
              "images=2 channels=2 m=10 n=20; images=1 channels=3 m=33 n=77"),
          entry<box_overlaps_plan>("box_overlaps", "distances", "m=8000 n=10000; m=5001 n=9003; m=50001 n=777",
                                   "m=64 n=80; m=33 n=77"),
          entry<unsharp_mask_plan>("unsharp_mask", "images", "m=7008 n=9000; m=4001 n=11003; m=30001 n=777",
                                   "m=64 n=72; m=33 n=41"),
          entry<rgb_to_hsv_plan>("rgb_to_hsv", "images", "n=30000000; n=25000003; n=4000001", "n=8448; n=5001"),
          entry<half_size_plan>("half_size", "images", "m=5000 n=6000; m=3001 n=7003; m=20001 n=777",
                                "m=40 n=80; m=33 n=41"),
          entry<max_pool_gradient_plan>("max_pool_gradient", "gradients",
                                        "planes=200 m=250 n=300; planes=133 m=201 n=401; planes=2000 m=53 n=77",
                                        "planes=2 m=26 n=36; planes=3 m=33 n=41"),
          entry<instance_norm_plan>("instance_norm", "norms",
                                    "images=128 channels=256 pixels=3136; images=100 channels=200 pixels=3001; "
                                    "images=333 channels=500 pixels=777",
                                    "images=2 channels=3 pixels=3136; images=2 channels=2 pixels=77"),
          entry<block_transform_plan>("block_transform", "signals", "m=1000 n=1000; m=601 n=1333; m=3001 n=77",
                                      "m=3 n=24; m=5 n=7")};
}

}  // namespace generality
