// Which kernel a step's attention takes, and its extents.
#include "model/attention.hpp"

#include <bit>
#include <type_traits>

#include "model/attention_kernels.hpp"
#include "model/kernels.hpp"
#include "model/one_token_kernels.hpp"
#include "mortar/plan.hpp"
#include "tessera/kernels/paged_attention.hpp"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace mortar {
namespace {

/// The cache of a layer as pages, [pages, kv_heads, kPage, head_dim].
template <class C>
View<C, 4> pages_of(const Tensor<C, 4>& cache) {
  const std::int64_t heads = cache.dim(0), pages = cache.dim(1) / kPage, d = 2 * cache.dim(3);
  return cache.reshape({heads, pages, std::int64_t{kPage}, d}).template permute<1, 0, 2, 3>();
}

/// Features of each half of a head that a block of place_keys or copy_keys owns. On the CPU few blocks are enough, and
/// what each does for every token is worth whole cache lines.
constexpr int kSlice = 8, kSliceOnCpu = 32;

/// The pages of the sequences that answer, and how much of them is in use.
struct Answers {
  View<i32, 2> table;
  View<i32, 1> lengths;
};

/// What kernels take for kernels::CacheScales<C>.
template <class C>
using ScalesOf = std::conditional_t<kernels::has_scales<C>, View<f32, 2>, bool>;
template <class C>
ScalesOf<C> scales_of(const Network& net, std::size_t layer) {
  if constexpr (kernels::has_scales<C>)
    return net.cache_scales[layer].view();
  else
    return false;
}

constexpr int kGroup = 8;  ///< the most query heads of a key head that kernels for one small tile take

template <class C>
Op<Tensor<bf16, 3>> decode_attention(const View<bf16, 3>& q, const View<C, 4>& keys, const View<C, 4>& values,
                                     const ScalesOf<C>& scales, const Answers& of, float scale) {
  // Blocks over FP8 convert: four at a time hide each other's conversions, if the tile is small enough for the
  // registers of four (bench/notes/kv_cache.md).
  const std::int64_t kv_heads = keys.dim(1);
  const bool converts = kernels::has_scales<C> && q.dim(1) / kv_heads <= kGroup && q.dim(2) <= 128;
  const auto s =
      kernels::paged_decode_shape(q, kv_heads, of.table.dim(1), kPage, 0, SourceLocation::current(), converts);
  const View<bf16, 4> groups = reshape(q, s.result_dims());
  const bool gpu = kernels::target_of(q.device()).gpu;
  const auto with_tile = [&](const auto& f) {
    return kernels::with_decode_tile(s, [&](auto group, auto d) {
      if constexpr (kernels::has_scales<C>)
        return kernels::with_constant<2>(gpu, [&](auto ordered) { return f(group, d, ordered); });
      else
        return f(group, d, std::integral_constant<int, 0>());
    });
  };
  constexpr std::int64_t kManyBlocks = 4;  // for each SM: three at a time hide each other's beginnings and ends
  constexpr Hints four = {.occupancy = 4}, three = {.occupancy = 3}, none;
  if (s.parts == 1) {
    const bool many =
        !kernels::has_scales<C> && s.batch * s.kv_heads >= kManyBlocks * kernels::target_of(q.device()).num_sms;
    const Hints hints = converts ? four : many ? three : none;
    const auto launch = with_tile([&](auto group, auto d, auto ordered) {
      return kernel<kernels::paged_whole<bf16, group, kPage, d, C, ordered != 0>>.hints(hints).launcher();
    });
    return reshape(launch(empty<bf16>(s.result_dims()), groups, keys, values, of.table, of.lengths, scale, scales),
                   q.dims());
  }
  const auto
      launch =
          with_tile(
              [&](auto group, auto d, auto ordered) {
                return kernel<kernels::paged_split<bf16, group, kPage, d, C, ordered != 0>>
        .hints(converts ? four : none)
        .launcher();
              });
  auto partial = launch(empty<f32>(s.parts_dims()), empty<f32>(s.sums_dims()), groups, keys, values, of.table,
                        of.lengths, scale, scales);
  return reshape(kernels::combine_splits<bf16>(std::move(partial), s, SourceLocation::current()), q.dims());
}

constexpr int kFew = 16;        ///< tokens of a tile that is rotated
constexpr int kMany = 128;      ///< tokens of a tile that is copied; with fewer tokens one launch fewer is faster
constexpr int kMaxSplits = 32;  ///< of the keys of a tile of prompts

/// What the kernels of a layer read, but for its cache.
struct LayerStep {
  const Network& net;
  const LayerWeights& w;
  const Step& step;
  const Tensor<f32, 3>& rotation;
  View<bf16, 4> heads;  ///< the projections, [tokens, heads + 2 kv_heads, 2, head_dim / 2]

