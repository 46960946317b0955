// Which kernel a step's attention takes, and its extents.
#include "model/attention.hpp"

#include "model/attention_kernels.hpp"
#include "model/kernels.hpp"
#include "tessera/kernels/paged_attention.hpp"

namespace mortar {
namespace {

/// The cache of a layer as pages, [pages, kv_heads, kPage, head_dim].
View<bf16, 4> pages_of(const Tensor<bf16, 4>& cache) {
  const std::int64_t heads = cache.dim(0), pages = cache.dim(1) / kPage, d = 2 * cache.dim(3);
  return cache.reshape({heads, pages, std::int64_t{kPage}, d}).permute<1, 0, 2, 3>();
}

constexpr int kSlice = 8;  ///< features of each half of a head that a block of place_keys or copy_heads owns

Op<Tensor<bf16, 3>> decode_attention(const Tensor<bf16, 3>& q, const View<bf16, 4>& keys, const View<bf16, 4>& values,
                                     const Step& step, float scale) {
  const auto s =
      kernels::decode_shape(q, keys.dim(1), ceil_div(step.table.dim(1) * kPage, std::int64_t{kernels::kDecodeKeys}), 0,
                            SourceLocation::current());
  const View<bf16, 4> groups = reshape(q.view(), s.result_dims());
  return kernels::with_constant<2>(s.group > 8, [&](auto wide) {
    return kernels::with_extent<64, 128>(s.d, [&](auto d) {
      constexpr int G = wide ? 16 : 8;
      if (s.parts == 1)
        return reshape(kernel<kernels::paged_whole<bf16, G, kPage, d>>(empty<bf16>(s.result_dims()), groups, keys,
                                                                       values, step.table, step.lengths, scale),
                       q.dims());
      auto partial = kernel<kernels::paged_split<bf16, G, kPage, d>>(
          empty<f32>(s.parts_dims()), empty<f32>(s.sums_dims()), groups, keys, values, step.table, step.lengths, scale);
      return reshape(kernels::combine_splits<bf16, d>(std::move(partial), s, SourceLocation::current()), q.dims());
    });
  });
}

constexpr int kFew = 16;    ///< tokens of a tile that is rotated
constexpr int kMany = 128;  ///< tokens of a tile that is copied; with fewer tokens one launch less is faster
constexpr int kGroup = 8;   ///< the most query heads of a key head that place_heads takes

Op<Tensor<bf16, 3>> place_one(const Network& net, const LayerWeights& w, Tensor<bf16, 4>& keys, Tensor<bf16, 4>& values,
                              const Step& step, const View<bf16, 4>& heads) {
  const std::int64_t kv = keys.dim(0), half = keys.dim(3), group = net.config.heads / kv;
  const auto q_norm = w.query_norm.reshape({std::int64_t{2}, half}),
             k_norm = w.key_norm.reshape({std::int64_t{2}, half});
  return kernels::with_extent<2, kGroup>(group, [&](auto n) {
    return kernels::with_extent<32, 64>(half, [&](auto h) {
      auto q = kernel<place_heads<bf16, n, h>>(
          empty<bf16>({std::int64_t{1}, kv, group, std::int64_t{2}, half}), mut(keys), mut(values), heads, q_norm,
          k_norm, step.positions, step.slots, net.frequencies, net.rope_factor, net.epsilon(), net.numerics.strict);
      return reshape(std::move(q), Dims<3>({std::int64_t{1}, kv * group, 2 * half}));
    });
  });
}

/// Heads [first, first + count) of the projections, normalised and rotated: [tokens, count, 2, head_dim / 2].
Op<Tensor<bf16, 4>> rotated(const Network& net, const Tensor<bf16, 1>& norm, const Step& step,
                            const View<bf16, 4>& heads, std::int64_t first, std::int64_t count) {
  const std::int64_t half = heads.dim(3);
  return kernels::with_extent<32, 64>(half, [&](auto h) {
    return kernel<rotate_rows<kFew, h>>(empty<bf16>({heads.dim(0), count, std::int64_t{2}, half}), heads,
                                        norm.reshape({std::int64_t{2}, half}), step.positions, net.frequencies,
                                        static_cast<i32>(first), net.rope_factor, net.epsilon(), net.numerics.strict);
  });
}

Flow<Tensor<bf16, 3>> place_many(const Network& net, const LayerWeights& w, Tensor<bf16, 4>& keys,
                                 Tensor<bf16, 4>& values, const Step& step, const View<bf16, 4>& heads) {
  const std::int64_t tokens = heads.dim(0), half = keys.dim(3), queries = net.config.heads, kv = keys.dim(0);
  if (tokens >= kMany && !net.numerics.one_way()) {
    const auto rows = co_await rotated(net, w.key_norm, step, heads, queries, kv);
    const auto copy = kernel<copy_heads<bf16, kMany, kSlice>>;
    co_await copy(mut(keys), rows, step.slots, 0);
    co_await copy(mut(values), heads, step.slots, static_cast<i32>(queries + kv));
  } else {
    co_await kernels::with_extent<32, 64>(half, [&](auto h) {
      return kernel<place_keys<bf16, kFew, kSlice, h>>(
          mut(keys), mut(values), heads, w.key_norm.reshape({std::int64_t{2}, half}), step.positions, step.slots,
          net.frequencies, net.rope_factor, net.epsilon(), net.numerics.strict);
    });
  }
  auto q = co_await rotated(net, w.query_norm, step, heads, 0, queries);
  co_return std::move(q).reshape({tokens, queries, 2 * half});
}

}  // namespace

Flow<Tensor<bf16, 3>> place(const Network& net, const LayerWeights& w, Tensor<bf16, 4>& keys, Tensor<bf16, 4>& values,
                            const Step& step, const Tensor<bf16, 2>& qkv) {
  const std::int64_t kv = keys.dim(0), queries = net.config.heads;
  const View<bf16, 4> heads = qkv.reshape({qkv.dim(0), queries + 2 * kv, std::int64_t{2}, keys.dim(3)});
  if (qkv.dim(0) == 1 && queries <= kGroup * kv && !net.numerics.one_way())
    co_return co_await place_one(net, w, keys, values, step, heads);
  co_return co_await place_many(net, w, keys, values, step, heads);
}

Op<Tensor<bf16, 2>> attention(const Network& net, const Tensor<bf16, 4>& keys, const Tensor<bf16, 4>& values,
                              const Step& step, bool decode, const Tensor<bf16, 3>& q) {
  const auto k = pages_of(keys), v = pages_of(values);
  const float scale = 1 / std::sqrt(static_cast<float>(q.dim(2)));
  const Dims<2> rows({q.dim(0), q.dim(1) * q.dim(2)});
  if (decode && !net.numerics.one_way()) return reshape(decode_attention(q, k, v, step, scale), rows);
  return kernels::with_extent<64, 128>(q.dim(2), [&](auto d) {
    auto o = empty<bf16>(q.dims());
    if (decode)  // one way of computing: the tile of prompts in that mode
      return reshape(
          kernel<attend_last<bf16, kSmallQueryTile, d>>(std::move(o), q, k, v, step.table, step.lengths, scale), rows);
    return kernels::with_constant<2>(step.query_tile == kQueryTile, [&](auto large) {
      constexpr int queries = large ? kQueryTile : kSmallQueryTile;
      return reshape(kernel<attend_chunks<bf16, queries, d>>(std::move(o), q, k, v, step.table, step.lengths,
                                                             step.tile_rows, step.tile_positions, scale),
                     rows);
    });
  });
}

}  // namespace mortar
