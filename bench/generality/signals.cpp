// Pictures and signals: resizing, colours, means of many neighbours, blending, morphology, a bilateral filter, a filter
// that keeps every fourth sample, four-bit blocks.
#include <algorithm>
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kRadius = 8;            // of box_means
constexpr int kReach = 3;             // of dilation
constexpr int kTaps = 32, kStep = 4;  // of decimate
constexpr int kBlock = 32;            // of pack_nibbles

/// Bilinear, to any size; the corners of the images are not aligned (PyTorch's default).
template <int BM, int BN>
void resize_bilinear(Mut<f32, 1, BM, BN> y, In<u8, dyn, dyn, dyn> x) {
  auto [plane, i, j] = y.origin();
  auto rows = cast<f32>(iota<i32, 1, BM, 1>(axis<1>) + i), columns = cast<f32>(iota<i32, 1, 1, BN>(axis<2>) + j);
  auto h = max((rows + 0.5f) * cast<f32>(x.dim(1)) / cast<f32>(y.dim(1)) - 0.5f, 0.0f);
  auto w = max((columns + 0.5f) * cast<f32>(x.dim(2)) / cast<f32>(y.dim(2)) - 0.5f, 0.0f);
  auto h0 = min(cast<i32>(h), x.dim(1) - 1), h1 = min(h0 + 1, x.dim(1) - 1);
  auto w0 = min(cast<i32>(w), x.dim(2) - 1), w1 = min(w0 + 1, x.dim(2) - 1);
  auto a = h - cast<f32>(h0), b = w - cast<f32>(w0);
  auto at = [&](auto row, auto column) { return cast<f32>(x.gather(plane, row, column)); };
  auto upper = at(h0, w0) * (1.0f - b) + at(h0, w1) * b;
  auto lower = at(h1, w0) * (1.0f - b) + at(h1, w1) * b;
  y.store(upper * (1.0f - a) + lower * a);
}

/// Frames of video: brightness for each pixel, colours for each 2x2 of them (BT.601, in whole numbers).
template <int BM, int BN>
void yuv_to_rgb(Mut<u8, 1, BM, BN> red, Mut<u8, 1, BM, BN> green, Mut<u8, 1, BM, BN> blue, In<u8, dyn, dyn, dyn> y,
                In<u8, dyn, dyn, dyn> u, In<u8, dyn, dyn, dyn> v) {
  auto [frame, i, j] = red.origin();
  auto rows = (iota<i32, 1, BM, 1>(axis<1>) + i) / 2, columns = (iota<i32, 1, 1, BN>(axis<2>) + j) / 2;
  auto c = 298 * (cast<i32>(y.load_like(red)) - 16) + 128;
  auto d = cast<i32>(u.gather(frame, rows, columns)) - 128, e = cast<i32>(v.gather(frame, rows, columns)) - 128;
  auto byte = [](auto t) { return cast<u8>(clamp(t >> 8, 0, 255)); };
  red.store(byte(c + 409 * e));
  green.store(byte(c - 100 * d - 208 * e));
  blue.store(byte(c + 516 * d));
}

/// Sums of 17 neighbours along an axis (0 or 1), times `factor`; zeros around the image.
template <int Axis, int BM, int BN>
void box_sums(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x, Scalar<f32> factor) {
  auto [i, j] = y.origin();
  auto s = zeros<f32, BM, BN>();
  for (auto d : range(-kRadius, kRadius + 1)) {
    if constexpr (Axis == 0)
      s += x.load_at(shape<BM, BN>, i + d, j);
    else
      s += x.load_at(shape<BM, BN>, i, j + d);
  }
  y.store(s * factor);
}

/// A picture over another one, by its transparency: red, green, blue, alpha.
template <int BN>
void alpha_blend(Mut<u8, 1, BN, 4> y, In<u8, dyn, dyn, 4> front, In<u8, dyn, dyn, 4> back) {
  auto f = cast<i32>(front.load_like(y)), b = cast<i32>(back.load_like(y));
  auto alpha = extract(f, shape<1, BN, 1>, 0, 0, 3);
  y.store(cast<u8>((f * alpha + b * (255 - alpha) + 127) / 255));
}

