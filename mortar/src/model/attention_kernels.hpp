// Attention of prompt chunks over the pages of the KV cache.
//
// Tokens are packed in tiles of BM that belong to one sequence each. The cache of a layer is [pages, kv_heads, kPage,
// head_dim]; a row of `table` lists the pages of a sequence. A page number out of range reads some page. Where a cache
// of 8 bits would be converted again by each tile of queries and by each head of a group, its pages are widened first.
#pragma once
#include <type_traits>

#include "model/decoder.hpp"
#include "tessera/kernels/attention_state.hpp"
#include "tessera/kernels/cached_heads.hpp"
#include "tessera/kernels/decode_state.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

/// Kernels read the pages of a cache of S, or, of another type C, what widen_pages wrote: [rows of the table * pages of
/// a row, kv_heads, kPage, head_dim]. (Tensor copies of more axes are not in the order that tensor cores read.)
template <class C, class S>
inline constexpr bool is_widened = !std::is_same_v<C, S>;
/// What they take for the pages of a row where these are widened: their number, or nothing (then the value means
/// nothing).
template <class C, class S>
using PagesOfRow = std::conditional_t<is_widened<C, S>, Scalar<i32>, Constant<bool>>;
inline Scalar<i32> number_of(const Scalar<i32>& pages) { return pages; }
inline Scalar<i32> number_of(const Constant<bool>& /*nothing*/) { return 0; }

/// Keys and values of one key head of one sequence. C: the type that is read; S: that of the cache.
template <class C, int D, class S = C>
struct PagedKeys {
  using Product = kernels::multiplied_t<C>;
  In<C, dyn, dyn, dyn, dyn> k, v;
  In<i32, dyn, dyn> table;
  Scalar<i32> row, kv_head;
  Scalar<i32> in_use;  ///< keys of the sequence; slots from there on may hold anything
  kernels::HeadScales<S> scales;
  Scalar<i32> of_row = 0;  ///< if they are widened: the pages of a row

  /// How many pages the queries before position `end` see.
  Scalar<i32> pages(const Scalar<i32>& end) const {
    auto seen = ceil_div(min(end, in_use), kPage);
    if constexpr (is_widened<C, S>)
      return min(seen, of_row);
    else
      return min(seen, table.dim(1));
  }
  Tile<Product, kPage, D> keys(const Scalar<i32>& j) const { return page_of(k, j); }
  Tile<Product, kPage, D> values(const Scalar<i32>& j) const { return page_of(v, j); }

 private:
  Scalar<i32> number(const Scalar<i32>& j) const {
    if constexpr (is_widened<C, S>)
      return row * of_row + j;
    else
      return table.gather(row, j);
  }
  Tile<Product, kPage, D> page_of(const In<C, dyn, dyn, dyn, dyn>& pages, const Scalar<i32>& j) const {
    auto page = clamp(number(j), 0, pages.dim(0) - 1);
    auto tiles = pages.tiles(shape<1, 1, kPage, D>);
    return kernels::narrow<Product>(reshape(tiles.load(page, kv_head, 0, 0), shape<kPage, D>));
  }
};

/// The pages of sequences, in the order of `table`, in the type in which they are multiplied. Pages without a key in
/// use are not written, and not read.
template <class S, class C, int D>
void widen_pages(Mut<C, 1, 1, kPage, D> keys, Mut<C, 1, 1, kPage, D> values, In<S, dyn, dyn, dyn, dyn> k,
                 In<S, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table, In<i32, dyn> lengths, Scalar<i32> of_row) {
  require(keys.dim(1) == k.dim(1) && keys.dim(3) == k.dim(3), "the heads of the cache and their features");
  auto [number, head, zero, zero1] = keys.index();
  auto row = number / of_row, of_sequence = number % of_row;
  tile_if (of_sequence * kPage < lengths.gather(row)) {
    auto page = clamp(table.gather(row, of_sequence), 0, k.dim(0) - 1);
    auto widened = [&](const In<S, dyn, dyn, dyn, dyn>& pages) {
      return kernels::narrow<C>(pages.tiles(shape<1, 1, kPage, D>).load(page, head, 0, 0));
    };
    keys.store(widened(k));
    values.store(widened(v));
  }
}

