// Weighted sums of neighbours: convolutions and stencils.
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kTaps = 4;  // of the causal convolution
constexpr int kFilterTaps = 8;
constexpr int kFrom = 4, kTo = 8;  // channels of the 3x3 convolution

/// Depthwise along the time, causal, with SiLU: batch, time, channel.
template <int T, int C>
void causal_convolution(Mut<bf16, 1, T, C> y, In<bf16, dyn, dyn, dyn> x, In<bf16, kTaps, dyn> w) {
  auto [b, t, c] = y.origin();
  auto acc = zeros<f32, 1, T, C>();
  for (int tap = 0; tap < kTaps; ++tap) {
    auto weight = reshape(w.load_at(shape<1, C>, tap, c), shape<1, 1, C>);
    acc += cast<f32>(x.load_at(shape<1, T, C>, b, t - 3 + tap, c)) * cast<f32>(weight);
  }
  y.store(cast<bf16>(acc / (1.0f + exp(-acc))));
}

/// Depthwise 3x3 over images with the channels last: batch, row, column, channel; zeros around them.
template <int W, int C>
void depthwise_3x3(Mut<bf16, 1, 1, W, C> y, In<bf16, dyn, dyn, dyn, dyn> x, In<bf16, 3, 3, dyn> w) {
  auto [b, i, j, c] = y.origin();
  auto acc = zeros<f32, 1, 1, W, C>();
  for (int di = 0; di < 3; ++di) {
    for (int dj = 0; dj < 3; ++dj) {
      auto weight = reshape(w.load_at(shape<1, 1, C>, di, dj, c), shape<1, 1, 1, C>);
      acc += cast<f32>(x.load_at(shape<1, 1, W, C>, b, i + di - 1, j + dj - 1, c)) * cast<f32>(weight);
    }
  }
  y.store(cast<bf16>(acc));
}

/// A filter of 8 taps along the time, one for each channel: batch, time, channel.
template <int T, int C>
void filter_8(Mut<bf16, 1, T, C> y, In<bf16, dyn, dyn, dyn> x, In<f32, kFilterTaps, dyn> w) {
  auto [b, t, c] = y.origin();
  auto acc = zeros<f32, 1, T, C>();
  for (int tap = 0; tap < kFilterTaps; ++tap) {
    auto weight = reshape(w.load_at(shape<1, C>, tap, c), shape<1, 1, C>);
    acc += cast<f32>(x.load_at(shape<1, T, C>, b, t - (kFilterTaps - 1) + tap, c)) * weight;
  }
  y.store(cast<bf16>(acc));
}

template <int A, int B, int C>
void seven_point_stencil(Mut<f32, A, B, C> y, In<f32, dyn, dyn, dyn> x) {
  auto [i, j, k] = y.origin();
  auto s = -6.0f * x.load_like(y);
  for (int d : {-1, 1}) {
    s += x.load_at(shape<A, B, C>, i + d, j, k);
    s += x.load_at(shape<A, B, C>, i, j + d, k);
    s += x.load_at(shape<A, B, C>, i, j, k + d);
  }
  y.store(s);
}

template <int BM, int BN>
void jacobi(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x, In<f32, dyn, dyn> f) {
  auto [i, j] = y.origin();
  auto s = f.load_like(y);
  for (int d : {-1, 1}) s += x.load_at(shape<BM, BN>, i + d, j) + x.load_at(shape<BM, BN>, i, j + d);
  y.store(0.25f * s);
}

/// Means of 3x3 neighbours; zeros around the image.
template <int BM, int BN>
void box_blur(Mut<bf16, BM, BN> y, In<bf16, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = zeros<f32, BM, BN>();
  for (int di = -1; di <= 1; ++di)
    for (int dj = -1; dj <= 1; ++dj) s += cast<f32>(x.load_at(shape<BM, BN>, i + di, j + dj));
  y.store(cast<bf16>(s * (1.0f / 9.0f)));
}