/// The largest of 7x7 neighbours.
template <int BM, int BN>
void dilation(Mut<u8, BM, BN> y, In<u8, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto largest = zeros<u8, BM, BN>();
  for (auto di : range(-kReach, kReach + 1))
    for (auto dj : range(-kReach, kReach + 1)) largest = max(largest, x.load_at(shape<BM, BN>, i + di, j + dj));
  y.store(largest);
}

/// A blur that keeps edges: 5x5 neighbours weigh by their distance and by how much their values differ.
template <int BM, int BN>
void bilateral(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto rows = iota<i32, BM, 1>(axis<0>) + i, columns = iota<i32, 1, BN>(axis<1>) + j;
  auto here = x.load_like(y);
  auto total = zeros<f32, BM, BN>(), weights = zeros<f32, BM, BN>();
  for (auto di : range(-2, 3)) {
    for (auto dj : range(-2, 3)) {
      auto t = x.load_at(shape<BM, BN>, i + di, j + dj);
      auto inside = rows + di >= 0 && rows + di < x.dim(0) && columns + dj >= 0 && columns + dj < x.dim(1);
      auto d = t - here;
      auto w = where(inside, exp(-0.125f * cast<f32>(di * di + dj * dj) - 8.0f * d * d), 0.0f);
      total += w * t;
      weights += w;
    }
  }
  y.store(total / weights);
}

/// 32 taps, and every fourth sample of the result: channel, time.
template <int B>
void decimate(Mut<f32, 1, B> y, In<f32, dyn, dyn> x, In<f32, dyn> taps) {
  auto [channel, t] = y.origin();
  auto start = (iota<i32, 1, B>(axis<1>) + t) * kStep;
  auto s = zeros<f32, 1, B>();
  for (auto k : range(kTaps)) s += taps.gather(k) * x.gather(channel, start + k);
  y.store(s);
}

