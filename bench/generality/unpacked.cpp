// Weights of few bits, unpacked beside a product: four bits with a scale for each group, with zero points, by a table,
// three values in two bits, bytes with scales of blocks; and keys of 8 bits in attention.
#include <algorithm>
#include <cmath>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

constexpr int kGroup = 128;  // weights that share a scale along k
constexpr int kBlock = 32;   // of block_scaled_bytes
constexpr int kDepth = 128;  // of byte_keys_attention

/// The two numbers of four bits in each byte, the first one low: 0 to 15.
template <int N, int K>
Tile<u8, N, 2 * K> nibbles(const Tile<u8, N, K>& bytes) {
  auto low = reshape(bytes & 15, shape<N, K, 1>), high = reshape(bytes >> 4, shape<N, K, 1>);
  return reshape(cat(low, high, axis<2>), shape<N, 2 * K>);
}

/// A few rows times the transposed w of four bits.
template <int BM, int BN>
void nibble_weights(Mut<bf16, BM, BN> y, In<bf16, dyn, dyn> x, In<u8, dyn, dyn> w, In<f32, dyn, dyn> scales) {
  auto X = x.tiles(shape<BM, kGroup>);
  auto W = w.tiles(shape<BN, kGroup / 2>);
  auto S = scales.tiles(shape<BN, 1>);
  auto [i, j] = y.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(X.count(1))) {
    auto numbers = cast<bf16>(cast<f32>(nibbles(W.load(j, k))) - 8.0f);
    acc += mma(X.load(i, k), transpose(numbers), zeros<f32, BM, BN>()) * transpose(S.load(j, k));
  }
  y.store(cast<bf16>(acc));
}

/// Many rows; each group of a column has a scale, which the weights are multiplied by first.
template <int BM, int BN>
void nibble_product(MutTiles<f16, BM, BN> y, In<f16, dyn, dyn> x, In<u8, dyn, dyn> w, In<f16, dyn, dyn> scales) {
  auto X = x.tiles(shape<BM, kGroup>);
  auto W = w.tiles(shape<BN, kGroup / 2>);
  auto S = scales.tiles(shape<BN, 1>);
  for (auto out : y.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(X.count(1))) {
      auto numbers = (cast<f16>(nibbles(W.load(j, k))) - 8.0f) * S.load(j, k);
      acc = mma(X.load(i, k), transpose(numbers), acc);
    }
    out.store(cast<f16>(acc));
  }
}

/// Bytes with a zero point and a scale for each column: x (w - zero) scale, w as k by n.
template <int BM, int BN, int BK>
void zero_point_product(MutTiles<f16, BM, BN> y, In<f16, dyn, dyn> x, In<u8, dyn, dyn> w, In<f32, dyn> zeros_of,
                        In<f32, dyn> scales) {
  auto X = x.tiles(shape<BM, BK>);
  auto W = w.tiles(shape<BK, BN>);
  for (auto out : y.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    auto zero = zeros_of.load_like(out, axes<1>), scale = scales.load_like(out, axes<1>);
    for (auto k : range(X.count(1))) acc = mma(X.load(i, k), cast<f16>(cast<f32>(W.load(k, j)) - zero), acc);
    out.store(cast<f16>(acc * scale));
  }
}

/// Each number of four bits is a place in a table of 16 values.
template <int BM, int BN>
void table_weights(Mut<bf16, BM, BN> y, In<bf16, dyn, dyn> x, In<u8, dyn, dyn> w, In<f32, 16> table) {
  auto X = x.tiles(shape<BM, kGroup>);
  auto W = w.tiles(shape<BN, kGroup / 2>);
  auto [i, j] = y.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(X.count(1))) {
    auto numbers = cast<bf16>(table.gather(cast<i32>(nibbles(W.load(j, k)))));
    acc = mma(X.load(i, k), transpose(numbers), acc);
  }
  y.store(cast<bf16>(acc));
}

/// Weights of -1, 0 and 1: four of them in a byte, two bits each.
template <int BM, int BN, int BK>
void ternary_weights(Mut<f32, BM, BN> y, In<bf16, dyn, dyn> x, In<u8, dyn, dyn> w) {
  auto X = x.tiles(shape<BM, BK>);
  auto W = w.tiles(shape<BN, BK / 4>);
  auto [i, j] = y.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(X.count(1))) {
    auto bytes = reshape(cast<i32>(W.load(j, k)), shape<BN, BK / 4, 1>);
    auto codes = (bytes >> (iota<i32, 1, 1, 4>(axis<2>) * 2)) & 3;
    acc = mma(X.load(i, k), transpose(reshape(cast<bf16>(codes - 1), shape<BN, BK>)), acc);
  }
  y.store(acc);
}

