// Attention forward, tile by tile with the online softmax (Dao 2022, 2023): o = softmax(scale * q k^T) v.
//
//   auto o = kernels::attention(q, k, v, {.causal = true}).sync();
//   auto o = kernels::attention(q, k, v, {.causal = true, .window = 4096}).sync();   // a query sees 4096 keys
//
// q is [batch, heads, queries, d], k and v [batch, kv_heads, keys, d] with heads a multiple of kv_heads, d up to 256.
// Causal: the last query sees all keys, the one before it all but the last, ... A query that sees no key gives 0.
#pragma once
#include "tessera/kernels/attention_state.hpp"

namespace tessera::kernels {

template <AttentionMask Mask, class T, int BM, int BN, int D>
void attention_forward(Mut<T, 1, 1, BM, D> o, In<T, dyn, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn, dyn> k,
                       In<T, dyn, dyn, dyn, dyn> v, Scalar<f32> scale, Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, block, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto first = block * BM + (k.dim(2) - q.dim(2));  // the position of the first query among the keys
  auto rows = iota<i32, BM, 1>(axis<0>) + first;
  auto begin = Scalar<i32>(0), end = K.count(2);
  if constexpr (Mask != AttentionMask::Full) end = min(end, ceil_div(max(first + BM, 0), BN));
  if constexpr (Mask == AttentionMask::Window) begin = max(first - window + 1, 0) / BN;
  auto unit = scale * log2e<f32>;  // so that exp2 serves
  auto scores = [&](const Scalar<i32>& j) {
    auto s = mma(Q, transpose(reshape(K.load(batch, kv_head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>());
    auto partly = (j + 1) * BN > k.dim(2);
    if constexpr (Mask != AttentionMask::Full) partly = partly || (j + 1) * BN > first;
    if constexpr (Mask == AttentionMask::Window) partly = partly || j * BN <= first + BM - 1 - window;
    tile_if (partly) {
      auto cols = iota<i32, 1, BN>(axis<1>) + j * BN;
      auto seen = broadcast(cols < k.dim(2), shape<BM, BN>);
      if constexpr (Mask != AttentionMask::Full) seen = seen && rows >= cols;
      if constexpr (Mask == AttentionMask::Window) seen = seen && rows - cols < window;
      s = where(seen, s, where(unit < 0, infinity<f32>, -infinity<f32>));
    }
    return s;
  };
  auto attend = [&](auto state) {
    for (auto j : range(begin, end)) state.add(scores(j), unit, reshape(V.load(batch, kv_head, j, 0), shape<BN, D>));
    return state;
  };
  OnlineSoftmax<BM, D> state;
  if constexpr (Mask == AttentionMask::Window) {
    state = attend(state);
  } else {
    tile_if (begin < end) {
      auto fixed = attend(FixedSoftmax<BM, D>(max(scores(begin), axis<1>) * unit));
      state = fixed.state();
      tile_if (!fixed.template holds<T>()) state = attend(OnlineSoftmax<BM, D>());
    }
  }
  o.store(reshape(cast<T>(state.result()), shape<1, 1, BM, D>));
}

/// softmax(scale * q k^T) v, of q's extents.
template <Operand Q, Operand K, Operand V>
Op<Tensor<element_of<Q>, 4>> attention(const Q& q, const K& k, const V& v, const AttentionOptions& options = {},
                                       SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  static_assert(Q::rank == 4 && K::rank == 4 && V::rank == 4, "attention takes [batch, heads, length, d]");
  check_attention("attention", q, k, v, 1, where);
  expect_dim("attention", "k", k, 0, q.dim(0), where);
  const float scale = options.scale_for(q.dim(3));
  const int mask = options.mask("attention", where);
  return with_constant<3>(mask, [&](auto m) {
    return with_extent<32, 256>(q.dim(3), [&](auto d) {
      constexpr int BM = d >= 256 ? 128 : 64, BN = d >= 256 ? 64 : 128;
      return kernel<attention_forward<static_cast<AttentionMask>(m()), T, BM, BN, d>>(
          empty<T>(q.dims(), where), q.view(), k.view(), v.view(), scale, options.window, where);
    });
  });
}

}  // namespace tessera::kernels
