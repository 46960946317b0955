// Attention whose keys have more features than its values, in decoding and in prefill; with a bias of the distance; of
// several query heads at once; within blocks.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

constexpr int kLatent = 512, kTurned = 64;  // of latent_decode: features that are keys and values, and keys alone
constexpr int kDepth = 128, kHeads = 16;    // query heads that share the keys
constexpr int kSmallDepth = 64;             // of distance_attention
constexpr int kNear = 32, kBlock = 256;     // of block_attention: depth, keys of a block

/// Decoding with a cache of 512 features, which are the values too, and of 64 more that only the keys have.
template <int BN>
void latent_decode(Mut<bf16, 1, kHeads, kLatent> o, In<bf16, dyn, dyn, kLatent> q, In<bf16, dyn, dyn, kTurned> q_turned,
                   In<bf16, dyn, dyn, kLatent> cache, In<bf16, dyn, dyn, kTurned> turned, Scalar<f32> scale) {
  auto [batch, group, zero] = o.index();
  auto C = cache.tiles(shape<1, BN, kLatent>);
  auto T = turned.tiles(shape<1, BN, kTurned>);
  auto Q = reshape(q.load_like(o), shape<kHeads, kLatent>);
  auto QT = reshape(q_turned.tiles(shape<1, kHeads, kTurned>).load(batch, group, 0), shape<kHeads, kTurned>);
  auto m = full<f32, kHeads, 1>(-1e30f), l = zeros<f32, kHeads, 1>();
  auto acc = zeros<f32, kHeads, kLatent>();
  for (auto t : range(C.count(1))) {
    auto values = reshape(C.load(batch, t, 0), shape<BN, kLatent>);
    auto s = mma(Q, transpose(values), zeros<f32, kHeads, BN>());
    s = mma(QT, transpose(reshape(T.load(batch, t, 0), shape<BN, kTurned>)), s) * scale;
    s = where(iota<i32, 1, BN>(axis<1>) + t * BN < cache.dim(1), s, -1e30f);
    auto top = max(m, max(s, axis<1>));
    auto p = exp(s - top);
    auto less = exp(m - top);
    l = l * less + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), values, acc * less);
    m = top;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, kHeads, kLatent>));
}

/// Causal, with keys of 128 + 64 features in two tensors and values of 128: head, time, depth.
template <int BM, int BN>
void two_part_keys(Mut<bf16, 1, BM, kDepth> o, In<bf16, dyn, dyn, kDepth> q, In<bf16, dyn, dyn, kTurned> q_turned,
                   In<bf16, dyn, dyn, kDepth> k, In<bf16, dyn, dyn, kTurned> k_turned, In<bf16, dyn, dyn, kDepth> v,
                   Scalar<f32> scale) {
  auto [head, block, zero] = o.index();
  auto Q = reshape(q.load_like(o), shape<BM, kDepth>);
  auto QT = reshape(q_turned.tiles(shape<1, BM, kTurned>).load(head, block, 0), shape<BM, kTurned>);
  auto K = k.tiles(shape<1, BN, kDepth>), V = v.tiles(shape<1, BN, kDepth>);
  auto KT = k_turned.tiles(shape<1, BN, kTurned>);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-1e30f), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, kDepth>();
  for (auto j : range(min(K.count(1), ceil_div((block + 1) * BM, BN)))) {
    auto s = mma(Q, transpose(reshape(K.load(head, j, 0), shape<BN, kDepth>)), zeros<f32, BM, BN>());
    s = mma(QT, transpose(reshape(KT.load(0, j, 0), shape<BN, kTurned>)), s) * scale;  // which all heads share
    s = where(iota<i32, 1, BN>(axis<1>) + j * BN <= rows, s, -1e30f);
    auto top = max(m, max(s, axis<1>));
    auto p = exp(s - top);
    auto less = exp(m - top);
    l = l * less + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), reshape(V.load(head, j, 0), shape<BN, kDepth>), acc * less);
    m = top;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, BM, kDepth>));
}

