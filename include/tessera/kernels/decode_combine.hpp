// The second half of decoding attention: how the keys are split into parts, and the kernel that combines them.
#pragma once
#include <tuple>

#include "tessera/kernels/attention_state.hpp"

namespace tessera::kernels {

/// Keys of a step (tileiras: 128 keys a step, 2 to 16 steps a block).
inline constexpr int kDecodeKeys = 128;

struct DecodeShape {
  std::int64_t batch, kv_heads, parts, group, d;
  Dims<5> parts_dims() const { return {batch, kv_heads, parts, group, d}; }
  Dims<4> sums_dims() const { return {batch, kv_heads, parts, group}; }
};
/// As many parts as keep each processor at two blocks, of 2 to 16 steps each.
inline std::int64_t decode_heuristic(std::int64_t rows, std::int64_t steps, const Target& target) {
  if (!target.gpu) return std::max<std::int64_t>(1, std::min<std::int64_t>(steps / 8, 8));
  const std::int64_t fill = ceil_div(2 * std::int64_t{target.processors}, std::max<std::int64_t>(rows, 1));
  return std::max({std::int64_t{1}, ceil_div(steps, std::int64_t{16}), std::min(fill, steps / 2)});
}
template <Operand Q>
DecodeShape decode_shape(const Q& q, std::int64_t kv_heads, std::int64_t steps, std::int64_t parts,
                         SourceLocation where) {
  const std::int64_t batch = q.dim(0), group = q.dim(1) / kv_heads;
  expect_shape(group <= 64, "decode_attention", "q", q, "at most 64 query heads share a key head", where);
  const std::int64_t n = parts > 0 ? parts : decode_heuristic(batch * kv_heads, steps, target_of(q.device(where)));
  return {batch, kv_heads, n, group, q.dim(2)};
}

/// One query head a block: its parts, 16 at a time.
template <class T, int D>
void combine_decoded(Mut<T, 1, 1, 1, D> o, In<f32, dyn, dyn, dyn, dyn, dyn> parts, In<f32, dyn, dyn, dyn, dyn> sums) {
  constexpr int S = 16;
  auto [batch, head, row, zero] = o.index();
  auto Parts = parts.tiles(shape<1, 1, S, 1, D>);
  auto Sums = sums.tiles(shape<1, 1, S, 1>, pad::neg_inf);
  auto m = full<f32, 1, 1>(std::numeric_limits<f32>::lowest()), l = zeros<f32, 1, 1>();
  auto acc = zeros<f32, 1, D>();
  for (auto c : range(Sums.count(2))) {
    auto s = reshape(Sums.load(batch, head, c, row), shape<S, 1>);
    auto m2 = max(m, max(s, axis<0>));
    auto alpha = exp2(m - m2);
    auto weights = exp2(s - m2);
    l = l * alpha + sum(weights, axis<0>);
    acc = acc * alpha + sum(reshape(Parts.load(batch, head, c, row, 0), shape<S, D>) * weights, axis<0>);
    m = m2;
  }
  o.store(reshape(cast<T>(acc / max(l, 1e-30f)), shape<1, 1, 1, D>));
}

/// The attention of parts and their logarithmic sums, [batch, kv_heads, group, d].
template <class T, int D>
Op<Tensor<T, 4>> combine_parts(Op<std::tuple<Tensor<f32, 5>, Tensor<f32, 4>>> partial, const DecodeShape& s,
                               SourceLocation where) {
  return std::move(partial).then([s, where](std::tuple<Tensor<f32, 5>, Tensor<f32, 4>> made) {
    return kernel<combine_decoded<T, D>>(empty<T>(Dims<4>(s.batch, s.kv_heads, s.group, s.d)), std::get<0>(made),
                                         std::get<1>(made), where);
  });
}

}  // namespace tessera::kernels
