// Attention forward, tile by tile: o = softmax(scale * q k^T) v. Weights are computed relative to the first tile's
// maximum. If the sums show that this was not accurate enough, the block computes again with a running maximum: the
// online softmax (Dao 2022, 2023).
//
//   auto o = kernels::attention(q, k, v, {.causal = true, .window = 4096}).sync();   // a query sees 4096 keys
//
// q is [batch, heads, queries, d], k and v [batch, kv_heads, keys, d] with heads a multiple of kv_heads, d up to 1024.
// Causal: the last query sees all keys, the one before it all but the last, ... A query that sees no key gives 0.
// A NaN or an infinity in the values of a key reaches the queries that see it and no other.
#pragma once
#include "tessera/kernels/attention_state.hpp"

namespace tessera::kernels {

/// The queries of a block, and their scores with keys that `keys_at(c)` loads: the tile of columns c, [N, D].
template <class T, int BM, int D, bool Wide>
class QueriesOf {
 public:
  QueriesOf(const Mut<T, 1, 1, BM, D>& o, const In<T, dyn, dyn, dyn, dyn>& q)
      : tile_(reshape(q.load_like(o), shape<BM, D>)) {}
  template <int N>
  Tile<f32, BM, N> scores(const auto& keys_at) const {
    return mma(tile_, transpose(keys_at(0)), zeros<f32, BM, N>());
  }

 private:
  Tile<T, BM, D> tile_;
};
/// Queries that have more columns than the piece: scores are sums over tiles of D columns.
template <class T, int BM, int D>
class QueriesOf<T, BM, D, true> {
 public:
  QueriesOf(const Mut<T, 1, 1, BM, D>& o, const In<T, dyn, dyn, dyn, dyn>& q)
      : tiles_(q.tiles(shape<1, 1, BM, D>)), batch_(o.index()[0]), head_(o.index()[1]), block_(o.index()[2]) {}
  template <int N>
  Tile<f32, BM, N> scores(const auto& keys_at) const {
    auto sums = zeros<f32, BM, N>();
    for (auto c : range(tiles_.count(3))) {
      auto q = reshape(tiles_.load(batch_, head_, block_, c), shape<BM, D>);
      sums = mma(q, transpose(keys_at(c)), sums);
    }
    return sums;
  }

