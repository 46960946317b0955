// Bounds of keys and values, by the inequality of Cauchy and Schwarz.
//
// A row x that an RMS norm divides by its root mean square has a length of at most sqrt(hidden), so that a feature w x
// of a value is at most |w| sqrt(hidden). The norm of a head bounds its keys by their weights. A rotation turns pairs
// of features: none becomes larger than its pair is long.
#include "model/cache_scales.hpp"

#include <algorithm>
#include <cmath>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "tessera/kernels/linear.hpp"

namespace mortar {

using namespace tessera;

namespace {

constexpr int kColumns = 32;  ///< of a step of largest_lengths

/// The length of the longest of `rows` rows of each of the last heads of w, [1, heads]. `scales`: of FP8 weights.
template <class T, int Rows, class... S>
void largest_lengths(Mut<f32, 1, 1> lengths, In<T, dyn, dyn> w, In<bf16, dyn> norm, Scalar<i32> rows, S... scales) {
  require(w.dim(1) == norm.dim(0), "a weight of the norm for each column");
  auto [zero, head] = lengths.index();
  auto first = w.dim(0) - (lengths.dim(1) - head) * rows;
  auto row = iota<i32, Rows, 1>(axis<0>) + first;
  auto squares = zeros<f32, Rows, kColumns>();
  for (auto k : range(ceil_div(w.dim(1), kColumns))) {
    auto weights = reshape(cast<f32>(norm.load_at(shape<kColumns>, k * kColumns)), shape<1, kColumns>);
    auto x = cast<f32>(w.load_at(shape<Rows, kColumns>, first, k * kColumns)) * weights;
    if constexpr (sizeof...(S) > 0) {
      auto block = std::get<0>(std::tie(scales...))
                       .gather(min(row, w.dim(0) - 1) / static_cast<int>(kScaleBlock),
                               full<i32, Rows, 1>(k * kColumns / static_cast<int>(kScaleBlock)));
      x = x * block;
    }
    squares = squares + x * x;
  }
  auto of_row = where(row < first + rows, sum(squares, axis<1>), 0.0f);
  lengths.store(sqrt(max(of_row, axis<0>)));
}

}  // namespace

float scale_for(double bound) {
  // FP8 activations are wrong by up to 1/16 each; all other roundings are small.
  constexpr double kMargin = 1.125, kLargest = 448;
  if (!(bound > 0) || !std::isfinite(bound)) return 1;
  const double scale = std::exp2(std::ceil(std::log2(bound * kMargin / kLargest)));
  // Both the scale and its reciprocal are normal numbers.
  return static_cast<float>(std::clamp(scale, 0x1p-100, 0x1p100));
}

std::vector<float> longest_rows(const LayerWeights& weights, std::int64_t heads, std::int64_t head_dim,
                                const Stream& stream) {
  const Matrix& w = weights.qkv;
  const auto rows = static_cast<i32>(head_dim);
  return kernels::with_extent<64, 128>(head_dim, [&](auto most) {
    auto lengths = empty<f32>({std::int64_t{1}, heads});
    if (w.is_fp8)
      return host(kernel<largest_lengths<f8e4m3, most, In<f32, dyn, dyn>>>(std::move(lengths), w.quantized,
                                                                           weights.attention_norm, rows, w.scales)
                      .on(stream))
          .sync(stream);
    return host(kernel<largest_lengths<bf16, most>>(std::move(lengths), w.values, weights.attention_norm, rows)
                    .on(stream))
        .sync(stream);
  });
}

namespace {

/// The largest magnitude of the weights of a head's norm.
double largest_of(const Tensor<bf16, 1>& norm, const Stream& stream) {
  double largest = 0;
  for (const bf16 weight : host(norm).sync(stream))
    largest = std::max(largest, std::abs(static_cast<double>(static_cast<float>(weight))));
  return largest;
}

void check_query(double bound, std::int64_t layer) {
  constexpr double kLargestF16 = 65504;
  if (bound <= kLargestF16) return;
  throw ModelError(tessera::concat("the queries of layer ", layer, " can be as large as ", bound,
                                   ", and with an FP8 cache they are multiplied in f16, up to ", kLargestF16,
                                   ". Take a cache of bf16 (--kv-dtype bf16)"));
}

}  // namespace

std::vector<Tensor<f32, 2>> cache_scales_of(const Network& network, const Stream& stream) {
  const AttentionSpec& attention = network.config.attention;
  const auto queries = static_cast<std::size_t>(attention.heads), heads = static_cast<std::size_t>(attention.kv_heads);
  const double input = std::sqrt(static_cast<double>(network.config.hidden));
  const double in_head = std::sqrt(static_cast<double>(attention.head_dim));
  std::vector<Tensor<f32, 2>> all;
  for (const LayerWeights& layer : network.weights.layers) {
    const std::vector<float> lengths =
        longest_rows(layer, attention.heads + 2 * attention.kv_heads, attention.head_dim, stream);
    const double of_queries = attention.head_norms ? in_head * largest_of(layer.query_norm, stream) : 0;
    const double of_keys = attention.head_norms ? in_head * largest_of(layer.key_norm, stream) : 0;
    // A feature that is rotated, in a pair: `normed` is the bound of heads with a norm.
    const auto rotated = [&](float length, double normed) {
      const double bound = attention.head_norms ? normed : input * static_cast<double>(length) * std::sqrt(2.0);
      return bound * static_cast<double>(network.rope_factor);
    };
    std::vector<float> scales;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (i < queries)
        check_query(rotated(lengths[i], of_queries), std::ssize(all));
      else if (i < queries + heads)
        scales.push_back(scale_for(rotated(lengths[i], of_keys)));
      else
        scales.push_back(scale_for(input * static_cast<double>(lengths[i])));
    }
    all.push_back(from(scales, {std::int64_t{2}, attention.kv_heads}).sync(stream));
  }
  return all;
}

}  // namespace mortar
