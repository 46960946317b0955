// The kernels that only Mortar needs, in the public language: normalisation and rotation of queries and keys with the
// write into the paged KV cache; products of a normalised row; the forms of the strict mode. Attention of prompts is in
// attention_kernels.hpp.
//
// The cache of a layer is [kv_heads, slots, 2, head_dim / 2]: slot page * kPage + i holds position i of a page. The
// halves of a head are an axis of their own, so that a block may own both partners of a rotated pair: a block owns a
// slice of the features of one KV head over all slots, and scatters the rows of the step's tokens into it.
#pragma once
#include "model/rotation.hpp"
#include "model/weight_kernels.hpp"
#include "tessera/kernels/cached_heads.hpp"
#include "tessera/kernels/linear.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

/// Pieces that are larger than any tensor: "all tokens", "all slots".
inline constexpr int kAll = 1 << 30;

/// Writes the keys, normalised and rotated, and the values of `rotate`'s tokens into their slots of the cache.
template <class C, int Tokens, int S, int Half, class Norm>
void write_keys(Mut<C, 1, kAll, 2, S>& keys, Mut<C, 1, kAll, 2, S>& values, const HeadRotation<Tokens, S, Half>& rotate,
                const In<bf16, dyn, dyn, dyn, dyn>& qkv, const Norm& k_norm, const In<i32, dyn>& slots,
                const kernels::CacheScales<C>& scales) {
  const kernels::HeadScales<C> stored(scales, keys.index()[0]);
  auto kv_heads = keys.dim(0), key_head = qkv.dim(1) - 2 * kv_heads + keys.index()[0];
  auto slot = slots.load_at(shape<Tokens>, rotate.first, pad(-1));
  auto key = rotate.template heads<1>(qkv, k_norm, key_head);
  keys.scatter(axis<1>, slot, reshape(stored.stored_keys(key), shape<1, Tokens, 2, S>));
  auto value = qkv.load_at(shape<Tokens, 1, 2, S>, rotate.first, key_head + kv_heads, 0, rotate.slice * S);
  values.scatter(axis<1>, slot, reshape(stored.stored_values(value), shape<1, Tokens, 2, S>));
}

/// From the projections of one token, [1, heads + 2 kv_heads, 2, head_dim / 2]: normalises and rotates queries (stored
/// in q, [1, kv_heads, group, 2, head_dim / 2]) and keys, and writes keys and values into their slot of the cache; a
/// slot of -1 is not written. A group of heads is a tile: a loop over them would wait for memory at each step. A block
/// takes whole heads: what it does is too little to be divided.
template <class C, int Heads, int Half, class Norm = HeadNorm>
void place_heads(Mut<bf16, 1, 1, Heads, 2, Half> q, Mut<C, 1, kAll, 2, Half> keys, Mut<C, 1, kAll, 2, Half> values,
                 In<bf16, dyn, dyn, dyn, dyn> qkv, Norm q_norm, Norm k_norm, In<f32, dyn, dyn, dyn> angles,
                 In<i32, dyn> slots, Scalar<f32> eps, Constant<bool> strict, kernels::CacheScales<C> scales) {
  require(qkv.dim(3) <= Half, "half a head must fit the tile");
  require(qkv.dim(0) == 1 && q.dim(2) <= Heads, "one token, whose query heads of a group are a tile");
  require(qkv.dim(1) == keys.dim(0) * (q.dim(2) + 2), "heads of queries, keys and values");
  auto [head, zero, zero1, slice] = keys.index();
  const HeadRotation<1, Half, Half> rotate(angles, 0, slice, eps, strict);
  auto query = rotate.template heads<Heads>(qkv, q_norm, head * q.dim(2));
  q.store(reshape(query, shape<1, 1, Heads, 2, Half>));
  write_keys(keys, values, rotate, qkv, k_norm, slots, scales);
}

