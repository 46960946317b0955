// Attention of sequences of different lengths, packed one after the other: no padding is computed.
//
//   auto o = kernels::attention_varlen(q, k, v, offsets, {.causal = true}).sync();
//
// q is [tokens, heads, d], k and v [tokens, kv_heads, d]; sequence i is the tokens offsets[i] to offsets[i + 1] - 1, so
// offsets (i32, on the device) has one element more than there are sequences, and rises from 0 to tokens. A block of
// queries may cover several sequences: each query finds its own among the offsets. Tokens before the first offset and
// from the last offset on are sequences too. A NaN in one sequence does not reach another.
#pragma once
#include "tessera/kernels/attention_state.hpp"

namespace tessera::kernels {

template <AttentionMask Mask, class T, int BM, int BN, int D, int NS>
void attention_packed(Mut<T, BM, 1, D> o, In<T, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn> k, In<T, dyn, dyn, dyn> v,
                      In<i32, dyn> offsets, Scalar<f32> scale, Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [block, head, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto bounds = reshape(offsets.load_at(shape<NS>, 0, pad(0x7fffffff)), shape<1, NS>);
  auto first = max(where(bounds <= rows, bounds, 0), axis<1>);                      // of the query's sequence
  auto last = min(min(where(bounds > rows, bounds, k.dim(0)), axis<1>), k.dim(0));  // one past its end
  if constexpr (Mask != AttentionMask::Full) last = min(last, rows + 1);
  if constexpr (Mask == AttentionMask::Window) first = max(first, rows + 1 - window);
  const auto values = [&]<int N>(Shape<N, 1, D> keys, const Scalar<i32>& j) {
    return reshape(v.tiles(keys).load(j, kv_head, 0), shape<N, D>);
  };
  const auto attend = [&]<int N>(Shape<N, 1, D> keys, auto add) {
    auto K = k.tiles(keys);
    OnlineSoftmax<BM, D> state;
    for (auto j : range(max(min(first), 0) / N, min(ceil_div(max(last), N), K.count(0)))) {
      auto s = scores(Q, reshape(K.load(j, kv_head, 0), shape<N, D>), scale);
      auto cols = iota<i32, 1, N>(axis<1>) + j * N;
      add(state, where(cols >= first && cols < last, s, -infinity<f32>), values(keys, j), j * N);
    }
    return state;
  };
  auto state = attend(shape<BN, 1, D>,
                      [&](auto& online, const auto& s, const auto& V, const Scalar<i32>&) { online.add(s, V); });
  tile_if (!state.clean()) {  // possibly because of the values of another sequence
    state = attend(shape<16, 1, D>, [&](auto& online, const auto& s, const auto& V, const Scalar<i32>& key) {
      auto finite = is_finite(V);
      online.add_finite(s, V, finite);
      tile_if (!all(finite)) {
        for (auto n : range(key, min(key + 16, k.dim(0))))
          online.add_others(n >= first && n < last, values(shape<1, 1, D>, n));
      }
    });
  }
  o.store(reshape(cast<T>(state.result()), shape<BM, 1, D>));
}

/// Attention inside each packed sequence, with q's extents. Up to 4095 sequences. Throws ShapeError for extents and
/// options that do not fit.
template <Operand Q, Operand K, Operand V, Operand B>
Op<Tensor<element_of<Q>, 3>> attention_varlen(const Q& q, const K& k, const V& v, const B& offsets,
                                              const AttentionOptions& options = {},
                                              SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  static_assert(Q::rank == 3 && K::rank == 3 && V::rank == 3, "attention_varlen takes [tokens, heads, d]");
  static_assert(std::is_same_v<element_of<B>, i32> && B::rank == 1, "offsets must be i32 of rank 1");
  check_attention("attention_varlen", q, k, v, 1, where);
  expect_dim("attention_varlen", "k", k, 0, q.dim(0, where), where);
  const std::int64_t ends = offsets.dim(0, where);
  expect_shape(ends >= 2 && ends <= 4096, "attention_varlen", "offsets", offsets, "2 to 4096 offsets", where);
  const float scale = options.scale_for(q.dim(2, where), "attention_varlen", where);
  const auto launch = with_constant<3>(options.mask("attention_varlen", where), [&](auto mask) {
    return with_extent<64, 256>(q.dim(2, where), [&](auto d) {
      return with_constant<2>(ends > 64, [&](auto many) {  // tiles that leave shared memory for the second loop (sm_90)
        return kernel<attention_packed<static_cast<AttentionMask>(mask()), T, d == 128 ? 128 : 64, d == 256 ? 64 : 128,
                                       d, many ? 4096 : 64>>
            .launcher();
      });
    });
  });
  return launch(empty<T>(q.dims(where), where), q.view(where), k.view(where), v.view(where), offsets.view(where), scale,
                options.window, where);
}

}  // namespace tessera::kernels
