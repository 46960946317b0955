// The gradients of attention, without the weights in memory: they are computed again from the log-sum-exp that the
// forward pass returns (Dao 2022, 2023).
//
//   auto [o, lse] = kernels::attention_with_lse(q, k, v, {.causal = true}).sync();
//   auto [dq, dk, dv] = kernels::attention_backward(d_o, q, k, v, o, lse, {.causal = true}).sync();
//
// Three kernels: the sum of d_o * o for each query; the gradients of keys and values, a block for a tile of keys, which
// goes through all queries that see it; those of queries, a block for a tile of queries. Nothing is added atomically,
// so results have the same bits in every run.
#pragma once
#include "tessera/kernels/attention.hpp"

namespace tessera::kernels {

/// The sum of d_o * o over the columns of each query: [batch, heads, queries].
template <class T, int BM, int D>
void attention_products(Mut<f32, 1, 1, BM> sums, In<T, dyn, dyn, dyn, dyn> d_o, In<T, dyn, dyn, dyn, dyn> o) {
  auto [batch, head, block] = sums.index();
  auto A = d_o.tiles(shape<1, 1, BM, D>), B = o.tiles(shape<1, 1, BM, D>);
  auto total = zeros<f32, 1, 1, BM, D>();
  for (auto c : range(A.count(3)))
    total = fma(cast<f32>(A.load(batch, head, block, c)), cast<f32>(B.load(batch, head, block, c)), total);
  sums.store(reshape(sum(total, axis<3>), shape<1, 1, BM>));
}

/// The tiles of D columns of one operand. If its rows have no more columns (not Wide), there is one.
template <class T, int N, int D>
class ColumnTiles {
 public:
  ColumnTiles(const In<T, dyn, dyn, dyn, dyn>& x, const Scalar<i32>& batch, const Scalar<i32>& head)
      : tiles_(x.tiles(shape<1, 1, N, D>)), batch_(batch), head_(head) {}
  Tile<T, N, D> load(const Scalar<i32>& block, const Scalar<i32>& column) const {
    return reshape(tiles_.load(batch_, head_, block, column), shape<N, D>);
  }
  Scalar<i32> count() const { return tiles_.count(3); }

 private:
  decltype(std::declval<const In<T, dyn, dyn, dyn, dyn>&>().tiles(shape<1, 1, N, D>)) tiles_;
  Scalar<i32> batch_, head_;
};

/// The rows that a block keeps during its loop. Whole rows are loaded once; wide ones are read again by tiles of
/// columns.
template <class T, int N, int D, bool Wide>
class OwnRows {
 public:
  OwnRows(const ColumnTiles<T, N, D>& x, const Scalar<i32>& block) : rows_(x.load(block, 0)) {}
  Tile<T, N, D> operator()(const Scalar<i32>& /*column*/) const { return rows_; }

 private:
  Tile<T, N, D> rows_;
};
template <class T, int N, int D>
class OwnRows<T, N, D, true> {
 public:
  OwnRows(const ColumnTiles<T, N, D>& x, const Scalar<i32>& block) : x_(x), block_(block) {}
  Tile<T, N, D> operator()(const Scalar<i32>& column) const { return x_.load(block_, column); }

