// Shared by decoding over a contiguous cache and over pages: the softmax of a few queries over many keys, step by step.
//
// The keys are the rows of both products, the queries their few columns: 64 rows and 8 columns are the smallest product
// of a warpgroup, so 8 queries need no padding, and products read keys and values directly from where tensor copies put
// them. With the queries as rows the same work takes three times the instructions (sm_90, tileiras 13.5).
#pragma once
#include "tessera/kernels/attention_state.hpp"

namespace tessera::kernels {

/// Maximum, sums and weighted values of G queries over the keys so far, N keys per step.
template <int N, int G, int D>
struct DecodeState {
  Tile<f32, 1, G> m = full<f32, 1, G>(std::numeric_limits<f32>::lowest());
  Tile<f32, N, G> l = zeros<f32, N, G>();  ///< summed over the keys at the end: no exchange between warps in the loop
  Tile<f32, D, G> acc = zeros<f32, D, G>();

  /// Adds the keys from number `first` on; those at `length` and beyond are ignored. `factor` is the scale in units of
  /// log2(e). Values of ignored keys may be NaN; they are set to 0, because 0 * NaN would reach the sums. That is a
  /// branch with its own product, because the hardware multiplies only unmodified operands directly from where tensor
  /// copies put them.
  template <class T>
  void add(const Tile<T, D, G>& q, const Tile<T, N, D>& k, const Tile<T, N, D>& v, const Scalar<i32>& first,
           const Scalar<i32>& length, const Scalar<f32>& factor) {
    auto s = where(iota<i32, N, 1>(axis<0>) + first < length, mma(k, q, zeros<f32, N, G>()) * factor, -infinity<f32>);
    auto m2 = max(m, max(s, axis<0>));
    auto p = exp2(s - m2);
    auto alpha = exp2(m - m2);
    l = l * alpha + p;
    acc = acc * alpha;
    tile_if (first + N > length) {
      auto counts = broadcast(iota<i32, N, 1>(axis<0>) + first < length, shape<N, D>);
      acc = mma(transpose(where(counts, v, zeros<T, N, D>())), narrow<T>(p), acc);
    } else {
      acc = mma(transpose(v), narrow<T>(p), acc);
    }
    m = m2;
  }
};

/// The result of a DecodeState: the attention over its keys, and log2 of the sum of exp2 of their scores.
template <int G, int D>
struct DecodeResult {
  Tile<f32, G, D> o;        ///< 0 for a query that saw no key
  Tile<f32, 1, G> log_sum;  ///< -infinity for a query that saw no key
};
template <int N, int G, int D>
DecodeResult<G, D> finish(const DecodeState<N, G, D>& state) {
  auto l = sum(state.l, axis<0>);
  return {transpose(state.acc / max(l, 1e-30f)), state.m + log2(l)};
}

/// The steps of KV split `part` of `parts`: `steps` divided as evenly as possible.
inline auto steps_of_part(const Scalar<i32>& part, const Scalar<i32>& parts, const Scalar<i32>& steps) {
  auto each = ceil_div(steps, parts);
  return range(part * each, min((part + 1) * each, steps));
}

}  // namespace tessera::kernels