/// Blocks of 32 numbers as 4 bits each, two in a byte (the first one low), and a scale for each block.
template <int N>
void pack_nibbles(Mut<u8, 1, N / 2> y, Mut<f32, 1, N / kBlock> scales, In<bf16, dyn, dyn> x) {
  require(x.dim(1) % kBlock == 0, "rows are made of blocks of 32");
  auto [row, j] = y.index();
  auto t = reshape(cast<f32>(x.tiles(shape<1, N>).load(row, j)), shape<N / kBlock, kBlock>);
  auto scale = max(max(abs(t), axis<1>), 1e-12f) / 7.0f;
  auto q = cast<i32>(clamp(floor(t / scale + 0.5f), -7.0f, 7.0f)) + 8;
  auto pairs = reshape(q, shape<N / 2, 2>);
  auto bytes = extract(pairs, shape<N / 2, 1>, 0, 0) | (extract(pairs, shape<N / 2, 1>, 0, 1) << 4);
  y.store(reshape(cast<u8>(bytes), shape<1, N / 2>));
  scales.store(reshape(scale, shape<1, N / kBlock>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan resize_bilinear_plan(const Args& args) {
  const Size planes = size_of_case(args, "planes"), from_m = size_of_case(args, "from_m");
  const Size from_n = size_of_case(args, "from_n"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, planes, from_m, from_n);
  const auto wanted = [=](Size at) {
    const Size plane = at / (m * n);
    const auto place = [](Size i, Size from, Size to) {
      return std::max((static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5, 0.0);
    };
    const double h = place(at / n % m, from_m, m), w = place(at % n, from_n, n);
    const auto h0 = static_cast<Size>(h), w0 = static_cast<Size>(w);
    const Size h1 = std::min(h0 + 1, from_m - 1), w1 = std::min(w0 + 1, from_n - 1);
    const double a = h - static_cast<double>(h0), b = w - static_cast<double>(w0);
    return (x(plane, h0, w0) * (1 - b) + x(plane, h0, w1) * b) * (1 - a) +
           (x(plane, h1, w0) * (1 - b) + x(plane, h1, w1) * b) * a;
  };
  return plan(
      {bytes_of<u8>(planes * from_m * from_n) + bytes_of<f32>(planes * m * n)},
      outputs(by_offset<f32>(wanted, planes, m, n).within(1e-4)), inputs(x),  // places are f32
      [](const Stream& on, auto& y, const auto& from) { kernel<resize_bilinear<16, 64>>(mut(y), from).on(on); });
}

Plan yuv_to_rgb_plan(const Args& args) {
  const Size frames = size_of_case(args, "frames"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto y = whole<u8>(1, 0, 256, frames, m, n);
  const auto u = whole<u8>(2, 0, 256, frames, m / 2, n / 2), v = whole<u8>(3, 0, 256, frames, m / 2, n / 2);
  const auto colour = [=](int of_u, int of_v) {
    const auto wanted = [=](Size at) {
      const Size frame = at / (m * n), i = at / n % m / 2, j = at % n / 2;
      const double t = 298 * (y.at(at) - 16) + of_u * (u(frame, i, j) - 128) + of_v * (v(frame, i, j) - 128);
      return std::clamp(std::floor((t + 128) / 256), 0.0, 255.0);
    };
    return by_offset<u8>(wanted, frames, m, n);
  };
  return plan({bytes_of<u8>(frames * m * n) * 4.5}, outputs(colour(0, 409), colour(-100, -208), colour(516, 0)),
              inputs(y, u, v), [](const Stream& on, auto& r, auto& g, auto& b, const auto&... in) {
                kernel<yuv_to_rgb<32, 64>>(mut(r), mut(g), mut(b), in...).on(on);
              });
}

Plan box_means_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, m, n);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size i = -kRadius; i <= kRadius; ++i) {
      for (Size j = -kRadius; j <= kRadius; ++j) s += x(at / n + i, at % n + j);
    }
    return s / 289;
  };
  return plan({2 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) {
                auto sums = empty_like(y).on(on);
                kernel<box_sums<1, 32, 64>>(mut(sums), from, 1.0f).on(on);
                kernel<box_sums<0, 32, 64>>(mut(y), sums, 1.0f / 289).on(on);
              });
}

Plan alpha_blend_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto front = whole<u8>(1, 0, 256, m, n, 4), back = whole<u8>(2, 0, 256, m, n, 4);
  const auto wanted = [=](Size at) {
    const double alpha = front.at(at / 4 * 4 + 3);
    return std::floor((front.at(at) * alpha + back.at(at) * (255 - alpha) + 127) / 255);
  };
  return plan({12 * bytes_of<u8>(m * n)}, outputs(by_offset<u8>(wanted, m, n, 4)), inputs(front, back),
              [](const Stream& on, auto& y, const auto&... in) { kernel<alpha_blend<1024>>(mut(y), in...).on(on); });
}

Plan dilation_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, m, n);
  const auto wanted = [=](Size at) {
    double largest = 0;
    for (Size i = -kReach; i <= kReach; ++i) {
      for (Size j = -kReach; j <= kReach; ++j) largest = std::max(largest, x(at / n + i, at % n + j));
    }
    return largest;
  };
  return plan({2 * bytes_of<u8>(m * n)}, outputs(by_offset<u8>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<dilation<32, 64>>(mut(y), from).on(on); });
}

Plan bilateral_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, 1, m, n);
  const auto wanted = [=](Size at) {
    double total = 0, weights = 0;
    for (Size di = -2; di <= 2; ++di) {
      for (Size dj = -2; dj <= 2; ++dj) {
        const Size i = at / n + di, j = at % n + dj;
        if (i < 0 || i >= m || j < 0 || j >= n) continue;
        const double d = x(i, j) - x.at(at), w = std::exp(-0.125 * static_cast<double>(di * di + dj * dj) - 8 * d * d);
        total += w * x(i, j);
        weights += w;
      }
    }
    return total / weights;
  };
  return plan({2 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<bilateral<32, 64>>(mut(y), from).on(on); });
}