 private:
  ColumnTiles<T, N, D> x_;
  Scalar<i32> block_;
};

/// a b^T over all columns: `first` and `second` load tiles of D columns.
template <int M, int N, bool Wide>
Tile<f32, M, N> product_over_columns(const Scalar<i32>& count, const auto& first, const auto& second) {
  auto sums = zeros<f32, M, N>();
  if constexpr (Wide) {
    for (auto c : range(count)) sums = mma(first(c), transpose(second(c)), sums);
  } else {
    sums = mma(first(Scalar<i32>(0)), transpose(second(Scalar<i32>(0))), sums);
  }
  return sums;
}

/// The weights of scores whose log-sum-exp is known; 0 where `seen` is false and for queries that see no key, whose
/// log-sum-exp is -infinity. `lse`: in units of log2(e), like the scores times `unit`.
template <class T, int M, int N>
Tile<f32, M, N> weights_again(const Tile<f32, M, N>& s, const Scalar<f32>& unit, const auto& lse) {
  return weights_of<T>(fma(s, unit, -where(lse == -infinity<f32>, infinity<f32>, lse)));
}

/// The gradients of a tile of keys and values: for all queries of the heads that share them and see the tile. Products
/// are transposed, keys by queries, so that weights and their gradients are left operands where they are. `Wide`: rows
/// have more than D columns; the pieces have D of them, and the weights are computed for each such piece again.
template <AttentionMask Mask, class T, int BN, int BM, int D, bool Wide>
void attention_backward_keys(Mut<T, 1, 1, BN, D> dk, Mut<T, 1, 1, BN, D> dv, In<T, dyn, dyn, dyn, dyn> q,
                             In<T, dyn, dyn, dyn, dyn> k, In<T, dyn, dyn, dyn, dyn> v, In<T, dyn, dyn, dyn, dyn> d_o,
                             In<f32, dyn, dyn, dyn> lse, In<f32, dyn, dyn, dyn> products, Scalar<f32> scale,
                             Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, kv_head, block, column] = dk.index();
  const auto group = q.dim(1) / k.dim(1), ahead = k.dim(2) - q.dim(2);  // query i is at position i + ahead
  auto unit = scale * log2e<f32>;
  const ColumnTiles<T, BN, D> K(k, batch, kv_head), V(v, batch, kv_head);
  const auto keys = iota<i32, BN, 1>(axis<0>) + block * BN;
  auto first = Scalar<i32>(0), last = q.tiles(shape<1, 1, BM, D>).count(2);  // the tiles of queries that see the keys
  if constexpr (Mask != AttentionMask::Full) first = min(max(block * BN - ahead, 0) / BM, last);
  if constexpr (Mask == AttentionMask::Window)
    last = max(min(last, ceil_div(max((block + 1) * BN - 1 - ahead + window, 0), BM)), first);
  const auto queries = last - first;
  auto k_sums = zeros<f32, BN, D>(), v_sums = zeros<f32, BN, D>();
  const OwnRows<T, BN, D, Wide> own_k(K, block), own_v(V, block);
  for (auto step : range(group * queries)) {
    auto head = kv_head * group + step / queries, i = first + step % queries;
    const ColumnTiles<T, BM, D> Q(q, batch, head), G(d_o, batch, head);
    auto own_q = Q.load(i, column), own_g = G.load(i, column);
    const auto of_queries = [&](const auto& x, const auto& own) {
      return [&](const auto& c) {
        if constexpr (Wide)
          return x.load(i, c);
        else
          return own;
      };
    };
    auto sums = reshape(lse.tiles(shape<1, 1, BM>, pad::pos_inf).load(batch, head, i), shape<1, BM>) * log2e<f32>;
    auto delta = reshape(products.tiles(shape<1, 1, BM>).load(batch, head, i), shape<1, BM>);
    auto s = product_over_columns<BN, BM, Wide>(K.count(), own_k, of_queries(Q, own_q));
    auto p = weights_again<T>(s, unit, sums);
    if constexpr (Mask != AttentionMask::Full) {
      const auto at = i * BM + ahead;  // the position of the first query
      auto partly = at < (block + 1) * BN;
      if constexpr (Mask == AttentionMask::Window) partly = partly || at + BM - 1 - block * BN >= window;
      tile_if (partly) {
        auto positions = iota<i32, 1, BM>(axis<1>) + at;
        auto seen = positions >= keys;
        if constexpr (Mask == AttentionMask::Window) seen = seen && positions - keys < window;
        p = where(seen, p, 0.0f);
      }
    }
    auto dp = product_over_columns<BN, BM, Wide>(K.count(), own_v, of_queries(G, own_g));
    v_sums = mma(narrow<T>(p), own_g, v_sums);
    k_sums = mma(narrow<T>(p * (dp - delta)), own_q, k_sums);
  }
  dv.store(reshape(narrow<T>(v_sums), shape<1, 1, BN, D>));
  dk.store(reshape(narrow<T>(k_sums * scale), shape<1, 1, BN, D>));
}

