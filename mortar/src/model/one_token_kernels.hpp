// Attention of one token of one sequence over few pages, from the projections to the result and the KV cache:
//
//   attend_slice  some keys before the token, for the query heads of a key head
//   finish_one    adds the token's own key, combines, and writes that key and its value into their slot
//
// The cache is written behind attention, not before it: so nothing that runs at the same time writes the pages, and
// they are read while the kernel before still computes the projections (docs/compiler/overlap_launches.md). Both
// kernels normalise and rotate the few heads that they need.
#pragma once
#include <limits>

#include "model/kernels.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

/// The attention of a query head over N keys of a page before the token. tops: the largest score, as a logarithm to
/// base 2 (-infinity without keys); shares: the sum of the weights, which are relative to it; both [kv_heads, slices,
/// group]. parts: the sum of the values times their weights, [kv_heads, slices, group, head_dim]. qkv: the projections,
/// [1, heads + 2 kv_heads, 2, head_dim / 2]; `lengths` counts the token itself. Keys and values are read before qkv.
///
/// A step waits for all that is computed after qkv, so it is little: halves of heads have tiles of their own, so that
/// the rotation is elementwise; the scores are normalised, not the query; a slice without keys computes nothing, and
/// only a slice that is not full masks its values. The query is loaded twice, so that neither the norm nor the rotation
/// waits for an exchange between the threads of the other.
template <class C, int N, int Half, class Norm = HeadNorm>
void attend_slice(Mut<f32, 1, 1, 1, 2 * Half> parts, Mut<f32, 1, 1, 1> tops, Mut<f32, 1, 1, 1> shares,
                  In<bf16, dyn, dyn, dyn, dyn> qkv, Norm q_norm, In<f32, dyn, dyn, dyn> angles,
                  In<C, dyn, dyn, dyn, dyn> k, In<C, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table,
                  In<i32, dyn> lengths, Scalar<f32> scale, Scalar<f32> eps, kernels::CacheScales<C> scales) {
  constexpr int D = 2 * Half, kSlices = kPage / N;
  require(qkv.dim(0) == 1 && qkv.dim(3) == Half, "one token, with heads as long as the tile");
  require(qkv.dim(1) == k.dim(1) * (tops.dim(2) + 2), "heads of queries, keys and values");
  require(tops.dim(1) == table.dim(1) * kSlices, "the slices of each page");
  auto [head, slice, member] = tops.index();
  const kernels::HeadScales<C> stored(scales, head);
  auto unit = stored.of_scores(scale * log2e<f32>);
  auto length = clamp(lengths.gather(0) - 1, 0, table.dim(1) * kPage);
  auto named = table.gather(0, slice / kSlices);
  auto page = clamp(named, 0, k.dim(0) - 1);
  auto used = where(named == page, length - slice * N, 0);  // keys of this slice, if not more than N
  auto K = k.tiles(shape<1, 1, N, Half>);
  auto low = reshape(K.load(page, head, slice % kSlices, 0), shape<N, Half>);
  auto high = reshape(K.load(page, head, slice % kSlices, 1), shape<N, Half>);
  auto values = reshape(v.tiles(shape<1, 1, N, D>).load(page, head, slice % kSlices, 0), shape<N, D>);
  auto half_of = [](const auto& tile) { return reshape(cast<f32>(tile), shape<1, Half>); };
  auto weights_of = [&](int half) {
    if constexpr (has_norm<Norm>)
      return half_of(q_norm.load_at(shape<1, Half>, half, 0));
    else
      return half;  // not used
  };
  auto w0 = weights_of(0), w1 = weights_of(1);
  auto cosine = half_of(angles.load_at(shape<1, 1, Half>, 0, 0, 0));
  auto sine = half_of(angles.load_at(shape<1, 1, Half>, 0, 1, 0));
  auto query = head * tops.dim(2) + member;
  auto whole = [&] {
    if constexpr (has_norm<Norm>)
      return reshape(cast<f32>(qkv.load_at(shape<1, 1, 2, Half>, 0, query, 0, 0)), shape<1, D>);
    else
      return 0;  // not used
  }();
  auto query_half = [&](int half, const auto& weights) {
    auto loaded = half_of(qkv.load_at(shape<1, 1, 1, Half>, 0, query, half, 0));
    if constexpr (has_norm<Norm>)
      return loaded * weights;
    else
      return loaded;
  };
  auto q0 = query_half(0, w0), q1 = query_half(1, w1);
  auto result = zeros<f32, 1, D>();
  auto top = full<f32, 1, 1>(-infinity<f32>), share = zeros<f32, 1, 1>();
  tile_if (used > 0) {
    auto norm = [&] {
      if constexpr (has_norm<Norm>)
        return rsqrt(sum(whole * whole, axis<1>) * (1.0f / D) + eps) * unit;
      else
        return unit;
    }();
    auto r0 = q0 * cosine - q1 * sine, r1 = q1 * cosine + q0 * sine;
    auto products = fma(cast<f32>(low), r0, cast<f32>(high) * r1);
    auto there = iota<i32, N, 1>(axis<0>) < used;
    auto scores = where(there, sum(products, axis<1>) * norm, -infinity<f32>);
    top = max(max(scores, axis<0>), std::numeric_limits<f32>::lowest());
    auto weights = exp2(scores - top);
    share = sum(weights, axis<0>);
    tile_if (used >= N) {
      result = sum(cast<f32>(values) * weights, axis<0>);
    } else {
      // Slots that are not in use may hold anything, and 0 * NaN is NaN.
      auto seen = where(broadcast(there, shape<N, D>), cast<f32>(values), zeros<f32, N, D>());
      result = sum(seen * weights, axis<0>);
    }
  }
  parts.store(reshape(stored.of_values(result), shape<1, 1, 1, D>));
  tops.store(reshape(top, shape<1, 1, 1>));
  shares.store(reshape(share, shape<1, 1, 1>));
}