  std::int64_t tokens() const { return heads.dim(0); }
  std::int64_t queries() const { return net.config.attention.heads; }
  std::int64_t kv() const { return net.config.attention.kv_heads; }
  std::int64_t half() const { return heads.dim(3); }
  bool one_way() const { return net.numerics.one_way(); }
  float scale() const { return net.config.attention.scale; }

  /// f<type of kernels' parameters>(weights of the norm of queries, those of keys).
  auto with_norms(const auto& f) const {
    const auto halves = [&](const Tensor<bf16, 1>& weights) { return weights.reshape({std::int64_t{2}, half()}); };
    if (!net.config.attention.head_norms) return f.template operator()<NoNorm>(false, false);
    return f.template operator()<HeadNorm>(halves(w.query_norm), halves(w.key_norm));
  }
};

/// A layer of a step with its part of the cache, whose elements are of C.
template <class C>
struct Layer : LayerStep {
  Tensor<C, 4>&keys, &values;
  ScalesOf<C> scales;
};

template <class C>
Op<Tensor<bf16, 3>> place_one(const Layer<C>& l) {
  const std::int64_t kv = l.kv(), half = l.half(), group = l.queries() / kv;
  return kernels::with_extent<2, kGroup>(group, [&](auto n) {
    return kernels::with_extent<32, 64>(half, [&](auto h) {
      return l.with_norms([&]<class N>(const auto& q_norm, const auto& k_norm) {
        auto q = kernel<place_heads<C, n, h, N>>(empty<bf16>({std::int64_t{1}, kv, group, std::int64_t{2}, half}),
                                                 mut(l.keys), mut(l.values), l.heads, q_norm, k_norm, l.rotation,
                                                 l.step.slots, l.net.epsilon(), l.net.numerics.strict, l.scales);
        return reshape(std::move(q), Dims<3>({std::int64_t{1}, kv * group, 2 * half}));
      });
    });
  });
}

constexpr int kSliceKeys = 32;           ///< keys of a block of attend_slice (bench/notes/mortar.md)
constexpr std::int64_t kMaxSlices = 64;  ///< that finish_one combines at once
std::int64_t slices_of(const Step& step) { return step.table.dim(1) * (kPage / kSliceKeys); }

/// One token of one sequence over few pages on a GPU; the blocks of a group share the writing of a key, in whole
/// slices. (On the CPU there is nothing to overlap, and each slice rotates its query.)
bool is_short_and_single(const LayerStep& l) {
  const std::int64_t group = l.queries() / l.kv();
  return l.step.decode() && kernels::target_of(l.heads.device()).gpu && l.tokens() == 1 && !l.one_way() &&
         (l.half() == 32 || l.half() == 64) && group <= kGroup &&
         std::has_single_bit(static_cast<std::uint64_t>(group)) && slices_of(l.step) <= kMaxSlices;
}
template <class C>
Op<Tensor<bf16, 3>> attend_one(const Layer<C>& l) {
  const std::int64_t kv = l.kv(), group = l.queries() / kv, slices = slices_of(l.step), half_extent = l.half();
  const float scale = l.scale(), eps = l.net.epsilon();
  const float own_scale = scale * l.net.rope_factor * l.net.rope_factor;
  return kernels::with_extent<32, 64>(half_extent, [&](auto half) {
    return kernels::with_extent<1, kGroup>(group, [&](auto members) {
      return kernels::with_extent<16, kMaxSlices>(slices, [&](auto most) {
        return l.with_norms([&]<class N>(const auto& q_norm, const auto& k_norm) {
          constexpr int slices_at_most = most, written = half / members / 2, half_of_head = half;
          auto result = empty<bf16>({kv, group, std::int64_t{2}, half_extent});
          auto partial = kernel<attend_slice<C, kSliceKeys, half, N>>(
              empty<f32>({kv, slices, group, 2 * half_extent}), empty<f32>({kv, slices, group}),
              empty<f32>({kv, slices, group}), l.heads, q_norm, l.rotation, pages_of(l.keys), pages_of(l.values),
              l.step.table, l.step.lengths, scale, eps, l.scales);
          // The result is allocated first, so that the second kernel follows the first one directly.
          auto finished =
              all(std::move(result), std::move(partial)).then([&l, q_norm, k_norm, own_scale, eps](auto made) {
                constexpr auto& finish = kernel<finish_one<C, slices_at_most, written, half_of_head, N>>;
                auto& [o, splits] = made;
                const auto& [parts, tops, shares] = splits;
                return finish(std::move(o), mut(l.keys), mut(l.values), l.heads, q_norm, k_norm, l.rotation,
                              l.step.slots, parts, tops, shares, own_scale, eps, l.scales);
              });
          return reshape(std::move(finished), Dims<3>({std::int64_t{1}, kv * group, 2 * half_extent}));
        });
      });
    });
  });
}

/// The query heads or the key heads of the projections, normalised and rotated: [tokens, heads, 2, head_dim / 2].
enum class Heads : std::uint8_t { Queries, Keys };
Op<Tensor<bf16, 4>> rotated(const LayerStep& l, Heads which) {
  const bool keys = which == Heads::Keys;
  const std::int64_t first = keys ? l.queries() : 0, count = keys ? l.kv() : l.queries();
  return kernels::with_extent<32, 64>(l.half(), [&](auto h) {
    return l.with_norms([&]<class N>(const auto& q_norm, const auto& k_norm) {
      return kernel<rotate_rows<kFew, h, N>>(empty<bf16>({l.tokens(), count, std::int64_t{2}, l.half()}), l.heads,
                                             keys ? k_norm : q_norm, l.rotation, static_cast<i32>(first),
                                             l.net.epsilon(), l.net.numerics.strict);
    });
  });
}

/// Keys that have been rotated, and values, into their slots. Few blocks, which compare the slots of a tile with one
/// another: many warps (bench/notes/mortar.md).
template <class C>
auto copied(const Layer<C>& l, const Tensor<bf16, 4>& rotated_keys) {
  return kernels::with_constant<2>(kernels::target_of(l.heads.device()).gpu, [&](auto gpu) {
    constexpr auto& copy = kernel<copy_keys<C, kMany, gpu ? kSlice : kSliceOnCpu>>;
    return copy.hints({.warps = 8})(mut(l.keys), mut(l.values), rotated_keys, l.heads, l.step.slots, l.scales);
  });
}

template <class C>
Flow<> write_cache(const Layer<C>& l) {
  if (l.tokens() >= kMany && !l.one_way()) {
    const auto rows = co_await rotated(l, Heads::Keys);
    co_await copied(l, rows);
    co_return;
  }
  co_await kernels::with_extent<32, 64>(l.half(), [&](auto h) {
    return l.with_norms([&]<class N>(const auto&, const auto& k_norm) {
      return kernel<place_keys<C, kFew, kSlice, h, N>>(mut(l.keys), mut(l.values), l.heads, k_norm, l.rotation,
                                                       l.step.slots, l.net.epsilon(), l.net.numerics.strict, l.scales);
    });
  });
}

/// Attention of the last tokens of sequences, [answers, heads, head_dim], whose queries have been rotated.
template <class C>
Op<Tensor<bf16, 3>> attend_answers(const Layer<C>& l, const View<bf16, 3>& q) {
  const auto k = pages_of(l.keys), v = pages_of(l.values);
  const Step& step = l.step;
  const std::int64_t rows = step.table.dim(0), first = rows - step.answers;
  const Answers of{step.table.slice<0>(first, rows), step.lengths.slice<0>(first, rows)};
  if (!l.one_way()) return decode_attention<C>(q, k, v, l.scales, of, l.scale());
  return kernels::with_extent<64, 128>(q.dim(2),
                                       [&](auto d) {  // one way of computing: the tile of prompts in that mode
                                         return kernel<attend_last<C, kSmallQueryTile, d>>(
                                             empty<bf16>(q.dims()), q, k, v, of.table, of.lengths, l.scale(), l.scales);
                                       });
}

constexpr int kCombinedRows = 64;  ///< at most, splits times queries that a block combines

/// KV splits of the tiles of prompts, a power of two. The estimate assumes that a block begins and ends in the time of
/// four pages.
std::int64_t splits_of_tiles(const LayerStep& l) {
  constexpr std::int64_t kPagesOfStep = 8, kBlocksOfSm = 2;
  if (l.one_way() || l.step.query_tile != kQueryTile) return 1;
  const std::int64_t tiles = l.step.tile_rows.dim(0) * l.queries();
  const std::int64_t splits = kernels::decode_heuristic(tiles, ceil_div(l.step.prompt_pages, kPagesOfStep),
                                                        kernels::target_of(l.heads.device()), kBlocksOfSm);
  return std::min<std::int64_t>(splits, kMaxSplits);
}

/// What kernels take for PagesOfRow<K, C>.
template <class C, class K>
auto pages_of_row(const Layer<C>& l) {
  if constexpr (is_widened<K, C>)
    return static_cast<i32>(l.step.prompt_pages);
  else
    return false;
}

/// Attention of parts of prompts, [tokens, heads, head_dim], whose queries have been rotated, by few tiles at late
/// positions. k and v: pages of K, those of the cache or widened ones.
template <class C, class Q, class K>
Flow<> attend_in_splits(const Layer<C>& l, std::int64_t splits, Lend<bf16, 3> o, View<Q, 3> q, View<K, 4> k,
                        View<K, 4> v) {
  const std::int64_t heads = l.queries(), blocks = l.step.tile_rows.dim(0) * heads * splits, d = q.dim(2);
  co_await kernels::with_extent<64, 128>(d, [&](auto depth) {
    return kernels::with_extent<2, kMaxSplits>(splits, [&](auto s) {
      constexpr int rows = std::min<int>(kFew, kCombinedRows / s);
      constexpr auto& combine = kernel<combine_splits_of_tiles<kQueryTile, rows, s, depth>>;
      auto partial = kernel<attend_splits<K, kQueryTile, depth, C, Q>>(
          empty<f32>({blocks, std::int64_t{kQueryTile}, d}), empty<f32>({blocks, std::int64_t{kQueryTile}}), q, k, v,
          l.step.table, l.step.lengths, l.step.tile_rows, l.step.tile_positions, static_cast<i32>(splits), l.scale(),
          l.scales, pages_of_row<C, K>(l));
      return std::move(partial).then([heads, o](auto made) {
        const auto& [parts, sums] = made;
        return combine(o, parts, sums, static_cast<i32>(heads));
      });
    });
  });
}

/// Attention of parts of prompts where a block computes a whole tile of queries of a head.
template <int Queries, class C, class Q, class K>
auto attend_in_tiles(const Layer<C>& l, const Lend<bf16, 3>& o, const View<Q, 3>& q, const View<K, 4>& k,
                     const View<K, 4>& v) {
  return kernels::with_extent<64, 128>(q.dim(2), [&](auto d) {
    return kernel<attend_chunks<K, Queries, d, C, Q>>(o, q, k, v, l.step.table, l.step.lengths, l.step.tile_rows,
                                                      l.step.tile_positions, l.scale(), l.scales,
                                                      pages_of_row<C, K>(l));
  });
}

/// Attention of parts of prompts with tiles of kQueryTile queries, by whole tiles or in splits.
template <class C, class Q, class K>
Flow<> attend_large_tiles(const Layer<C>& l, Lend<bf16, 3> o, View<Q, 3> q, View<K, 4> k, View<K, 4> v) {
  const std::int64_t splits = splits_of_tiles(l);
  if (splits > 1)
    co_await attend_in_splits(l, splits, o, q, k, v);
  else
    co_await attend_in_tiles<kQueryTile>(l, o, q, k, v);
}

/// The extents of what widen_pages writes: pages of the sequences whose prompts are computed.
template <class C>
Dims<4> widened_dims(const Layer<C>& l) {
  return {l.step.prompts * l.step.prompt_pages, l.kv(), std::int64_t{kPage}, 2 * l.half()};
}
/// Whether the pages of prompts are widened before they are read: each tile of queries of each head would convert them
/// again. They may take as much memory as what the step's tokens have in the MLP, which is not there at this time.
template <class C>
bool widens(const Layer<C>& l) {
  if (!kernels::has_scales<C> || l.step.query_tile != kQueryTile || l.one_way()) return false;
  const std::int64_t elements = 2 * widened_dims(l).numel();
  return elements <= l.tokens() * mlp_elements_per_token(l.net.config);
}

/// Attention of parts of prompts, [tokens, heads, head_dim], whose queries have been rotated.
template <class C>
Flow<> attend_prompts(const Layer<C>& l, Lend<bf16, 3> o, View<bf16, 3> q) {
  const auto k = pages_of(l.keys), v = pages_of(l.values);
  if (l.step.query_tile != kQueryTile) {
    co_await attend_in_tiles<kSmallQueryTile>(l, o, q, k, v);
    co_return;
  }
  if constexpr (kernels::has_scales<C>)
    if (widens(l)) {
      using W = kernels::multiplied_t<C>;
      const auto [keys, values] = co_await kernels::with_extent<64, 128>(q.dim(2), [&](auto d) {
        return kernel<widen_pages<C, W, d>>(empty<W>(widened_dims(l)), empty<W>(widened_dims(l)), k, v, l.step.table,
                                            l.step.lengths, pages_of_row<C, W>(l));
      });
      // Queries that a block converts are in registers, where each product waits for the one before.
      const auto queries = co_await cast<W>(q);
      co_await attend_large_tiles(l, o, queries.view(), keys.view(), values.view());
      co_return;
    }
  co_await attend_large_tiles(l, o, q, k, v);
}

/// Attention of queries that have been rotated, [tokens, heads, head_dim].
template <class C>
Flow<Tensor<bf16, 3>> attend_rotated(const Layer<C>& l, View<bf16, 3> q) {
  const std::int64_t tokens = q.dim(0), prompts = tokens - l.step.answers;
  if (prompts == 0) co_return co_await attend_answers(l, q);
  auto o = co_await empty<bf16>(q.dims());
  if (prompts == tokens) {
    co_await attend_prompts(l, mut(o), q);
    co_return o;
  }
  co_await attend_prompts(l, mut(o).template slice<0>(0, prompts), q.slice<0>(0, prompts));
  const auto answers = co_await attend_answers(l, q.slice<0>(prompts, tokens));
  co_await copy_into(mut(o).template slice<0>(prompts, tokens), answers);
  co_return o;
}

template <class C>
Flow<Tensor<bf16, 3>> attend_all(const Layer<C>& l) {
  if (is_short_and_single(l)) co_return co_await attend_one(l);
  if (l.tokens() == 1 && l.queries() <= kGroup * l.kv() && !l.one_way()) {
    const auto q = co_await place_one(l);
    co_return co_await attend_rotated(l, q.view());
  }
  co_await write_cache(l);
  const auto rows = co_await rotated(l, Heads::Queries);
  const auto q = rows.reshape({l.tokens(), l.queries(), 2 * l.half()});
  co_return co_await attend_rotated(l, q);
}

}  // namespace