/// Bytes as k by n with a scale for each 32 rows of a column, which the tile is multiplied by.
template <int BM, int BN, int BK>
void block_scaled_bytes(MutTiles<bf16, BM, BN> y, In<bf16, dyn, dyn> x, In<i8, dyn, dyn> w, In<f32, dyn, dyn> scales) {
  auto X = x.tiles(shape<BM, BK>);
  auto W = w.tiles(shape<BK, BN>);
  auto S = scales.tiles(shape<BK / kBlock, BN>);
  for (auto out : y) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(X.count(1))) {
      auto bytes = reshape(cast<f32>(W.load(k, j)), shape<BK / kBlock, kBlock, BN>);
      auto scaled = bytes * reshape(S.load(k, j), shape<BK / kBlock, 1, BN>);
      acc = mma(X.load(i, k), cast<bf16>(reshape(scaled, shape<BK, BN>)), acc);
    }
    out.store(cast<bf16>(acc));
  }
}

/// One row times four bits, without tensor cores.
template <int BN>
void nibble_vector(Mut<f32, BN> y, In<f32, dyn> x, In<u8, dyn, dyn> w, In<f32, dyn, dyn> scales) {
  auto X = x.tiles(shape<kGroup>);
  auto W = w.tiles(shape<BN, kGroup / 2>);
  auto S = scales.tiles(shape<BN, 1>);
  auto [j] = y.index();
  auto acc = zeros<f32, BN, 1>();
  for (auto k : range(X.count(0))) {
    auto numbers = cast<f32>(nibbles(W.load(j, k))) - 8.0f;
    acc += sum(numbers * reshape(X.load(k), shape<1, kGroup>), axis<1>) * S.load(j, k);
  }
  y.store(reshape(acc, shape<BN>));
}

/// One query per head, over keys of bytes with a scale each and values of bf16: head, time, depth.
template <int BN, int D>
void byte_keys_attention(Mut<bf16, 1, D> o, In<bf16, dyn, D> q, In<i8, dyn, dyn, D> keys, In<f32, dyn, dyn> scales,
                         In<bf16, dyn, dyn, D> values) {
  auto [head, zero] = o.index();
  auto K = keys.tiles(shape<1, BN, D>);
  auto V = values.tiles(shape<1, BN, D>);
  auto S = scales.tiles(shape<1, BN>);
  auto query = cast<f32>(q.load_like(o)) * rsqrt(full<f32, 1, 1>(static_cast<float>(D)));
  auto m = full<f32, 1, 1>(-infinity<f32>), l = zeros<f32, 1, 1>();
  auto acc = zeros<f32, 1, D>();
  for (auto t : range(K.count(1))) {
    auto products = sum(cast<f32>(reshape(K.load(head, t, 0), shape<BN, D>)) * query, axis<1>);
    auto s = products * reshape(S.load(head, t), shape<BN, 1>);
    s = where(iota<i32, BN, 1>(axis<0>) + t * BN < keys.dim(1), s, -infinity<f32>);
    auto top = max(m, max(s, axis<0>));
    auto p = exp(s - top), less = exp(m - top);
    l = l * less + sum(p, axis<0>);
    acc = acc * less + sum(p * cast<f32>(reshape(V.load(head, t, 0), shape<BN, D>)), axis<0>);
    m = top;
  }
  o.store(cast<bf16>(acc / l));
}