/// The gradient of a tile of queries.
template <AttentionMask Mask, class T, int BM, int BN, int D, bool Wide>
void attention_backward_queries(Mut<T, 1, 1, BM, D> dq, In<T, dyn, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn, dyn> k,
                                In<T, dyn, dyn, dyn, dyn> v, In<T, dyn, dyn, dyn, dyn> d_o, In<f32, dyn, dyn, dyn> lse,
                                In<f32, dyn, dyn, dyn> products, Scalar<f32> scale, Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, block, column] = dq.index();
  const auto kv_head = head / (q.dim(1) / k.dim(1));
  const auto first = block * BM + (k.dim(2) - q.dim(2));  // the position of the first query among the keys
  auto unit = scale * log2e<f32>;
  const ColumnTiles<T, BM, D> Q(q, batch, head), G(d_o, batch, head);
  const ColumnTiles<T, BN, D> K(k, batch, kv_head), V(v, batch, kv_head);
  const OwnRows<T, BM, D, Wide> rows_of_q(Q, block), rows_of_g(G, block);
  auto sums = reshape(lse.tiles(shape<1, 1, BM>, pad::pos_inf).load(batch, head, block), shape<BM, 1>) * log2e<f32>;
  auto delta = reshape(products.tiles(shape<1, 1, BM>).load(batch, head, block), shape<BM, 1>);
  auto begin = Scalar<i32>(0), end = k.tiles(shape<1, 1, BN, D>).count(2);
  if constexpr (Mask != AttentionMask::Full) end = min(end, ceil_div(max(first + BM, 0), BN));
  if constexpr (Mask == AttentionMask::Window) begin = max(first - window + 1, 0) / BN;
  auto q_sums = zeros<f32, BM, D>();
  for (auto j : range(begin, end)) {
    auto own_k = K.load(j, column);
    const auto of_keys = [&](const auto& x) {
      return [&](const auto& c) {
        if constexpr (Wide)
          return x.load(j, c);
        else
          return x.load(j, 0);
      };
    };
    const auto keys_at = [&](const auto& c) {
      if constexpr (Wide)
        return K.load(j, c);
      else
        return own_k;
    };
    auto s = product_over_columns<BM, BN, Wide>(K.count(), rows_of_q, keys_at);
    s = without_unseen<Mask>(s, first, j, k.dim(2), window, where(unit < 0, infinity<f32>, -infinity<f32>));
    auto p = weights_again<T>(s, unit, sums);
    auto dp = product_over_columns<BM, BN, Wide>(K.count(), rows_of_g, of_keys(V));
    q_sums = mma(narrow<T>(p * (dp - delta)), own_k, q_sums);
  }
  dq.store(reshape(narrow<T>(q_sums * scale), shape<1, 1, BM, D>));
}

/// A form of the backward kernels: columns of a tile, whether rows have more, and tiles of queries and keys.
struct BackwardForm {
  int columns;
  bool wide;
  int keys, queries;  ///< of attention_backward_keys: a piece of keys, queries per step
  int rows, step;     ///< of attention_backward_queries: a piece of queries, keys per step
};
/// Two accumulators of a tile of keys, and scores and their gradients, stay in registers: 128 x 128 of keys by columns
/// spill (16 to 24 bytes of a thread), and pieces of 128 columns of wide heads. GPUs without warpgroup products keep
/// operands in registers, too, and have smaller tiles.
inline constexpr BackwardForm kBackwardForms[] = {{64, false, 128, 64, 128, 128},
                                                  {128, false, 64, 64, 128, 64},
                                                  {64, true, 64, 64, 64, 64},
                                                  {64, false, 64, 64, 64, 64}};
/// The form for heads of d columns. Elements of 32 bits are not multiplied by warpgroups anywhere.
inline int backward_form(std::int64_t d, std::size_t element_bytes, const Target& target) {
  if (element_bytes > 2 || (target.gpu && !target.clusters)) return d <= 64 ? 3 : 2;
  return d <= 64 ? 0 : d <= 128 ? 1 : 2;
}
/// The tiles of a form for elements of T: those of 32 bits are half as large.
template <class T>
constexpr BackwardForm backward_tiles(int number) {
  BackwardForm f = kBackwardForms[number];
  if (sizeof(T) > 2) f.keys = f.queries = f.rows = f.step = 32;
  return f;
}

