// Element by element with operands of fewer axes: biases and scales by row or channel, masks by position.
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr float kEps = 1e-5f;

template <int C, int N>
void channel_bias(Mut<bf16, 1, C, N> y, In<bf16, dyn, dyn, dyn> x, In<bf16, dyn> bias) {
  y.store(x.load_like(y) + bias.load_like(y, axes<1>));
}

/// Inference: the statistics are given. Images as batch, channel, height, width.
template <int BH, int BW>
void batch_norm(Mut<f32, 1, 1, BH, BW> y, In<f32, dyn, dyn, dyn, dyn> x, In<f32, dyn> mean, In<f32, dyn> variance,
                In<f32, dyn> weight, In<f32, dyn> bias) {
  auto scale = weight.load_like(y, axes<1>) * rsqrt(variance.load_like(y, axes<1>) + kEps);
  y.store((x.load_like(y) - mean.load_like(y, axes<1>)) * scale + bias.load_like(y, axes<1>));
}

template <int BM, int BN>
void dequantise(Mut<bf16, BM, BN> y, In<i8, dyn, dyn> x, In<f32, dyn> scale) {
  y.store(cast<bf16>(cast<f32>(x.load_like(y)) * scale.load_like(y, axes<0>)));
}

template <int B, int N>
void one_hot(Mut<f32, B, N> y, In<i32, dyn> ids) {
  y.store(where(iota<i32, 1, N>(axis<1>) == ids.load_like(y, axes<0>), ones<f32, B, N>(), 0.0f));
}

template <int BM, int BN>
void upper_triangle(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto rows = iota<i32, BM, 1>(axis<0>) + i;
  auto columns = iota<i32, 1, BN>(axis<1>) + j;
  y.store(where(columns >= rows, x.load_like(y), 0.0f));
}

template <int BM, int BN>
void outer_product(Mut<f32, BM, BN> y, In<f32, dyn> a, In<f32, dyn> b) {
  y.store(a.load_like(y, axes<0>) * b.load_like(y, axes<1>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan channel_bias_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), channels = size_of_case(args, "channels"),
             n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, batch, channels, n);
  const auto bias = normal<bf16>(2, channels);
  const auto wanted = [=](Size i) { return x.at(i) + bias(i / n % channels); };
  return plan({2 * bytes_of<bf16>(batch * channels * n)}, outputs(by_offset<bf16>(wanted, batch, channels, n)),
              inputs(x, bias), [](const Stream& on, auto& y, const auto& from, const auto& b) {
                kernel<channel_bias<8, 128>>(mut(y), from, b).on(on);
              });
}

Plan batch_norm_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), channels = size_of_case(args, "channels"),
             n = size_of_case(args, "n");
  const auto x = normal<f32>(1, batch, channels, n, n);
  const auto mean = normal<f32>(2, channels), variance = uniform<f32>(3, 0.5, 2, channels),
             weight = normal<f32>(4, channels), bias = normal<f32>(5, channels);
  const auto wanted = [=](Size i) {
    const Size c = i / n / n % channels;
    return (x.at(i) - mean(c)) / std::sqrt(variance(c) + static_cast<double>(kEps)) * weight(c) + bias(c);
  };
  return plan({2 * bytes_of<f32>(batch * channels * n * n)}, outputs(by_offset<f32>(wanted, batch, channels, n, n)),
              inputs(x, mean, variance, weight, bias),
              [](const Stream& on, auto& y, const auto& from, const auto&... statistics) {
                kernel<batch_norm<16, 64>>(mut(y), from, statistics...).on(on);
              });
}

Plan dequantise_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = whole<i8>(1, -127, 128, rows, columns);
  const auto scale = uniform<f32>(2, 0.01, 1, rows);
  const auto wanted = [=](Size i) { return x.at(i) * scale(i / columns); };
  return plan({3.0 * bytes_of<i8>(rows * columns)}, outputs(by_offset<bf16>(wanted, rows, columns)), inputs(x, scale),
              [](const Stream& on, auto& y, const auto& from, const auto& s) {
                kernel<dequantise<16, 128>>(mut(y), from, s).on(on);
              });
}

Plan one_hot_plan(const Args& args) {
  constexpr int kClasses = 128;
  const Size n = size_of_case(args, "n");
  const auto ids = whole<i32>(1, 0, kClasses, n);
  const auto wanted = [=](Size i) { return ids(i / kClasses) == static_cast<double>(i % kClasses) ? 1.0 : 0.0; };
  return plan({bytes_of<f32>(n * (kClasses + 1))}, outputs(by_offset<f32>(wanted, n, kClasses).within(0)), inputs(ids),
              [](const Stream& on, auto& y, const auto& from) { kernel<one_hot<16, kClasses>>(mut(y), from).on(on); });
}

Plan upper_triangle_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n, n);
  const auto wanted = [=](Size i) { return i % n >= i / n ? x.at(i) : 0.0; };
  return plan({2 * bytes_of<f32>(n * n)}, outputs(by_offset<f32>(wanted, n, n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<upper_triangle<32, 64>>(mut(y), from).on(on); });
}

Plan outer_product_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto a = normal<f32>(1, m), b = normal<f32>(2, n);
  const auto wanted = [=](Size i) { return a(i / n) * b(i % n); };
  return plan({bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(a, b),
              [](const Stream& on, auto& y, const auto& left, const auto& right) {
                kernel<outer_product<32, 64>>(mut(y), left, right).on(on);
              });
}

}  // namespace

std::vector<Entry> elementwise_entries() {
  return {entry<channel_bias_plan>(
              "channel_bias", "elementwise",
              "batch=64 channels=512 n=4096; batch=50 channels=300 n=3137; batch=3001 channels=77 n=197",
              "batch=2 channels=16 n=256; batch=2 channels=11 n=200"),
          entry<batch_norm_plan>("batch_norm", "elementwise",
                                 "batch=32 channels=128 n=128; batch=50 channels=67 n=113; batch=300 channels=515 n=14",
                                 "batch=2 channels=8 n=128; batch=2 channels=3 n=70"),
          entry<dequantise_plan>("dequantise", "quantized",
                                 "rows=32768 columns=8192; rows=100003 columns=1500; rows=1001 columns=50257",
                                 "rows=32 columns=256; rows=21 columns=300"),
          entry<one_hot_plan>("one_hot", "elementwise", "n=1048576; n=800003; n=300007", "n=64; n=45"),
          entry<upper_triangle_plan>("upper_triangle", "elementwise", "n=16384; n=12001; n=5555", "n=128; n=150"),
          entry<outer_product_plan>("outer_product", "elementwise", "m=16384 n=16384; m=100003 n=1501; m=333 n=300007",
                                    "m=64 n=128; m=45 n=150")};
}

}  // namespace generality
