// Reading and writing with a stride, and in other orders: every third element, channels that lie next to each other,
// axes exchanged, turned round, rolled.
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kWindow = 8;  // pixels of a window along each axis

template <int B>
void every_third(Mut<f32, B> y, In<f32, dyn> x, Scalar<i32> first) {
  auto [start] = y.origin();
  y.store(x.gather((iota<i32, B>() + start) * 3 + first));
}

/// Pixels of three bytes to three planes of floats.
template <int B>
void split_channels(Mut<f32, B> red, Mut<f32, B> green, Mut<f32, B> blue, In<u8, dyn, 3> x) {
  auto [i] = red.index();
  auto pixels = cast<f32>(x.tiles(shape<B, 4>).load(i, 0)) * (1.0f / 255.0f);
  red.store(reshape(extract(pixels, shape<B, 1>, 0, 0), shape<B>));
  green.store(reshape(extract(pixels, shape<B, 1>, 0, 1), shape<B>));
  blue.store(reshape(extract(pixels, shape<B, 1>, 0, 2), shape<B>));
}

/// Three planes to pixels, by writing each where it belongs.
template <int B>
void join_channels(Mut<bf16, B, 4> y, In<bf16, dyn> red, In<bf16, dyn> green, In<bf16, dyn> blue) {
  auto a = red.load_like(y, axes<0>), b = green.load_like(y, axes<0>), c = blue.load_like(y, axes<0>);
  y.store(cat(cat(a, b, axis<1>), cat(c, c, axis<1>), axis<1>));
}

/// The absolute values of complex numbers, whose parts lie next to each other.
template <int B>
void complex_magnitude(Mut<f32, B> y, In<f32, dyn, 2> x) {
  auto [i] = y.index();
  auto parts = x.tiles(shape<B, 2>).load(i, 0);
  y.store(reshape(sqrt(sum(parts * parts, axis<1>)), shape<B>));
}

/// Means of two neighbours.
template <int B>
void pair_means(Mut<f16, B> y, In<f16, dyn> x) {
  auto [i] = y.index();
  auto pairs = reshape(cast<f32>(x.tiles(shape<2 * B>).load(i)), shape<B, 2>);
  y.store(reshape(cast<f16>(0.5f * sum(pairs, axis<1>)), shape<B>));
}

/// y[k, i, j] = x[i, j, k].
template <int A, int B, int C>
void last_axis_first(Mut<f32, C, A, B> y, In<f32, dyn, dyn, dyn> x) {
  y.store(x.permuted(order<2, 0, 1>).load_like(y));
}

/// Each row from its end to its beginning.
template <int B>
void reversed_rows(Mut<bf16, 1, B> y, In<bf16, dyn, dyn> x) {
  auto [row, column] = y.origin();
  y.store(x.gather(row, x.dim(1) - 1 - column - iota<i32, 1, B>(axis<1>)));
}

/// Both axes rolled on.
template <int BM, int BN>
void rolled(Mut<i16, BM, BN> y, In<i16, dyn, dyn> x, Scalar<i32> down, Scalar<i32> right) {
  auto [i, j] = y.origin();
  auto rows = (iota<i32, BM, 1>(axis<0>) + i + x.dim(0) - down) % x.dim(0);
  auto columns = (iota<i32, 1, BN>(axis<1>) + j + x.dim(1) - right) % x.dim(1);
  y.store(x.gather(rows, columns));
}

/// Every fourth row, and of it every second element.
template <int BM, int BN>
void strided_rows(Mut<f64, BM, BN> y, In<f64, dyn, dyn> x) {
  auto [i, j] = y.origin();
  y.store(x.gather((iota<i32, BM, 1>(axis<0>) + i) * 4, (iota<i32, 1, BN>(axis<1>) + j) * 2));
}

/// Images in windows of 8x8 pixels: x as image, row of windows, row, window, column, channel.
template <int C>
void window_partition(Mut<bf16, 1, 1, 1, kWindow, kWindow, C> y, In<bf16, dyn, dyn, kWindow, dyn, kWindow, dyn> x) {
  y.store(x.permuted(order<0, 1, 3, 2, 4, 5>).load_like(y));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan every_third_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, 3 * n);
  return plan({bytes_of<f32>(4 * n)}, outputs(by_offset<f32>([=](Size i) { return x(3 * i + 1); }, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<every_third<kPiece>>(mut(y), from, 1).on(on); });
}

Plan split_channels_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, n, 3);
  const auto channel = [=](Size c) { return by_offset<f32>([=](Size i) { return x(i, c) / 255; }, n); };
  return plan({15.0 * static_cast<double>(n)}, outputs(channel(0), channel(1), channel(2)), inputs(x),
              [](const Stream& on, auto& r, auto& g, auto& b, const auto& from) {
                kernel<split_channels<kPiece>>(mut(r), mut(g), mut(b), from).on(on);
              });
}

