// Attention forward, tile by tile: o = softmax(scale * q k^T) v. Weights are computed relative to the first tile's
// maximum. If the sums show that this was not accurate enough, the block computes again with a running maximum: the
// online softmax (Dao 2022, 2023).
//
//   auto o = kernels::attention(q, k, v, {.causal = true, .window = 4096}).sync();   // a query sees 4096 keys
//
// q is [batch, heads, queries, d], k and v [batch, kv_heads, keys, d] with heads a multiple of kv_heads, d up to 256.
// Causal: the last query sees all keys, the one before it all but the last, ... A query that sees no key gives 0.
// A NaN or an infinity in the values of a key reaches the queries that see it and no other.
#pragma once
#include "tessera/kernels/attention_state.hpp"

namespace tessera::kernels {

/// `Running`: uses a running maximum from the start, also where a thread has no registers for the scores of the next
/// step (d = 256). `Straight`: requires that only the last tile of keys needs a mask (causal; keys - queries must be a
/// multiple of BM), and processes that tile after the loop.
template <AttentionMask Mask, class T, int BM, int BN, int D, bool Running = Mask == AttentionMask::Window || (D > 128),
          bool Straight = false>
void attention_forward(Mut<T, 1, 1, BM, D> o, In<T, dyn, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn, dyn> k,
                       In<T, dyn, dyn, dyn, dyn> v, Scalar<f32> scale, Scalar<i32> window) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  if constexpr (Straight) {
    static_assert(!Running && Mask != AttentionMask::Window && BN % BM == 0);
    if constexpr (Mask == AttentionMask::Causal)
      require((k.dim(2) - q.dim(2)) % BM == 0, "keys - queries must be a multiple of a tile's queries");
  }
  auto [batch, head, block, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto Q = reshape(q.load_like(o), shape<BM, D>);
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
    return mma(Q, transpose(reshape(k.tiles(keys).load(batch, kv_head, j, 0), shape<N, D>)), zeros<f32, BM, N>());
  };
  auto values = [&]<int N>(Shape<1, 1, N, D> keys, const Scalar<i32>& j) {
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
  o.store(reshape(cast<T>(state.result()), shape<1, 1, BM, D>));
}

/// softmax(scale * q k^T) v with q's extents. Throws ShapeError for extents and options that do not fit, BorrowError
/// for operands that are empty or in use.
template <Operand Q, Operand K, Operand V>
Op<Tensor<element_of<Q>, 4>> attention(const Q& q, const K& k, const V& v, const AttentionOptions& options = {},
                                       SourceLocation where = SourceLocation::current()) {
  using T = element_of<Q>;
  static_assert(Q::rank == 4 && K::rank == 4 && V::rank == 4, "attention takes [batch, heads, length, d]");
  check_attention("attention", q, k, v, 1, where);
  expect_dim("attention", "k", k, 0, q.dim(0, where), where);
  // At most the number of keys, so that positions minus the window do not overflow 32 bits.
  const int window = static_cast<int>(std::min<std::int64_t>(options.window, k.dim(2, where)));
  constexpr int kStraight = 3;  // causal, with the last tile of keys after the loop
  constexpr int kRows = 64;
  int form = options.mask("attention", where);
  if (form == static_cast<int>(AttentionMask::Causal) && (k.dim(2, where) - q.dim(2, where)) % kRows == 0)
    form = kStraight;
  return with_constant<4>(form, [&](auto m) {
    return with_extent<32, 256>(q.dim(3, where), [&](auto d) {
      constexpr bool straight = m() == kStraight && (d == 64 || d == 128);  // at 256 it spills
      constexpr auto mask = m() == kStraight ? AttentionMask::Causal : static_cast<AttentionMask>(m());
      // 128 x 128 also where the loop of the second computation would leave no shared memory for tensor copies of 64 x
      // 128.
      constexpr bool large = d >= 256 || (d == 128 && mask != AttentionMask::Full && !straight);
      constexpr int BM = large ? 128 : kRows, BN = 128;
      constexpr bool running = mask == AttentionMask::Window || d > 128;
      return kernel<attention_forward<mask, T, BM, BN, d, running, straight>>(
          empty<T>(q.dims(where), where), q.view(where), k.view(where), v.view(where),
          options.scale_for(q.dim(3, where), "attention", where), window, where);
    });
  });
}

}  // namespace tessera::kernels
