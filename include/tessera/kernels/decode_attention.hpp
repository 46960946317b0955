// Attention of one query for each sequence over its cache, split along the keys so that all of the device reads
// (flash decoding, Dao et al. 2023): parts of the softmax first, then one small kernel that combines them.
//
//   auto o = kernels::decode_attention(q, k, v, lengths).sync();
//
// q is [batch, heads, d], k and v [batch, kv_heads, capacity, d], lengths (i32, on the device) the keys in use of each
// sequence. The query heads that share a key head are the rows of one tile, so the cache is read once.
#pragma once
#include "tessera/kernels/decode_combine.hpp"

namespace tessera::kernels {

template <class T, int G, int BN, int D>
void decode_part(Mut<f32, 1, 1, 1, G, D> parts, Mut<f32, 1, 1, 1, G> sums, In<T, dyn, dyn, dyn, dyn> q,
                 In<T, dyn, dyn, dyn, dyn> k, In<T, dyn, dyn, dyn, dyn> v, In<i32, dyn> lengths, Scalar<f32> scale) {
  auto [batch, head, part, zero] = sums.index();
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = reshape(q.tiles(shape<1, 1, G, D>).load(batch, head, 0, 0), shape<G, D>);
  auto length = clamp(lengths.gather(batch), 0, k.dim(2));
  auto steps = ceil_div(K.count(2), sums.dim(2));
  OnlineSoftmax<G, D> state;
  for (auto j : range(part * steps, min((part + 1) * steps, ceil_div(length, BN)))) {
    auto s = scores(Q, reshape(K.load(batch, head, j, 0), shape<BN, D>), scale);
    auto cols = iota<i32, 1, BN>(axis<1>) + j * BN;
    state.add(where(cols < length, s, -infinity<f32>), reshape(V.load(batch, head, j, 0), shape<BN, D>));
  }
  parts.store(reshape(state.result(), shape<1, 1, 1, G, D>));
  sums.store(reshape(state.log_sum(), shape<1, 1, 1, G>));
}

/// softmax(scale * q k^T) v over the first lengths[i] keys of sequence i, of q's extents; 0 for an empty sequence.
/// `parts`: into how many parts the keys are split (0: by the heuristics).
template <Operand Q, Operand K, Operand V, Operand L>
Op<Tensor<element_of<Q>, 3>> decode_attention(const Q& q, const K& k, const V& v, const L& lengths, float scale = 0,
                                              std::int64_t parts = 0,
                                              SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  static_assert(Q::rank == 3 && K::rank == 4 && V::rank == 4,
                "q is [batch, heads, d], k and v [batch, kv_heads, capacity, d]");
  check_attention("decode_attention", q, k, v, 1, where);
  expect_dim("decode_attention", "k", k, 0, q.dim(0), where);
  expect_dim("decode_attention", "lengths", lengths, 0, q.dim(0), where);
  const DecodeShape s = decode_shape(q, k.dim(1), ceil_div(k.dim(2), std::int64_t{kDecodeKeys}), parts, where);
  const View<T, 4> groups = tessera::reshape(q.view(), Dims<4>(s.batch, s.kv_heads, s.group, s.d), where);
  const float factor = AttentionOptions{scale}.scale_for(s.d);
  return with_constant<2>(s.group > 16, [&](auto many) {
    constexpr int g = many ? 64 : 16;
    return with_extent<64, 256>(s.d, [&](auto d) {
      auto partial =
          kernel<decode_part<T, g, kDecodeKeys, d>>(empty<f32>(s.parts_dims()), empty<f32>(s.sums_dims()), groups,
                                                    k.view(), v.view(), lengths.view(), factor, where);
      return tessera::reshape(combine_parts<T, d>(std::move(partial), s, where), q.dims(), where);
    });
  });
}

}  // namespace tessera::kernels