/// The same for any number of tokens, in several kernels. Heads from `first_head` on, queries or keys, by blocks of
/// Tokens and heads: only the cache has to be written by few blocks.
template <int Tokens, int Half, class Norm = HeadNorm>
void rotate_rows(Mut<bf16, Tokens, 1, 2, Half> rows, In<bf16, dyn, dyn, dyn, dyn> qkv, Norm norm,
                 In<f32, dyn, dyn, dyn> angles, Scalar<i32> first_head, Scalar<f32> eps, Constant<bool> strict) {
  require(qkv.dim(3) <= Half && qkv.dim(3) == rows.dim(3), "half a head must fit the tile");
  require(qkv.dim(0) == rows.dim(0) && qkv.dim(1) > rows.dim(1), "heads of queries, then of keys and values");
  auto [t, head, zero, zero1] = rows.index();
  const HeadRotation<Tokens, Half, Half> rotate(angles, t * Tokens, 0, eps, strict);
  rows.store(rotate.template heads<1>(qkv, norm, first_head + head));
}
/// Few tokens: keys are rotated by the blocks that write them, each the features of its slice.
template <class C, int Tokens, int S, int Half, class Norm = HeadNorm>
void place_keys(Mut<C, 1, kAll, 2, S> keys, Mut<C, 1, kAll, 2, S> values, In<bf16, dyn, dyn, dyn, dyn> qkv, Norm k_norm,
                In<f32, dyn, dyn, dyn> angles, In<i32, dyn> slots, Scalar<f32> eps, Constant<bool> strict,
                kernels::CacheScales<C> scales) {
  require(qkv.dim(3) <= Half, "half a head must fit the tile");
  require(qkv.dim(1) > 2 * keys.dim(0), "heads of queries, then of keys and values");
  auto [head, zero, zero1, slice] = keys.index();
  for (auto t : range(ceil_div(qkv.dim(0), Tokens)))
    write_keys(keys, values, HeadRotation<Tokens, S, Half>(angles, t * Tokens, slice, eps, strict), qkv, k_norm, slots,
               scales);
}

/// Many tokens: copies keys, which have been rotated, and values into their slots. Blocks of the cache go through all
/// tokens, so this does nothing but copy. One launch for both is faster than two (bench/notes/mortar.md).
template <class C, int Tokens, int S>
void copy_keys(Mut<C, 1, kAll, 2, S> keys, Mut<C, 1, kAll, 2, S> values, In<bf16, dyn, dyn, dyn, dyn> rotated,
               In<bf16, dyn, dyn, dyn, dyn> qkv, In<i32, dyn> slots, kernels::CacheScales<C> scales) {
  require(rotated.dim(0) == qkv.dim(0) && rotated.dim(1) == keys.dim(0), "rotated keys of all tokens and key heads");
  require(qkv.dim(1) > 2 * keys.dim(0), "heads of queries, then of keys and values");
  auto [head, zero, zero1, slice] = keys.index();
  const kernels::HeadScales<C> stored(scales, head);
  for (auto t : range(ceil_div(qkv.dim(0), Tokens))) {
    auto slot = slots.load_at(shape<Tokens>, t * Tokens, pad(-1));
    auto rows = [&](const auto& from, const auto& from_head) {
      auto loaded = from.load_at(shape<Tokens, 1, 2, S>, t * Tokens, from_head, 0, slice * S);
      return reshape(loaded, shape<1, Tokens, 2, S>);
    };
    keys.scatter(axis<1>, slot, stored.stored_keys(rows(rotated, head)));
    values.scatter(axis<1>, slot, stored.stored_values(rows(qkv, qkv.dim(1) - keys.dim(0) + head)));
  }
}

