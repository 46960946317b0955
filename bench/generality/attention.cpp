// Attention: causal, over a window of the last keys, with one mask applied in all steps; and of one query per head.
#include <algorithm>
#include <cmath>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

constexpr int kDepth = 128;

template <int BM, int BN, int D>
void window_attention(Mut<bf16, 1, BM, D> o, In<bf16, dyn, dyn, D> q, In<bf16, dyn, dyn, D> k, In<bf16, dyn, dyn, D> v,
                      Scalar<f32> scale, Scalar<i32> window) {
  auto [head, block, zero] = o.index();
  auto K = k.tiles(shape<1, BN, D>);
  auto V = v.tiles(shape<1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-1e30f), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  auto first = max(block * BM - window + 1, 0) / BN;
  for (auto j : range(first, min(K.count(1), ceil_div((block + 1) * BM, BN)))) {
    auto s = mma(Q, transpose(reshape(K.load(head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) * (scale * log2e<f32>);
    auto cols = iota<i32, 1, BN>(axis<1>) + j * BN;
    s = where(rows >= cols && rows - cols < window, s, -infinity<f32>);
    auto m2 = max(m, max(s, axis<1>));
    auto p = exp2(s - m2);
    auto alpha = exp2(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), reshape(V.load(head, j, 0), shape<BN, D>), acc * alpha);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, BM, D>));
}

/// One query per head: batch, head, depth; keys and values: batch, head, time, depth.
template <int BN, int D>
void decode_attention(Mut<bf16, 1, 1, D> o, In<bf16, dyn, dyn, D> q, In<bf16, dyn, dyn, dyn, D> k,
                      In<bf16, dyn, dyn, dyn, D> v, Scalar<f32> scale) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = cast<f32>(reshape(q.load_like(o), shape<1, D>)) * scale;
  auto m = full<f32, 1, 1>(-infinity<f32>), l = zeros<f32, 1, 1>();
  auto acc = zeros<f32, 1, D>();
  for (auto j : range(K.count(2))) {
    auto s = sum(cast<f32>(reshape(K.load(batch, kv_head, j, 0), shape<BN, D>)) * Q, axis<1>);
    s = where(iota<i32, BN, 1>(axis<0>) + j * BN < k.dim(2), s, -infinity<f32>);
    auto m2 = max(m, max(s, axis<0>));
    auto p = exp(s - m2);
    auto alpha = exp(m - m2);
    l = l * alpha + sum(p, axis<0>);
    acc = acc * alpha + sum(p * cast<f32>(reshape(V.load(batch, kv_head, j, 0), shape<BN, D>)), axis<0>);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, 1, D>));
}

Plan window_attention_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), length = size_of_case(args, "length"),
             window = size_of_case(args, "window");
  const auto q = normal<bf16>(1, heads, length, kDepth), k = normal<bf16>(2, heads, length, kDepth),
             v = normal<bf16>(3, heads, length, kDepth);
  const double scale = 1 / std::sqrt(static_cast<double>(kDepth));
  const auto wanted = [=](Size at) {
    const Size head = at / length, row = at % length, first = std::max<Size>(0, row - window + 1);
    std::vector<double> query, weights, y(kDepth, 0.0);
    for (Size d = 0; d < kDepth; ++d) query.push_back(q(head, row, d));
    double total = 0;
    for (Size c = first; c <= row; ++c) {
      double s = 0;
      for (Size d = 0; d < kDepth; ++d) s += query[static_cast<std::size_t>(d)] * k(head, c, d);
      weights.push_back(std::exp(s * scale));  // far from overflow for normal numbers
      total += weights.back();
    }
    for (Size c = first; c <= row; ++c) {
      for (Size d = 0; d < kDepth; ++d)
        y[static_cast<std::size_t>(d)] += weights[static_cast<std::size_t>(c - first)] / total * v(head, c, d);
    }
    return y;
  };
  // Both products, for the keys that each row sees.
  const double pairs = static_cast<double>(heads) * (static_cast<double>(length) * static_cast<double>(window) -
                                                     0.5 * static_cast<double>(window) * static_cast<double>(window));
  return plan({4 * bytes_of<bf16>(heads * length * kDepth), 4.0 * pairs * kDepth, "bf16"},
              outputs(by_line<bf16>(wanted, heads, length, kDepth).within(1e-2)), inputs(q, k, v),
              [=](const Stream& on, auto& o, const auto&... in) {
                kernel<window_attention<64, 64, kDepth>>(mut(o), in..., static_cast<float>(scale),
                                                         static_cast<i32>(window))
                    .on(on);
              });
}

Plan decode_attention_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             kv_heads = size_of_case(args, "kv_heads"), length = size_of_case(args, "length");
  const auto q = normal<bf16>(1, batch, heads, kDepth);
  const auto k = normal<bf16>(2, batch, kv_heads, length, kDepth), v = normal<bf16>(3, batch, kv_heads, length, kDepth);
  const float scale = 1.0f / std::sqrt(static_cast<float>(kDepth));
  const auto wanted = [=](Size line) {
    const Size b = line / heads, head = line % heads, from = head / (heads / kv_heads);
    std::vector<double> s(static_cast<std::size_t>(length), 0.0), o(kDepth, 0.0);
    for (Size t = 0; t < length; ++t) {
      for (Size d = 0; d < kDepth; ++d)
        s[static_cast<std::size_t>(t)] += q(b, head, d) * k(b, from, t, d) * static_cast<double>(scale);
    }
    s = softmax_of(s);
    for (Size t = 0; t < length; ++t) {
      for (Size d = 0; d < kDepth; ++d)
        o[static_cast<std::size_t>(d)] += s[static_cast<std::size_t>(t)] * v(b, from, t, d);
    }
    return o;
  };
  return plan({2 * bytes_of<bf16>(batch * (kv_heads * length + heads) * kDepth)},
              outputs(by_line<bf16>(wanted, batch, heads, kDepth)), inputs(q, k, v),
              [=](const Stream& on, auto& y, const auto&... in) {
                kernel<decode_attention<64, kDepth>>(mut(y), in..., scale).on(on);
              });
}

}  // namespace

std::vector<Entry> attention_entries() {
  return {entry<window_attention_plan>(
              "window_attention", "attention",
              "heads=64 length=8192 window=1024; heads=48 length=5003 window=300; heads=7 length=15001 window=2000",
              "heads=2 length=256 window=128; heads=2 length=200 window=50"),
          entry<decode_attention_plan>("decode_attention", "attention",
                                       "batch=32 heads=32 kv_heads=8 length=4000; batch=7 heads=40 kv_heads=8 "
                                       "length=9001; batch=129 heads=14 kv_heads=2 length=1777",
                                       "batch=2 heads=4 kv_heads=2 length=96; batch=1 heads=2 kv_heads=1 length=77")};
}

}  // namespace generality