Op<Tensor<f32, 3>> rotation_of(const Network& net, const Step& step) {
  const std::int64_t half = net.config.attention.head_dim / 2;
  return kernels::with_extent<32, 64>(half, [&](auto h) {
    return kernel<rotation_angles<kFew, h>>(empty<f32>({step.positions.dim(0), std::int64_t{2}, half}), step.positions,
                                            net.frequencies, net.rope_factor, net.numerics.strict);
  });
}

Flow<Tensor<bf16, 2>> attention(const Network& net, std::size_t layer, KvCache& cache, const Step& step,
                                const Tensor<f32, 3>& rotation, const Tensor<bf16, 2>& qkv) {
  const auto& sizes = net.config.attention;
  const std::int64_t tokens = qkv.dim(0), half = sizes.head_dim / 2;
  const View<bf16, 4> heads = qkv.reshape({tokens, sizes.heads + 2 * sizes.kv_heads, std::int64_t{2}, half});
  const auto over = [&]<class C>(Tensor<C, 4>& keys, Tensor<C, 4>& values) {
    return Layer<C>{{net, net.weights.layers[layer], step, rotation, heads}, keys, values, scales_of<C>(net, layer)};
  };
  if (cache.type == KvType::Fp8) {
    const auto of = over(cache.f8_keys[layer], cache.f8_values[layer]);
    auto o = co_await attend_all(of);
    co_return std::move(o).reshape({tokens, 2 * half * sizes.heads});
  }
  const auto of = over(cache.keys[layer], cache.values[layer]);
  auto o = co_await attend_all(of);
  co_return std::move(o).reshape({tokens, 2 * half * sizes.heads});
}

}  // namespace mortar