 private:
  decltype(std::declval<const In<T, dyn, dyn, dyn, dyn>&>().tiles(shape<1, 1, BM, D>)) tiles_;
  Scalar<i32> batch_, head_, block_;
};

/// `Running`: uses a running maximum from the start, also where a thread has no registers for the scores of the next
/// step (d = 256). `Straight`: requires that only the last tile of keys needs a mask (causal; keys - queries must be a
/// multiple of BM), and processes that tile after the loop. `Wide`: q has more than D columns; the piece has D columns
/// of the result then, and scores are summed over tiles of D columns.
template <AttentionMask Mask, class T, int BM, int BN, int D, bool Running, bool Straight, bool Wide = false>
OnlineSoftmax<BM, D> attended(const Mut<T, 1, 1, BM, D>& o, const In<T, dyn, dyn, dyn, dyn>& q,
                              const In<T, dyn, dyn, dyn, dyn>& k, const In<T, dyn, dyn, dyn, dyn>& v,
                              const Scalar<f32>& scale, const Scalar<i32>& window) {
  static_assert(!Wide || Running);
  if constexpr (Straight) {
    static_assert(!Running && Mask != AttentionMask::Window && BN % BM == 0);
    if constexpr (Mask == AttentionMask::Causal)
      require((k.dim(2) - q.dim(2)) % BM == 0, "keys - queries must be a multiple of a tile's queries");
  }
  auto [batch, head, block, column] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  const QueriesOf<T, BM, D, Wide> Q(o, q);
  auto first = block * BM + (k.dim(2) - q.dim(2));  // the position of the first query among the keys
  auto unit = scale * log2e<f32>;                   // scores in units of log2(e), for exp2
  auto masked = [&](const auto& s, const Scalar<i32>& j) {
    return without_unseen<Mask>(s, first, j, k.dim(2), window, where(unit < 0, infinity<f32>, -infinity<f32>));
  };
  auto span = [&]<int N>(Shape<1, 1, N, D> keys) {  // the tiles of keys that the block sees
    auto begin = Scalar<i32>(0), end = k.tiles(keys).count(2);
    if constexpr (Mask != AttentionMask::Full) end = min(end, ceil_div(max(first + BM, 0), N));
    if constexpr (Mask == AttentionMask::Window) begin = max(first - window + 1, 0) / N;
    return std::pair(begin, end);
  };
  auto scores = [&]<int N>(Shape<1, 1, N, D> keys, const Scalar<i32>& j) {
    return Q.template scores<N>(
        [&](const auto& c) { return reshape(k.tiles(keys).load(batch, kv_head, j, c), shape<N, D>); });
  };
  auto values = [&]<int N>(Shape<1, 1, N, D> keys, const Scalar<i32>& j) {
    if constexpr (Wide)
      return reshape(v.tiles(keys).load(batch, kv_head, j, column), shape<N, D>);
    else
      return reshape(v.tiles(keys).load(batch, kv_head, j, 0), shape<N, D>);
  };
  auto attend = [&]<int N>(Shape<1, 1, N, D> keys, auto tiles, auto state) {
    for (auto j : range(tiles.first, tiles.second)) {
      auto s = scores(keys, j);  // the keys are loaded before the values
      auto V = values(keys, j);
      state.add(masked(s, j), unit, V);
    }
    return state;
  };
  // The second computation, for blocks whose first one failed: a running maximum, and values that are checked for NaN.
  auto attend_carefully = [&]<int N>(Shape<1, 1, N, D> keys) {
    auto tiles = span(keys);
    OnlineSoftmax<BM, D> careful;
    for (auto j : range(tiles.first, tiles.second)) {
      auto s = scores(keys, j);
      auto V = values(keys, j);
      auto finite = is_finite(V);
      careful.add_finite(masked(s, j) * unit, V, finite);
      tile_if (!all(finite)) {
        for (auto n : range(j * N, min((j + 1) * N, k.dim(2))))
          careful.add_others(sees<Mask>(iota<i32, BM, 1>(axis<0>) + first, full<i32, 1, 1>(n), k.dim(2), window),
                             values(shape<1, 1, 1, D>, n));
      }
    }
    return careful;
  };
  auto attend_straight = [&](auto keys, auto tiles, auto s, auto state) {  // s: the scores of the first of the tiles
    auto last = tiles.second - 1;
    for (auto j : range(tiles.first, last)) {
      auto next = scores(keys, j + 1);
      auto V = values(keys, j);
      state.add(s, unit, V);
      s = next;
    }
    auto V = values(keys, last);
    state.add(masked(s, last), unit, V);
    return state;
  };
  // Without a mask every query sees every key, so a NaN in the values belongs into every result.
  constexpr bool Careful = Mask != AttentionMask::Full;
  constexpr int Fewer = Careful ? 16 : D <= 64 ? BN / 2 : BN;  // leaves shared memory for the first computation
  auto tiles = span(shape<1, 1, BN, D>);
  OnlineSoftmax<BM, D> state;
  if constexpr (Running) {
    state = attend(shape<1, 1, BN, D>, tiles, state);
    if constexpr (Careful) {
      tile_if (!state.clean()) { state = attend_carefully(shape<1, 1, Fewer, D>); }
    }
  } else {
    tile_if (tiles.first < tiles.second) {
      auto s = scores(shape<1, 1, BN, D>, tiles.first);
      auto fixed = FixedSoftmax<BM, D>(max(masked(s, tiles.first), axis<1>) * unit);
      if constexpr (Straight)
        fixed = attend_straight(shape<1, 1, BN, D>, tiles, s, fixed);
      else
        fixed = attend(shape<1, 1, BN, D>, tiles, fixed);
      state = fixed.state();
      if constexpr (Careful) {
        tile_if (!(fixed.template holds<T>() && fixed.clean())) { state = attend_carefully(shape<1, 1, Fewer, D>); }
      } else {
        tile_if (!fixed.template holds<T>()) {
          state = attend(shape<1, 1, Fewer, D>, span(shape<1, 1, Fewer, D>), OnlineSoftmax<BM, D>());
        }
      }
    }
  }
  return state;
}

template <AttentionMask Mask, class T, int BM, int BN, int D, bool Running = Mask == AttentionMask::Window || (D > 128),
          bool Straight = false, bool Wide = false>
void attention_forward(Mut<T, 1, 1, BM, D> o, In<T, dyn, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn, dyn> k,
                       In<T, dyn, dyn, dyn, dyn> v, Scalar<f32> scale, Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  const auto state = attended<Mask, T, BM, BN, D, Running, Straight, Wide>(o, q, k, v, scale, window);
  o.store(reshape(cast<T>(state.result()), shape<1, 1, BM, D>));
}

/// Computes attention, and the natural logarithm of the sum of the exponentials of each query's scores: [batch, heads,
/// queries]. -infinity for a query that sees no key.
template <AttentionMask Mask, class T, int BM, int BN, int D, bool Running, bool Straight>
void attention_forward_lse(Mut<T, 1, 1, BM, D> o, Mut<f32, 1, 1, BM> lse, In<T, dyn, dyn, dyn, dyn> q,
                           In<T, dyn, dyn, dyn, dyn> k, In<T, dyn, dyn, dyn, dyn> v, Scalar<f32> scale,
                           Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  const auto state = attended<Mask, T, BM, BN, D, Running, Straight>(o, q, k, v, scale, window);
  o.store(reshape(cast<T>(state.result()), shape<1, 1, BM, D>));
  lse.store(reshape(state.log_sum() / log2e<f32>, shape<1, 1, BM>));
}
/// Those logarithms alone, for wide heads: several pieces of the result have the same queries.
template <AttentionMask Mask, class T, int BM, int BN, int D>
void attention_log_sums(Mut<f32, 1, 1, BM> lse, In<T, dyn, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn, dyn> k,
                        Scalar<f32> scale, Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, block] = lse.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto first = block * BM + (k.dim(2) - q.dim(2));
  auto unit = scale * log2e<f32>;
  auto Q = q.tiles(shape<1, 1, BM, D>);
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto begin = Scalar<i32>(0), end = K.count(2);
  if constexpr (Mask != AttentionMask::Full) end = min(end, ceil_div(max(first + BM, 0), BN));
  if constexpr (Mask == AttentionMask::Window) begin = max(first - window + 1, 0) / BN;
  auto m = full<f32, BM, 1>(std::numeric_limits<f32>::lowest()), l = zeros<f32, BM, 1>();
  for (auto j : range(begin, end)) {
    auto s = zeros<f32, BM, BN>();
    for (auto c : range(Q.count(3)))
      s = mma(reshape(Q.load(batch, head, block, c), shape<BM, D>),
              transpose(reshape(K.load(batch, kv_head, j, c), shape<BN, D>)), s);
    s = without_unseen<Mask>(s, first, j, k.dim(2), window, where(unit < 0, infinity<f32>, -infinity<f32>)) * unit;
    auto m2 = max(m, max(s, axis<1>));
    l = l * exp2(m - m2) + sum(exp2(s - m2), axis<1>);
    m = m2;
  }
  lse.store(reshape((m + log2(l)) / log2e<f32>, shape<1, 1, BM>));
}

