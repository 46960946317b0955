// The number of KV splits of decoding attention, and the kernel that combines them.
#pragma once
#include <algorithm>
#include <bit>
#include <tuple>

#include "tessera/kernels/attention_state.hpp"

namespace tessera::kernels {

/// Keys per step (the fastest with NVIDIA's assembler on an H200).
inline constexpr int kDecodeKeys = 128;
inline constexpr int kMaxCombined = 64;  ///< KV splits that are combined in one step
inline constexpr std::int64_t kMaxParts = 1024;

struct DecodeShape {
  std::int64_t batch, kv_heads, parts, group, d;
  Dims<5> parts_dims() const { return {batch, kv_heads, parts, group, d}; }
  Dims<4> sums_dims() const { return {batch, kv_heads, parts, group}; }
  Dims<4> result_dims() const { return {batch, kv_heads, group, d}; }
};
/// The number of KV splits, a power of two, for `rows` key heads: the fewest with the least estimated time. As many
/// blocks as an SM takes at a time read as fast as it can; each further block costs about half a step to begin and end
/// (measured: bench/notes/attention.md).
inline std::int64_t decode_heuristic(std::int64_t rows, std::int64_t steps, const Target& target,
                                     std::int64_t blocks_per_sm = 1) {
  if (!target.gpu) return steps >= 64 ? 8 : steps >= 16 ? 2 : 1;
  std::int64_t best = 1, least = 0;
  for (std::int64_t parts = 1; parts <= std::min(std::max<std::int64_t>(steps, 1), kMaxParts); parts *= 2) {
    const std::int64_t waves = ceil_div(rows * parts, blocks_per_sm * target.num_sms);
    const std::int64_t time = waves * (2 * ceil_div(steps, parts) + 1);
    if (parts == 1 || time < least) best = parts, least = time;
  }
  return best;
}
/// `parts`: 0 for the heuristics; other numbers are rounded up to a power of two, at most 1024.
template <Operand Q>
DecodeShape decode_shape(const Q& q, std::int64_t kv_heads, std::int64_t steps, std::int64_t parts,
                         SourceLocation where, std::int64_t blocks_per_sm = 1) {
  const std::int64_t batch = q.dim(0, where), group = q.dim(1, where) / kv_heads;
  expect_shape(group <= 64, "decode_attention", "q", q, "at most 64 query heads share a key head", where);
  if (parts <= 0) parts = decode_heuristic(batch * kv_heads, steps, target_of(q.device(where)), blocks_per_sm);
  parts = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(parts, kMaxParts))));
  return {batch, kv_heads, parts, group, q.dim(2, where)};
}
/// Blocks that an SM needs. A block takes a page at a time: with short ones it waits for its products rather than for
/// memory, and with elements of 8 bits for their conversion too (bench/notes/kv_cache.md).
inline std::int64_t paged_blocks(std::int64_t page_size, bool converts = false) {
  return converts ? 4 : page_size < kDecodeKeys ? 2 : 1;
}
/// For a table of `pages` pages for each sequence.
template <Operand Q>
DecodeShape paged_decode_shape(const Q& q, std::int64_t kv_heads, std::int64_t pages, std::int64_t page_size,
                               std::int64_t parts, SourceLocation where, bool converts = false) {
  return decode_shape(q, kv_heads, pages, parts, where, paged_blocks(page_size, converts));
}

/// f(G, D) with the queries of a tile (8, 16 or 64) and its depth (64, 128 or 256) as constants.
template <class F>
auto with_decode_tile(const DecodeShape& s, F&& f) {
  return with_constant<3>(s.group > 16  ? 2
                          : s.group > 8 ? 1
                                        : 0,
                          [&](auto size) {
                            constexpr int g = size == 2 ? 64 : size == 1 ? 16 : 8;
                            return with_extent<64, 256>(s.d,
                                                        [&](auto d) { return f(std::integral_constant<int, g>{}, d); });
                          });
}

/// One query head per block: the sum of its S KV splits, weighted by exp2 of their logarithmic sums.
template <class T, int S, int D>
void combine_decoded(Mut<T, 1, 1, 1, D> o, In<f32, dyn, dyn, dyn, dyn, dyn> parts, In<f32, dyn, dyn, dyn, dyn> sums) {
  require(sums.dim(2) == S, "all parts are combined in one step");
  auto [batch, head, row, zero] = o.index();
  auto values = reshape(parts.tiles(shape<1, 1, S, 1, D>).load(batch, head, 0, row, 0), shape<S, D>);
  auto s = reshape(sums.tiles(shape<1, 1, S, 1>).load(batch, head, 0, row), shape<S, 1>);
  auto weights = exp2(s - max(max(s, axis<0>), std::numeric_limits<f32>::lowest()));
  auto acc = sum(values * weights, axis<0>) / max(sum(weights, axis<0>), 1e-30f);
  o.store(reshape(cast<T>(acc), shape<1, 1, 1, D>));
}
/// The same for any multiple of S splits, S at a time.
template <class T, int S, int D>
void combine_many_decoded(Mut<T, 1, 1, 1, D> o, In<f32, dyn, dyn, dyn, dyn, dyn> parts,
                          In<f32, dyn, dyn, dyn, dyn> sums) {
  auto [batch, head, row, zero] = o.index();
  auto Parts = parts.tiles(shape<1, 1, S, 1, D>);
  auto Sums = sums.tiles(shape<1, 1, S, 1>);
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

/// The results of KV splits, and their logarithmic sums.
using DecodeSplits = std::tuple<Tensor<f32, 5>, Tensor<f32, 4>>;

/// Combines KV splits into the attention, [batch, kv_heads, group, d]. The result is allocated first, so that the
/// second kernel directly follows the first one in the stream and is launched while that one runs.
template <class T>
Op<Tensor<T, 4>> combine_splits(Op<DecodeSplits> partial, const DecodeShape& s, SourceLocation where) {
  return all(empty<T>(s.result_dims(), where), std::move(partial))
      .then([s, where](std::tuple<Tensor<T, 4>, DecodeSplits> made) {
        const auto& [parts, sums] = std::get<1>(made);
        const auto launch = with_extent<64, 256>(s.d, [&](auto d) {
          if (s.parts > kMaxCombined) return kernel<combine_many_decoded<T, kMaxCombined, d>>.launcher();
          return with_extent<2, kMaxCombined>(
              s.parts, [&](auto step) { return kernel<combine_decoded<T, step, d>>.launcher(); });
        });
        return launch(std::move(std::get<0>(made)), parts, sums, where);
      });
}

}  // namespace tessera::kernels