/// Four bits to bf16, with a scale for each group.
template <int N>
void unpack_groups(Mut<bf16, 1, N> y, In<u8, dyn, dyn> w, In<f32, dyn, dyn> scales) {
  auto [row, j] = y.index();
  auto numbers = cast<f32>(nibbles(w.tiles(shape<1, N / 2>).load(row, j))) - 8.0f;
  auto by = reshape(scales.tiles(shape<1, N / kGroup>).load(row, j), shape<N / kGroup, 1>);
  y.store(reshape(cast<bf16>(reshape(numbers, shape<N / kGroup, kGroup>) * by), shape<1, N>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

struct Weights {
  Size m, n, k;
  Cost cost;
  Weights(const Args& args, double bytes_of_weight)
      : m(size_of_case(args, "m")), n(size_of_case(args, "n")), k(size_of_case(args, "k")) {
    cost.bytes = bytes_of_weight * static_cast<double>(n * k) + bytes_of<bf16>(m * (n + k));
    if (m >= 256) {  // bound by arithmetic
      cost.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
      cost.math = "bf16";
    }
  }
  Size groups() const { return ceil_div(k, Size{kGroup}); }
};

/// Number k of a row of four bits each.
double nibble_at(const Input<u8, 2>& w, Size row, Size k) {
  const auto byte = static_cast<Size>(w(row, k / 2));
  return static_cast<double>(k % 2 == 0 ? byte & 15 : byte >> 4);
}

template <class T, class S, class F>
Plan nibble_plan(const Weights& p, F launch) {
  const auto x = normal<T>(1, p.m, p.k);
  const auto w = whole<u8>(2, 0, 256, p.n, p.k / 2);
  const auto scales = uniform<S>(3, 0.005, 0.01, p.n, p.groups());
  const auto wanted = [=](Size at) {
    return sum_over(
        p.k, [=](Size k) { return x(at / p.n, k) * (nibble_at(w, at % p.n, k) - 8) * scales(at % p.n, k / kGroup); });
  };
  return plan(p.cost, outputs(by_offset<T>(wanted, p.m, p.n)), inputs(x, w, scales), launch);
}

Plan nibble_weights_plan(const Args& args) {
  return nibble_plan<bf16, f32>(Weights(args, 0.5), [](const Stream& on, auto& y, const auto&... in) {
    kernel<nibble_weights<16, 64>>(mut(y), in...).on(on);
  });
}

Plan nibble_product_plan(const Args& args) {
  return nibble_plan<f16, f16>(Weights(args, 0.5), [](const Stream& on, auto& y, const auto&... in) {
    kernel<nibble_product<128, 128>>(mut(y), in...).on(on);
  });
}

Plan zero_point_plan(const Args& args) {
  const Weights p(args, 1);
  const auto x = normal<f16>(1, p.m, p.k);
  const auto w = whole<u8>(2, 0, 256, p.k, p.n);
  const auto zero = whole<f32>(3, 100, 156, p.n);
  const auto scales = uniform<f32>(4, 0.0005, 0.001, p.n);
  const auto wanted = [=](Size at) {
    const Size i = at / p.n, j = at % p.n;
    return scales(j) * sum_over(p.k, [=](Size k) { return x(i, k) * (w(k, j) - zero(j)); });
  };
  return plan(p.cost, outputs(by_offset<f16>(wanted, p.m, p.n)), inputs(x, w, zero, scales),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<zero_point_product<128, 128, 64>>(mut(y), in...).on(on);
              });
}

Plan table_weights_plan(const Args& args) {
  const Weights p(args, 0.5);
  const auto x = normal<bf16>(1, p.m, p.k);
  const auto w = whole<u8>(2, 0, 256, p.n, p.k / 2);
  const auto table = uniform<f32>(3, -1, 1, 16);
  const auto wanted = [=](Size at) {
    return sum_over(p.k, [=](Size k) {
      return x(at / p.n, k) *
             static_cast<double>(bf16(static_cast<float>(table(static_cast<Size>(nibble_at(w, at % p.n, k))))));
    });
  };
  return plan(
      p.cost, outputs(by_offset<bf16>(wanted, p.m, p.n)), inputs(x, w, table),
      [](const Stream& on, auto& y, const auto&... in) { kernel<table_weights<16, 64>>(mut(y), in...).on(on); });
}

Plan ternary_plan(const Args& args) {
  const Weights p(args, 0.25);
  const auto x = normal<bf16>(1, p.m, p.k);
  const auto w = whole<u8>(2, 0, 170, p.n, p.k / 4);  // code 3 stands for 2
  const auto wanted = [=](Size at) {
    return sum_over(p.k, [=](Size k) {
      const auto byte = static_cast<Size>(w(at % p.n, k / 4));
      return x(at / p.n, k) * static_cast<double>((byte >> (2 * (k % 4)) & 3) - 1);
    });
  };
  return plan(
      p.cost, outputs(by_offset<f32>(wanted, p.m, p.n).within(1e-4)), inputs(x, w),
      [](const Stream& on, auto& y, const auto&... in) { kernel<ternary_weights<32, 64, 128>>(mut(y), in...).on(on); });
}

Plan block_scaled_plan(const Args& args) {
  const Weights p(args, 1);
  const auto x = normal<bf16>(1, p.m, p.k);
  const auto w = whole<i8>(2, -127, 128, p.k, p.n);
  const auto scales = uniform<f32>(3, 0.0005, 0.001, ceil_div(p.k, Size{kBlock}), p.n);
  const auto wanted = [=](Size at) {
    const Size i = at / p.n, j = at % p.n;
    return sum_over(p.k, [=](Size k) { return x(i, k) * w(k, j) * scales(k / kBlock, j); });
  };
  return plan(p.cost, outputs(by_offset<bf16>(wanted, p.m, p.n)), inputs(x, w, scales),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<block_scaled_bytes<64, 128, 64>>(mut(y), in...).on(on);
              });
}

Plan nibble_vector_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), inner = size_of_case(args, "k"), groups = ceil_div(inner, Size{kGroup});
  const auto x = normal<f32>(1, inner);
  const auto w = whole<u8>(2, 0, 256, n, inner / 2);
  const auto scales = uniform<f32>(3, 0.005, 0.01, n, groups);
  const auto wanted = [=](Size j) {
    return sum_over(inner, [=](Size k) { return x(k) * (nibble_at(w, j, k) - 8) * scales(j, k / kGroup); });
  };
  return plan({bytes_of<u8>(n * inner / 2) + bytes_of<f32>(n * groups)},
              outputs(by_offset<f32>(wanted, n).within(1e-4)), inputs(x, w, scales),
              [](const Stream& on, auto& y, const auto&... in) { kernel<nibble_vector<32>>(mut(y), in...).on(on); });
}