/// A form of the kernel, as types of constants: f(mask, BM, BN, D, running, straight, wide).
template <int BM, int BN, int D, AttentionMask Mask, bool Straight, bool Wide>
struct AttentionForm {
  static constexpr AttentionMask mask = Mask;
  static constexpr int rows = BM, keys = BN, columns = D;
  static constexpr bool running = Mask == AttentionMask::Window || D > 128 || Wide, straight = Straight, wide = Wide;
};
/// f(AttentionForm) for these operands; `Least`: the least columns of a tile.
template <int Least, Operand Q, Operand K, class F>
auto with_attention_form(const char* name, const Q& q, const K& k, const AttentionOptions& options,
                         SourceLocation where, F&& f) {
  constexpr int kStraight = 3;  // causal, with the last tile of keys after the loop
  constexpr int kRows = 64;
  int form = options.mask(name, where);
  if (form == static_cast<int>(AttentionMask::Causal) && (k.dim(2, where) - q.dim(2, where)) % kRows == 0)
    form = kStraight;
  return with_constant<4>(form, [&](auto m) {
    constexpr auto mask = m() == kStraight ? AttentionMask::Causal : static_cast<AttentionMask>(m());
    if (q.dim(3, where) > kWideHead) return f(AttentionForm<kRows, 64, 128, mask, false, true>{});
    return with_extent<Least, static_cast<int>(kWideHead)>(q.dim(3, where), [&](auto d) {
      constexpr bool straight = m() == kStraight && (d == 64 || d == 128);  // at 256 it spills
      // 128 x 128 also where the loop of the second computation would leave no shared memory for tensor copies of 64 x
      // 128.
      constexpr bool large = d >= 256 || (d == 128 && mask != AttentionMask::Full && !straight);
      constexpr int rows = large ? 128 : kRows;
      return f(AttentionForm<rows, 128, d, mask, straight, false>{});
    });
  });
}
/// The checks of attention(); returns the window, at most the number of keys, so that positions minus the window do not
/// overflow 32 bits.
template <Operand Q, Operand K, Operand V>
int checked_window(const char* name, const Q& q, const K& k, const V& v, const AttentionOptions& options,
                   SourceLocation where) {
  static_assert(Q::rank == 4 && K::rank == 4 && V::rank == 4, "attention takes [batch, heads, length, d]");
  check_attention(name, q, k, v, 1, where, kWidestHead);
  expect_dim(name, "k", k, 0, q.dim(0, where), where);
  return static_cast<int>(std::min<std::int64_t>(options.window, k.dim(2, where)));
}