Plan join_channels_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto r = normal<bf16>(1, n), g = normal<bf16>(2, n), b = normal<bf16>(3, n);
  const auto wanted = [=](Size at) { return (at % 3 == 0 ? r : at % 3 == 1 ? g : b)(at / 3); };
  return plan({bytes_of<bf16>(6 * n)}, outputs(by_offset<bf16>(wanted, n, 3)), inputs(r, g, b),
              [](const Stream& on, auto& y, const auto&... in) { kernel<join_channels<512>>(mut(y), in...).on(on); });
}

Plan complex_magnitude_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n, 2);
  return plan({bytes_of<f32>(3 * n)}, outputs(by_offset<f32>([=](Size i) { return std::hypot(x(i, 0), x(i, 1)); }, n)),
              inputs(x), [](const Stream& on, auto& y, const auto& from) {
                kernel<complex_magnitude<kPiece>>(mut(y), from).on(on);
              });
}

Plan pair_means_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f16>(1, 2 * n);
  return plan({bytes_of<f16>(3 * n)},
              outputs(by_offset<f16>([=](Size i) { return 0.5 * (x(2 * i) + x(2 * i + 1)); }, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<pair_means<kPiece>>(mut(y), from).on(on); });
}

Plan last_axis_first_plan(const Args& args) {
  const Size l = size_of_case(args, "l"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, l, m, n);
  return plan(
      {bytes_of<f32>(2 * l * m * n)},
      outputs(by_offset<f32>([=](Size at) { return x(at / m % l, at % m, at / (l * m)); }, n, l, m)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<last_axis_first<2, 32, 32>>(mut(y), from).on(on); });
}

Plan reversed_rows_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  const auto wanted = [=](Size at) { return x(at / columns, columns - 1 - at % columns); };
  return plan({2 * bytes_of<bf16>(rows * columns)}, outputs(by_offset<bf16>(wanted, rows, columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<reversed_rows<kPiece>>(mut(y), from).on(on); });
}

Plan rolled_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = whole<i16>(1, -1000, 1000, m, n);
  const auto wanted = [=](Size at) { return x((at / n + m - 3) % m, (at % n + n - 5) % n); };
  return plan({2 * bytes_of<i16>(m * n)}, outputs(by_offset<i16>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<rolled<16, 128>>(mut(y), from, 3, 5).on(on); });
}

Plan strided_rows_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f64>(1, 4 * m, 2 * n);
  const auto wanted = [=](Size at) { return x(at / n * 4, at % n * 2); };
  return plan({bytes_of<f64>(3 * m * n)}, outputs(by_offset<f64>(wanted, m, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<strided_rows<16, 64>>(mut(y), from).on(on); });
}

Plan window_partition_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n"),
             channels = size_of_case(args, "channels");
  const auto x = normal<bf16>(1, images, m, kWindow, n, kWindow, channels);
  const auto wanted = [=](Size at) {
    const Size c = at % channels, b = at / channels % 8, a = at / channels / 8 % 8;
    const Size j = at / channels / 64 % n, i = at / channels / 64 / n % m, image = at / channels / 64 / n / m;
    return x(image, i, a, j, b, c);
  };
  return plan({2 * bytes_of<bf16>(images * m * n * 64 * channels)},
              outputs(by_offset<bf16>(wanted, images, m, n, kWindow, kWindow, channels)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<window_partition<32>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> stride_entries() {
  return {
      entry<every_third_plan>("every_third", "moves", "n=33554432; n=30000001; n=7000003", "n=4096; n=1501"),
      entry<split_channels_plan>("split_channels", "moves", "n=33554432; n=30000001; n=7000003", "n=4096; n=1501"),
      entry<join_channels_plan>("join_channels", "moves", "n=67108864; n=50000017; n=10000019", "n=4096; n=1501"),
      entry<complex_magnitude_plan>("complex_magnitude", "moves", "n=67108864; n=50000017; n=10000019",
                                    "n=4096; n=1501"),
      entry<pair_means_plan>("pair_means", "moves", "n=134217728; n=100000007; n=30000001", "n=4096; n=1501"),
      entry<last_axis_first_plan>("last_axis_first", "moves", "l=512 m=512 n=256; l=301 m=333 n=777; l=5001 m=77 n=133",
                                  "l=4 m=64 n=64; l=3 m=45 n=37"),
      entry<reversed_rows_plan>("reversed_rows", "moves",
                                "rows=16384 columns=8192; rows=50001 columns=1777; rows=301 columns=50007",
                                "rows=4 columns=2048; rows=3 columns=1501"),
      entry<rolled_plan>("rolled", "moves", "m=8192 n=8192; m=5001 n=9003; m=30001 n=1111", "m=32 n=256; m=21 n=301"),
      entry<strided_rows_plan>("strided_rows", "moves", "m=2048 n=4096; m=1501 n=5003; m=9001 n=555",
                               "m=32 n=64; m=21 n=77"),
      entry<window_partition_plan>(
          "window_partition", "moves",
          "images=32 m=16 n=16 channels=192; images=50 m=13 n=11 channels=184; images=3 m=67 n=49 channels=97",
          "images=1 m=2 n=3 channels=64; images=2 m=3 n=1 channels=37")};
}

}  // namespace generality
