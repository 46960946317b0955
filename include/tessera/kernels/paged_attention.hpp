// Decoding attention over a paged KV cache: as decode_attention, but a table lists the pages that hold the keys of a
// sequence, so that sequences grow without being copied.
//
//   auto o = kernels::paged_attention(q, k_pages, v_pages, table, lengths).sync();
//
// q is [batch, heads, d]; k_pages and v_pages are [pages, kv_heads, page_size, d] with a page_size of 16, 32, 64 or
// 128; table (i32) is [batch, pages of a sequence], lengths (i32) the keys in use (a length out of range is clamped to
// 0 or to what the table's pages hold). The keys of a page number out of range are not seen. Other pages, and entries
// beyond the keys in use, do not affect any result.
#pragma once
#include <algorithm>

#include "tessera/kernels/cached_heads.hpp"
#include "tessera/kernels/decode_combine.hpp"
#include "tessera/kernels/decode_state.hpp"
#include "tessera/kernels/mma_order.hpp"

namespace tessera::kernels {

/// The work of a block of paged_split or paged_whole: KV split `part` of `parts` of the pages of one sequence. Ordered:
/// the products have their rows and columns in the order of mma, which elements of 8 bits are read faster in.
template <bool Ordered, int Page, int G, int D, class T, class C>
DecodeResult<G, D> decode_pages(const Scalar<i32>& batch, const Scalar<i32>& head, const Scalar<i32>& part,
                                const Scalar<i32>& parts, const In<T, dyn, dyn, dyn, dyn>& q,
                                const In<C, dyn, dyn, dyn, dyn>& k, const In<C, dyn, dyn, dyn, dyn>& v,
                                const In<i32, dyn, dyn>& table, const In<i32, dyn>& lengths, const Scalar<f32>& scale,
                                const CacheScales<C>& scales) {
  using P = multiplied_t<C>;
  const HeadScales<C> heads(scales, head);
  auto unit = heads.of_scores(scale * log2e<f32>);
  auto K = k.tiles(shape<1, 1, Page, D>);
  auto V = v.tiles(shape<1, 1, Page, D>);
  auto columns = [](const auto& tile) {
    if constexpr (Ordered)
      return in_mma_order(tile);
    else
      return tile;
  };
  auto rows = [](const auto& tile) {
    if constexpr (Ordered)
      return in_row_order(tile);
    else
      return tile;
  };
  auto Q = transpose(columns(narrow<P>(reshape(q.tiles(shape<1, 1, G, D>).load(batch, head, 0, 0), shape<G, D>))));
  auto length = clamp(lengths.gather(batch), 0, table.dim(1) * Page);
  DecodeState<Page, G, D> state;
  // Keys and values are ordered first and converted then: the other way round, the assembler (tileiras 13.5) loads no
  // page before the one before it has been multiplied.
  for (auto j : steps_of_part(part, parts, ceil_div(length, Page))) {
    auto named = table.gather(batch, j);
    auto page = clamp(named, 0, k.dim(0) - 1);
    auto used = where(named == page, length, 0);
    auto keys = reshape(K.load(page, head, 0, 0), shape<Page, D>);  // needed before the values
    auto values = reshape(V.load(page, head, 0, 0), shape<Page, D>);
    state.add(Q, narrow<P>(columns(keys)), narrow<P>(rows(values)), j * Page, used, unit);
  }
  auto result = finish(state);
  if constexpr (Ordered) result.o = from_row_order(result.o);
  return {heads.of_values(result.o), result.log_sum};
}
/// C: the type of the cache's elements, f8e4m3 or T. Ordered: for f8e4m3 on a GPU; the result is the same.
template <class T, int G, int Page, int D, class C = T, bool Ordered = false>
void paged_split(Mut<f32, 1, 1, 1, G, D> parts, Mut<f32, 1, 1, 1, G> sums, In<T, dyn, dyn, dyn, dyn> q,
                 In<C, dyn, dyn, dyn, dyn> k, In<C, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table,
                 In<i32, dyn> lengths, Scalar<f32> scale, CacheScales<C> scales) {
  auto [batch, head, part, zero] = sums.index();
  auto r = decode_pages<Ordered, Page, G, D>(batch, head, part, sums.dim(2), q, k, v, table, lengths, scale, scales);
  parts.store(reshape(r.o, shape<1, 1, 1, G, D>));
  sums.store(reshape(r.log_sum, shape<1, 1, 1, G>));
}
template <class T, int G, int Page, int D, class C = T, bool Ordered = false>
void paged_whole(Mut<T, 1, 1, G, D> o, In<T, dyn, dyn, dyn, dyn> q, In<C, dyn, dyn, dyn, dyn> k,
                 In<C, dyn, dyn, dyn, dyn> v, In<i32, dyn, dyn> table, In<i32, dyn> lengths, Scalar<f32> scale,
                 CacheScales<C> scales) {
  auto [batch, head, zero, zero2] = o.index();
  auto r = decode_pages<Ordered, Page, G, D>(batch, head, 0, 1, q, k, v, table, lengths, scale, scales);
  o.store(reshape(narrow<T>(r.o), shape<1, 1, G, D>));
}

/// softmax(scale * q k^T) v over the first lengths[i] keys of sequence i, with q's extents; 0 for an empty sequence.
/// `parts` as in decode_attention. Throws ShapeError for extents and options that do not fit.
template <Operand Q, Operand K, Operand V, Operand B, Operand L>
Op<Tensor<element_of<Q>, 3>> paged_attention(const Q& q, const K& k_pages, const V& v_pages, const B& table,
                                             const L& lengths, float scale = 0, std::int64_t parts = 0,
                                             SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  static_assert(Q::rank == 3 && K::rank == 4 && V::rank == 4,
                "q is [batch, heads, d], pages [pages, kv_heads, page_size, d]");
  check_attention("paged_attention", q, k_pages, v_pages, 1, where);
  expect_dim("paged_attention", "table", table, 0, q.dim(0, where), where);
  expect_dim("paged_attention", "lengths", lengths, 0, q.dim(0, where), where);
  const std::int64_t page = k_pages.dim(2, where);
  expect_shape(page == 16 || page == 32 || page == 64 || page == 128, "paged_attention", "k_pages", k_pages,
               "a page holds 16, 32, 64 or 128 keys", where);
  const DecodeShape s = paged_decode_shape(q, k_pages.dim(1, where), table.dim(1, where), page, parts, where);
  const View<T, 4> groups = tessera::reshape(q.view(where), Dims<4>({s.batch, s.kv_heads, s.group, s.d}, where), where);
  const float factor = AttentionOptions{scale}.scale_for(s.d, "paged_attention", where);
  const auto [whole, split] = with_decode_tile(s, [&](auto g, auto d) {
    return with_extent<16, 128>(page, [&](auto keys) {
      constexpr int queries = std::max<int>(g, 512 / keys);  // the four warps of a block each have 16 x 8 of a product
      return std::pair(kernel<paged_whole<T, queries, keys, d>>.launcher(),
                       kernel<paged_split<T, queries, keys, d>>.launcher());
    });
  });
  if (s.parts == 1)
    return tessera::reshape(whole(empty<T>(s.result_dims(), where), groups, k_pages.view(where), v_pages.view(where),
                                  table.view(where), lengths.view(where), factor, kNoScales, where),
                            q.dims(where), where);
  auto partial = split(empty<f32>(s.parts_dims(), where), empty<f32>(s.sums_dims(), where), groups, k_pages.view(where),
                       v_pages.view(where), table.view(where), lengths.view(where), factor, kNoScales, where);
  return tessera::reshape(combine_splits<T>(std::move(partial), s, where), q.dims(where), where);
}

}  // namespace tessera::kernels