/// softmax(scale * q k^T) v with q's extents. Throws ShapeError for extents and options that do not fit, BorrowError
/// for operands that are empty or in use.
template <Operand Q, Operand K, Operand V>
Op<Tensor<element_of<Q>, 4>> attention(const Q& q, const K& k, const V& v, const AttentionOptions& options = {},
                                       SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  const int window = checked_window("attention", q, k, v, options, where);
  const auto launch = with_attention_form<32>("attention", q, k, options, where,
                                              [](auto form) {
                                                using A = decltype(form);
                                                return kernel<attention_forward<A::mask, T, A::rows, A::keys, A::columns, A::running, A::straight, A::wide>>
        .launcher();
                                              });
  return launch(empty<T>(q.dims(where), where), q.view(where), k.view(where), v.view(where),
                options.scale_for(q.dim(3, where), "attention", where), window, where);
}
/// attention() and, for attention_backward, the natural logarithm of the sum of the exponentials of each query's
/// scores: {o, lse} with lse [batch, heads, queries], -infinity for a query that sees no key.
template <Operand Q, Operand K, Operand V>
Op<std::tuple<Tensor<element_of<Q>, 4>, Tensor<f32, 3>>> attention_with_lse(
    const Q& q, const K& k, const V& v, const AttentionOptions& options = {},
    SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  const int window = checked_window("attention_with_lse", q, k, v, options, where);
  const float scale = options.scale_for(q.dim(3, where), "attention_with_lse", where);
  auto o = empty<T>(q.dims(where), where);
  auto lse = empty<f32>(Dims<3>({q.dim(0, where), q.dim(1, where), q.dim(2, where)}, where), where);
  return with_attention_form<64>("attention_with_lse", q, k, options, where,
                                 [&](auto form) {
                                   using A = decltype(form);
                                   if constexpr (A::wide)
                                     return all(
                                         kernel<attention_forward<A::mask, T, A::rows, A::keys, A::columns, true, false,
                                                                  true>>(std::move(o), q.view(where), k.view(where),
                                                                         v.view(where), scale, window, where),
                                         kernel<attention_log_sums<A::mask, T, A::rows, A::keys, A::columns>>(
                                             std::move(lse), q.view(where), k.view(where), scale, window, where),
                                         where);
                                   else
                                     return kernel<attention_forward_lse<A::mask, T, A::rows, A::keys, A::columns, A::running, A::straight>>.launcher()(
          std::move(o), std::move(lse), q.view(where), k.view(where), v.view(where), scale, window, where);
                                 });
}

}  // namespace tessera::kernels