Plan decimate_plan(const Args& args) {
  const Size channels = size_of_case(args, "channels"), length = size_of_case(args, "length");
  const Size kept = (length - kTaps) / kStep + 1;
  const auto x = normal<f32>(1, channels, length);
  const auto taps = normal<f32>(2, kTaps);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < kTaps; ++k) s += taps(k) * x(at / kept, at % kept * kStep + k);
    return s;
  };
  return plan({bytes_of<f32>(channels * (length + kept))}, outputs(by_offset<f32>(wanted, channels, kept)),
              inputs(x, taps),
              [](const Stream& on, auto& y, const auto&... in) { kernel<decimate<1024>>(mut(y), in...).on(on); });
}

Plan pack_nibbles_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  const auto scale = [=](Size block) {
    double top = 1e-12;
    for (Size k = 0; k < kBlock; ++k) top = std::max(top, std::abs(x.at(block * kBlock + k)));
    return top / 7;
  };
  const auto nibble = [=](Size at) { return std::floor(x.at(at) / scale(at / kBlock) + 0.5) + 8; };
  const auto wanted = [=](Size at) { return nibble(2 * at) + 16 * nibble(2 * at + 1); };
  // A value halfway between two integers may round to either.
  return plan(
      {bytes_of<bf16>(rows * columns) + bytes_of<u8>(rows * columns / 2) + bytes_of<f32>(rows * columns / kBlock)},
      outputs(by_offset<u8>(wanted, rows, columns / 2).within(1e-2), by_offset<f32>(scale, rows, columns / kBlock)),
      inputs(x), [](const Stream& on, auto& y, auto& scales, const auto& from) {
        kernel<pack_nibbles<1024>>(mut(y), mut(scales), from).on(on);
      });
}

}  // namespace

std::vector<Entry> signal_entries() {
  return {
      entry<resize_bilinear_plan>("resize_bilinear", "images",
                                  "planes=768 from_m=375 from_n=500 m=224 n=224; planes=300 from_m=501 from_n=333 "
                                  "m=401 n=211; planes=90 from_m=211 from_n=133 m=1001 n=777",
                                  "planes=2 from_m=75 from_n=100 m=32 n=96; planes=3 from_m=20 from_n=31 m=45 n=29"),
      entry<yuv_to_rgb_plan>("yuv_to_rgb", "images",
                             "frames=20 m=2160 n=3840; frames=30 m=1082 n=1930; frames=300 m=362 n=486",
                             "frames=2 m=48 n=128; frames=2 m=22 n=70"),
      entry<box_means_plan>("box_means", "images", "m=6000 n=8000; m=3001 n=12003; m=20001 n=777",
                            "m=48 n=128; m=37 n=71"),
      entry<alpha_blend_plan>("alpha_blend", "images", "m=8000 n=6000; m=5001 n=7003; m=30001 n=333",
                              "m=3 n=1072; m=5 n=333"),
      entry<dilation_plan>("dilation", "images", "m=12000 n=10000; m=7001 n=15003; m=30001 n=1111",
                           "m=96 n=80; m=37 n=71"),
      entry<bilateral_plan>("bilateral", "images", "m=5000 n=7000; m=3001 n=9003; m=15001 n=777",
                            "m=40 n=120; m=37 n=71"),
      entry<decimate_plan>("decimate", "signals",
                           "channels=64 length=1000028; channels=300 length=150001; channels=5001 length=5003",
                           "channels=2 length=4188; channels=3 length=999"),
      entry<pack_nibbles_plan>("pack_nibbles", "quantized",
                               "rows=30000 columns=3072; rows=80001 columns=992; rows=3001 columns=11072",
                               "rows=4 columns=3072; rows=3 columns=544")};
}

}  // namespace generality
