// Kernels that move elements: transposes, gathers of rows, interpolation, two vectors in turns.
#include <algorithm>
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kWidth = 1024;  // of an embedding
constexpr int kPiece = 1024;  // of interleave

template <int B>
void transposed(Mut<f32, B, B> y, In<f32, dyn, dyn> x) {
  y.store(x.permuted(order<1, 0>).load_like(y));
}

/// From batch, head, time, depth to batch, time, head, depth.
template <int H, int D>
void heads_last(Mut<bf16, 1, 1, H, D> y, In<bf16, dyn, dyn, dyn, dyn> x) {
  y.store(x.permuted(order<0, 2, 1, 3>).load_like(y));
}

template <int B, int D>
void embed(Mut<bf16, B, D> y, In<bf16, dyn, D> table, In<i32, dyn> ids) {
  y.store(table.gather(axis<0>, ids.load_like(y, axes<0>)));
}

/// Bilinear, to twice the height and width; the images' corners are not aligned (PyTorch's default).
template <int BM, int BN>
void upsample(Mut<f32, 1, BM, BN> y, In<f32, dyn, dyn, dyn> x) {
  auto [image, row, column] = y.origin();
  auto h = cast<f32>(iota<i32, 1, BM, 1>(axis<1>) + row) * 0.5f - 0.25f;
  auto w = cast<f32>(iota<i32, 1, 1, BN>(axis<2>) + column) * 0.5f - 0.25f;
  h = clamp(h, 0.0f, cast<f32>(x.dim(1) - 1));
  w = clamp(w, 0.0f, cast<f32>(x.dim(2) - 1));
  auto h0 = cast<i32>(h);
  auto w0 = cast<i32>(w);
  auto h1 = min(h0 + 1, x.dim(1) - 1);
  auto w1 = min(w0 + 1, x.dim(2) - 1);
  auto a = h - cast<f32>(h0);
  auto b = w - cast<f32>(w0);
  auto upper = x.gather(image, h0, w0) * (1.0f - b) + x.gather(image, h0, w1) * b;
  auto lower = x.gather(image, h1, w0) * (1.0f - b) + x.gather(image, h1, w1) * b;
  y.store(upper * (1.0f - a) + lower * a);
}

template <int B>
void interleave(Mut<f16, B, 2> y, In<f16, dyn> a, In<f16, dyn> b) {
  auto [i, zero] = y.index();
  auto left = reshape(a.tiles(shape<B>).load(i), shape<B, 1>);
  auto right = reshape(b.tiles(shape<B>).load(i), shape<B, 1>);
  y.store(cat(left, right, axis<1>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan transposed_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, m, n);
  return plan({2 * bytes_of<f32>(m * n)},
              outputs(by_offset<f32>([=](Size at) { return x(at % m, at / m); }, n, m).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<transposed<64>>(mut(y), from).on(on); });
}

Plan heads_last_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             length = size_of_case(args, "length"), depth = size_of_case(args, "depth");
  const auto x = normal<bf16>(1, batch, heads, length, depth);
  const auto wanted = [=](Size at) {
    const Size line = at / depth;
    return x(line / heads / length, line % heads, line / heads % length, at % depth);
  };
  return plan({2 * bytes_of<bf16>(batch * heads * length * depth)},
              outputs(by_offset<bf16>(wanted, batch, length, heads, depth).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<heads_last<32, 128>>(mut(y), from).on(on); });
}

Plan embed_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), words = size_of_case(args, "words");
  const auto table = normal<bf16>(1, words, kWidth);
  const auto ids = whole<i32>(2, 0, words, n);
  const auto wanted = [=](Size at) { return table(static_cast<Size>(ids(at / kWidth)), at % kWidth); };
  return plan({2 * bytes_of<bf16>(n * kWidth)}, outputs(by_offset<bf16>(wanted, n, kWidth).within(0)),
              inputs(table, ids),
              [](const Stream& on, auto& y, const auto&... in) { kernel<embed<8, kWidth>>(mut(y), in...).on(on); });
}

Plan upsample_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, images, m, n);
  const auto wanted = [=](Size at) {
    const Size image = at / (4 * m * n), row = at / (2 * n) % (2 * m), column = at % (2 * n);
    const double h = std::clamp(0.5 * static_cast<double>(row) - 0.25, 0.0, static_cast<double>(m - 1));
    const double w = std::clamp(0.5 * static_cast<double>(column) - 0.25, 0.0, static_cast<double>(n - 1));
    const Size h0 = static_cast<Size>(h), w0 = static_cast<Size>(w);
    const Size h1 = std::min(h0 + 1, m - 1), w1 = std::min(w0 + 1, n - 1);
    const double a = h - static_cast<double>(h0), b = w - static_cast<double>(w0);
    return (x(image, h0, w0) * (1 - b) + x(image, h0, w1) * b) * (1 - a) +
           (x(image, h1, w0) * (1 - b) + x(image, h1, w1) * b) * a;
  };
  return plan({5 * bytes_of<f32>(images * m * n)}, outputs(by_offset<f32>(wanted, images, 2 * m, 2 * n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<upsample<16, 64>>(mut(y), from).on(on); });
}

Plan interleave_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto a = normal<f16>(1, n), b = normal<f16>(2, n);
  const auto wanted = [=](Size at) { return at % 2 == 0 ? a.at(at / 2) : b.at(at / 2); };
  return plan({4 * bytes_of<f16>(n)}, outputs(by_offset<f16>(wanted, n, 2).within(0)), inputs(a, b),
              [](const Stream& on, auto& y, const auto&... in) { kernel<interleave<kPiece>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> move_entries() {
  return {entry<transposed_plan>("transpose", "moves", "m=16384 n=16384; m=50001 n=4003; m=333 n=200003",
                                 "m=128 n=128; m=50 n=70"),
          entry<heads_last_plan>("heads_last", "moves",
                                 "batch=8 heads=32 length=4096 depth=128; batch=5 heads=20 length=3001 depth=100; "
                                 "batch=60 heads=9 length=1001 depth=72",
                                 "batch=2 heads=32 length=16 depth=128; batch=2 heads=20 length=3 depth=40"),
          entry<embed_plan>("embedding", "gathers", "n=131072 words=50257; n=100003 words=1000003; n=20001 words=997",
                            "n=64 words=57; n=13 words=57"),
          entry<upsample_plan>("upsample", "images",
                               "images=256 m=256 n=256; images=150 m=201 n=333; images=1000 m=53 n=77",
                               "images=2 m=16 n=64; images=2 m=11 n=21"),
          entry<interleave_plan>("interleave", "moves", "n=67108864; n=50000001; n=20000003", "n=8192; n=5001")};
}

}  // namespace generality
