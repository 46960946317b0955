// Attention of one query per sequence over its KV cache. The keys are split so that all SMs read (flash decoding, Dao
// et al. 2023): one kernel computes a softmax per KV split, a small second kernel combines them. Where there are enough
// sequences and heads, the keys are not split.
//
//   auto o = kernels::decode_attention(q, k, v, lengths).sync();
//
// q is [batch, heads, d], k and v [batch, kv_heads, capacity, d], lengths (i32, on the device) the keys in use of each
// sequence (a length out of range is clamped to 0 or the capacity). The contents of the cache beyond them do not affect
// any result, even NaN. The query heads that share a key head are the columns of one tile, so the cache is read once.
#pragma once
#include "tessera/kernels/decode_combine.hpp"
#include "tessera/kernels/decode_state.hpp"

namespace tessera::kernels {

/// The work of a block of decode_split or decode_whole: KV split `part` of `parts`, for one sequence and key head.
template <int BN, int G, int D, class T>
DecodeResult<G, D> decode_keys(const Scalar<i32>& batch, const Scalar<i32>& head, const Scalar<i32>& part,
                               const Scalar<i32>& parts, const In<T, dyn, dyn, dyn, dyn>& q,
                               const In<T, dyn, dyn, dyn, dyn>& k, const In<T, dyn, dyn, dyn, dyn>& v,
                               const In<i32, dyn>& lengths, const Scalar<f32>& scale) {
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = transpose(reshape(q.tiles(shape<1, 1, G, D>).load(batch, head, 0, 0), shape<G, D>));
  auto length = clamp(lengths.gather(batch), 0, k.dim(2));
  DecodeState<BN, G, D> state;
  for (auto j : steps_of_part(part, parts, ceil_div(length, BN))) {
    auto keys = reshape(K.load(batch, head, j, 0), shape<BN, D>);  // needed before the values
    auto values = reshape(V.load(batch, head, j, 0), shape<BN, D>);
    state.add(Q, keys, values, j * BN, length, scale * log2e<f32>);
  }
  return finish(state);
}
template <class T, int G, int BN, int D>
void decode_split(Mut<f32, 1, 1, 1, G, D> parts, Mut<f32, 1, 1, 1, G> sums, In<T, dyn, dyn, dyn, dyn> q,
                  In<T, dyn, dyn, dyn, dyn> k, In<T, dyn, dyn, dyn, dyn> v, In<i32, dyn> lengths, Scalar<f32> scale) {
  auto [batch, head, part, zero] = sums.index();
  auto r = decode_keys<BN, G, D>(batch, head, part, sums.dim(2), q, k, v, lengths, scale);
  parts.store(reshape(r.o, shape<1, 1, 1, G, D>));
  sums.store(reshape(r.log_sum, shape<1, 1, 1, G>));
}
template <class T, int G, int BN, int D>
void decode_whole(Mut<T, 1, 1, G, D> o, In<T, dyn, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn, dyn> k,
                  In<T, dyn, dyn, dyn, dyn> v, In<i32, dyn> lengths, Scalar<f32> scale) {
  auto [batch, head, zero, zero2] = o.index();
  auto r = decode_keys<BN, G, D>(batch, head, 0, 1, q, k, v, lengths, scale);
  o.store(reshape(narrow<T>(r.o), shape<1, 1, G, D>));
}

/// softmax(scale * q k^T) v over the first lengths[i] keys of sequence i, with q's extents; 0 for an empty sequence.
/// `parts`: the number of KV splits, rounded up to a power of two (0: chosen by the heuristics). `Keys`: keys per step.
/// Throws ShapeError for extents and options that do not fit.
template <int Keys = kDecodeKeys, Operand Q, Operand K, Operand V, Operand L>
Op<Tensor<element_of<Q>, 3>> decode_attention(const Q& q, const K& k, const V& v, const L& lengths, float scale = 0,
                                              std::int64_t parts = 0,
                                              SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  static_assert(Q::rank == 3 && K::rank == 4 && V::rank == 4,
                "q is [batch, heads, d], k and v [batch, kv_heads, capacity, d]");
  check_attention("decode_attention", q, k, v, 1, where);
  expect_dim("decode_attention", "k", k, 0, q.dim(0, where), where);
  expect_dim("decode_attention", "lengths", lengths, 0, q.dim(0, where), where);
  const DecodeShape s = decode_shape(q, k.dim(1, where), ceil_div(k.dim(2, where), std::int64_t{Keys}), parts, where);
  const View<T, 4> groups = tessera::reshape(q.view(where), Dims<4>({s.batch, s.kv_heads, s.group, s.d}, where), where);
  const float factor = AttentionOptions{scale}.scale_for(s.d, "decode_attention", where);
  const auto [whole, split] = with_decode_tile(s, [](auto g, auto d) {
    return std::pair(kernel<decode_whole<T, g, Keys, d>>.launcher(), kernel<decode_split<T, g, Keys, d>>.launcher());
  });
  if (s.parts == 1)
    return tessera::reshape(whole(empty<T>(s.result_dims(), where), groups, k.view(where), v.view(where),
                                  lengths.view(where), factor, where),
                            q.dims(where), where);
  auto partial = split(empty<f32>(s.parts_dims(), where), empty<f32>(s.sums_dims(), where), groups, k.view(where),
                       v.view(where), lengths.view(where), factor, where);
  return tessera::reshape(combine_splits<T>(std::move(partial), s, where), q.dims(where), where);
}

}  // namespace tessera::kernels
