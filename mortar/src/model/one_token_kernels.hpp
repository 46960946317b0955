// Attention of one token of one sequence in two kernels, from the projections to the result, with the write into the KV
// cache: a step of a single user waits for as few kernels as possible.
//
//   attend_split      splits of the keys before the token
//   finish_one        combines them with the token's own key, and writes that key and its value into their slot
//
// So no kernel has to write the cache before attention reads it. Both normalise and rotate the few heads that they
// need.
#pragma once
#include "model/rotation.hpp"
#include "tessera/kernels/decode_state.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

/// G heads of one token from `head` on, normalised and rotated.
template <int G, int Half>
Tile<bf16, G, 2 * Half> rotated_heads(const In<bf16, dyn, dyn, dyn, dyn>& qkv, const In<bf16, dyn, dyn>& norm,
                                      const In<f32, dyn, dyn, dyn>& angles, const Scalar<i32>& head,
                                      const Scalar<f32>& eps) {
  const HeadRotation<1, Half, Half> rotate(angles, 0, 0, eps, false);
  return reshape(rotate.template heads<G>(qkv, norm, head), shape<G, 2 * Half>);
}

/// The attention of a key head's queries over split `part` of the pages of the keys before the token: parts
/// [kv_heads, parts, group, head_dim] and the logarithms (base 2) of their sums of weights, [kv_heads, parts, group].
/// qkv: the projections, [1, heads + 2 kv_heads, 2, head_dim / 2]; `lengths` counts the token itself.
template <class C, int G, int Half>
void attend_split(Mut<f32, 1, 1, G, 2 * Half> parts, Mut<f32, 1, 1, G> sums, In<bf16, dyn, dyn, dyn, dyn> qkv,
                  In<bf16, dyn, dyn> q_norm, In<f32, dyn, dyn, dyn> angles, In<C, dyn, dyn, dyn, dyn> k,
                  In<C, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table, In<i32, dyn> lengths, Scalar<f32> scale,
                  Scalar<f32> eps) {
  constexpr int D = 2 * Half;
  require(qkv.dim(0) == 1 && 2 * qkv.dim(3) == D, "one token, with heads as long as the tile");
  require(sums.dim(2) <= G && qkv.dim(1) == k.dim(1) * (sums.dim(2) + 2), "heads of queries, keys and values");
  auto [head, part, zero] = sums.index();
  auto queries = transpose(rotated_heads<G, Half>(qkv, q_norm, angles, head * sums.dim(2), eps));
  auto length = clamp(lengths.gather(0) - 1, 0, table.dim(1) * kPage);
  auto K = k.tiles(shape<1, 1, kPage, D>);
  auto V = v.tiles(shape<1, 1, kPage, D>);
  kernels::DecodeState<kPage, G, D> state;
  for (auto j : kernels::steps_of_part(part, sums.dim(1), ceil_div(length, kPage))) {
    auto page = clamp(table.gather(0, j), 0, k.dim(0) - 1);
    auto keys = kernels::narrow<bf16>(reshape(K.load(page, head, 0, 0), shape<kPage, D>));  // needed before the values
    auto values = kernels::narrow<bf16>(reshape(V.load(page, head, 0, 0), shape<kPage, D>));
    state.add(queries, keys, values, j * kPage, length, scale * log2e<f32>);
  }
  auto r = kernels::finish(state);
  parts.store(reshape(r.o, shape<1, 1, G, D>));
  sums.store(reshape(r.log_sum, shape<1, 1, G>));
}

/// The attention of one token: the splits, and its own key and value, which are written into slot slots[0] (-1:
/// nowhere). o is [kv_heads, group, head_dim].
template <class C, int G, int Half>
void finish_one(Mut<bf16, 1, G, 2 * Half> o, Mut<C, 1, kAll, 2, Half> keys, Mut<C, 1, kAll, 2, Half> values,
                In<bf16, dyn, dyn, dyn, dyn> qkv, In<bf16, dyn, dyn> q_norm, In<bf16, dyn, dyn> k_norm,
                In<f32, dyn, dyn, dyn> angles, In<i32, dyn> slots, In<f32, dyn, dyn, dyn, dyn> parts,
                In<f32, dyn, dyn, dyn> sums, Scalar<f32> scale, Scalar<f32> eps) {
  constexpr int D = 2 * Half, S = 4;  // splits that are combined at a time
  require(qkv.dim(0) == 1 && 2 * qkv.dim(3) == D, "one token, with heads as long as the tile");
  require(o.dim(1) <= G && qkv.dim(1) == o.dim(0) * (o.dim(1) + 2), "heads of queries, keys and values");
  auto [head, zero, zero1] = o.index();
  auto kv_heads = o.dim(0), key_head = qkv.dim(1) - 2 * kv_heads + head;
  auto query = cast<f32>(rotated_heads<G, Half>(qkv, q_norm, angles, head * o.dim(1), eps));
  auto key = rotated_heads<1, Half>(qkv, k_norm, angles, key_head, eps);
  auto value = qkv.load_at(shape<1, 1, 2, Half>, 0, key_head + kv_heads, 0, 0);
  auto slot = slots.load_at(shape<1>, 0, pad(-1));
  keys.scatter(axis<1>, slot, reshape(kernels::narrow<C>(key), shape<1, 1, 2, Half>));
  values.scatter(axis<1>, slot, reshape(kernels::narrow<C>(value), shape<1, 1, 2, Half>));

  // The online softmax, beginning with the token's own key, whose weight is 1.
  auto m = reshape(sum(query * cast<f32>(key), axis<1>), shape<1, G, 1>) * (scale * log2e<f32>);
  auto l = full<f32, 1, G, 1>(1.0f);
  auto acc = broadcast(cast<f32>(reshape(value, shape<1, 1, D>)), shape<1, G, D>);
  auto Parts = parts.tiles(shape<1, S, G, D>);
  auto Sums = sums.tiles(shape<1, S, G>);
  for (auto c : range(Sums.count(1))) {
    auto present = iota<i32, S, 1, 1>(axis<0>) + c * S < sums.dim(1);
    auto s = where(present, reshape(Sums.load(head, c, 0), shape<S, G, 1>), -infinity<f32>);
    auto m2 = max(m, max(s, axis<0>));
    auto alpha = exp2(m - m2), weights = exp2(s - m2);
    l = l * alpha + sum(weights, axis<0>);
    acc = acc * alpha + sum(reshape(Parts.load(head, c, 0, 0), shape<S, G, D>) * weights, axis<0>);
    m = m2;
  }
  o.store(cast<bf16>(acc / l));
}

}  // namespace mortar