/// The softmax of queries at `positions`, `first` or later, over the keys of a range of pages, each query up to its
/// own position. The result of a query does not depend on the other queries.
template <class Pages, class Keys, int BM, int D>
kernels::OnlineSoftmax<BM, D> softmax_over(Pages pages, const Tile<typename Keys::Product, BM, D>& q,
                                           const Tile<i32, BM, 1>& positions, const Scalar<i32>& first,
                                           const Keys& cache, const Scalar<f32>& scale) {
  kernels::OnlineSoftmax<BM, D> state;
  auto unit = cache.scales.of_scores(scale * log2e<f32>);
  for (auto j : pages) {
    auto keys = cache.keys(j);  // needed before the values
    auto values = cache.values(j);
    auto s = mma(q, transpose(keys), zeros<f32, BM, kPage>()) * unit;
    tile_if ((j + 1) * kPage > first) {
      s = where(iota<i32, 1, kPage>(axis<1>) + j * kPage <= positions, s, -infinity<f32>);
      // Slots that are not in use may hold anything, and 0 * NaN is NaN. A branch with its own product, because the
      // hardware multiplies only unmodified operands directly from where tensor copies put them.
      auto used = iota<i32, kPage, 1>(axis<0>) + j * kPage < cache.in_use;
      state.add(s, where(broadcast(used, shape<kPage, D>), values, zeros<typename Keys::Product, kPage, D>()));
    } else {
      state.add(s, values);
    }
  }
  return state;
}

/// The attention of queries at `positions`, from `first` to `last`, which see the keys up to their own position.
template <class Keys, int BM, int D>
Tile<f32, BM, D> attend(const Tile<typename Keys::Product, BM, D>& q, const Tile<i32, BM, 1>& positions,
                        const Scalar<i32>& first, const Scalar<i32>& last, const Keys& cache,
                        const Scalar<f32>& scale) {
  return cache.scales.of_values(softmax_over(range(cache.pages(last + 1)), q, positions, first, cache, scale).result());
}

/// The same for BM queries from position `first` on, faster: weights are relative to the largest score among the keys
/// of the first page. If that was not accurate for one of the queries, or if something that is not a number was in a
/// slot that is not in use, the tile is computed as above.
template <class Keys, int BM, int D>
Tile<f32, BM, D> attend_fast(const Tile<typename Keys::Product, BM, D>& q, const Scalar<i32>& first, const Keys& cache,
                             const Scalar<f32>& scale) {
  auto unit = cache.scales.of_scores(scale * log2e<f32>);
  auto scores = [&](const Scalar<i32>& j) {
    auto s = mma(q, transpose(cache.keys(j)), zeros<f32, BM, kPage>());
    return kernels::without_unseen<kernels::AttentionMask::Causal>(s, first, j, cache.in_use, 0, -infinity<f32>);
  };
  auto end = cache.pages(first + BM);
  auto result = zeros<f32, BM, D>();
  tile_if (end > 0) {
    kernels::FixedSoftmax<BM, D> state(max(scores(0), axis<1>) * unit);
    for (auto j : range(end)) {
      auto s = scores(j);  // the keys are loaded before the values
      auto values = cache.values(j);
      state.add(s, unit, values);
    }
    result = cache.scales.of_values(state.state().result());
    tile_if (!(state.template holds<typename Keys::Product>() && state.clean())) {
      auto positions = iota<i32, BM, 1>(axis<0>) + first;
      result = attend(q, positions, first, first + BM - 1, cache, scale);
    }
  }
  return result;
}

/// Causal attention of chunks of prompts: tile_rows has the row of `table` of each tile, tile_positions the position of
/// its first token. Rows of a tile beyond the end of its chunk give unspecified numbers. C and S: as in PagedKeys. Q:
/// the type of the queries; of that in which they are multiplied, tensor cores read them from where tensor copies put
/// them.
template <class C, int BM, int D, class S = C, class Q = bf16>
void attend_chunks(Mut<bf16, BM, 1, D> o, In<Q, dyn, dyn, dyn> q, In<C, dyn, dyn, dyn, dyn> k,
                   In<C, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table, In<i32, dyn> lengths, In<i32, dyn> tile_rows,
                   In<i32, dyn> tile_positions, Scalar<f32> scale, kernels::CacheScales<S> scales,
                   PagesOfRow<C, S> of_row) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [tile, head, zero] = o.index();
  auto row = tile_rows.gather(tile);
  auto first = tile_positions.gather(tile);
  auto kv_head = head / (q.dim(1) / k.dim(1));
  const PagedKeys<C, D, S> cache{k, v, table, row, kv_head, lengths.gather(row), {scales, kv_head}, number_of(of_row)};
  auto queries = kernels::narrow<kernels::multiplied_t<C>>(reshape(q.load_like(o), shape<BM, D>));
  auto result = zeros<f32, BM, D>();
  // Small tiles are those of the CPU and of the modes with one way of computing, in which queries do not affect each
  // other.
  if constexpr (BM == kQueryTile)
    result = attend_fast(queries, first, cache, scale);
  else
    result = attend(queries, iota<i32, BM, 1>(axis<0>) + first, first, first + BM - 1, cache, scale);
  o.store(reshape(cast<bf16>(result), shape<BM, 1, D>));
}