/// Half of a query head of the token: the attention over the P slices at most of attend_slice and over the token's own
/// key, o [kv_heads, group, 2, head_dim / 2]. Each block writes S features of both halves of the token's key and value
/// into slot slots[0] (-1: nowhere): the blocks of a group share that. `own_scale`: of the score of the token's own
/// key, which is computed without the rotation, so that it includes the square of the factor of the angles.
template <class C, int P, int S, int Half, class Norm = HeadNorm>
void finish_one(Mut<bf16, 1, 1, 1, Half> o, Mut<C, 1, kAll, 2, S> keys, Mut<C, 1, kAll, 2, S> values,
                In<bf16, dyn, dyn, dyn, dyn> qkv, Norm q_norm, Norm k_norm, In<f32, dyn, dyn, dyn> angles,
                In<i32, dyn> slots, In<f32, dyn, dyn, dyn, dyn> parts, In<f32, dyn, dyn, dyn> tops,
                In<f32, dyn, dyn, dyn> shares, Scalar<f32> own_scale, Scalar<f32> eps, kernels::CacheScales<C> scales) {
  require(qkv.dim(0) == 1 && qkv.dim(3) == Half, "one token, with heads as long as the tile");
  require(qkv.dim(1) == o.dim(0) * (o.dim(1) + 2), "heads of queries, keys and values");
  require(tops.dim(1) <= P, "all slices are combined at once");
  auto [head, member, half, zero] = o.index();
  auto kv_heads = o.dim(0), key_head = qkv.dim(1) - 2 * kv_heads + head;
  auto most = reshape(tops.tiles(shape<1, P, 1>, pad::neg_inf).load(head, 0, member), shape<P, 1>);
  auto share = reshape(shares.tiles(shape<1, P, 1>).load(head, 0, member), shape<P, 1>);
  auto outputs = reshape(parts.tiles(shape<1, P, 1, Half>).load(head, 0, member, half), shape<P, Half>);
  auto row = [&](const Scalar<i32>& of) {
    return reshape(cast<f32>(qkv.load_at(shape<1, 1, 2, Half>, 0, of, 0, 0)), shape<1, 2 * Half>);
  };
  auto weight = [](const auto& norm) {
    return reshape(cast<f32>(norm.load_at(shape<2, Half>, 0, 0)), shape<1, 2 * Half>);
  };
  // The product of a query and a key of one position is the same before and after the rotation.
  auto q = row(head * o.dim(1) + member), k = row(key_head);
  auto own = [&] {
    if constexpr (has_norm<Norm>) {
      auto product = sum(q * weight(q_norm) * k * weight(k_norm), axis<1>);
      auto rms = [&](const auto& x) { return rsqrt(sum(x * x, axis<1>) * (1.0f / (2 * Half)) + eps); };
      return product * rms(q) * rms(k) * (own_scale * log2e<f32>);
    } else {
      return sum(q * k, axis<1>) * (own_scale * log2e<f32>);
    }
  }();
  auto value = cast<f32>(reshape(qkv.load_at(shape<1, 1, 1, Half>, 0, key_head + kv_heads, half, 0), shape<1, Half>));
  auto top = max(own, max(most, axis<0>));
  auto weights = exp2(most - top);
  auto own_weight = exp2(own - top);
  auto acc = sum(outputs * weights, axis<0>) + value * own_weight;
  o.store(reshape(cast<bf16>(acc / (sum(share * weights, axis<0>) + own_weight)), shape<1, 1, 1, Half>));
  write_keys(keys, values, HeadRotation<1, S, Half>(angles, 0, keys.index()[3], eps, false), qkv, k_norm, slots,
             scales);
}

}  // namespace mortar
