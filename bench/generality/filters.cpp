// Convolutions as products of shifted tiles, channels last, and by weighted sums of shifted loads, channels first.
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPatch = 16;  // pixels of a patch along each axis
constexpr int kTaps = 5, kApart = 2;

/// 3x3, for some places of one row: image, row, column, channel; the weights as row, column, from, to.
template <int W, int CI, int CO>
void filter_rows(Mut<f16, 1, 1, W, CO> y, In<f16, dyn, dyn, dyn, dyn> x, In<f16, 3, 3, dyn, dyn> w) {
  auto [image, i, j, to] = y.origin();
  auto acc = zeros<f32, W, CO>();
  for (int di = 0; di < 3; ++di) {
    for (int dj = 0; dj < 3; ++dj) {
      for (auto from : range(0, x.dim(3), CI)) {
        auto places = reshape(x.load_at(shape<1, 1, W, CI>, image, i + di - 1, j + dj - 1, from), shape<W, CI>);
        auto weights = reshape(w.load_at(shape<1, 1, CI, CO>, di, dj, from, to), shape<CI, CO>);
        acc = mma(places, weights, acc);
      }
    }
  }
  y.store(reshape(cast<f16>(acc), shape<1, 1, W, CO>));
}

/// 3x3 with a bias and ReLU, for squares of places; the taps are a loop on the device.
template <int BM, int BN, int CI, int CO>
void filter_squares(Mut<bf16, 1, BM, BN, CO> y, In<bf16, dyn, dyn, dyn, dyn> x, In<bf16, 9, dyn, dyn> w,
                    In<f32, dyn> bias) {
  auto [image, i, j, to] = y.origin();
  auto acc = zeros<f32, BM * BN, CO>();
  for (auto tap : range(9)) {
    for (auto from : range(0, x.dim(3), CI)) {
      auto places = x.load_at(shape<1, BM, BN, CI>, image, i + tap / 3 - 1, j + tap % 3 - 1, from);
      auto weights = w.load_at(shape<1, CI, CO>, tap, from, to);
      acc = mma(reshape(places, shape<BM * BN, CI>), reshape(weights, shape<CI, CO>), acc);
    }
  }
  auto sums = reshape(acc, shape<1, BM, BN, CO>) + bias.load_like(y, axes<3>);
  y.store(cast<bf16>(max(sums, 0.0f)));
}

/// Five taps along the time, two places apart, causal: batch, time, channel.
template <int T, int CI, int CO>
void time_filter(Mut<bf16, 1, T, CO> y, In<bf16, dyn, dyn, dyn> x, In<bf16, kTaps, dyn, dyn> w) {
  auto [batch, t, to] = y.origin();
  auto acc = zeros<f32, T, CO>();
  for (auto from : range(0, x.dim(2), CI)) {
    for (int tap = 0; tap < kTaps; ++tap) {
      auto places = x.load_at(shape<1, T, CI>, batch, t + (tap - kTaps + 1) * kApart, from);
      auto weights = w.load_at(shape<1, CI, CO>, tap, from, to);
      acc = mma(reshape(places, shape<T, CI>), reshape(weights, shape<CI, CO>), acc);
    }
  }
  y.store(reshape(cast<bf16>(acc), shape<1, T, CO>));
}

/// 2x2 with a stride of 2: x as image, row, upper or lower, column, left and right channels.
template <int W, int CI, int CO>
void halving_filter(Mut<f32, 1, 1, W, CO> y, In<f32, dyn, dyn, 2, dyn, dyn> x, In<f32, 2, dyn, dyn> w) {
  auto [image, i, j, to] = y.origin();
  auto acc = zeros<f32, W, CO>();
  for (int half = 0; half < 2; ++half) {
    for (auto from : range(0, x.dim(4), CI)) {
      auto places = reshape(x.load_at(shape<1, 1, 1, W, CI>, image, i, half, j, from), shape<W, CI>);
      auto weights = reshape(w.load_at(shape<1, CI, CO>, half, from, to), shape<CI, CO>);
      acc = mma(cast<tf32>(places), cast<tf32>(weights), acc);
    }
  }
  y.store(reshape(acc, shape<1, 1, W, CO>));
}