/// The gradients {dq, dk, dv} of attention(q, k, v, options), for the gradient d_o of its result. o and lse: what
/// attention_with_lse gave for the same operands and options. Throws ShapeError for extents and options that do not
/// fit, BorrowError for operands that are empty or in use.
template <Operand G, Operand Q, Operand K, Operand V, Operand O, Operand L>
Op<std::tuple<Tensor<element_of<Q>, 4>, Tensor<element_of<Q>, 4>, Tensor<element_of<Q>, 4>>> attention_backward(
    const G& d_o, const Q& q, const K& k, const V& v, const O& o, const L& lse, const AttentionOptions& options = {},
    SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  static_assert(Q::rank == 4 && K::rank == 4 && V::rank == 4 && G::rank == 4 && O::rank == 4 && L::rank == 3,
                "attention_backward takes [batch, heads, length, d], and lse as [batch, heads, queries]");
  static_assert(std::is_same_v<element_of<G>, T> && std::is_same_v<element_of<O>, T>,
                "d_o and o must have the element type of q");
  static_assert(std::is_same_v<element_of<L>, f32>, "lse is f32, as attention_with_lse returns it");
  check_attention("attention_backward", q, k, v, 1, where, kWidestHead);
  expect_dim("attention_backward", "k", k, 0, q.dim(0, where), where);
  expect_shape(d_o.dims(where) == q.dims(where), "attention_backward", "d_o", d_o, "they must equal the extents of q",
               where);
  expect_shape(o.dims(where) == q.dims(where), "attention_backward", "o", o, "they must equal the extents of q", where);
  for (int axis = 0; axis < 3; ++axis) expect_dim("attention_backward", "lse", lse, axis, q.dim(axis, where), where);
  const float scale = options.scale_for(q.dim(3, where), "attention_backward", where);
  const int window = static_cast<int>(std::min<std::int64_t>(options.window, k.dim(2, where)));
  const int form = backward_form(q.dim(3, where), sizeof(T), target_of(q.device(where)));
  const auto launchers = with_constant<3>(options.mask("attention_backward", where), [&](auto m) {
    return with_constant<static_cast<int>(std::size(kBackwardForms))>(form, [&](auto number) {
      constexpr auto mask = static_cast<AttentionMask>(m());
      constexpr BackwardForm t = backward_tiles<T>(number);
      constexpr int D = t.columns;
      constexpr bool wide = t.wide;
      constexpr int kRows = 32;  // of attention_products
      return std::tuple(kernel<attention_products<T, kRows, D>>.launcher(),
                        kernel<attention_backward_queries<mask, T, t.rows, t.step, D, wide>>.launcher(),
                        kernel<attention_backward_keys<mask, T, t.keys, t.queries, D, wide>>.launcher());
    });
  });
  const View<T, 4> Q4 = q.view(where), K4 = k.view(where), V4 = v.view(where), G4 = d_o.view(where);
  const View<f32, 3> sums = lse.view(where);
  auto gradients = std::get<0>(launchers)(empty<f32>(lse.dims(where), where), G4, o.view(where), where)
                       .then(
                           [=](Tensor<f32, 3> made) {
                             const auto& [first, of_queries, of_keys] = launchers;
                             const auto products = share(std::move(made));
                             auto queries = of_queries(empty<T>(Q4.dims(), where), Q4, K4, V4, G4, sums, products,
                                                       scale, window, where);
                             auto keys = of_keys(empty<T>(K4.dims(), where), empty<T>(K4.dims(), where), Q4, K4, V4, G4,
                                                 sums, products, scale, window, where);
                             return flattened(all(std::move(queries), std::move(keys)));
                           },
                           where);
  return reading(std::move(gradients), where, q, k, v, d_o, lse);
}

}  // namespace tessera::kernels