Plan byte_keys_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), length = size_of_case(args, "length");
  const auto q = normal<bf16>(1, heads, kDepth);
  const auto keys = whole<i8>(2, -127, 128, heads, length, kDepth);
  const auto scales = uniform<f32>(3, 0.01, 0.02, heads, length);
  const auto values = normal<bf16>(4, heads, length, kDepth);
  const auto wanted = [=](Size h) {
    std::vector<double> s, y;
    for (Size t = 0; t < length; ++t) {
      s.push_back(scales(h, t) / std::sqrt(1.0 * kDepth) *
                  sum_over(kDepth, [=](Size d) { return q(h, d) * keys(h, t, d); }));
    }
    s = softmax_of(s);
    for (Size d = 0; d < kDepth; ++d)
      y.push_back(sum_over(length, [&](Size t) { return s[static_cast<std::size_t>(t)] * values(h, t, d); }));
    return y;
  };
  return plan({3.0 * static_cast<double>(heads * length * kDepth) + bytes_of<f32>(heads * length)},
              outputs(by_line<bf16>(wanted, heads, kDepth)), inputs(q, keys, scales, values),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<byte_keys_attention<64, kDepth>>(mut(y), in...).on(on);
              });
}

Plan unpack_groups_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto w = whole<u8>(1, 0, 256, rows, columns / 2);
  const auto scales = uniform<f32>(2, 0.005, 0.01, rows, ceil_div(columns, Size{kGroup}));
  const auto wanted = [=](Size at) {
    const Size row = at / columns, k = at % columns;
    return (nibble_at(w, row, k) - 8) * scales(row, k / kGroup);
  };
  return plan({2.5 * static_cast<double>(rows * columns)}, outputs(by_offset<bf16>(wanted, rows, columns)),
              inputs(w, scales),
              [](const Stream& on, auto& y, const auto&... in) { kernel<unpack_groups<1024>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> unpacked_entries() {
  return {entry<nibble_weights_plan>("nibble_weights", "quantized",
                                     "m=16 n=28672 k=8192; m=5 n=30001 k=5006; m=16 n=15001 k=14336",
                                     "m=16 n=128 k=256; m=5 n=77 k=198"),
          entry<nibble_product_plan>("nibble_product", "quantized",
                                     "m=2048 n=4096 k=4096; m=1003 n=5001 k=3002; m=5003 n=1100 k=2056",
                                     "m=128 n=128 k=256; m=77 n=133 k=198"),
          entry<zero_point_plan>("zero_point_product", "quantized",
                                 "m=2048 n=4096 k=4096; m=1003 n=5001 k=3003; m=5003 n=1104 k=2056",
                                 "m=128 n=128 k=128; m=77 n=133 k=99"),
          entry<table_weights_plan>("table_weights", "quantized",
                                    "m=16 n=28672 k=8192; m=9 n=30001 k=5006; m=13 n=10001 k=16008",
                                    "m=16 n=128 k=256; m=5 n=77 k=198"),
          entry<ternary_plan>("ternary_weights", "quantized",
                              "m=32 n=32768 k=16384; m=27 n=50001 k=8004; m=100 n=15001 k=20004",
                              "m=32 n=128 k=256; m=27 n=77 k=196"),
          entry<block_scaled_plan>("block_scaled_bytes", "quantized",
                                   "m=1024 n=4096 k=4096; m=777 n=5001 k=3003; m=3001 n=1104 k=2056",
                                   "m=64 n=128 k=128; m=77 n=133 k=99"),
          entry<nibble_vector_plan>("nibble_vector", "quantized", "n=32768 k=8192; n=50001 k=5006; n=15001 k=16390",
                                    "n=64 k=256; n=77 k=198"),
          entry<byte_keys_plan>("byte_keys_attention", "quantized",
                                "heads=512 length=4096; heads=333 length=5001; heads=2001 length=777",
                                "heads=2 length=128; heads=3 length=77"),
          entry<unpack_groups_plan>("unpack_groups", "quantized",
                                    "rows=16384 columns=8192; rows=30001 columns=2998; rows=5003 columns=11008",
                                    "rows=4 columns=1024; rows=3 columns=1398")};
}

}  // namespace generality