/// Patches of 16x16 pixels times weights: x as image, channel, row of patches, row, patch, column.
template <int P, int N>
void patch_embedding(Mut<bf16, 1, 1, P, N> y, In<bf16, dyn, dyn, dyn, kPatch, dyn, kPatch> x,
                     In<bf16, dyn, kPatch * kPatch, dyn> w) {
  auto [image, i, j, to] = y.origin();
  auto acc = zeros<f32, P, N>();
  for (auto channel : range(x.dim(1))) {
    auto pixels = x.load_at(shape<1, 1, 1, kPatch, P, kPatch>, image, channel, i, 0, j, 0);
    auto patches = transpose(reshape(pixels, shape<kPatch, P, kPatch>));  // the last two axes: row, column, patch
    auto weights = reshape(w.load_at(shape<1, kPatch * kPatch, N>, channel, 0, to), shape<kPatch * kPatch, N>);
    acc = mma(transpose(reshape(patches, shape<kPatch * kPatch, P>)), weights, acc);
  }
  y.store(reshape(cast<bf16>(acc), shape<1, 1, P, N>));
}

/// Depthwise 5x5: image, channel, row, column; zeros around the images.
template <int BM, int BN>
void depthwise_5x5(Mut<f32, 1, 1, BM, BN> y, In<f32, dyn, dyn, dyn, dyn> x, In<f32, dyn, 5, 5> w) {
  auto [image, channel, i, j] = y.origin();
  auto acc = zeros<f32, 1, 1, BM, BN>();
  for (auto di : range(5)) {
    for (auto dj : range(5)) {
      auto weight = w.gather(channel, di, dj);
      acc += weight * x.load_at(shape<1, 1, BM, BN>, image, channel, i + di - 2, j + dj - 2);
    }
  }
  y.store(acc);
}

/// 27 neighbours of a volume, each with a weight of its own.
template <int A, int B, int C>
void filter_3d(Mut<f32, A, B, C> y, In<f32, dyn, dyn, dyn> x, In<f32, 3, 3, 3> w) {
  auto [i, j, k] = y.origin();
  auto acc = zeros<f32, A, B, C>();
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 3; ++c)
        acc += w.load_at(shape<1, 1, 1>, a, b, c) * x.load_at(shape<A, B, C>, i + a - 1, j + b - 1, k + c - 1);
  y.store(acc);
}