/// The product of up to M normalised rows with weights, w (x * norm) / rms(x), without a launch for the norm. Gated:
/// silu(gate) * up of weights whose rows are gate and then up. `scales`: of FP8 weights. Fold: as in add_products.
/// `length`: of the rows, as in kernels::summed_rows.
template <bool Gated, class U, class T, int M, int N, int K, int Fold, class... S>
void normed_rows(Mut<U, M, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> norm, In<T, dyn, dyn> w, Scalar<f32> eps,
                 Constant<i32> length, S... scales) {
  require(x.dim(1) == w.dim(1) && x.dim(1) == norm.dim(0), "x, its norm and w must have equally long rows");
  if constexpr (Gated)
    require(w.dim(0) == 2 * y.dim(1) && y.dim(1) % N == 0, "rows of gate, then of up, in whole tiles");
  auto X = x.tiles(shape<1, K>);
  auto Norm = norm.tiles(shape<K>);
  auto W = w.tiles(shape<N, K>);
  auto [i, j] = y.index();
  auto squares = kernels::each_row<M>([](int) { return zeros<f32, 1, K / Fold>(); });
  auto acc = kernels::each_row<M>([](int) { return zeros<f32, N, K / Fold>(); }), up = acc;
  for (auto k : range(kernels::steps_of_row<K>(x, length))) {
    auto weight = reshape(cast<f32>(Norm.load(k)), shape<1, K>);
    auto of_up = j + y.dim(1) / N;
    auto gates = cast<f32>(W.load(j, k)), ups = Gated ? cast<f32>(W.load(of_up, k)) : gates;
    for (std::size_t m = 0; m < M; ++m) {
      auto row = cast<f32>(X.load(M == 1 ? Scalar<i32>(0) : i * M + static_cast<i32>(m), k));
      squares[m] = add_products<Fold>(row, row, squares[m]);
      row = row * weight;
      acc[m] = add_products<Fold>(gates, row_for<N>(std::tie(scales...), row, j, k), acc[m]);
      if constexpr (Gated) up[m] = add_products<Fold>(ups, row_for<N>(std::tie(scales...), row, of_up, k), up[m]);
    }
  }
  const auto results = kernels::each_row<M>([&](int number) {
    const auto m = static_cast<std::size_t>(number);
    auto scale = rsqrt(sum(squares[m], axis<1>) / cast<f32>(x.dim(1)) + eps);
    auto result = reshape(sum(acc[m], axis<1>), shape<1, N>) * scale;
    if constexpr (Gated)
      result = kernels::functions::Silu{}(result) * (reshape(sum(up[m], axis<1>), shape<1, N>) * scale);
    return result;
  });
  y.store(kernels::narrow<U>(kernels::as_one_tile<M>(results)));
}

/// silu(x gate^T) * (x up^T) of many rows, for weights whose rows are gate and then up: both products of a piece are
/// accumulated together, so neither is written.
template <int BM, int BN, int BK>
void gated_tiles(MutTiles<bf16, BM, BN> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> w) {
  require(x.dim(1) == w.dim(1), "x and w must have equally long rows");
  require(w.dim(0) == 2 * y.dim(1) && y.dim(1) % BN == 0, "rows of gate, then of up, in whole tiles");
  auto X = x.tiles(shape<BM, BK>);
  auto W = w.tiles(shape<BN, BK>);
  for (auto out : y.grouped(8)) {
    auto [i, j] = out.index();
    auto gate = zeros<f32, BM, BN>(), up = gate;
    for (auto k : range(W.count(1))) {
      auto rows = X.load(i, k);
      gate = mma(rows, transpose(W.load(j, k)), gate);
      up = mma(rows, transpose(W.load(j + y.dim(1) / BN, k)), up);
    }
    out.store(cast<bf16>(kernels::functions::Silu{}(gate)*up));
  }
}

/// y = silu(gate) * up of a matrix whose rows are gate and then up. Strict: silu is rounded before the product.
template <int N>
void silu_gate(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> gate, In<bf16, dyn, dyn> up, Constant<bool> strict) {
  auto s = kernels::functions::Silu{}(cast<f32>(gate.load_like(y)));
  if (strict) s = rounded(s);
  y.store(cast<bf16>(s * cast<f32>(up.load_like(y))));
}

/// RMS norm with the roundings of the strict mode: x / rms(x) is rounded before the product with the weight.
template <int N>
void strict_rms_norm(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(y));
  auto scale = rsqrt(sum(t * t, axis<1>) / cast<f32>(x.dim(1)) + eps);
  y.store(cast<bf16>(rounded(t * scale) * cast<f32>(weight.load_like(y, axes<1>))));
}

}  // namespace mortar