/// Images as batch, channel, height, width; zeros around them.
template <int BH, int BW>
void convolution_3x3(Mut<f32, 1, 1, BH, BW> y, In<f32, dyn, kFrom, dyn, dyn> x, In<f32, dyn, kFrom, 3, 3> w) {
  auto [b, to, i, j] = y.origin();
  auto acc = zeros<f32, 1, 1, BH, BW>();
  for (int from = 0; from < kFrom; ++from) {
    for (int di = 0; di < 3; ++di) {
      for (int dj = 0; dj < 3; ++dj) {
        auto weight = w.load_at(shape<1, 1, 1, 1>, to, from, di, dj);
        acc += weight * x.load_at(shape<1, 1, BH, BW>, b, from, i + di - 1, j + dj - 1);
      }
    }
  }
  y.store(acc);
}

/// The neighbours of the last row are the first one and the last but one.
template <int BM, int BN>
void periodic_laplacian(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x) {
  auto m = x.dim(0), n = x.dim(1);
  auto [row, column] = y.origin();
  auto i = iota<i32, BM, 1>(axis<0>) + row;
  auto j = iota<i32, 1, BN>(axis<1>) + column;
  auto vertical = x.gather((i + m - 1) % m, j) + x.gather((i + 1) % m, j);
  auto horizontal = x.gather(i, (j + n - 1) % n) + x.gather(i, (j + 1) % n);
  y.store(vertical + horizontal - 4.0f * x.load_like(y));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan causal_convolution_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             channels = size_of_case(args, "channels");
  const auto x = normal<bf16>(1, batch, length, channels);
  const auto w = normal<bf16>(2, kTaps, channels);
  const auto wanted = [=](Size at) {
    const Size c = at % channels, t = at / channels % length, b = at / channels / length;
    double s = 0;
    for (Size tap = 0; tap < kTaps; ++tap) s += x(b, t - 3 + tap, c) * w(tap, c);
    return s / (1 + std::exp(-s));
  };
  return plan(
      {2 * bytes_of<bf16>(batch * length * channels)}, outputs(by_offset<bf16>(wanted, batch, length, channels)),
      inputs(x, w),
      [](const Stream& on, auto& y, const auto&... in) { kernel<causal_convolution<16, 128>>(mut(y), in...).on(on); });
}

Plan depthwise_3x3_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), n = size_of_case(args, "n"),
             channels = size_of_case(args, "channels");
  const auto x = normal<bf16>(1, batch, n, n, channels);
  const auto w = normal<bf16>(2, 3, 3, channels);
  const auto wanted = [=](Size at) {
    const Size c = at % channels, j = at / channels % n, i = at / channels / n % n, b = at / channels / n / n;
    double s = 0;
    for (Size d = 0; d < 9; ++d) s += x(b, i + d / 3 - 1, j + d % 3 - 1, c) * w(d / 3, d % 3, c);
    return s;
  };
  return plan({2 * bytes_of<bf16>(batch * n * n * channels)}, outputs(by_offset<bf16>(wanted, batch, n, n, channels)),
              inputs(x, w), [](const Stream& on, auto& y, const auto&... in) {
                kernel<depthwise_3x3<16, 64>>(mut(y), in...).on(on);
              });
}

Plan filter_8_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             channels = size_of_case(args, "channels");
  const auto x = normal<bf16>(1, batch, length, channels);
  const auto w = normal<f32>(2, kFilterTaps, channels);
  const auto wanted = [=](Size at) {
    const Size c = at % channels, t = at / channels % length, b = at / channels / length;
    double s = 0;
    for (Size tap = 0; tap < kFilterTaps; ++tap) s += x(b, t - (kFilterTaps - 1) + tap, c) * w(tap, c);
    return s;
  };
  return plan({2 * bytes_of<bf16>(batch * length * channels)},
              outputs(by_offset<bf16>(wanted, batch, length, channels)), inputs(x, w),
              [](const Stream& on, auto& y, const auto&... in) { kernel<filter_8<32, 64>>(mut(y), in...).on(on); });
}

Plan seven_point_stencil_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), depth = size_of_case(args, "depth");
  const auto x = normal<f32>(1, depth, n, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n / n, j = at / n % n, k = at % n;
    return x(i - 1, j, k) + x(i + 1, j, k) + x(i, j - 1, k) + x(i, j + 1, k) + x(i, j, k - 1) + x(i, j, k + 1) -
           6 * x(i, j, k);
  };
  return plan(
      {2 * bytes_of<f32>(depth * n * n)}, outputs(by_offset<f32>(wanted, depth, n, n)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<seven_point_stencil<4, 8, 64>>(mut(y), from).on(on); });
}