/// What 3x3 weights get back: for each tap the transposed input, shifted, times the gradient.
template <int CI, int CO, int W>
void filter_gradient(Mut<f32, 1, CI, CO> dw, In<bf16, dyn, dyn, dyn, dyn> x, In<bf16, dyn, dyn, dyn, dyn> dy) {
  auto [tap, from, to] = dw.origin();
  auto acc = zeros<f32, CI, CO>();
  for (auto image : range(x.dim(0))) {
    for (auto i : range(x.dim(1))) {
      for (auto j : range(0, x.dim(2), W)) {
        auto in = x.load_at(shape<1, 1, W, CI>, image, i + tap / 3 - 1, j + tap % 3 - 1, from);
        auto out = dy.load_at(shape<1, 1, W, CO>, image, i, j, to);
        acc = mma(transpose(reshape(in, shape<W, CI>)), reshape(out, shape<W, CO>), acc);
      }
    }
  }
  dw.store(reshape(acc, shape<1, CI, CO>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

struct Filter {
  Size images, m, n, from, to;
  Cost cost;
  explicit Filter(const Args& args)
      : images(size_of_case(args, "images")),
        m(size_of_case(args, "m")),
        n(size_of_case(args, "n")),
        from(size_of_case(args, "from")),
        to(size_of_case(args, "to")) {
    const auto places = static_cast<double>(images * m * n);
    cost = {2 * places * static_cast<double>(from + to), 18 * places * static_cast<double>(from * to), "bf16"};
  }
  /// The sum over the taps and channels of f(tap, row, column, channel of the input), at an offset of the output.
  template <class F>
  double sum_at(Size at, F f) const {
    const Size j = at / to % n, i = at / to / n % m;
    double s = 0;
    for (Size tap = 0; tap < 9; ++tap)
      s += sum_over(from, [&](Size c) { return f(tap, i + tap / 3 - 1, j + tap % 3 - 1, c); });
    return s;
  }
};

Plan filter_rows_plan(const Args& args) {
  const Filter p(args);
  const auto x = normal<f16>(1, p.images, p.m, p.n, p.from);
  const auto w = uniform<f16>(2, -0.1, 0.1, 3, 3, p.from, p.to);
  const auto wanted = [=](Size at) {
    const Size image = at / (p.m * p.n * p.to), to = at % p.to;
    return p.sum_at(at,
                    [=](Size tap, Size i, Size j, Size c) { return x(image, i, j, c) * w(tap / 3, tap % 3, c, to); });
  };
  return plan(
      p.cost, outputs(by_offset<f16>(wanted, p.images, p.m, p.n, p.to)), inputs(x, w),
      [](const Stream& on, auto& y, const auto&... in) { kernel<filter_rows<64, 64, 128>>(mut(y), in...).on(on); });
}

Plan filter_squares_plan(const Args& args) {
  const Filter p(args);
  const auto x = normal<bf16>(1, p.images, p.m, p.n, p.from);
  const auto w = uniform<bf16>(2, -0.1, 0.1, 9, p.from, p.to);
  const auto bias = normal<f32>(3, p.to);
  const auto wanted = [=](Size at) {
    const Size image = at / (p.m * p.n * p.to), to = at % p.to;
    const double s = p.sum_at(at, [=](Size tap, Size i, Size j, Size c) { return x(image, i, j, c) * w(tap, c, to); });
    return std::max(s + bias(to), 0.0);
  };
  return plan(p.cost, outputs(by_offset<bf16>(wanted, p.images, p.m, p.n, p.to)), inputs(x, w, bias),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<filter_squares<8, 16, 32, 64>>(mut(y), in...).on(on);
              });
}

Plan time_filter_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             from = size_of_case(args, "from"), to = size_of_case(args, "to");
  const auto x = normal<bf16>(1, batch, length, from);
  const auto w = uniform<bf16>(2, -0.1, 0.1, kTaps, from, to);
  const auto wanted = [=](Size at) {
    const Size b = at / (length * to), t = at / to % length;
    double s = 0;
    for (Size tap = 0; tap < kTaps; ++tap)
      s += sum_over(from, [=](Size c) { return x(b, t + (tap - kTaps + 1) * kApart, c) * w(tap, c, at % to); });
    return s;
  };
  const auto places = static_cast<double>(batch * length);
  return plan(
      {2 * places * static_cast<double>(from + to), 2 * kTaps * places * static_cast<double>(from * to), "bf16"},
      outputs(by_offset<bf16>(wanted, batch, length, to)), inputs(x, w),
      [](const Stream& on, auto& y, const auto&... in) { kernel<time_filter<128, 64, 128>>(mut(y), in...).on(on); });
}

Plan halving_filter_plan(const Args& args) {
  const Filter p(args);  // m and n of the output
  const auto x = normal<f32>(1, p.images, p.m, 2, p.n, 2 * p.from);
  const auto w = uniform<f32>(2, -0.1, 0.1, 2, 2 * p.from, p.to);
  const auto wanted = [=](Size at) {
    const Size j = at / p.to % p.n, i = at / p.to / p.n % p.m, image = at / (p.m * p.n * p.to);
    return sum_over(4 * p.from, [=](Size k) {
      const Size half = k / (2 * p.from), c = k % (2 * p.from);
      return x(image, i, half, j, c) * w(half, c, at % p.to);
    });
  };
  return plan(
      {4 * static_cast<double>(p.images * p.m * p.n) * static_cast<double>(4 * p.from + p.to)},
      outputs(by_offset<f32>(wanted, p.images, p.m, p.n, p.to).within(2e-3)), inputs(x, w),  // tf32
      [](const Stream& on, auto& y, const auto&... in) { kernel<halving_filter<32, 32, 64>>(mut(y), in...).on(on); });
}

Plan patch_embedding_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n"),
             to = size_of_case(args, "to");
  constexpr Size kChannels = 3, kPixels = kPatch * kPatch;
  const auto x = normal<bf16>(1, images, kChannels, m, kPatch, n, kPatch);
  const auto w = uniform<bf16>(2, -0.1, 0.1, kChannels, kPixels, to);
  const auto wanted = [=](Size at) {
    const Size j = at / to % n, i = at / to / n % m, image = at / (m * n * to);
    return sum_over(kChannels * kPixels, [=](Size k) {
      const Size c = k / kPixels, a = k % kPixels / kPatch, b = k % kPatch;
      return x(image, c, i, a, j, b) * w(c, k % kPixels, at % to);
    });
  };
  return plan(
      {bytes_of<bf16>(images * m * n * (kChannels * kPixels + to)),
       2.0 * kChannels * kPixels * static_cast<double>(images * m * n * to), "bf16"},
      outputs(by_offset<bf16>(wanted, images, m, n, to)), inputs(x, w),
      [](const Stream& on, auto& y, const auto&... in) { kernel<patch_embedding<16, 128>>(mut(y), in...).on(on); });
}

Plan depthwise_5x5_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels"),
             m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, channels, m, n);
  const auto w = normal<f32>(2, channels, 5, 5);
  const auto wanted = [=](Size at) {
    const Size j = at % n, i = at / n % m, c = at / (m * n) % channels, image = at / (m * n * channels);
    return sum_over(25, [=](Size k) { return w(c, k / 5, k % 5) * x(image, c, i + k / 5 - 2, j + k % 5 - 2); });
  };
  return plan({2 * bytes_of<f32>(images * channels * m * n)}, outputs(by_offset<f32>(wanted, images, channels, m, n)),
              inputs(x, w), [](const Stream& on, auto& y, const auto&... in) {
                kernel<depthwise_5x5<16, 64>>(mut(y), in...).on(on);
              });
}