/// The attention of a tile of queries over part of its pages, where tiles alone would leave SMs idle: a few chunks at
/// late positions. Block ((tile * heads) + head) * splits + part has KV split `part`; `sums` has log2 of the sum of
/// exp2 of its scores. A running maximum, because a query need not see a key of the first page of a split.
template <class C, int BM, int D, class S = C, class Q = bf16>
void attend_splits(Mut<f32, 1, BM, D> parts, Mut<f32, 1, BM> sums, In<Q, dyn, dyn, dyn> q, In<C, dyn, dyn, dyn, dyn> k,
                   In<C, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table, In<i32, dyn> lengths, In<i32, dyn> tile_rows,
                   In<i32, dyn> tile_positions, Scalar<i32> splits, Scalar<f32> scale, kernels::CacheScales<S> scales,
                   PagesOfRow<C, S> of_row) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [block, zero] = sums.index();
  auto part = block % splits;
  auto head = block / splits % q.dim(1);
  auto tile = block / splits / q.dim(1);
  auto row = tile_rows.gather(tile);
  auto first = tile_positions.gather(tile);
  auto kv_head = head / (q.dim(1) / k.dim(1));
  const PagedKeys<C, D, S> cache{k, v, table, row, kv_head, lengths.gather(row), {scales, kv_head}, number_of(of_row)};
  auto queries =
      kernels::narrow<kernels::multiplied_t<C>>(reshape(q.tiles(shape<BM, 1, D>).load(tile, head, 0), shape<BM, D>));
  auto state = softmax_over(kernels::steps_of_part(part, splits, cache.pages(first + BM)), queries,
                            iota<i32, BM, 1>(axis<0>) + first, first, cache, scale);
  parts.store(reshape(cache.scales.of_values(state.result()), shape<1, BM, D>));
  sums.store(reshape(state.log_sum(), shape<1, BM>));
}

/// R queries of a head: the sum of the S splits of attend_splits, weighted by exp2 of their logarithmic sums.
template <int BM, int R, int S, int D>
void combine_splits_of_tiles(Mut<bf16, R, 1, D> o, In<f32, dyn, dyn, dyn> parts, In<f32, dyn, dyn> sums,
                             Scalar<i32> heads) {
  static_assert(BM % R == 0);
  require(parts.dim(0) % S == 0, "all splits of a tile are combined in one step");
  auto [rows, head, zero] = o.index();
  auto block = rows / (BM / R) * heads + head, within = rows % (BM / R);
  auto values = parts.tiles(shape<S, R, D>).load(block, within, 0);
  auto s = reshape(sums.tiles(shape<S, R>).load(block, within), shape<S, R, 1>);
  auto weights = exp2(s - max(max(s, axis<0>), std::numeric_limits<f32>::lowest()));
  auto acc = sum(values * weights, axis<0>) / max(sum(weights, axis<0>), 1e-30f);
  o.store(reshape(cast<bf16>(acc), shape<R, 1, D>));
}

/// Attention of the last token of each sequence, with the arithmetic of small tiles.
template <class C, int BM, int D>
void attend_last(Mut<bf16, 1, 1, D> o, In<bf16, dyn, dyn, dyn> q, In<C, dyn, dyn, dyn, dyn> k,
                 In<C, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table, In<i32, dyn> lengths, Scalar<f32> scale,
                 kernels::CacheScales<C> scales) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [row, head, zero] = o.index();
  auto length = lengths.gather(row);
  auto kv_head = head / (q.dim(1) / k.dim(1));
  const PagedKeys<C, D> cache{k, v, table, row, kv_head, length, {scales, kv_head}};
  auto query = broadcast(kernels::narrow<kernels::multiplied_t<C>>(reshape(q.load_like(o), shape<1, D>)), shape<BM, D>);
  auto position = length - 1;
  auto result = attend(query, zeros<i32, BM, 1>() + position, position, position, cache, scale);
  o.store(reshape(cast<bf16>(extract(result, shape<1, D>, 0, 0)), shape<1, 1, D>));
}

}  // namespace mortar