/// Causal, with scores that fall with the distance, by a slope of each head.
template <int BM, int BN, int D>
void distance_attention(Mut<f16, 1, BM, D> o, In<f16, dyn, dyn, D> q, In<f16, dyn, dyn, D> k, In<f16, dyn, dyn, D> v,
                        In<f32, dyn> slopes, Scalar<f32> scale) {
  auto [head, block, zero] = o.index();
  auto K = k.tiles(shape<1, BN, D>), V = v.tiles(shape<1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto slope = slopes.gather(head);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-1e30f), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  for (auto j : range(min(K.count(1), ceil_div((block + 1) * BM, BN)))) {
    auto s = mma(Q, transpose(reshape(K.load(head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) * scale;
    auto apart = rows - iota<i32, 1, BN>(axis<1>) - j * BN;
    s = where(apart >= 0, s - slope * cast<f32>(apart), -1e30f);
    auto top = max(m, max(s, axis<1>));
    auto p = exp(s - top);
    auto less = exp(m - top);
    l = l * less + sum(p, axis<1>);
    acc = mma(cast<f16>(p), reshape(V.load(head, j, 0), shape<BN, D>), acc * less);
    m = top;
  }
  o.store(reshape(cast<f16>(acc / l), shape<1, BM, D>));
}

/// Each block of 256 places attends to itself; both products in one piece: head, block, place, depth.
void block_attention(Mut<bf16, 1, 1, kBlock, kNear> o, In<bf16, dyn, dyn, kBlock, kNear> q,
                     In<bf16, dyn, dyn, kBlock, kNear> k, In<bf16, dyn, dyn, kBlock, kNear> v, Scalar<f32> scale) {
  auto piece = [&](const auto& x) { return reshape(x.load_like(o), shape<kBlock, kNear>); };
  auto s = mma(piece(q), transpose(piece(k)), zeros<f32, kBlock, kBlock>()) * scale;
  auto p = exp(s - max(s, axis<1>));
  auto sums = mma(cast<bf16>(p), piece(v), zeros<f32, kBlock, kNear>()) / sum(p, axis<1>);
  o.store(reshape(cast<bf16>(sums), shape<1, 1, kBlock, kNear>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

/// softmax of score(key) over `count` keys, times value(key, d) for d below `depth`.
template <class S, class V>
std::vector<double> attended(Size count, Size depth, S score, V value) {
  std::vector<double> s, y;
  for (Size j = 0; j < count; ++j) s.push_back(score(j));
  s = softmax_of(s);
  for (Size d = 0; d < depth; ++d)
    y.push_back(sum_over(count, [&](Size j) { return s[static_cast<std::size_t>(j)] * value(j, d); }));
  return y;
}

Plan latent_decode_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             length = size_of_case(args, "length");
  const auto q = normal<bf16>(1, batch, heads, kLatent), q_turned = normal<bf16>(2, batch, heads, kTurned);
  const auto cache = normal<bf16>(3, batch, length, kLatent), turned = normal<bf16>(4, batch, length, kTurned);
  const double scale = 1 / std::sqrt(1.0 * (kLatent + kTurned));
  const auto wanted = [=](Size line) {
    const Size b = line / heads, h = line % heads;
    const auto score = [=](Size t) {
      return scale * (sum_over(kLatent, [=](Size d) { return q(b, h, d) * cache(b, t, d); }) +
                      sum_over(kTurned, [=](Size d) { return q_turned(b, h, d) * turned(b, t, d); }));
    };
    return attended(length, kLatent, score, [=](Size t, Size d) { return cache(b, t, d); });
  };
  return plan({bytes_of<bf16>(batch * (length * (kLatent + kTurned) + heads * (2 * kLatent + kTurned)))},
              outputs(by_line<bf16>(wanted, batch, heads, kLatent).within(1e-2)), inputs(q, q_turned, cache, turned),
              [=](const Stream& on, auto& o, const auto&... in) {
                kernel<latent_decode<64>>(mut(o), in..., static_cast<float>(scale)).on(on);
              });
}

Plan two_part_keys_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), length = size_of_case(args, "length");
  const auto q = normal<bf16>(1, heads, length, kDepth), q_turned = normal<bf16>(2, heads, length, kTurned);
  const auto k = normal<bf16>(3, heads, length, kDepth), k_turned = normal<bf16>(4, 1, length, kTurned);
  const auto v = normal<bf16>(5, heads, length, kDepth);
  const double scale = 1 / std::sqrt(1.0 * (kDepth + kTurned));
  const auto wanted = [=](Size line) {
    const Size h = line / length, i = line % length;
    const auto score = [=](Size j) {
      return scale * (sum_over(kDepth, [=](Size d) { return q(h, i, d) * k(h, j, d); }) +
                      sum_over(kTurned, [=](Size d) { return q_turned(h, i, d) * k_turned(0, j, d); }));
    };
    return attended(i + 1, kDepth, score, [=](Size j, Size d) { return v(h, j, d); });
  };
  return plan({bytes_of<bf16>(heads * length * (4 * kDepth + kTurned)),
               static_cast<double>(heads * length) * static_cast<double>(length) * (2 * kDepth + kTurned), "bf16"},
              outputs(by_line<bf16>(wanted, heads, length, kDepth).within(1e-2)), inputs(q, q_turned, k, k_turned, v),
              [=](const Stream& on, auto& o, const auto&... in) {
                kernel<two_part_keys<64, 64>>(mut(o), in..., static_cast<float>(scale)).on(on);
              });
}

Plan distance_attention_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), length = size_of_case(args, "length");
  const auto q = normal<f16>(1, heads, length, kSmallDepth), k = normal<f16>(2, heads, length, kSmallDepth),
             v = normal<f16>(3, heads, length, kSmallDepth);
  const auto slopes = uniform<f32>(4, 0.01, 0.5, heads);
  const auto wanted = [=](Size line) {
    const Size h = line / length, i = line % length;
    const auto score = [=](Size j) {
      const double s = sum_over(kSmallDepth, [=](Size d) { return q(h, i, d) * k(h, j, d); });
      return 0.125 * s - slopes(h) * static_cast<double>(i - j);
    };
    return attended(i + 1, kSmallDepth, score, [=](Size j, Size d) { return v(h, j, d); });
  };
  return plan({4 * bytes_of<f16>(heads * length * kSmallDepth),
               2.0 * kSmallDepth * static_cast<double>(heads * length) * static_cast<double>(length), "f16"},
              outputs(by_line<f16>(wanted, heads, length, kSmallDepth).within(1e-2)), inputs(q, k, v, slopes),
              [](const Stream& on, auto& o, const auto&... in) {
                kernel<distance_attention<128, 64, kSmallDepth>>(mut(o), in..., 0.125f).on(on);
              });
}

Plan block_attention_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), blocks = size_of_case(args, "blocks");
  const auto make = [=](std::uint64_t seed) { return normal<bf16>(seed, heads, blocks, kBlock, kNear); };
  const auto q = make(1), k = make(2), v = make(3);
  const double scale = 1 / std::sqrt(1.0 * kNear);
  const auto wanted = [=](Size line) {
    const Size first = line / kBlock * kBlock;
    const auto score = [=](Size j) {
      return scale * sum_over(kNear, [=](Size d) { return q.at(line * kNear + d) * k.at((first + j) * kNear + d); });
    };
    return attended(kBlock, kNear, score, [=](Size j, Size d) { return v.at((first + j) * kNear + d); });
  };
  const Size lines = heads * blocks * kBlock;
  return plan({4 * bytes_of<bf16>(lines * kNear), 4.0 * kNear * kBlock * static_cast<double>(lines), "bf16"},
              outputs(by_line<bf16>(wanted, heads, blocks, kBlock, kNear).within(1e-2)), inputs(q, k, v),
              [=](const Stream& on, auto& o, const auto&... in) {
                kernel<block_attention>(mut(o), in..., static_cast<float>(scale)).on(on);
              });
}

}  // namespace

std::vector<Entry> wide_attention_entries() {
  return {entry<latent_decode_plan>(
              "latent_decode", "attention",
              "batch=128 heads=16 length=4096; batch=77 heads=27 length=3001; batch=301 heads=16 length=777",
              "batch=2 heads=16 length=128; batch=1 heads=19 length=77"),
          entry<two_part_keys_plan>("two_part_keys", "attention",
                                    "heads=32 length=4096; heads=27 length=3001; heads=77 length=1777",
                                    "heads=2 length=128; heads=3 length=77"),
          entry<distance_attention_plan>("distance_attention", "attention",
                                         "heads=64 length=4096; heads=52 length=3001; heads=133 length=1777",
                                         "heads=2 length=256; heads=3 length=177"),
          entry<block_attention_plan>("block_attention", "attention",
                                      "heads=64 blocks=64; heads=77 blocks=37; heads=5 blocks=333",
                                      "heads=1 blocks=2; heads=3 blocks=1")};
}

}  // namespace generality
