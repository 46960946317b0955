// Unsafe twins: the same arithmetic through raw pointers without masks, valid only where the extents divide. What a
// safe kernel may cost more than its twin is the price of safety.
#pragma once
#include "tessera/tessera.hpp"

namespace gpu_bench {

using namespace tessera;

/// Row-major offsets of a tile of H x W with `stride` elements from row to row.
template <int H, int W>
Tile<i64, H, W> offsets_of(const Scalar<i64>& first, const Scalar<i64>& stride) {
  return first + iota<i64, H, 1>(axis<0>) * stride + iota<i64, 1, W>(axis<1>);
}

template <class T>
unsafe_::Ptr<T> aligned(const unsafe_::Ptr<T>& p) {
  return unsafe_::assume(p, unsafe_::div_by(16));
}

template <int N>
void unsafe_softmax(unsafe_::Ptr<bf16> y, unsafe_::Ptr<bf16> x) {
  auto [row] = block_id<1>();
  auto at = cast<i64>(row) * N + iota<i64, N>();
  auto t = cast<f32>(unsafe_::load(aligned(x) + at));
  t = exp(t - max(t, axis<0>));
  unsafe_::store(aligned(y) + at, cast<bf16>(t / sum(t, axis<0>)));
}

/// c[m, n] = a[m, k] b[n, k] transposed; one tile a block.
template <class T, int BM, int BN, int BK>
void unsafe_gemm(unsafe_::Ptr<T> c, unsafe_::Ptr<T> a, unsafe_::Ptr<T> b, Scalar<i32> n, Scalar<i32> k) {
  auto [block] = block_id<1>();
  auto columns = n / BN;
  auto rows = num_blocks() / columns;
  auto group = block / (8 * columns);  // groups of 8 rows of tiles
  auto height = min(rows - group * 8, 8);
  auto i = group * 8 + block % (8 * columns) % height;
  auto j = block % (8 * columns) / height;
  auto depth = unsafe_::assume(cast<i64>(k), unsafe_::div_by(16));
  auto width = unsafe_::assume(cast<i64>(n), unsafe_::div_by(16));
  auto acc = zeros<f32, BM, BN>();
  for (auto step : range(k / BK)) {
    auto A = unsafe_::load(aligned(a) + offsets_of<BM, BK>(cast<i64>(i) * BM * depth + cast<i64>(step) * BK, depth));
    auto B = unsafe_::load(aligned(b) + offsets_of<BN, BK>(cast<i64>(j) * BN * depth + cast<i64>(step) * BK, depth));
    acc = mma(A, transpose(B), acc);
  }
  unsafe_::store(aligned(c) + offsets_of<BM, BN>(cast<i64>(i) * BM * width + cast<i64>(j) * BN, width), cast<T>(acc));
}

/// Full or causal attention of [heads, length, D] with one key head per query head; one query tile a block.
template <bool Causal, int BM, int BN, int D>
void unsafe_attention(unsafe_::Ptr<bf16> o, unsafe_::Ptr<bf16> q, unsafe_::Ptr<bf16> k, unsafe_::Ptr<bf16> v,
                      Scalar<f32> scale, Scalar<i32> length) {
  auto [number] = block_id<1>();
  auto blocks = length / BM;
  auto block = number % blocks;
  auto head = cast<i64>(number / blocks) * cast<i64>(length) * D;
  const Scalar<i64> stride = D;
  auto Q = unsafe_::load(aligned(q) + offsets_of<BM, D>(head + cast<i64>(block) * (BM * D), stride));
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-infinity<f32>), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  auto steps = length / BN;
  if constexpr (Causal) steps = min(steps, ceil_div((block + 1) * BM, BN));
  for (auto j : range(steps)) {
    auto at = offsets_of<BN, D>(head + cast<i64>(j) * (BN * D), stride);
    auto s = mma(Q, transpose(unsafe_::load(aligned(k) + at)), zeros<f32, BM, BN>()) * (scale * log2e<f32>);
    if constexpr (Causal) {
      tile_if ((j + 1) * BN > block * BM) { s = where(rows >= iota<i32, 1, BN>(axis<1>) + j * BN, s, -infinity<f32>); }
    }
    auto m2 = max(m, max(s, axis<1>));
    auto p = exp2(s - m2);
    auto alpha = exp2(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), unsafe_::load(aligned(v) + at), acc * alpha);
    m = m2;
  }
  unsafe_::store(aligned(o) + offsets_of<BM, D>(head + cast<i64>(block) * (BM * D), stride), cast<bf16>(acc / l));
}

}  // namespace gpu_bench