Plan filter_3d_plan(const Args& args) {
  const Size l = size_of_case(args, "l"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, l, m, n), w = normal<f32>(2, 3, 3, 3);
  const auto wanted = [=](Size at) {
    const Size i = at / (m * n), j = at / n % m, k = at % n;
    return sum_over(27, [=](Size t) {
      const Size a = t / 9, b = t / 3 % 3, c = t % 3;
      return w(a, b, c) * x(i + a - 1, j + b - 1, k + c - 1);
    });
  };
  return plan({2 * bytes_of<f32>(l * m * n)}, outputs(by_offset<f32>(wanted, l, m, n)), inputs(x, w),
              [](const Stream& on, auto& y, const auto&... in) { kernel<filter_3d<2, 8, 64>>(mut(y), in...).on(on); });
}

Plan filter_gradient_plan(const Args& args) {
  const Filter p(args);
  const auto x = normal<bf16>(1, p.images, p.m, p.n, p.from), dy = normal<bf16>(2, p.images, p.m, p.n, p.to);
  const auto wanted = [=](Size at) {
    const Size tap = at / (p.from * p.to), from = at / p.to % p.from, to = at % p.to;
    return sum_over(p.images * p.m * p.n, [=](Size k) {
      const Size image = k / (p.m * p.n), i = k / p.n % p.m, j = k % p.n;
      return x(image, i + tap / 3 - 1, j + tap % 3 - 1, from) * dy(image, i, j, to);
    });
  };
  return plan(p.cost, outputs(by_offset<f32>(wanted, 9, p.from, p.to).within(1e-3)), inputs(x, dy),
              [](const Stream& on, auto& dw, const auto&... in) {
                kernel<filter_gradient<64, 64, 64>>(mut(dw), in...).on(on);
              });
}

}  // namespace

std::vector<Entry> filter_entries() {
  return {
      entry<filter_rows_plan>("filter_rows", "convolutions",
                              "images=32 m=64 n=64 from=256 to=256; images=20 m=55 n=57 from=200 to=136; images=100 "
                              "m=27 n=29 from=129 to=257",
                              "images=1 m=3 n=64 from=64 to=128; images=2 m=3 n=13 from=9 to=11"),
      entry<filter_squares_plan>("filter_squares", "convolutions",
                                 "images=32 m=128 n=128 from=64 to=64; images=20 m=101 n=133 from=72 to=104; "
                                 "images=100 m=53 n=59 from=67 to=33",
                                 "images=1 m=8 n=16 from=32 to=64; images=2 m=5 n=13 from=9 to=11"),
      entry<time_filter_plan>("time_filter", "convolutions",
                              "batch=16 length=4096 from=512 to=512; batch=20 length=3001 from=200 to=392; batch=77 "
                              "length=777 from=301 to=257",
                              "batch=1 length=128 from=64 to=128; batch=2 length=77 from=9 to=11"),
      entry<halving_filter_plan>(
          "halving_filter", "convolutions",
          "images=32 m=64 n=64 from=64 to=128; images=20 m=55 n=57 from=50 to=72; images=100 m=27 n=29 from=33 to=67",
          "images=1 m=2 n=32 from=32 to=64; images=2 m=3 n=13 from=5 to=11"),
      entry<patch_embedding_plan>(
          "patch_embedding", "convolutions",
          "images=256 m=14 n=14 to=768; images=77 m=23 n=31 to=392; images=500 m=7 n=13 to=1001",
          "images=1 m=2 n=16 to=128; images=2 m=3 n=5 to=11"),
      entry<depthwise_5x5_plan>(
          "depthwise_5x5", "convolutions",
          "images=32 channels=96 m=128 n=128; images=50 channels=77 m=101 n=133; images=100 channels=200 m=53 n=57",
          "images=1 channels=2 m=16 n=64; images=2 channels=3 m=13 n=21"),
      entry<filter_3d_plan>("filter_3d", "convolutions", "l=256 m=256 n=512; l=150 m=333 n=401; l=1001 m=77 n=133",
                            "l=4 m=16 n=64; l=3 m=13 n=21"),
      entry<filter_gradient_plan>(
          "filter_gradient", "gradients",
          "images=8 m=32 n=64 from=512 to=512; images=7 m=27 n=57 from=600 to=392; images=10 m=29 n=30 from=777 to=333",
          "images=1 m=3 n=64 from=64 to=64; images=2 m=3 n=13 from=9 to=11")};
}

}  // namespace generality