Plan jacobi_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, m, n), f = normal<f32>(2, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    return 0.25 * (f(i, j) + x(i - 1, j) + x(i + 1, j) + x(i, j - 1) + x(i, j + 1));
  };
  return plan({3 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x, f),
              [](const Stream& on, auto& y, const auto&... in) { kernel<jacobi<32, 64>>(mut(y), in...).on(on); });
}

Plan box_blur_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    double s = 0;
    for (Size d = 0; d < 9; ++d) s += x(i + d / 3 - 1, j + d % 3 - 1);
    return s / 9;
  };
  return plan({2 * bytes_of<bf16>(m * n)}, outputs(by_offset<bf16>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<box_blur<32, 64>>(mut(y), from).on(on); });
}

Plan convolution_3x3_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, batch, kFrom, n, n), w = normal<f32>(2, kTo, kFrom, 3, 3);
  const auto wanted = [=](Size at) {
    const Size j = at % n, i = at / n % n, to = at / n / n % kTo, b = at / n / n / kTo;
    double s = 0;
    for (Size from = 0; from < kFrom; ++from) {
      for (Size d = 0; d < 9; ++d) s += w(to, from, d / 3, d % 3) * x(b, from, i + d / 3 - 1, j + d % 3 - 1);
    }
    return s;
  };
  return plan(
      {bytes_of<f32>(batch * n * n * (kFrom + kTo))}, outputs(by_offset<f32>(wanted, batch, kTo, n, n)), inputs(x, w),
      [](const Stream& on, auto& y, const auto&... in) { kernel<convolution_3x3<16, 64>>(mut(y), in...).on(on); });
}

Plan periodic_laplacian_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    return x((i + m - 1) % m, j) + x((i + 1) % m, j) + x(i, (j + n - 1) % n) + x(i, (j + 1) % n) - 4 * x(i, j);
  };
  return plan(
      {2 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<periodic_laplacian<32, 64>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> window_entries() {
  return {
      entry<causal_convolution_plan>(
          "causal_convolution", "convolutions",
          "batch=16 length=4096 channels=4096; batch=20 length=3001 channels=2000; batch=77 length=777 channels=1001",
          "batch=2 length=32 channels=256; batch=2 length=21 channels=200"),
      entry<depthwise_3x3_plan>("depthwise_3x3", "convolutions",
                                "batch=32 n=128 channels=512; batch=50 n=101 channels=400; batch=200 n=53 channels=201",
                                "batch=2 n=32 channels=128; batch=1 n=13 channels=72"),
      entry<filter_8_plan>(
          "filter_8", "convolutions",
          "batch=16 length=4096 channels=4096; batch=20 length=3001 channels=2000; batch=77 length=777 channels=1001",
          "batch=2 length=64 channels=256; batch=2 length=21 channels=200"),
      entry<seven_point_stencil_plan>("seven_point_stencil", "stencils",
                                      "depth=640 n=640; depth=300 n=777; depth=3001 n=201",
                                      "depth=8 n=128; depth=7 n=70"),
      entry<jacobi_plan>("jacobi", "stencils", "m=16384 n=16384; m=9001 n=20003; m=50001 n=1777",
                         "m=64 n=128; m=50 n=70"),
      entry<box_blur_plan>("box_blur", "stencils", "m=16384 n=16384; m=9001 n=20003; m=50001 n=1777",
                           "m=64 n=128; m=50 n=70"),
      entry<convolution_3x3_plan>("convolution_3x3", "convolutions", "batch=64 n=512; batch=77 n=401; batch=1001 n=101",
                                  "batch=1 n=128; batch=2 n=50"),
      entry<periodic_laplacian_plan>("periodic_laplacian", "stencils",
                                     "m=10000 n=10000; m=5001 n=15003; m=50001 n=1111", "m=40 n=80; m=37 n=71")};
}

}  // namespace generality
